#include "ferrite/parallel/comm/local/local_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/device_access.h"
#include "ferrite/parallel/comm/host_group.h"
#include "ferrite/parallel/comm/links/socket.h"
#include "ferrite/parallel/comm/local/engine.h"
#include "ferrite/parallel/comm/local/hub.h"
#include "ferrite/parallel/comm/ring_all_reduce.h"

namespace ferrite::parallel {

namespace {

using local::Engine;
using local::Hub;
using local::Place;

/// Every rank reduces tensors up to this size alone, which saves one synchronization.
constexpr std::size_t kSmallBytes = 8192;

class LocalGroup final : public HostGroup {
 public:
  LocalGroup(std::shared_ptr<Hub> hub, const GroupContext& context)
      : HostGroup("local", context, context.size > 1 ? hub->take_links(context.rank) : nullptr,
                  {.staging = comm::Staging::none, .waiters = comm::Waiters::help}),
        hub_(std::move(hub)),
        sources_(static_cast<std::size_t>(size())),
        host_(local::make_host_engine()) {
    hub_->listen(rank(), [this](const std::string& reason) { abort(reason); });
  }
  ~LocalGroup() override {
    stop();
    hub_->leave(rank());
    hub_->listen(rank(), nullptr);
  }

 private:
  void run(const comm::HostCall& call) override;
  void cancel() override { hub_->abort(rank(), abort_reason()); }
  std::string failed(const comm::Call& call, std::uint64_t sequence,
                     const std::string& error) override {
    // Others close their links when notified, which this rank may notice before its own
    // notification.
    if (const std::string known = hub_->abort_reason(); !known.empty()) abort(known);
    std::string said = HostGroup::failed(call, sequence, error);
    hub_->abort(rank(), abort_reason());  // unless another thread is doing so
    hub_->wait_for_readers(rank());       // the caller may reuse the tensors now
    return said;
  }
  std::shared_ptr<ProcessGroup> do_new_group(const std::vector<int>& ranks, int rank,
                                             const std::string& name,
                                             Milliseconds timeout) override {
    return std::make_shared<LocalGroup>(hub_->subgroup(name, ranks),
                                        context_of_some(context(), ranks, rank, name, timeout));
  }

  void choose_engine(const comm::HostCall& call);
  void move(const comm::HostCall& call);
  void all_reduce(const comm::HostCall& call);
  void broadcast(const comm::HostCall& call);
  void reduce(const comm::HostCall& call);
  void all_gather(const comm::HostCall& call);
  void reduce_scatter(const comm::HostCall& call);
  void reduce_own_part(const comm::HostCall& call);
  void collect_part(const Tensor& t, int from);

  /// The part of `t` that rank r reduces: its first element, and one past its last.
  std::int64_t part_begin(const Tensor& t, int r) const {
    return std::min(r * ((t.numel() + size() - 1) / size()), t.numel());
  }
  /// All ranks' sources from `offset` bytes on.
  std::span<const Place> sources(std::size_t offset);
  const local::Arguments& arguments(int of) const { return hub_->arguments(rank(), of); }
  std::byte* out() const { return static_cast<std::byte*>(out_); }
  /// Waits until all ranks have finished their work up to here.
  void meet(const comm::HostCall& call) {
    engine_->finish(call.interrupt);
    hub_->meet(rank(), call.interrupt);
  }

  const std::shared_ptr<Hub> hub_;
  std::vector<Place> sources_;  // reused, so that no call allocates
  const std::unique_ptr<Engine> host_;
  std::map<int, std::unique_ptr<Engine>> devices_;  // by index, created on first use
  // State of the running operation.
  Engine* engine_ = nullptr;
  void* out_ = nullptr;
  comm::StagedTensor staged_in_, staged_out_;  // kept after a failure, for ranks that still read
                                               // them
  alignas(64) std::array<std::byte, kSmallBytes> small_;
};

Place at(const Place& place, std::size_t offset) {
  return {static_cast<const std::byte*>(place.data) + offset, place.device};
}

std::span<const Place> LocalGroup::sources(std::size_t offset) {
  for (int r = 0; r < size(); ++r)
    sources_[static_cast<std::size_t>(r)] = at(arguments(r).source, offset);
  return sources_;
}

void LocalGroup::run(const comm::HostCall& call) {
  struct End {
    LocalGroup& group;
    ~End() {
      if (group.engine_) group.engine_->drain();
      group.hub_->end(group.rank());
    }
  } end{*this};
  engine_ = nullptr;
  const comm::Call& what = call.call;
  const Tensor& first = what.in.defined() ? what.in : what.out;
  local::Arguments own;
  own.signature = comm::signature(what, call.sequence);
  if (first.defined()) {
    own.device = first.device();
    own.source = {first.data_ptr(), own.device};
    own.out = {what.out.data_ptr(), own.device};
  }
  hub_->begin(rank(), own, call.interrupt);
  if (first.defined() && first.numel() > 0) {
    choose_engine(call);
    move(call);
    engine_->finish(call.interrupt);
    staged_out_.put_back(call.interrupt);
  }
  staged_in_ = staged_out_ = {};
}

/// Uses the CUDA device if all tensors are on CUDA devices; otherwise the host reduces, and tensors
/// on devices are copied to it.
void LocalGroup::choose_engine(const comm::HostCall& call) {
  const comm::Call& what = call.call;
  const local::Arguments& mine = arguments(rank());
  engine_ = host_.get();
  out_ = const_cast<void*>(mine.out.data);
  bool any = false, all = true;
  for (int r = 0; r < size(); ++r) {
    const bool is_cuda = arguments(r).device.is_cuda();
    any |= is_cuda;
    all &= is_cuda;
  }
  if (!any) return;
  if (all && what.kind != comm::Collective::ring_all_reduce) {
    auto& engine = devices_[mine.device.index()];
    if (!engine) engine = local::make_device_engine(mine.device);
    engine_ = engine.get();
    return;
  }
  if (mine.device.is_cuda()) {
    staged_in_ = comm::StagedTensor(what.in);
    staged_out_ = comm::StagedTensor(what.out);
    staged_in_.fetch(call.interrupt);
    if (!what.in.defined()) staged_out_.fetch(call.interrupt);
    out_ = staged_out_.data();
    hub_->republish(rank(), {what.in.defined() ? staged_in_.data() : out_}, {out_});
  }
  hub_->meet(rank(), call.interrupt);
}

void LocalGroup::move(const comm::HostCall& call) {
  const Tensor& t = call.call.out;
  switch (call.call.kind) {
    case comm::Collective::all_reduce:
      return all_reduce(call);
    case comm::Collective::broadcast:
      return broadcast(call);
    case comm::Collective::reduce:
      return reduce(call);
    case comm::Collective::all_gather:
      return all_gather(call);
    case comm::Collective::reduce_scatter:
      return reduce_scatter(call);
    case comm::Collective::ring_all_reduce:
      if (size() > 1)
        parallel::comm::ring_all_reduce(hub_->ring(rank()), rank(), size(), out_, t.numel(),
                                        t.dtype(), call.call.op, call.interrupt);
      return;
    case comm::Collective::barrier:
    case comm::Collective::send:
    case comm::Collective::recv:
      return;
  }
}

/// Each rank reduces a part, in the order of all ranks, into its own memory.
void LocalGroup::reduce_own_part(const comm::HostCall& call) {
  const Tensor& t = call.call.out;
  const std::int64_t begin = part_begin(t, rank());
  const std::size_t offset = static_cast<std::size_t>(begin) * t.itemsize();
  engine_->reduce(out() + offset, sources(offset), part_begin(t, rank() + 1) - begin, t.dtype(),
                  call.call.op);
  meet(call);
}

/// Copies the part that `from` has reduced.
void LocalGroup::collect_part(const Tensor& t, int from) {
  const std::size_t begin = static_cast<std::size_t>(part_begin(t, from)) * t.itemsize(),
                    end = static_cast<std::size_t>(part_begin(t, from + 1)) * t.itemsize();
  engine_->copy(out() + begin, at(arguments(from).out, begin), end - begin);
}

void LocalGroup::all_reduce(const comm::HostCall& call) {
  const Tensor& t = call.call.out;
  if (size() == 1) return;
  if (engine_ == host_.get() && t.nbytes() <= kSmallBytes) {
    host_->reduce(small_.data(), sources(0), t.numel(), t.dtype(), call.call.op);
    meet(call);  // all have read the memory that is now overwritten
    std::memcpy(out_, small_.data(), t.nbytes());
    return;
  }
  reduce_own_part(call);
  for (int i = 1; i < size(); ++i)
    collect_part(t, (rank() + i) % size());  // starting at different ranks
  meet(call);
}

void LocalGroup::broadcast(const comm::HostCall& call) {
  const int root = call.call.peer;
  if (size() == 1) return;
  if (rank() != root) engine_->copy(out_, arguments(root).out, call.call.out.nbytes());
  meet(call);
}

void LocalGroup::reduce(const comm::HostCall& call) {
  if (size() == 1) return;
  reduce_own_part(call);
  for (int r = 0; rank() == call.call.peer && r < size(); ++r)
    if (r != rank()) collect_part(call.call.out, r);
  meet(call);
}

void LocalGroup::all_gather(const comm::HostCall& call) {
  const std::size_t bytes = call.call.in.nbytes();
  for (int i = 0; i < size(); ++i) {
    const int from = (rank() + i) % size();
    engine_->copy(out() + static_cast<std::size_t>(from) * bytes, arguments(from).source, bytes);
  }
  if (size() > 1) meet(call);
}

void LocalGroup::reduce_scatter(const comm::HostCall& call) {
  const Tensor& t = call.call.out;
  if (size() == 1) return engine_->copy(out_, arguments(0).source, t.nbytes());
  engine_->reduce(out_, sources(static_cast<std::size_t>(rank()) * t.nbytes()), t.numel(),
                  t.dtype(), call.call.op);
  meet(call);
}

}  // namespace

std::vector<std::shared_ptr<ProcessGroup>> make_local_groups(int ranks,
                                                             const LocalGroupOptions& options) {
  FERRITE_CHECK(ranks >= 1, ValueError, "make_local_groups", "expected one rank or more, got {}",
                ranks);
  GroupContext context;
  context.name = "local";
  context.size = ranks;
  context.job_ranks.resize(static_cast<std::size_t>(ranks));
  std::iota(context.job_ranks.begin(), context.job_ranks.end(), 0);
  context.timeout = links::limited(options.timeout);
  const auto hub = std::make_shared<Hub>(context.job_ranks);
  std::vector<std::shared_ptr<ProcessGroup>> groups;
  for (context.rank = 0; context.rank < ranks; ++context.rank)
    groups.push_back(std::make_shared<LocalGroup>(hub, context));
  return groups;
}

void run_ranks(int ranks, const std::function<void(ProcessGroup&)>& f,
               const LocalGroupOptions& options) {
  auto groups = make_local_groups(ranks, options);
  std::mutex mutex;
  std::exception_ptr first;
  const auto failed = [&](ProcessGroup& group, const char* what) {
    {
      std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
    group.abort(fmt::format("rank {} failed: {}", group.rank(), what));
  };
  std::vector<std::thread> threads;
  for (auto& mine : groups) {
    threads.emplace_back([&failed, &f, group = std::exchange(mine, nullptr)]() mutable {
      try {
        const DefaultGroupScope scope(group);
        f(*group);
      } catch (const std::exception& e) {
        failed(*group, e.what());
      } catch (...) {
        failed(*group, "it threw something that is no std::exception");
      }
      group = nullptr;  // ranks still waiting for this one learn that it has left
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace ferrite::parallel
