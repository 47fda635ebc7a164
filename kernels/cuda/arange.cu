#include "ferrite/core/dtype.h"
#include "ferrite/kernels/arange.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/convert.cuh"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/pack.cuh"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kArangeThreads = 256;

/// The values from which element i of a sequence is computed.
struct IntegerSteps {
  std::uint64_t start, step;  // unsigned, as only the sum is sure to fit

  __device__ std::int64_t operator()(std::int64_t i) const {
    return static_cast<std::int64_t>(start + step * static_cast<std::uint64_t>(i));
  }
};
struct FloatingSteps {
  double start, end, step;
  std::int64_t from_end;  ///< the first element that is computed from the end
  std::int64_t last;

  __device__ double operator()(std::int64_t i) const {
    return i < from_end ? start + step * static_cast<double>(i)
                        : end - step * static_cast<double>(last - i);
  }
};

template <class T, class Steps>
__global__ void __launch_bounds__(kArangeThreads)
    sequence_kernel(T* out, std::int64_t n, bool aligned, Steps steps) {
  constexpr int kCount = pack_size<T>();
  const std::int64_t at = thread_in_grid<kArangeThreads>() * kCount;
  if (at >= n) return;
  Pack<T, kCount> pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) pack.v[i] = convert_element<T>(steps(at + i));
  store_run(out, at, n, pack, aligned);
}

template <class T, class Steps>
void generate(const Stream& stream, const char* name, const View& out, const Steps& steps) {
  constexpr int kCount = pack_size<T>();
  T* const to = out.as<T>();
  launch(
      {name, stream, blocks_for(out.numel, std::int64_t{kArangeThreads} * kCount), kArangeThreads},
      sequence_kernel<T, Steps>, to, out.numel, is_aligned(to, kCount), steps);
}

}  // namespace

void arange(const Stream& stream, const View& out, Scalar start, Scalar step) {
  if (is_floating(out.dtype) || start.is_floating() || step.is_floating()) {
    const FloatingSteps steps{start.to<double>(), 0, step.to<double>(), out.numel, 0};
    dispatch_numeric(out.dtype, "arange",
                     [&]<class T>() { generate<T>(stream, "arange", out, steps); });
    return;
  }
  const IntegerSteps steps{static_cast<std::uint64_t>(start.to<std::int64_t>()),
                           static_cast<std::uint64_t>(step.to<std::int64_t>())};
  dispatch_integral(out.dtype, "arange",
                    [&]<class T>() { generate<T>(stream, "arange", out, steps); });
}

void linspace(const Stream& stream, const View& out, double start, double end) {
  const std::int64_t n = out.numel;
  const double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
  const FloatingSteps steps{start, end, step, (n + 1) / 2, n - 1};
  dispatch_numeric(out.dtype, "linspace",
                   [&]<class T>() { generate<T>(stream, "linspace", out, steps); });
}

}  // namespace ferrite::kernels::cuda
