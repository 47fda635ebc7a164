#include "parallel/comm/local/local_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "core/error.h"
#include "parallel/comm/host_group.h"
#include "parallel/comm/local/hub.h"
#include "parallel/comm/local/reduce.h"
#include "parallel/comm/ring_all_reduce.h"

namespace ferrite::parallel {

namespace {

using local::Hub;

/// Tensors up to this are reduced by every rank alone: one meeting less.
constexpr std::size_t kSmallBytes = 8192;

class LocalGroup final : public HostGroup {
 public:
  LocalGroup(std::shared_ptr<Hub> hub, const GroupContext& context)
      : HostGroup("local", context, context.size > 1 ? hub->take_links(context.rank) : nullptr,
                  {.staging = Staging::host, .waiters = Waiters::help}),
        hub_(std::move(hub)),
        sources_(static_cast<std::size_t>(size())) {
    hub_->listen(rank(), [this](const std::string& reason) { abort(reason); });
  }
  ~LocalGroup() override {
    stop();
    hub_->leave(rank());
    hub_->listen(rank(), nullptr);
  }

 private:
  void run(const HostCall& call) override;
  void cancel() override { hub_->abort(rank(), abort_reason()); }
  std::string failed(const Call& call, std::uint64_t sequence, const std::string& error) override {
    std::string said = HostGroup::failed(call, sequence, error);
    hub_->wait_for_readers(rank());  // the tensors are the caller's again
    return said;
  }
  std::shared_ptr<ProcessGroup> do_new_group(const std::vector<int>& ranks, int rank,
                                             const std::string& name,
                                             Milliseconds timeout) override {
    GroupContext next;
    next.name = name;
    next.rank = rank;
    next.size = static_cast<int>(ranks.size());
    for (const int r : ranks) next.job_ranks.push_back(context().job_ranks[std::size_t(r)]);
    next.timeout = timeout;
    return std::make_shared<LocalGroup>(hub_->subgroup(name, ranks), next);
  }

  void all_reduce(const HostCall& call);
  void broadcast(const HostCall& call);
  void reduce(const HostCall& call);
  void all_gather(const HostCall& call);
  void reduce_scatter(const HostCall& call);

  /// All ranks' `in`, or `out` of those that work in place, from `offset` bytes on.
  std::span<const void* const> sources(std::size_t offset);
  const local::Brought& brought(int of) const { return hub_->brought(rank(), of); }
  void meet(const HostCall& call) { hub_->meet(rank(), call.interrupt); }

  const std::shared_ptr<Hub> hub_;
  std::vector<const void*> sources_;  // so that no call allocates
  alignas(64) std::array<std::byte, kSmallBytes> small_;
};

std::span<const void* const> LocalGroup::sources(std::size_t offset) {
  for (int r = 0; r < size(); ++r)
    sources_[static_cast<std::size_t>(r)] =
        static_cast<const std::byte*>(brought(r).source) + offset;
  return sources_;
}

void LocalGroup::run(const HostCall& call) {
  const struct End {
    LocalGroup& group;
    ~End() { group.hub_->end(group.rank()); }
  } end{*this};
  if (size() > 1) hub_->begin(rank(), call);
  switch (call.call.kind) {
    case Collective::all_reduce:
      return all_reduce(call);
    case Collective::broadcast:
      return broadcast(call);
    case Collective::reduce:
      return reduce(call);
    case Collective::all_gather:
      return all_gather(call);
    case Collective::reduce_scatter:
      return reduce_scatter(call);
    case Collective::ring_all_reduce:
      if (size() > 1)
        parallel::ring_all_reduce(hub_->ring(rank()), rank(), size(), call.out,
                                  call.call.out.numel(), call.call.out.dtype(), call.call.op,
                                  call.interrupt);
      return;
    case Collective::barrier:
    case Collective::send:
    case Collective::recv:
      return;
  }
}

void LocalGroup::all_reduce(const HostCall& call) {
  const Tensor& t = call.call.out;
  if (size() == 1 || t.numel() == 0) return;
  if (t.nbytes() <= kSmallBytes) {
    local::reduce(small_.data(), sources(0), t.numel(), t.dtype(), call.call.op);
    meet(call);  // all have read what is overwritten now
    std::memcpy(call.out, small_.data(), t.nbytes());
    return;
  }
  // Each reduces a part, in all ranks' order, and gets the others' parts from those.
  const std::int64_t part = (t.numel() + size() - 1) / size();
  const auto begin = [&](int r) { return std::min(r * part, t.numel()); };
  const auto offset = [&](int r) { return static_cast<std::size_t>(begin(r)) * t.itemsize(); };
  auto* out = static_cast<std::byte*>(call.out);
  local::reduce(out + offset(rank()), sources(offset(rank())), begin(rank() + 1) - begin(rank()),
                t.dtype(), call.call.op);
  meet(call);
  for (int i = 1; i < size(); ++i) {
    const int from = (rank() + i) % size();  // not all from one at once
    const std::size_t at = offset(from);
    std::memcpy(out + at, static_cast<const std::byte*>(brought(from).out) + at,
                offset(from + 1) - at);
  }
  meet(call);
}

void LocalGroup::broadcast(const HostCall& call) {
  const Tensor& t = call.call.out;
  if (size() == 1 || t.numel() == 0) return;
  const int root = call.call.peer;
  if (rank() != root) std::memcpy(call.out, brought(root).out, t.nbytes());
  meet(call);
}

void LocalGroup::reduce(const HostCall& call) {
  const Tensor& t = call.call.out;
  if (size() == 1 || t.numel() == 0) return;
  const int root = call.call.peer;
  // Each reduces a part in its own memory, which the root then collects.
  const std::int64_t part = (t.numel() + size() - 1) / size();
  const auto begin = [&](int r) { return std::min(r * part, t.numel()); };
  const auto offset = [&](int r) { return static_cast<std::size_t>(begin(r)) * t.itemsize(); };
  auto* out = static_cast<std::byte*>(call.out);
  local::reduce(out + offset(rank()), sources(offset(rank())), begin(rank() + 1) - begin(rank()),
                t.dtype(), call.call.op);
  meet(call);
  if (rank() == root) {
    for (int r = 0; r < size(); ++r) {
      if (r == root) continue;
      std::memcpy(out + offset(r), static_cast<const std::byte*>(brought(r).out) + offset(r),
                  offset(r + 1) - offset(r));
    }
  }
  meet(call);
}

void LocalGroup::all_gather(const HostCall& call) {
  const std::size_t bytes = call.call.in.nbytes();
  if (bytes == 0) return;
  for (int i = 0; i < size(); ++i) {
    const int from = (rank() + i) % size();
    auto* to = static_cast<std::byte*>(call.out) + static_cast<std::size_t>(from) * bytes;
    const void* source = size() == 1 ? call.in : brought(from).in;
    if (to != source) std::memcpy(to, source, bytes);
  }
  if (size() > 1) meet(call);
}

void LocalGroup::reduce_scatter(const HostCall& call) {
  const Tensor& t = call.call.out;
  if (t.numel() == 0) return;
  if (size() == 1) {
    if (call.out != call.in) std::memcpy(call.out, call.in, t.nbytes());
    return;
  }
  local::reduce(call.out, sources(static_cast<std::size_t>(rank()) * t.nbytes()), t.numel(),
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
  context.timeout = options.timeout;
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
      group = nullptr;  // those who still wait for this rank learn that it has left
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace ferrite::parallel
