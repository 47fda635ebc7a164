#include "ferrite/parallel/comm/nccl/ring.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ferrite/parallel/comm/combination.h"
#include "ferrite/parallel/comm/nccl/types.h"

namespace ferrite::parallel::nccl {

namespace {

using ferrite::detail::Timing;
using kernels::Combine;
using kernels::View;
using Marked = std::shared_ptr<ferrite::detail::Mark>;

/// Contiguous elements of memory.
struct Range {
  std::byte* data = nullptr;
  std::int64_t numel = 0;
  DType dtype = kFloat32;

  Range part(std::int64_t begin, std::int64_t end) const {
    return {data + static_cast<std::size_t>(begin) * itemsize(dtype), end - begin, dtype};
  }
  /// Number `i` of `count` parts, whose sizes differ by at most one element.
  Range part_of(std::int64_t i, std::int64_t count) const {
    return part(numel * i / count, numel * (i + 1) / count);
  }
  View view() const { return comm::flat_view(data, numel, dtype); }
};

Range all_of(const Tensor& t) {
  return {static_cast<std::byte*>(t.data_ptr()), t.numel(), t.dtype()};
}

// Larger pieces hide less of the additions, smaller ones pay more often for a group of NCCL calls:
// its latency, and a thread that NCCL starts.
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;
constexpr std::int64_t kMostPieces = 8;
// Maximum number of pieces that have arrived and are not added yet.
constexpr std::int64_t kMostSlots = 3;

class Ring {
 public:
  Ring(const Tensor& tensor, ReduceOp op, const RingPlace& place, const Exchange& exchange)
      : place_(place),
        exchange_(exchange),
        op_(comm::combine_of(op)),
        scale_(op == ReduceOp::avg ? 1.0 / place.size : 1.0),
        all_(all_of(tensor)) {
    const bool is_half = tensor.dtype() == kFloat16 || tensor.dtype() == kBFloat16;
    partial_type_ = is_half && op_ == Combine::sum ? kFloat32 : tensor.dtype();
    // All ranks must compute the same numbers, whatever the sizes of their own parts.
    largest_ = (all_.numel + place_.size - 1) / place_.size;
    const std::int64_t bytes = largest_ * static_cast<std::int64_t>(itemsize(partial_type_));
    pieces_ = std::min((bytes + kPieceBytes - 1) / kPieceBytes, kMostPieces);
    // Size of the largest piece.
    room_ = (largest_ + pieces_ - 1) / pieces_;
    slots_ = std::min(pieces_, kMostSlots);
    arrived_ = buffer(tensor.device(), slots_);
    if (partial_type_ != tensor.dtype()) partial_ = buffer(tensor.device(), pieces_);
  }

  void run() {
    // From here on both may use memory that was used on the current stream.
    place_.side.wait(place_.stream);
    added_.resize(static_cast<std::size_t>(pieces_));
    freed_.resize(static_cast<std::size_t>(slots_));
    for (int step = 0; step + 1 < place_.size; ++step)
      for (std::int64_t k = 0; k < pieces_; ++k) reduce(step, k);
    for (std::int64_t k = 0; k < pieces_; ++k) wait_for(added_, k);
    gather();
  }

 private:
  Tensor buffer(const Device& device, std::int64_t pieces) const {
    // Allocated on the stream that uses it first, which is already ordered after the current one.
    const StreamGuard use(place_.stream);
    Tensor t = empty({room_ * pieces}, {.dtype = partial_type_, .device = device});
    t.storage()->record_stream(place_.side);
    return t;
  }

  /// Piece k of the part `behind` ranks before this one.
  Range piece(int behind, std::int64_t k) const {
    const int part = ((place_.rank - behind) % place_.size + place_.size) % place_.size;
    return all_.part_of(part, place_.size).part_of(k, pieces_);
  }
  /// Slot number `i` of a buffer, for elements of a type no larger than its own.
  Range room(const Tensor& buffer, std::int64_t i, std::int64_t numel, DType dtype) const {
    Range r = all_of(buffer).part(i * room_, i * room_ + numel);
    r.dtype = dtype;
    return r;
  }

  /// A step of the reduce-scatter: sends the last sum, receives the previous part, adds this
  /// rank's.
  void reduce(int step, std::int64_t k) {
    const bool first = step == 0, last = step + 2 == place_.size;
    const bool in_place = !partial_.defined();
    const Range own = piece(step + 1, k), before = piece(step, k);
    const std::int64_t slot = (step * pieces_ + k) % slots_;
    // Values of a single rank have the tensor's own type.
    const Range arrived = room(arrived_, slot, own.numel, first ? all_.dtype : partial_type_);
    wait_for(added_, k);
    wait_for(freed_, slot);
    transfer(first || in_place ? before : room(partial_, k, before.numel, partial_type_), arrived);
    place_.side.wait(place_.stream);
    const Range sum = last || in_place ? own : room(partial_, k, own.numel, partial_type_);
    kernels::combine(place_.side, op_, sum.view(), arrived.view(), own.view(), last ? scale_ : 1.0);
    const Marked mark = place_.side.impl()->record(Timing::none);
    added_[static_cast<std::size_t>(k)] = freed_[static_cast<std::size_t>(slot)] = mark;
  }

  /// Every rank sends the part that it has completed to all others, in one group.
  void gather() {
    together([&](const Library& nccl, ncclComm_t communicator, cudaStream_t stream) {
      ncclResult_t result = ncclSuccess;
      for (int owner = 0; owner < place_.size && !is_bad(result); ++owner) {
        const Range part = all_.part_of((owner + 1) % place_.size, place_.size);
        if (part.numel > 0)
          result = nccl.broadcast(part.data, part.data, static_cast<std::size_t>(part.numel),
                                  data_type(part.dtype), owner, communicator, stream);
      }
      return result;
    });
  }

  void wait_for(std::vector<Marked>& marks, std::int64_t i) const {
    Marked& mark = marks[static_cast<std::size_t>(i)];
    if (mark) place_.stream.impl()->wait(mark);
    mark.reset();
  }

  void transfer(const Range& sent, const Range& received) {
    if (sent.numel == 0 && received.numel == 0) return;
    const int next = (place_.rank + 1) % place_.size;
    const int previous = (place_.rank + place_.size - 1) % place_.size;
    together([&](const Library& nccl, ncclComm_t communicator, cudaStream_t stream) {
      ncclResult_t result = ncclSuccess;
      if (sent.numel > 0)
        result = nccl.send(sent.data, static_cast<std::size_t>(sent.numel), data_type(sent.dtype),
                           next, communicator, stream);
      if (received.numel > 0 && !is_bad(result))
        result = nccl.recv(received.data, static_cast<std::size_t>(received.numel),
                           data_type(received.dtype), previous, communicator, stream);
      return result;
    });
  }

  static bool is_bad(ncclResult_t result) {
    return result != ncclSuccess && result != ncclInProgress;
  }

  /// Makes the calls of `f` as a group.
  template <class F>
  void together(const F& f) {
    exchange_([&](const Library& nccl, ncclComm_t communicator, cudaStream_t stream) {
      const ncclResult_t begin = nccl.group_start();
      if (is_bad(begin)) return begin;
      const ncclResult_t result = f(nccl, communicator, stream);
      const ncclResult_t end = nccl.group_end();
      return is_bad(result) ? result : end;
    });
  }

  const RingPlace& place_;
  const Exchange& exchange_;
  const Combine op_;
  const double scale_;
  const Range all_;
  DType partial_type_ = kFloat32;
  std::int64_t largest_ = 0, pieces_ = 1, slots_ = 1, room_ = 0;
  Tensor arrived_;             // received from the neighbour: one slot for each of a few pieces
  Tensor partial_;             // sums of a different type than the tensor
  std::vector<Marked> added_;  // after each piece's last addition
  std::vector<Marked> freed_;  // after the last addition that read each slot
};

}  // namespace

void ring_all_reduce(const Tensor& tensor, ReduceOp op, const RingPlace& place,
                     const Exchange& exchange) {
  if (place.size == 1 || tensor.numel() == 0) return;
  Ring(tensor, op, place, exchange).run();
}

}  // namespace ferrite::parallel::nccl
