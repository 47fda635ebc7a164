#include "ferrite/kernels/im2col.h"

#include <algorithm>

#include "ferrite/core/parallel_for.h"

namespace ferrite::kernels::cpu {

namespace {

/// Positions [begin, end) along an axis whose pixels, for tap `tap`, lie inside of the image.
struct Inside {
  std::int64_t begin, end, first;  // first: the pixel of position 0

  Inside(std::int64_t positions, std::int64_t size, std::int64_t tap, std::int64_t stride,
         std::int64_t padding, std::int64_t dilation)
      : first(tap * dilation - padding) {
    begin = std::min(positions, first < 0 ? (-first + stride - 1) / stride : 0);
    end = first < size ? std::min(positions, (size - 1 - first) / stride + 1) : 0;
    end = std::max(begin, end);
  }
};

/// Calls f(image, channel) for all, in parallel.
template <class F>
void for_each_plane(const View& images, std::int64_t elements, F f) {
  const std::int64_t channels = images.sizes[1];
  parallel_for(images.sizes[0] * channels,
               std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, elements)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) f(i / channels, i % channels);
               });
}

/// Calls f(tap row, tap column, rows inside, columns inside) for every tap.
template <class F>
void for_each_tap(const View& columns, const View& images, const ConvParams& p, F f) {
  for (std::int64_t i = 0; i < columns.sizes[2]; ++i) {
    const Inside rows(columns.sizes[4], images.sizes[2], i, p.stride[0], p.padding[0],
                      p.dilation[0]);
    for (std::int64_t j = 0; j < columns.sizes[3]; ++j)
      f(i, j, rows,
        Inside(columns.sizes[5], images.sizes[3], j, p.stride[1], p.padding[1], p.dilation[1]));
  }
}

template <class Word>
void gather_columns(const View& columns, const View& input, const ConvParams& p) {
  const std::int64_t* cs = columns.strides;
  const std::int64_t height = columns.sizes[4], width = columns.sizes[5];
  for_each_plane(
      input, columns.numel / (input.sizes[0] * input.sizes[1]),
      [&](std::int64_t n, std::int64_t c) {
        const Word* const plane = input.as<Word>() + n * input.strides[0] + c * input.strides[1];
        for_each_tap(
            columns, input, p,
            [&](std::int64_t i, std::int64_t j, const Inside& rows, const Inside& across) {
              Word* const to = columns.as<Word>() + n * cs[0] + c * cs[1] + i * cs[2] + j * cs[3];
              for (std::int64_t y = 0; y < height; ++y) {
                Word* const line = to + y * cs[4];
                const bool inside = y >= rows.begin && y < rows.end;
                const std::int64_t begin = inside ? across.begin : width,
                                   end = inside ? across.end : width;
                for (std::int64_t x = 0; x < begin; ++x) line[x * cs[5]] = 0;
                const Word* const from = plane + (y * p.stride[0] + rows.first) * input.strides[2];
                for (std::int64_t x = begin; x < end; ++x)
                  line[x * cs[5]] = from[(x * p.stride[1] + across.first) * input.strides[3]];
                for (std::int64_t x = end; x < width; ++x) line[x * cs[5]] = 0;
              }
            });
      });
}

template <class S>
void sum_columns(const View& image, const View& columns, const ConvParams& p) {
  using T = Compute<S>;
  const std::int64_t* cs = columns.strides;
  const std::int64_t height = image.sizes[2], width = image.sizes[3];
  for_each_plane(image, height * width, [&](std::int64_t n, std::int64_t c) {
    std::vector<T> sums(static_cast<std::size_t>(height * width), T(0));
    for_each_tap(
        columns, image, p,
        [&](std::int64_t i, std::int64_t j, const Inside& rows, const Inside& across) {
          const S* const from = columns.as<S>() + n * cs[0] + c * cs[1] + i * cs[2] + j * cs[3];
          for (std::int64_t y = rows.begin; y < rows.end; ++y) {
            T* const line = sums.data() + (y * p.stride[0] + rows.first) * width + across.first;
            for (std::int64_t x = across.begin; x < across.end; ++x)
              line[x * p.stride[1]] += static_cast<T>(from[y * cs[4] + x * cs[5]]);
          }
        });
    S* const to = image.as<S>() + n * image.strides[0] + c * image.strides[1];
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        to[y * image.strides[2] + x * image.strides[3]] =
            static_cast<S>(sums[static_cast<std::size_t>(y * width + x)]);
  });
}

}  // namespace

void im2col(const View& columns, const View& input, const ConvParams& params) {
  if (columns.numel == 0) return;
  switch (itemsize(columns.dtype)) {
    case 1:
      return gather_columns<std::uint8_t>(columns, input, params);
    case 2:
      return gather_columns<std::uint16_t>(columns, input, params);
    case 4:
      return gather_columns<std::uint32_t>(columns, input, params);
    default:
      return gather_columns<std::uint64_t>(columns, input, params);
  }
}

void col2im(const View& image, const View& columns, const ConvParams& params) {
  if (image.numel == 0) return;
  dispatch_floating(image.dtype, "col2im",
                    [&]<class S>() { sum_columns<S>(image, columns, params); });
}

}  // namespace ferrite::kernels::cpu
