#include "ferrite/parallel/comm/process_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/views.h"
#include "ferrite/parallel/comm/call.h"
#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel {

struct ProcessGroup::State {
  std::atomic<bool> aborted{false};
  std::mutex mutex;
  std::string reason;          // under the mutex
  std::atomic<int> groups{0};  // number of sub-groups created
};

namespace {

void check_tensor(const Tensor& t, const char* op, const char* which = "the tensor") {
  FERRITE_CHECK(t.defined(), ValueError, op, "{} is undefined", which);
  FERRITE_CHECK(t.dtype() != kBool && !t.is_complex(), DTypeError, op,
                "expected a floating or an integer type, got {}{}", t.describe(),
                t.is_complex() ? "; pass view_as_real(tensor)" : "; pass tensor.view(kUInt8)");
  FERRITE_CHECK(t.is_contiguous() || t.is_contiguous(kChannelsLast), ValueError, op,
                "{} of shape {} must be dense in memory (contiguous or channels-last); call "
                "contiguous() and copy the result back",
                which, t.shape());
}

void check_op(const Tensor& t, ReduceOp reduce, const char* op) {
  FERRITE_CHECK(reduce != ReduceOp::avg || is_floating(t.dtype()), DTypeError, op,
                "averages are of floating types, got {}", t.describe());
}

void check_rank(int rank, int size, const char* op, const char* which) {
  FERRITE_CHECK(rank >= 0 && rank < size, ValueError, op,
                "{} must be a rank of the group, 0 to {}, got {}", which, size - 1, rank);
}

/// `whole` must hold `size` times `part`.
void check_parts(const Tensor& whole, const Tensor& part, int size, const char* op,
                 const char* whole_name, const char* part_name) {
  FERRITE_CHECK(whole.dtype() == part.dtype(), DTypeError, op,
                "expected one dtype, got {} for {} and {} for {}", whole.dtype(), whole_name,
                part.dtype(), part_name);
  FERRITE_CHECK(whole.device() == part.device(), DeviceError, op,
                "expected one device, got {} on {} and {} on {}", whole_name, whole.device(),
                part_name, part.device());
  FERRITE_CHECK(whole.numel() == size * part.numel(), ShapeError, op,
                "{} must hold {} times (once a rank) what {} holds: expected {} elements, got {}",
                whole_name, size, part_name, size * part.numel(), whole.numel());
  const auto both = [&](MemoryFormat format) {
    return whole.is_contiguous(format) && part.is_contiguous(format);
  };
  FERRITE_CHECK(both(kContiguous) || both(kChannelsLast), ValueError, op,
                "{} and {} must both be contiguous, or both channels-last", whole_name, part_name);
}

/// If they overlap, `part` must be this rank's part of `whole`.
void check_apart(const Tensor& whole, const Tensor& part, int rank, const char* op) {
  if (!whole.shares_storage(part) || part.numel() == 0) return;
  const std::int64_t begin = whole.storage_offset() + rank * part.numel();
  FERRITE_CHECK(part.storage_offset() == begin || !geometry::may_overlap(whole, part), ValueError,
                op,
                "input and output overlap, and the smaller one is not this rank's part (number "
                "{}) of the larger",
                rank);
}

}  // namespace

ProcessGroup::ProcessGroup(std::string backend, std::string name, int rank, int size,
                           Milliseconds timeout)
    : backend_(std::move(backend)),
      name_(std::move(name)),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      state_(std::make_shared<State>()) {
  FERRITE_CHECK(size_ >= 1, ValueError, "process_group", "expected one rank or more, got {}",
                size_);
  check_rank(rank_, size_, "process_group", "rank");
  FERRITE_CHECK(timeout_ > Milliseconds(0), ValueError, "process_group",
                "the timeout must be positive, got {} ms", timeout_.count());
}

// ---- Operations

/// `writes`: whether the operation changes `call.out`.
Work ProcessGroup::start(const char* op, comm::Call call, bool writes) {
  check_alive(op);
  if (writes) call.out.storage()->bump_version(op);
  return submit(std::move(call));
}

Work ProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op, AllReduceAlgorithm algorithm) {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "all_reduce");
  check_tensor(tensor, "all_reduce");
  check_op(tensor, op, "all_reduce");
  return start("all_reduce",
               {.kind = algorithm == AllReduceAlgorithm::ring ? comm::Collective::ring_all_reduce
                                                              : comm::Collective::all_reduce,
                .op = op,
                .out = tensor});
}

Work ProcessGroup::broadcast(const Tensor& tensor, int root) {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "broadcast");
  check_tensor(tensor, "broadcast");
  check_rank(root, size_, "broadcast", "root");
  return start("broadcast", {.kind = comm::Collective::broadcast, .peer = root, .out = tensor},
               root != rank_);
}

Work ProcessGroup::reduce(const Tensor& tensor, int root, ReduceOp op) {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "reduce");
  check_tensor(tensor, "reduce");
  check_op(tensor, op, "reduce");
  check_rank(root, size_, "reduce", "root");
  return start("reduce", {.kind = comm::Collective::reduce, .op = op, .peer = root, .out = tensor});
}

Work ProcessGroup::all_gather(const Tensor& out, const Tensor& in) {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "all_gather");
  check_tensor(out, "all_gather", "out");
  check_tensor(in, "all_gather", "in");
  check_parts(out, in, size_, "all_gather", "out", "in");
  check_apart(out, in, rank_, "all_gather");
  return start("all_gather", {.kind = comm::Collective::all_gather, .out = out, .in = in});
}

Work ProcessGroup::reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op) {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "reduce_scatter");
  check_tensor(out, "reduce_scatter", "out");
  check_tensor(in, "reduce_scatter", "in");
  check_op(in, op, "reduce_scatter");
  check_parts(in, out, size_, "reduce_scatter", "in", "out");
  check_apart(in, out, rank_, "reduce_scatter");
  return start("reduce_scatter",
               {.kind = comm::Collective::reduce_scatter, .op = op, .out = out, .in = in});
}

Work ProcessGroup::send(const Tensor& tensor, int to) {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "send");
  check_tensor(tensor, "send");
  check_rank(to, size_, "send", "to");
  FERRITE_CHECK(to != rank_, ValueError, "send", "rank {} cannot send to itself", rank_);
  return start("send", {.kind = comm::Collective::send, .peer = to, .in = tensor}, false);
}

Work ProcessGroup::recv(const Tensor& tensor, int from) {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "recv");
  check_tensor(tensor, "recv");
  check_rank(from, size_, "recv", "from");
  FERRITE_CHECK(from != rank_, ValueError, "recv", "rank {} cannot receive from itself", rank_);
  return start("recv", {.kind = comm::Collective::recv, .peer = from, .out = tensor});
}

Work ProcessGroup::barrier() {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "barrier");
  return start("barrier", {.kind = comm::Collective::barrier}, false);
}

// ---- Sub-groups, and abort

std::shared_ptr<ProcessGroup> ProcessGroup::new_group(const std::vector<int>& ranks,
                                                      std::optional<Milliseconds> timeout) {
  FERRITE_CHECK(!ranks.empty(), ValueError, "new_group", "expected one rank or more, got none");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    check_rank(ranks[i], size_, "new_group", "each of the ranks");
    FERRITE_CHECK(std::count(ranks.begin(), ranks.end(), ranks[i]) == 1, ValueError, "new_group",
                  "rank {} is given twice", ranks[i]);
  }
  FERRITE_CHECK(!timeout || *timeout > Milliseconds(0), ValueError, "new_group",
                "the timeout must be positive, got {} ms", timeout->count());
  check_alive("new_group");
  // Counted on all ranks, including those not in the group, so that names stay consistent.
  const std::string name = fmt::format("{}/{}", name_, ++state_->groups);
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  if (mine == ranks.end()) return nullptr;
  return do_new_group(ranks, static_cast<int>(mine - ranks.begin()), name,
                      links::limited(timeout.value_or(timeout_)));
}

void ProcessGroup::abort(std::string_view reason) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->aborted.load(std::memory_order_relaxed)) return;
    state_->reason = reason;
    state_->aborted.store(true, std::memory_order_release);
  }
  do_abort(std::string(reason));
}

void ProcessGroup::leave(std::string_view reason) {
  if (is_aborted()) return;
  do_leave();
  std::lock_guard lock(state_->mutex);
  if (state_->aborted.load(std::memory_order_relaxed)) return;
  state_->reason = reason;
  state_->aborted.store(true, std::memory_order_release);
}

bool ProcessGroup::is_aborted() const { return state_->aborted.load(std::memory_order_acquire); }

void ProcessGroup::check_alive(const char* op) const {
  if (!is_aborted()) [[likely]]
    return;
  fail<DistributedError>(op, "group {} was aborted: {}", name_, abort_reason());
}

std::string ProcessGroup::abort_reason() const {
  std::lock_guard lock(state_->mutex);
  return state_->reason;
}

}  // namespace ferrite::parallel
