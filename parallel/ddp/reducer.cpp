#include "ferrite/parallel/ddp/reducer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <unordered_map>
#include <utility>

#include "ferrite/autograd/captured.h"
#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/meta.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/parallel/ddp/model_check.h"

namespace ferrite::parallel::ddp {

/// Owned by a pass's callback: reports the end of the pass, or its failure if the callback is
/// destroyed without being called.
class Reducer::PassEnd {
 public:
  explicit PassEnd(std::weak_ptr<Reducer> reducer) : reducer_(std::move(reducer)) {}
  PassEnd(const PassEnd&) = delete;
  PassEnd& operator=(const PassEnd&) = delete;
  ~PassEnd() {
    if (ran_) return;
    if (const auto reducer = reducer_.lock()) reducer->pass_failed();
  }
  void run() {
    ran_ = true;
    if (const auto reducer = reducer_.lock()) reducer->finish_pass();
  }

 private:
  const std::weak_ptr<Reducer> reducer_;
  bool ran_ = false;
};

namespace {

constexpr const char* kThrown = "an exception was thrown there";

/// The parameters whose gradients are being averaged, and by which wrapper's pass.
class AveragedParameters {
 public:
  /// Never destroyed: wrappers may be static objects.
  static AveragedParameters& instance() {
    static AveragedParameters& parameters = *new AveragedParameters;
    return parameters;
  }
  /// False if another wrapper averages it.
  bool add(const Tensor& parameter, const Reducer& by) {
    std::lock_guard lock(mutex_);
    return by_.try_emplace(parameter.impl(), &by).first->second == &by;
  }
  bool has_other(const Tensor& parameter, const Reducer& than) {
    std::lock_guard lock(mutex_);
    const auto it = by_.find(parameter.impl());
    return it != by_.end() && it->second != &than;
  }
  void remove(std::span<const Tensor> parameters, const Reducer& by) {
    std::lock_guard lock(mutex_);
    for (const Tensor& p : parameters)
      if (const auto it = by_.find(p.impl()); it != by_.end() && it->second == &by) by_.erase(it);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, const Reducer*> by_;
};

void refuse_create_graph() {
  FERRITE_CHECK(!autograd::creating_graph(), AutogradError, "ddp",
                "create_graph is not supported: the tape does not lead across ranks. Use the "
                "wrapped module, on this rank alone");
}

}  // namespace

void Reducer::start() {
  const std::weak_ptr<Reducer> self = weak_from_this();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    hooks_.push_back(parameters_[i].register_post_accumulate_grad_hook([self, i](const Tensor&) {
      if (const auto reducer = self.lock()) reducer->on_gradient(i);
    }));
}

void Reducer::stop() {
  for (TensorHook& hook : hooks_) hook.remove();
  hooks_.clear();
}

// ---- Around forward

void Reducer::before_forward() {
  std::lock_guard lock(mutex_);
  const bool sync = grad_enabled() && no_sync_ == 0;
  if (join_ && grad_enabled()) return join_forward(sync);
  if (sync) {
    check_frozen();
    if (rebuild_due_ && !is_capturing()) rebuild(0);
  }
  if (grad_enabled()) note_replays();
  if (sends_buffers(sync)) broadcast_buffers(0);
  buffers_due_ = false;
}

void Reducer::after_forward(std::span<const Tensor> outputs, bool are_all) {
  if (!grad_enabled()) return;
  std::lock_guard lock(mutex_);
  if (no_sync_ > 0) return;
  arm_next_ = !are_all || outputs.empty() || std::ranges::any_of(outputs, [this](const Tensor& t) {
    return t.requires_grad() && t.is_leaf() && is_parameter(t);
  });
  watch(outputs, &Reducer::on_output_gradient);
}

/// Calls `f` whenever a gradient of one of `tensors` is there.
void Reducer::watch(std::span<const Tensor> tensors, void (Reducer::*f)()) {
  const auto hook = [self = weak_from_this(), f](const Tensor&) {
    if (const auto reducer = self.lock()) ((*reducer).*f)();
    return Tensor();
  };
  for (const Tensor& t : tensors) {
    if (!t.defined() || !t.requires_grad() || t.is_leaf()) continue;
    t.register_hook(hook);
    // A view that is changed in place gets another node, above that of its base, which stays.
    const Tensor& base = autograd::meta_of(t)->base;
    if (base.defined() && base.requires_grad() && !base.is_leaf()) base.register_hook(hook);
  }
}

bool Reducer::is_parameter(const Tensor& t) const {
  return std::ranges::any_of(parameters_, [&](const Tensor& p) { return p.is_same(t); });
}

void Reducer::enter_no_sync() {
  std::lock_guard lock(mutex_);
  ++no_sync_;
  arm_next_ = false;
}

void Reducer::leave_no_sync() {
  std::lock_guard lock(mutex_);
  --no_sync_;
}

void Reducer::check_frozen() {
  for (const auto& [name, t] : frozen_)
    if (t.requires_grad())
      fail_all(fmt::format(
          "rank {}: parameter '{}' was frozen when its model was wrapped and requires a gradient "
          "now, which would not be averaged; wrap the model again",
          group_->rank(), name));
}

// ---- During backward

void Reducer::open_pass() {
  if (pass_.open) return;
  pass_.open = true;
  pass_.armed = pass_.derived = false;
  pass_.arrived.assign(parameters_.size(), 0);
  pass_.absent.assign(parameters_.size(), 0);
  pass_.launched = 0;
  pass_.works.clear();
  pass_.missing_at_launch.clear();
  pass_.order.clear();
  autograd::queue_callback([end = std::make_shared<PassEnd>(weak_from_this())] { end->run(); });
}

void Reducer::on_gradient(std::size_t i) {
  refuse_create_graph();
  std::lock_guard lock(mutex_);
  open_pass();
  const bool again = std::exchange(pass_.arrived[i], 1) != 0;
  if (pass_.armed) check_in_time(i, again);
  // Another wrapper's pass may be averaging it: then it is in a bucket that is on its way.
  if (pass_.armed) {
    take(i);
  } else if (!AveragedParameters::instance().has_other(parameters_[i], *this)) {
    dirty_[i] = 1;
    if (places_[i]) buckets_[places_[i]->bucket].take(places_[i]->slot);
  }
  if (again) return;
  if (!started_) pass_.order.push_back(i);
  if (pass_.armed)
    count(i);
  else if ((arm_next_ || pass_.derived) && no_sync_ == 0)
    arm();
}

/// In passes that this wrapper communicates.
void Reducer::take(std::size_t i) {
  dirty_[i] = 1;
  if (!places_[i]) return;
  if (!AveragedParameters::instance().add(parameters_[i], *this))
    fail_all(
        fmt::format("rank {}: the gradient of parameter '{}' is being averaged by another "
                    "DistributedDataParallel: two wrappers of it were called, whose results are in "
                    "one backward "
                    "pass or in passes of two threads. Wrap one module that contains both",
                    group_->rank(), names_[i]));
  buckets_[places_[i]->bucket].take(places_[i]->slot);
}

void Reducer::release_parameters() { AveragedParameters::instance().remove(parameters_, *this); }

/// A pass delivers the gradient of a parameter once. Only passes that run within it, in a hook or
/// in the backward of a node, can deliver another one, which may be after its bucket was launched.
void Reducer::check_in_time(std::size_t i, bool again) {
  if (options_.delay_allreduce) return;
  const bool late =
      places_[i] && asks_tape() && pass_.absent[i] && places_[i]->bucket < pass_.launched;
  if (!again && !late) return;
  fail_all(fmt::format(
      "rank {}: parameter '{}' {}: backward passes that run within this one, in a hook or in the "
      "backward of a function, reach it. Pass delay_allreduce = true, or run this pass under "
      "no_sync() and average the gradients after it",
      group_->rank(), names_[i],
      again ? "got a second gradient in this backward pass, which counts one"
            : "was communicated as unused in this backward pass and then got a gradient"));
}

void Reducer::on_output_gradient() {
  if (!autograd::accumulates()) return follow_graph();
  refuse_create_graph();
  std::lock_guard lock(mutex_);
  if (no_sync_ == 0) arm();
}

/// In grad() with create_graph. The graph that it creates leads to the parameters too, without the
/// result of forward(): a gradient penalty may be all that a pass computes.
void Reducer::follow_graph() {
  if (!autograd::creating_graph()) return;
  {
    std::lock_guard lock(mutex_);
    if (no_sync_ > 0) return;
  }
  autograd::queue_callback([self = weak_from_this()] {
    if (const auto reducer = self.lock())
      reducer->watch(autograd::captured_gradients(), &Reducer::on_derived_gradient);
  });
}

/// Whether the pass will reach a parameter from here is not known yet.
void Reducer::on_derived_gradient() {
  if (!autograd::accumulates()) return follow_graph();
  std::lock_guard lock(mutex_);
  open_pass();
  pass_.derived = true;
}

void Reducer::arm() {
  open_pass();
  if (std::exchange(pass_.armed, true)) return;
  arm_next_ = false;
  pass_.timed = !is_capturing();
  if (!pass_.timed) rebuild_due_ = false;  // the graph keeps using these buckets
  if (pass_.timed) times_.begin();
  const bool ask = asks_tape();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (pass_.arrived[i]) {
      take(i);
      continue;
    }
    pass_.absent[i] = !places_[i] || !parameters_[i].requires_grad() ||
                      (ask ? !autograd::accumulates_into(parameters_[i])
                           : options_.static_graph && unused_here_[i]);
  }
  pass_.pending.assign(buckets_.size(), 0);
  pass_.streams.resize(buckets_.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const std::size_t i : buckets_[b].indices())
      pass_.pending[b] += !pass_.arrived[i] && !pass_.absent[i];
    if (pass_.pending[b] == 0) bucket_ready(b);
  }
  launch_ready();
}

void Reducer::count(std::size_t i) {
  if (!places_[i] || pass_.absent[i]) return;
  const std::size_t b = places_[i]->bucket;
  if (--pass_.pending[b] > 0) return;
  bucket_ready(b);
  launch_ready();
}

void Reducer::bucket_ready(std::size_t b) {
  pass_.streams[b] = current_stream(buckets_[b].flat().device());
  if (pass_.timed) times_.ready(b);
}

void Reducer::launch_ready() {
  if (options_.delay_allreduce) return;
  while (pass_.launched < buckets_.size() && pass_.pending[pass_.launched] == 0)
    launch(pass_.launched++);
}

void Reducer::launch(std::size_t b) {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "ddp_bucket");
  Bucket& bucket = buckets_[b];
  const StreamGuard stream(pass_.streams[b]);
  for (std::size_t slot = 0; slot < bucket.indices().size(); ++slot)
    if (const std::size_t i = bucket.indices()[slot]; !pass_.arrived[i] && !bucket.take(slot))
      pass_.missing_at_launch.push_back(i);
  pass_.works.push_back(communicate(b));
  if (pass_.timed) times_.launched(b, pass_.works.back().work);
}

CommWork Reducer::communicate(std::size_t b) {
  Bucket& bucket = buckets_[b];
  const Tensor flat = real_of(bucket.flat());
  if (hook_) {
    GradBucket seen(*group_, b, buckets_.size(), flat, bucket.views(), bucket.parameters(),
                    bucket.scratch());
    return hook_(seen);
  }
  const Averaging averaging = this->averaging();
  if (averaging.before != 1) flat.mul_(averaging.before);
  return {.work = group_->all_reduce(flat, averaging.op, options_.all_reduce)};
}

Reducer::Averaging Reducer::averaging() const {
  const double predivide = options_.gradient_predivide_factor;
  const bool all = !join_ || join_->divide_by_initial_world_size;
  if (predivide == 1 && (all || !options_.gradient_average))
    return {options_.gradient_average ? ReduceOp::avg : ReduceOp::sum, 1, 1};
  const int ranks = all ? group_->size() : active_ranks_;
  return {ReduceOp::sum, 1 / predivide, options_.gradient_average ? predivide / ranks : 1};
}

// ---- Its end

void Reducer::close_pass() {
  if (pass_.armed) release_parameters();
  pass_.open = pass_.armed = false;
  pass_.works.clear();
}

/// The other ranks would wait for this one until their time is up.
void Reducer::abort_pass(std::string_view why) {
  group_->abort(
      fmt::format("rank {} did not come to the end of its backward pass: {}", group_->rank(), why));
}

void Reducer::pass_failed() {
  std::lock_guard lock(mutex_);
  if (pass_.armed) abort_pass(kThrown);
  close_pass();
}

void Reducer::finish_pass() {
  std::lock_guard lock(mutex_);
  struct Close {
    Reducer& reducer;
    ~Close() { reducer.close_pass(); }
  } close{*this};
  if (!pass_.armed) return;
  if (pass_.timed) times_.backward_ended();
  try {
    complete();
  } catch (const std::exception& e) {
    abort_pass(e.what());
    throw;
  } catch (...) {
    abort_pass(kThrown);
    throw;
  }
}

void Reducer::complete() {
  check_all_came();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!pass_.arrived[i] && !std::exchange(pass_.absent[i], 1))
      if (--pass_.pending[places_[i]->bucket] == 0) bucket_ready(places_[i]->bucket);
  for (; pass_.launched < buckets_.size(); ++pass_.launched) {
    // It waits for all streams of the pass, and of passes that ran within it.
    pass_.streams[pass_.launched] = current_stream(buckets_[pass_.launched].flat().device());
    launch(pass_.launched);
  }
  const bool exchanged = exchanges_used();
  if (exchanged) begin_used();
  wait_for_buckets();
  if (pass_.timed) times_.end();
  std::vector<std::int32_t> used;
  if (exchanged && (options_.static_graph || !pass_.missing_at_launch.empty())) used = read_used();
  if (options_.static_graph) learn_static(used);
  fill_missing_gradients(used);
  std::ranges::fill(dirty_, 0);
  buffers_due_ = true;
  if (std::exchange(started_, true)) return;
  rebuild_due_ = options_.rebuild_buckets || options_.static_graph;
  if (options_.rebuild_buckets) arrival_order_ = pass_.order;
}

/// Every required gradient has arrived, or exists from earlier local passes.
void Reducer::check_all_came() {
  std::vector<std::size_t> missing, surplus;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!pass_.arrived[i] && !pass_.absent[i] && !has_local_gradient(i)) missing.push_back(i);
    if (pass_.arrived[i] && !unused_here_.empty() && unused_here_[i]) surplus.push_back(i);
  }
  if (!surplus.empty())
    fail_all(
        fmt::format("rank {}: static_graph was given, but {} got a gradient in this backward "
                    "pass and not in the first",
                    group_->rank(), names(surplus)));
  if (missing.empty() || asks_tape()) return;
  if (options_.static_graph)
    fail_all(
        fmt::format("rank {}: static_graph was given, but {} got no gradient in this backward "
                    "pass, and one in the first",
                    group_->rank(), names(missing)));
  fail_all(fmt::format(
      "rank {}: {} of {} parameters got no gradient in this backward pass: {}. All must be used in "
      "computing the loss; where some may not be, pass find_unused_parameters = true. Where "
      "several "
      "passes use them together, all but the last go into no_sync()",
      group_->rank(), missing.size(), parameters_.size(), names(missing)));
}

bool Reducer::exchanges_used() const {
  return options_.static_graph ? !static_known_ : options_.find_unused_parameters;
}

bool Reducer::asks_tape() const {
  return options_.static_graph ? unused_here_.empty() : options_.find_unused_parameters;
}

void Reducer::begin_used() {
  FERRITE_CHECK(!is_capturing(), CudaError, "ddp",
                "ranks cannot tell each other which parameters they used while a graph is "
                "captured; use static_graph, and run a step before the capture");
  used_work_.wait();
  std::vector<std::int32_t> used(parameters_.size());
  for (std::size_t i = 0; i < used.size(); ++i) used[i] = pass_.arrived[i] || has_local_gradient(i);
  used_ = from_vector(used, {static_cast<std::int64_t>(used.size())}).to(exchange_device(*group_));
  used_work_ = group_->all_reduce(used_);
}

std::vector<std::int32_t> Reducer::read_used() {
  used_work_.synchronize();
  return used_.cpu().to_vector<std::int32_t>();
}

void Reducer::learn_static(const std::vector<std::int32_t>& used) {
  if (!static_known_) {
    unused_anywhere_.resize(used.size());
    for (std::size_t i = 0; i < used.size(); ++i) unused_anywhere_[i] = used[i] == 0;
    static_known_ = true;
  }
  if (!unused_here_.empty() || !pass_.armed) return;
  unused_here_.resize(parameters_.size());
  for (std::size_t i = 0; i < unused_here_.size(); ++i) unused_here_[i] = !pass_.arrived[i];
}

void Reducer::wait_for_buckets() {
  const double after = hook_ ? 1 : averaging().after;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    pass_.works[b].work.wait();
    if (pass_.works[b].finish) pass_.works[b].finish();
    if (after != 1) buckets_[b].flat().mul_(after);
  }
}

/// Parameters without a gradient here get one if another rank had one.
void Reducer::fill_missing_gradients(const std::vector<std::int32_t>& used) {
  for (const std::size_t i : pass_.missing_at_launch) {
    if (!parameters_[i].requires_grad()) continue;
    const bool nowhere =
        options_.static_graph ? unused_anywhere_[i] != 0 : !used.empty() && used[i] == 0;
    if (!nowhere) parameters_[i].set_grad(buckets_[places_[i]->bucket].views()[places_[i]->slot]);
  }
}

void Reducer::fail_all(const std::string& text) {
  group_->abort(text);
  fail<DistributedError>("ddp", "{}", text);
}

std::string Reducer::names(std::span<const std::size_t> parameters) const {
  constexpr std::size_t kShown = 20;
  std::vector<std::string_view> shown;
  for (const std::size_t i : parameters.first(std::min(kShown, parameters.size())))
    shown.push_back(names_[i]);
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (parameters.size() > kShown) text += fmt::format(" and {} more", parameters.size() - kShown);
  return text;
}

}  // namespace ferrite::parallel::ddp
