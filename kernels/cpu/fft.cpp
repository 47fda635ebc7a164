#include "ferrite/kernels/fft.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <vector>

#include "ferrite/core/allocator.h"
#include "ferrite/core/parallel_for.h"

#define POCKETFFT_NO_MULTITHREADING  // threads are core's
// Its own aligned memory: aligned_alloc() wants sizes that are multiples of the alignment, which it
// does not give.
#if !defined(_LIBCPP_HAS_NO_ALIGNED_ALLOCATION)
#define _LIBCPP_HAS_NO_ALIGNED_ALLOCATION
#endif

namespace ferrite::kernels::cpu {

namespace {

constexpr std::size_t kFront = 64;
static_assert(sizeof(Allocator::Block) <= kFront);

/// Memory of transforms from the host's cache of blocks: malloc() would get that of large ones anew
/// from the system each time. The block is noted in front of it.
void* allocate_scratch(std::size_t bytes) {
  const Device host;
  const Allocator::Block block = allocator(host).allocate(bytes + kFront, current_stream(host));
  new (block.data) Allocator::Block(block);
  return static_cast<char*>(block.data) + kFront;
}
void free_scratch(void* data) {
  const Allocator::Block block =
      *reinterpret_cast<Allocator::Block*>(static_cast<char*>(data) - kFront);
  allocator(Device()).free(block);
}

}  // namespace

}  // namespace ferrite::kernels::cpu

// Eight floats at once: GCC moves sixteen in and out of a vector one by one, which takes three
// times as long as all the rest.
#pragma push_macro("__AVX512F__")
#undef __AVX512F__
#define malloc ferrite::kernels::cpu::allocate_scratch
#define free ferrite::kernels::cpu::free_scratch
#include FERRITE_POCKETFFT
#undef malloc
#undef free
#pragma pop_macro("__AVX512F__")

namespace ferrite::kernels::cpu {

namespace {

/// Elements of transforms that are worth a thread's while.
constexpr std::int64_t kTransformGrain = 32768;

pocketfft::shape_t sizes_of(const View& v) { return {v.sizes, v.sizes + v.ndim}; }

pocketfft::stride_t steps_of(const View& v) {
  pocketfft::stride_t steps;
  for (int d = 0; d < v.ndim; ++d)
    steps.push_back(v.strides[d] * static_cast<std::ptrdiff_t>(itemsize(v.dtype)));
  return steps;
}

template <class T>
void transform_part(const View& out, const View& in, std::size_t axis, bool inverse, T factor) {
  using C = std::complex<T>;
  const pocketfft::stride_t from = steps_of(in), to = steps_of(out);
  if (!is_complex(in.dtype))
    pocketfft::r2c(sizes_of(in), from, to, axis, pocketfft::FORWARD, in.as<const T>(), out.as<C>(),
                   factor);
  else if (!is_complex(out.dtype))
    pocketfft::c2r(sizes_of(out), from, to, axis, pocketfft::BACKWARD, in.as<const C>(),
                   out.as<T>(), factor);
  else
    pocketfft::c2c(sizes_of(in), from, to, {axis}, !inverse, in.as<const C>(), out.as<C>(), factor);
}

/// Elements [begin, end) of dimension `dim`.
View part_of(const View& v, int dim, std::int64_t begin, std::int64_t end) {
  View part = v;
  part.numel = v.numel / v.sizes[dim] * (end - begin);
  part.sizes[dim] = end - begin;
  part.data = v.as<char>() + begin * v.strides[dim] * static_cast<std::int64_t>(itemsize(v.dtype));
  return part;
}

/// Along one dimension, in parts of another; these are whole vectors of signals, unless single ones
/// are worth a thread's while.
void transform_axis(const View& out, const View& in, int axis, bool inverse, double factor) {
  int split = -1;
  for (int d = 0; d < in.ndim; ++d)
    if (d != axis && (split < 0 || in.sizes[d] > in.sizes[split])) split = d;
  const auto run = [&](const View& to, const View& from) {
    const auto along = static_cast<std::size_t>(axis);
    real_type(in.dtype) == kFloat32
        ? transform_part<float>(to, from, along, inverse, static_cast<float>(factor))
        : transform_part<double>(to, from, along, inverse, factor);
  };
  if (split < 0) return run(out, in);
  constexpr std::int64_t kVector = pocketfft::detail::VLEN<float>::val;
  const std::int64_t each = std::max(in.numel, out.numel) / in.sizes[split];
  const std::int64_t count = std::max<std::int64_t>(1, kTransformGrain / each);
  parallel_for(in.sizes[split], count > 1 ? (count + kVector - 1) / kVector * kVector : 1,
               [&](std::int64_t begin, std::int64_t end) {
                 run(part_of(out, split, begin, end), part_of(in, split, begin, end));
               });
}

}  // namespace

void fft(const Fft& transform, const View& out, const View& in) {
  if (out.numel == 0) return;
  const View* from = &in;
  double factor = transform.factor;
  for (const std::int64_t d : transform.dims) {
    transform_axis(out, *from, static_cast<int>(d), transform.inverse, factor);
    from = &out;
    factor = 1;
  }
}

}  // namespace ferrite::kernels::cpu

namespace ferrite::kernels {

void fft(const Stream& stream, const Fft& transform, const View& out, const View& in) {
  launch_any<cpu::fft, cuda::fft>(stream, "fft", transform, out, in);
}

}  // namespace ferrite::kernels
