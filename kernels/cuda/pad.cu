#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/rolled.cuh"
#include "ferrite/kernels/cuda/strided.cuh"
#include "ferrite/kernels/index.h"
#include "ferrite/kernels/pad.h"
#include "ferrite/kernels/pad_plan.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kPadThreads = 256;
constexpr int kPadUnroll = 4;

/// A plan in the form for the kernel: fewer than 2^31 elements, innermost dimension first.
struct PadLoop {
  int ndim;
  std::uint32_t numel;
  Divisor sizes[kMaxDims];
  std::int64_t x_sizes[kMaxDims], before[kMaxDims], out_strides[kMaxDims], x_strides[kMaxDims];

  explicit PadLoop(const PadPlan& plan)
      : ndim(plan.ndim), numel(static_cast<std::uint32_t>(plan.numel())) {
    for (int d = 0; d < ndim; ++d) {
      const PadDim& dim = plan.dims[ndim - 1 - d];
      sizes[d] = Divisor(static_cast<std::uint32_t>(dim.size));
      x_sizes[d] = dim.x_size;
      before[d] = dim.before;
      out_strides[d] = dim.out_stride;
      x_strides[d] = dim.x_stride;
    }
  }
};

template <class Word>
__global__ void __launch_bounds__(kPadThreads)
    pad_words(const __grid_constant__ PadLoop loop, Word* out, const Word* x, PadMode mode,
              Word value) {
  const std::uint32_t first = blockIdx.x * (kPadThreads * kPadUnroll) + threadIdx.x;
  std::int64_t to[kPadUnroll];
  Word word[kPadUnroll];
#pragma unroll
  for (int u = 0; u < kPadUnroll; ++u) {
    std::uint32_t rest = first + u * kPadThreads;
    if (rest >= loop.numel) continue;
    std::int64_t from = 0;
    bool inside = true;
    to[u] = 0;
    FERRITE_ROLLED
    for (int d = 0; d < loop.ndim; ++d) {
      const std::int64_t i = loop.sizes[d].split(rest);
      const std::int64_t p = pad_source(i - loop.before[d], loop.x_sizes[d], mode);
      inside = inside && p >= 0 && p < loop.x_sizes[d];
      to[u] += i * loop.out_strides[d];
      from += p * loop.x_strides[d];
    }
    word[u] = value;
    if (inside) word[u] = x[from];
  }
#pragma unroll
  for (int u = 0; u < kPadUnroll; ++u)
    if (first + u * kPadThreads < loop.numel) out[to[u]] = word[u];
}

/// Halves the plan until it has few enough elements for the kernel.
template <class Word>
void launch_pad(const Stream& stream, PadPlan plan, Word* out, const Word* x, PadMode mode,
                Word value) {
  if (plan.numel() <= kMaxLoopElements) {
    const PadLoop loop(plan);
    launch({"pad", stream, blocks_for(loop.numel, kPadThreads * kPadUnroll), kPadThreads},
           pad_words<Word>, loop, out, x, mode, value);
    return;
  }
  PadDim* dim = plan.dims;
  while (dim->size == 1) ++dim;
  const std::int64_t size = dim->size, half = size / 2;
  dim->size = half;
  launch_pad(stream, plan, out, x, mode, value);
  dim->size = size - half;
  dim->before -= half;
  launch_pad(stream, plan, out + half * dim->out_stride, x, mode, value);
}

/// Views runs without padding as runs of the widest possible words; returns their size in bytes.
std::size_t widen(PadPlan& plan, const View& out, const View& x) {
  const std::size_t item = itemsize(out.dtype);
  PadDim& inner = plan.dims[plan.ndim - 1];
  if (!inner.is_whole() || inner.out_stride != 1 || inner.x_stride != 1) return item;
  const auto multiple = [](std::int64_t n, std::size_t of) {
    return n % static_cast<std::int64_t>(of) == 0;
  };
  std::size_t factor = kPackBytes / item;
  const auto fits = [&] {
    bool fits = multiple(inner.size, factor) && (reinterpret_cast<std::uintptr_t>(out.data) |
                                                 reinterpret_cast<std::uintptr_t>(x.data)) %
                                                        (factor * item) ==
                                                    0;
    for (int d = 0; d < plan.ndim - 1; ++d)
      fits = fits && multiple(plan.dims[d].out_stride, factor) &&
             multiple(plan.dims[d].x_stride, factor);
    return fits;
  };
  while (!fits()) factor /= 2;
  const auto n = static_cast<std::int64_t>(factor);
  inner.size /= n;
  inner.x_size /= n;
  for (int d = 0; d < plan.ndim - 1; ++d) {
    plan.dims[d].out_stride /= n;
    plan.dims[d].x_stride /= n;
  }
  return factor * item;
}

template <class Word>
void pad_as(const Stream& stream, const View& out, const View& x, const PadPlan& plan, PadMode mode,
            std::uint64_t bits) {
  Word value;
  for (std::size_t at = 0; at < sizeof(Word); at += itemsize(out.dtype))
    std::memcpy(reinterpret_cast<char*>(&value) + at, &bits, itemsize(out.dtype));
  launch_pad(stream, plan, out.as<Word>(), static_cast<const Word*>(x.as<Word>()), mode, value);
}

/// `loop`: grad_x, grad without its step along the dimension, and the index along it.
template <class T>
__global__ void __launch_bounds__(kPadThreads)
    add_readers(StridedLoop<3> loop, T* grad_x, const T* grad, std::int64_t step, std::int64_t n,
                std::int64_t before, std::int64_t size, PadMode mode) {
  const std::uint32_t i = blockIdx.x * kPadThreads + threadIdx.x;
  if (i >= loop.numel) return;
  const Offsets<3> at = loop.offsets(i);
  const T* const start = grad + at.at[1] + before * step;
  Compute<T> sum = 0;
  for_each_reader(at.at[2], n, before, size, mode,
                  [&](std::int64_t p) { sum += static_cast<Compute<T>>(start[p * step]); });
  grad_x[at.at[0]] = static_cast<T>(sum);
}

}  // namespace

void pad(const Stream& stream, const View& out, const View& x, const Shape& before, PadMode mode,
         Scalar value) {
  if (out.numel == 0) return;
  PadPlan plan(out, x, before);
  const std::uint64_t bits = element_bits(out.dtype, value);
  switch (widen(plan, out, x)) {
    case 1:
      return pad_as<std::uint8_t>(stream, out, x, plan, mode, bits);
    case 2:
      return pad_as<std::uint16_t>(stream, out, x, plan, mode, bits);
    case 4:
      return pad_as<std::uint32_t>(stream, out, x, plan, mode, bits);
    case 8:
      return pad_as<std::uint64_t>(stream, out, x, plan, mode, bits);
    default:
      return pad_as<uint4>(stream, out, x, plan, mode, bits);
  }
}

void pad_backward(const Stream& stream, const View& grad_x, const View& grad, int dim,
                  std::int64_t before, PadMode mode) {
  const View base = bases(grad, grad_x, dim);
  View number = grad_x;
  std::fill_n(number.strides, number.ndim, std::int64_t{0});
  number.strides[dim] = 1;
  dispatch_floating(grad.dtype, "pad_backward", [&]<class T>() {
    for_each_loop(LoopNest<3>({&grad_x, &base, &number}), [&](const StridedLoop<3>& loop) {
      launch({"pad_backward", stream, blocks_for(loop.numel, kPadThreads), kPadThreads},
             add_readers<T>, loop, grad_x.as<T>(), static_cast<const T*>(grad.as<T>()),
             grad.strides[dim], grad_x.sizes[dim], before, grad.sizes[dim], mode);
    });
  });
}

}  // namespace ferrite::kernels::cuda
