// The mapping from the rows, columns and depth of a product to the elements of images and filters.
#pragma once

#include "ferrite/kernels/cuda/conv_geometry.h"

namespace ferrite::kernels::cuda {

/// The coordinates of an element of an image are the sum of two points: one of a position and one
/// of a tap.
struct alignas(16) ImagePoint {
  std::int64_t offset;
  int y, x;
};

/// One correlation of the batch.
struct Correlation {
  const ConvGeometry& g;
  std::uint32_t group;
  const ConvAxis::Phase row, column;

  __device__ Correlation(const ConvGeometry& geometry, std::uint32_t batch)
      : Correlation(geometry, batch / geometry.column_phases, batch % geometry.column_phases) {}

  __device__ std::uint32_t positions() const {
    return g.images * row.count.value() * column.count.value();
  }
  __device__ std::uint32_t taps() const {
    return g.channels.value() * row.tap_count * column.tap_count;
  }

  struct Position {
    std::uint32_t image, y, x;
  };
  __device__ Position position(std::uint32_t p) const {
    const std::uint32_t x = column.count.split(p), y = row.count.split(p);
    return {p, y, x};
  }
  struct Tap {
    std::uint32_t channel, y, x;
  };
  __device__ Tap tap(std::uint32_t t) const {
    Tap tap;
    if (g.channels_last) {
      tap.channel = g.channels.split(t);
      tap.x = column.taps.split(t);
      tap.y = t;
    } else {
      tap.x = column.taps.split(t);
      tap.y = row.taps.split(t);
      tap.channel = t;
    }
    return tap;
  }

  /// A position in `from`, relative to the first channel of the group.
  __device__ ImagePoint from_position(std::uint32_t p) const {
    const Position at = position(p);
    const int y = static_cast<int>(at.y) * g.rows.stride + row.first;
    const int x = static_cast<int>(at.x) * g.columns.stride + column.first;
    return {at.image * g.from_image_step + y * g.rows.from_step + x * g.columns.from_step, y, x};
  }
  __device__ ImagePoint from_tap(std::uint32_t t) const {
    const Tap at = tap(t);
    const int y = static_cast<int>(at.y) * g.rows.step;
    const int x = static_cast<int>(at.x) * g.columns.step;
    return {at.channel * g.from_channel_step + y * g.rows.from_step + x * g.columns.from_step, y,
            x};
  }
  __device__ bool inside(const ImagePoint& position, const ImagePoint& tap) const {
    return static_cast<unsigned>(position.y + tap.y) < static_cast<unsigned>(g.rows.size) &&
           static_cast<unsigned>(position.x + tap.x) < static_cast<unsigned>(g.columns.size);
  }

  /// A position in `to`, relative to the first channel of the group.
  __device__ std::int64_t to_position(std::uint32_t p) const {
    const Position at = position(p);
    return at.image * g.to_image_step + row.to_first + at.y * g.rows.to_step + column.to_first +
           at.x * g.columns.to_step;
  }
  /// A tap's position in the filter, relative to the first output channel of the group.
  __device__ std::int64_t kernel_tap(std::uint32_t t) const {
    const Tap at = tap(t);
    return at.channel * g.kernel_channel_step + row.kernel_first + at.y * g.rows.kernel_step +
           column.kernel_first + at.x * g.columns.kernel_step;
  }

 private:
  __device__ Correlation(const ConvGeometry& geometry, std::uint32_t batch,
                         std::uint32_t column_phase)
      : g(geometry),
        group(batch / geometry.row_phases),
        row(geometry.rows.phases[batch % geometry.row_phases]),
        column(geometry.columns.phases[column_phase]) {}
};

}  // namespace ferrite::kernels::cuda
