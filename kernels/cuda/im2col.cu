#include <algorithm>
#include <array>

#include "ferrite/kernels/cuda/divisor.cuh"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/im2col.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kIm2colThreads = 256;
constexpr int kRun = 4;  // neighbouring elements per thread
constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;

/// Six dimensions in the memory order of a view, innermost first. A step along each also moves the
/// pixel that belongs to the element.
struct PixelLoop {
  struct Dim {
    Divisor size;
    int y, x;
    std::int64_t columns, image;  // in elements
  };
  Dim dims[6];
  std::uint32_t runs;  // elements, kRun along the innermost dimension at a time
  Divisor runs_a_line;
  int first_y, first_x, height, width;  // first: the pixel of the first element
  std::int64_t first;                   // its offset
};

template <class Word>
__global__ void __launch_bounds__(kIm2colThreads)
    gather_columns(PixelLoop loop, Word* columns, const Word* image, bool packed) {
  std::uint32_t rest = blockIdx.x * kIm2colThreads + threadIdx.x;
  if (rest >= loop.runs) return;
  const PixelLoop::Dim& inner = loop.dims[0];
  const auto at = static_cast<int>(loop.runs_a_line.split(rest) * kRun);
  int y = loop.first_y + at * inner.y, x = loop.first_x + at * inner.x;
  columns += at * inner.columns;
  image += loop.first + at * inner.image;
#pragma unroll
  for (int d = 1; d < 6; ++d) {
    const auto i = static_cast<int>(loop.dims[d].size.split(rest));
    y += i * loop.dims[d].y;
    x += i * loop.dims[d].x;
    columns += i * loop.dims[d].columns;
    image += i * loop.dims[d].image;
  }
  const int count = static_cast<int>(inner.size.value()) - at;
  Pack<Word, kRun> values{};
#pragma unroll
  for (int i = 0; i < kRun; ++i)
    if (i < count && static_cast<unsigned>(y + i * inner.y) < static_cast<unsigned>(loop.height) &&
        static_cast<unsigned>(x + i * inner.x) < static_cast<unsigned>(loop.width))
      values.v[i] = image[i * inner.image];
  if (packed) return store_pack<kRun>(columns, values);
#pragma unroll
  for (int i = 0; i < kRun; ++i)
    if (i < count) columns[i * inner.columns] = values.v[i];
}

/// The loop over `columns`, or over as many of its images as fit.
PixelLoop pixel_loop(const View& columns, const View& input, const ConvParams& p) {
  const auto number = [](std::int64_t n) { return static_cast<int>(n); };
  PixelLoop loop{};
  loop.first_y = number(-p.padding[0]);
  loop.first_x = number(-p.padding[1]);
  loop.height = number(input.sizes[2]);
  loop.width = number(input.sizes[3]);
  const std::int64_t rows = input.strides[2], across = input.strides[3];
  loop.first = -p.padding[0] * rows - p.padding[1] * across;
  const std::int64_t *s = p.stride.data(), *d = p.dilation.data();
  std::array<PixelLoop::Dim, 6> dims = {{{{}, 0, 0, 0, input.strides[0]},
                                         {{}, 0, 0, 0, input.strides[1]},
                                         {{}, number(d[0]), 0, 0, d[0] * rows},
                                         {{}, 0, number(d[1]), 0, d[1] * across},
                                         {{}, number(s[0]), 0, 0, s[0] * rows},
                                         {{}, 0, number(s[1]), 0, s[1] * across}}};
  for (std::size_t i = 0; i < 6; ++i) {
    dims[i].size = Divisor(static_cast<std::uint32_t>(columns.sizes[i]));
    dims[i].columns = columns.strides[i];
  }
  // Dimensions of one element go last: their strides have no meaning.
  std::reverse(dims.begin(), dims.end());
  std::stable_sort(dims.begin(), dims.end(), [](const auto& a, const auto& b) {
    if ((a.size.value() > 1) != (b.size.value() > 1)) return a.size.value() > 1;
    return a.columns < b.columns;
  });
  std::copy(dims.begin(), dims.end(), loop.dims);
  const std::uint32_t line = (dims[0].size.value() + kRun - 1) / kRun;
  loop.runs_a_line = Divisor(line);
  loop.runs = static_cast<std::uint32_t>(columns.numel / dims[0].size.value() * line);
  return loop;
}

template <class Word>
void run_im2col(const Stream& stream, const View& columns, const View& input,
                const ConvParams& params) {
  // A launch never has more elements than the loop can count.
  const std::int64_t an_image = columns.numel / columns.sizes[0];
  FERRITE_CHECK(an_image <= kMost, ValueError, "im2col",
                "expected fewer than 2^31 elements per image, got {}", an_image);
  const std::int64_t most = kMost / an_image;
  for (std::int64_t first = 0; first < columns.sizes[0]; first += most) {
    View part = columns;
    part.sizes[0] = std::min(most, columns.sizes[0] - first);
    part.numel = part.sizes[0] * an_image;
    const PixelLoop loop = pixel_loop(part, input, params);
    Word* const to = columns.as<Word>() + first * columns.strides[0];
    bool packed =
        is_aligned(to, kRun) && loop.dims[0].columns == 1 && loop.dims[0].size.value() % kRun == 0;
    for (int d = 1; d < 6; ++d)
      packed = packed && (loop.dims[d].size.value() == 1 || loop.dims[d].columns % kRun == 0);
    launch({"im2col", stream, blocks_for(loop.runs, kIm2colThreads), kIm2colThreads},
           gather_columns<Word>, loop, to, input.as<Word>() + first * input.strides[0], packed);
  }
}

/// One axis of col2im: the positions and taps that a pixel was copied to.
struct SumAxis {
  Divisor stride;
  int positions, taps, padding, dilation;
  std::int64_t position_step, tap_step;  // of the columns, in elements
};

/// An image's elements in memory order, innermost dimension first.
struct ImageLoop {
  struct Dim {
    Divisor size;
    std::int64_t image;    // its step
    std::int64_t columns;  // of images and channels
    int y, x;              // 1 for rows and for columns
  };
  Dim dims[4];
  std::uint32_t elements;
  SumAxis rows, across;
};

/// Calls f(offset) for the positions and taps of pixel `at`, in ascending order of taps.
template <class F>
__device__ __forceinline__ void for_each_position(const SumAxis& axis, int at, const F& f) {
  for (int tap = 0; tap < axis.taps; ++tap) {
    const int ahead = at + axis.padding - tap * axis.dilation;
    if (ahead < 0) continue;
    auto position = static_cast<std::uint32_t>(ahead);
    if (axis.stride.split(position) == 0 && position < static_cast<std::uint32_t>(axis.positions))
      f(tap * axis.tap_step + position * axis.position_step);
  }
}

/// Six blocks leave 40 registers a thread; with 32, for eight, an address is kept in local memory.
template <class S, class T = Compute<S>>
__global__ void __launch_bounds__(kIm2colThreads, 6)
    sum_columns(ImageLoop loop, S* image, const S* columns) {
  std::uint32_t rest = blockIdx.x * kIm2colThreads + threadIdx.x;
  if (rest >= loop.elements) return;
  int y = 0, x = 0;
#pragma unroll
  for (int d = 0; d < 4; ++d) {
    const auto i = static_cast<int>(loop.dims[d].size.split(rest));
    image += i * loop.dims[d].image;
    columns += i * loop.dims[d].columns;
    y += i * loop.dims[d].y;
    x += i * loop.dims[d].x;
  }
  T sum = 0;
  for_each_position(loop.rows, y, [&](std::int64_t row) {
    for_each_position(loop.across, x,
                      [&](std::int64_t column) { sum += static_cast<T>(columns[row + column]); });
  });
  *image = static_cast<S>(sum);
}

ImageLoop image_loop(const View& image, const View& columns, const ConvParams& p) {
  ImageLoop loop{};
  std::array<ImageLoop::Dim, 4> dims = {{{{}, 0, columns.strides[0], 0, 0},
                                         {{}, 0, columns.strides[1], 0, 0},
                                         {{}, 0, 0, 1, 0},
                                         {{}, 0, 0, 0, 1}}};
  for (std::size_t i = 0; i < 4; ++i) {
    dims[i].size = Divisor(static_cast<std::uint32_t>(image.sizes[i]));
    dims[i].image = image.strides[i];
  }
  std::reverse(dims.begin(), dims.end());
  std::stable_sort(dims.begin(), dims.end(),
                   [](const auto& a, const auto& b) { return a.image < b.image; });
  std::copy(dims.begin(), dims.end(), loop.dims);
  loop.elements = static_cast<std::uint32_t>(image.numel);
  const auto axis = [&](int d) {
    const auto i = static_cast<std::size_t>(d);
    return SumAxis{Divisor(static_cast<std::uint32_t>(p.stride[i])),
                   static_cast<int>(columns.sizes[4 + d]),
                   static_cast<int>(columns.sizes[2 + d]),
                   static_cast<int>(p.padding[i]),
                   static_cast<int>(p.dilation[i]),
                   columns.strides[4 + d],
                   columns.strides[2 + d]};
  };
  loop.rows = axis(0);
  loop.across = axis(1);
  return loop;
}

}  // namespace

void im2col(const Stream& stream, const View& columns, const View& input,
            const ConvParams& params) {
  if (columns.numel == 0) return;
  switch (itemsize(columns.dtype)) {
    case 1:
      return run_im2col<std::uint8_t>(stream, columns, input, params);
    case 2:
      return run_im2col<std::uint16_t>(stream, columns, input, params);
    case 4:
      return run_im2col<std::uint32_t>(stream, columns, input, params);
    default:
      return run_im2col<std::uint64_t>(stream, columns, input, params);
  }
}

void col2im(const Stream& stream, const View& image, const View& columns,
            const ConvParams& params) {
  if (image.numel == 0) return;
  const std::int64_t an_image = image.numel / image.sizes[0];
  FERRITE_CHECK(an_image <= kMost, ValueError, "col2im",
                "expected fewer than 2^31 elements per image, got {}", an_image);
  const std::int64_t most = kMost / an_image;
  dispatch_floating(image.dtype, "col2im", [&]<class S>() {
    for (std::int64_t first = 0; first < image.sizes[0]; first += most) {
      View part = image;
      part.sizes[0] = std::min(most, image.sizes[0] - first);
      part.numel = part.sizes[0] * an_image;
      launch({"col2im", stream, blocks_for(part.numel, kIm2colThreads), kIm2colThreads},
             sum_columns<S>, image_loop(part, columns, params),
             image.as<S>() + first * image.strides[0],
             static_cast<const S*>(columns.as<S>() + first * columns.strides[0]));
    }
  });
}

}  // namespace ferrite::kernels::cuda
