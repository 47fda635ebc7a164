// Construction of a Reducer, rebuilding of its buckets, and its report.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/parallel/ddp/model_check.h"
#include "ferrite/parallel/ddp/reducer.h"

namespace ferrite::parallel::ddp {

namespace {

constexpr double kMegabyte = 1 << 20;

std::shared_ptr<ProcessGroup> group_of(const DDPOptions& options) {
  return options.process_group ? options.process_group : default_group();
}

std::vector<Property> describe_options(const DDPOptions& o) {
  const auto line = [](const char* name, auto value) {
    return Property{fmt::format("the option {}", name), fmt::format("{}", value)};
  };
  return {line("bucket_cap_mb", o.bucket_cap_mb),
          line("first_bucket_mb", o.first_bucket_mb),
          line("broadcast_buffers", o.broadcast_buffers),
          line("find_unused_parameters", o.find_unused_parameters),
          line("static_graph", o.static_graph),
          line("rebuild_buckets", o.rebuild_buckets),
          line("delay_allreduce", o.delay_allreduce),
          line("gradient_average", o.gradient_average),
          line("gradient_predivide_factor", o.gradient_predivide_factor),
          line("all_reduce", o.all_reduce == AllReduceAlgorithm::ring ? "ring" : "automatic")};
}

void check(const DDPOptions& o) {
  const auto positive = [](const char* name, double value) {
    FERRITE_CHECK(value > 0, ValueError, "ddp", "{} is {}, expected more than 0", name, value);
  };
  positive("bucket_cap_mb", o.bucket_cap_mb);
  positive("first_bucket_mb", o.first_bucket_mb);
  positive("gradient_predivide_factor", o.gradient_predivide_factor);
}

/// Megabytes as bytes, without overflow.
std::size_t bytes(double megabytes) {
  return static_cast<std::size_t>(std::clamp(megabytes * kMegabyte, 1.0, 1e15));
}

}  // namespace

Reducer::Reducer(nn::Module& module, const DDPOptions& options)
    : options_(options),
      group_(group_of(options)),
      module_(module),
      buffers_(module.buffers()),
      active_ranks_(group_->size()) {
  for (auto& [name, t] : module.named_parameters()) {
    if (!t.requires_grad()) {
      frozen_.emplace_back(name, t);
      continue;
    }
    names_.push_back(name);
    parameters_.push_back(t);
  }
  std::vector<Property> properties = describe_model(module);
  std::ranges::copy(describe_options(options), std::back_inserter(properties));
  check_agreement(*group_, properties);
  check(options);
  FERRITE_CHECK(!parameters_.empty(), ValueError, "ddp",
                "no parameter of {} requires a gradient: there is nothing to average",
                module.name());
  const NoGradGuard guard;
  broadcast_coalesced(*group_, all_tensors());
  limits_ = {bytes(options.first_bucket_mb), bytes(options.bucket_cap_mb)};
  dirty_.assign(parameters_.size(), 0);
  std::vector<std::size_t> order(parameters_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  plan(order);
}

Reducer::~Reducer() { release_parameters(); }

/// A module may assign its buffers, as `steps = steps + 1` does: which tensors they are is asked
/// each time.
std::vector<Tensor> Reducer::all_tensors() const {
  std::vector<Tensor> out = module_.parameters();
  for (const Tensor& t : module_.buffers()) out.push_back(t);
  return out;
}

void Reducer::broadcast_buffers(int root) {
  if (buffers_.empty()) return;
  const NoGradGuard guard;
  buffers_.set(module_.buffers());
  buffers_.broadcast(*group_, root);
}

void Reducer::register_comm_hook(CommHook hook, std::string name) {
  std::lock_guard lock(mutex_);
  check_agreement(*group_, {{"the communication hook", name}});
  FERRITE_CHECK(hook, ValueError, "ddp", "the communication hook '{}' is empty", name);
  FERRITE_CHECK(!hook_, ValueError, "ddp", "there is a communication hook already: '{}'",
                hook_name_);
  FERRITE_CHECK(!started_, ValueError, "ddp",
                "communication hooks are registered before the first backward pass");
  hook_ = std::move(hook);
  hook_name_ = std::move(name);
}

void Reducer::plan(std::span<const std::size_t> order) {
  std::vector<std::vector<std::size_t>> groups = plan_buckets(parameters_, order, limits_);
  if (std::ranges::equal(groups, buckets_, {}, {}, [](const Bucket& b) { return b.indices(); }))
    return;
  std::vector<Bucket> buckets;
  places_.assign(parameters_.size(), std::nullopt);
  for (std::size_t b = 0; b < groups.size(); ++b) {
    for (std::size_t slot = 0; slot < groups[b].size(); ++slot)
      places_[groups[b][slot]] = Place{b, slot};
    buckets.emplace_back(std::move(groups[b]), parameters_, names_);
  }
  buckets_ = std::move(buckets);
  times_ = StepTimes(buckets_.size());
}

/// All ranks take root's order.
void Reducer::rebuild(int root) {
  const NoGradGuard guard;
  std::vector<std::int64_t> order(arrival_order_.begin(), arrival_order_.end());
  for (std::size_t i = parameters_.size(); i-- > 0;)
    if (std::ranges::find(arrival_order_, i) == arrival_order_.end())
      order.push_back(static_cast<std::int64_t>(i));
  const Tensor shared =
      from_vector(order, {static_cast<std::int64_t>(order.size())}).to(exchange_device(*group_));
  group_->broadcast(shared, root).synchronize();
  std::vector<std::size_t> wanted;
  for (const std::int64_t i : shared.cpu().to_vector<std::int64_t>())
    if (unused_anywhere_.empty() || !unused_anywhere_[static_cast<std::size_t>(i)])
      wanted.push_back(static_cast<std::size_t>(i));
  plan(wanted);
  rebuild_due_ = false;
  rebuilt_ = options_.rebuild_buckets;
}

std::optional<Stream> Reducer::captured_stream() const {
  Device asked;
  for (const Bucket& bucket : buckets_) {
    const Device& device = bucket.flat().device();
    if (!device.is_cuda() || device == asked) continue;
    asked = device;
    const Stream stream = current_stream(device);
    if (ferrite::detail::cuda::is_capturing(stream)) return stream;
  }
  return std::nullopt;
}

void Reducer::note_replays() {
  const std::optional<Stream> stream = captured_stream();
  if (!stream) return;
  captured_ = captured_ || no_sync_ == 0;
  const auto before_replay = [self = weak_from_this(), captured_within = no_sync_ > 0] {
    const auto reducer = self.lock();
    if (!reducer) return;
    std::lock_guard lock(reducer->mutex_);
    const bool within = reducer->no_sync_ > 0;
    FERRITE_CHECK(within == captured_within, AutogradError, "ddp",
                  "the step was captured {} no_sync() and cannot be replayed {} it; make a "
                  "GraphedStep for each",
                  captured_within ? "within" : "outside of", within ? "within" : "outside of");
    if (!within) reducer->buffers_due_ = true;
  };
  ferrite::detail::cuda::captured_before_replay(*stream, before_replay);
}

DDPReport Reducer::report() {
  std::lock_guard lock(mutex_);
  DDPReport report;
  report.group = fmt::format("{}, {} rank{}, this is rank {}", group_->backend(), group_->size(),
                             group_->size() == 1 ? "" : "s", group_->rank());
  report.rebuilt = rebuilt_;
  for (const Bucket& b : buckets_) {
    report.buckets.push_back({.parameters = {b.names().begin(), b.names().end()},
                              .numel = b.flat().numel(),
                              .bytes = static_cast<std::int64_t>(b.flat().nbytes()),
                              .dtype = b.flat().dtype(),
                              .device = b.flat().device()});
    report.parameters += static_cast<std::int64_t>(b.indices().size());
    report.bytes += report.buckets.back().bytes;
  }
  times_.fill(report);
  return report;
}

void Reducer::reset_report() {
  std::lock_guard lock(mutex_);
  times_ = StepTimes(buckets_.size());
}

}  // namespace ferrite::parallel::ddp
