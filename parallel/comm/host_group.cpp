#include "ferrite/parallel/comm/host_group.h"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/peer_transfers.h"

namespace ferrite::parallel {

HostGroup::HostGroup(std::string backend, const GroupContext& context,
                     std::unique_ptr<links::LinkMesh> links, const Options& options)
    : ProcessGroup(std::move(backend), context.name, context.rank, context.size, context.timeout),
      context_(context),
      worker_(std::make_unique<comm::HostWorker>(
          static_cast<comm::HostOperations&>(*this),
          comm::HostWorker::Options{context.timeout, options.staging, options.waiters})) {
  if (links)
    transfers_ =
        std::make_unique<comm::PeerTransfers>(std::move(links), rank(), context.job_ranks,
                                              timeout(), static_cast<comm::HostOperations&>(*this));
}

void HostGroup::start_watching() {
  if (context_.monitor)
    context_.monitor->watch(name(), [this](const std::string& reason) {
      others_know_ = true;
      abort(reason);
    });
}

HostGroup::~HostGroup() { stop(); }

void HostGroup::stop() {
  if (std::exchange(stopped_, true)) return;
  worker_->stop();
  if (transfers_) transfers_->stop();
  if (context_.monitor) context_.monitor->unwatch(name());
}

// ---- Operations

Work HostGroup::submit(comm::Call call) {
  if (call.kind == comm::Collective::send || call.kind == comm::Collective::recv)
    return transfers_->submit(std::move(call));
  const std::uint64_t sequence = sequence_.fetch_add(1, std::memory_order_relaxed) + 1;
  return worker_->submit(std::move(call), sequence);
}

void HostGroup::begun(const comm::Call& call, std::uint64_t sequence) {
  if (context_.monitor)
    context_.monitor->begin(name(), sequence, describe(call, context_.job_ranks));
}

void HostGroup::ended(const comm::Call&, std::uint64_t sequence) {
  if (context_.monitor) context_.monitor->end(name(), sequence);
}

// ---- Failures

namespace {

/// Without the leading tag, since another will be added.
std::string_view untagged(std::string_view error) {
  const std::size_t end = error.starts_with('[') ? error.find("] ") : std::string_view::npos;
  return end == std::string_view::npos ? error : error.substr(end + 2);
}

}  // namespace

std::string HostGroup::failed(const comm::Call& call, std::uint64_t sequence,
                              const std::string& error) {
  const char* const op = comm::name(call.kind);
  if (is_aborted()) return fmt::format("[{}] group {} was aborted: {}", op, name(), abort_reason());
  const bool pairwise = call.kind == comm::Collective::send || call.kind == comm::Collective::recv;
  const std::string blamed =
      context_.monitor ? context_.monitor->blame(name(), pairwise ? 0 : sequence) : "";
  const std::string what =
      call.in.defined() || call.out.defined() ? describe(call, context_.job_ranks) : op;
  const std::string reason =
      fmt::format("{} (number {} of group {}) failed on rank {}: {}{}{}", what, sequence, name(),
                  context_.job_rank(rank()), untagged(error), blamed.empty() ? "" : "; ", blamed);
  // Reports the reason before it wakes the threads that wait here: their process may end then.
  abort(reason);
  // Another failure may have been first.
  return fmt::format("[{}] {}", op, abort_reason());
}

void HostGroup::do_abort(const std::string& reason) {
  // Before links close, so that their other ends know the reason.
  if (context_.monitor && !others_know_) context_.monitor->report_failure(name(), reason);
  worker_->abort(reason);
  cancel();
  // Last, so that ranks that find their links closed know the reason by then.
  if (transfers_) transfers_->abort(reason);
}

void check_same_call(links::LinkMesh& links, const GroupContext& context,
                     const comm::HostCall& call) {
  if (context.size == 1) return;
  const comm::Signature mine = comm::signature(call.call, call.sequence);
  const int before = (context.rank + context.size - 1) % context.size;
  comm::Signature theirs;
  links::Link& right = links.to((context.rank + 1) % context.size);
  links::Link& left = links.to(before);
  // Both at once: a link connects when both ends use it.
  auto unsent = std::as_bytes(std::span(&mine, 1));
  auto missing = std::as_writable_bytes(std::span(&theirs, 1));
  while (!unsent.empty() || !missing.empty()) {
    const std::size_t sent = unsent.empty() ? 0 : right.try_send(unsent);
    const std::size_t got = missing.empty() ? 0 : left.try_recv(missing);
    unsent = unsent.subspan(sent);
    missing = missing.subspan(got);
    if (sent > 0 || got > 0) continue;
    links::wait_neighbours(left, !missing.empty(), 0, right, !unsent.empty(), call.interrupt);
  }
  if (mine == theirs) return;
  // The lower rank first: the text is the same whichever rank finds the difference.
  int lower = context.job_rank(before), higher = context.job_rank(context.rank);
  const comm::Signature *of_lower = &theirs, *of_higher = &mine;
  if (lower > higher) std::swap(lower, higher), std::swap(of_lower, of_higher);
  fail<DistributedError>(name(mine.kind),
                         "the ranks disagree: as number {}, rank {} called {}, and rank {} {}",
                         mine.sequence, lower, describe(*of_lower, context.job_ranks), higher,
                         describe(*of_higher, context.job_ranks));
}

}  // namespace ferrite::parallel
