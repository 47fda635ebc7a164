#include <limits>

#include "ferrite/kernels/cuda/element.cuh"
#include "ferrite/kernels/cuda/reduce.cuh"
#include "ferrite/kernels/cuda/reduce.h"

namespace ferrite::kernels::cuda {

namespace {

/// Elements are read as words of their size; an element is 0 if no bit of `mask` is set.
template <class Word>
struct Count {
  using Elem = Word;
  using Lane = std::int32_t;  // no thread or block counts more elements than it can hold
  using Total = std::int64_t;
  Elements out;
  ReduceOp op;
  std::int64_t n;
  Word mask;
  __device__ Lane lane() const { return 0; }
  __device__ Total total() const { return 0; }
  __device__ Lane step(Lane a, Word x, std::int64_t) const { return a + ((x & mask) != 0); }
  __device__ Lane combine(Lane a, Lane b) const { return a + b; }
  template <class V>
  __device__ Total join(Total a, V b) const {
    return a + b;
  }
  __device__ void store(std::int64_t at, Total a) const {
    out.set(at, op == ReduceOp::any ? Total{a != 0} : op == ReduceOp::all ? Total{a == n} : a);
  }
};

}  // namespace

void reduce_count(const Stream& stream, ReduceOp op, const View& out, const View& in) {
  const std::int64_t n = out.numel ? in.numel / out.numel : 0;
  const auto count = [&]<class Word>() {
    // -0 is 0.
    constexpr auto kAll = std::numeric_limits<Word>::max();
    const Word mask = is_floating(in.dtype) ? static_cast<Word>(kAll >> 1) : kAll;
    run_reduction<Word>(stream, "count", Count<Word>{out, op, n, mask}, out, in);
  };
  switch (itemsize(in.dtype)) {
    case 1:
      return count.template operator()<std::uint8_t>();
    case 2:
      return count.template operator()<std::uint16_t>();
    case 4:
      return count.template operator()<std::uint32_t>();
    default:
      return count.template operator()<std::uint64_t>();
  }
}

}  // namespace ferrite::kernels::cuda
