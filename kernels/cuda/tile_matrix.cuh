// Matrices of any strides as operands of tiled products.
#pragma once

#include <algorithm>

#include "ferrite/kernels/cuda/async_copy.cuh"
#include "ferrite/kernels/cuda/tile_product.cuh"

namespace ferrite::kernels::cuda {

/// A batch of matrices from which `Threads` threads fill slices of [Depth][Rows], element by
/// element, for any strides and alignment. Consecutive threads copy along the depth if that is the
/// dense dimension, else along the rows.
template <class T, int Rows, int Depth, int Threads>
struct MatrixOperand {
  static constexpr int kEach = Rows * Depth / Threads;  // elements of a slice a thread
  static_assert(kEach * Threads == Rows * Depth && (Rows % Threads == 0 || Threads % Rows == 0));

  const T* data;
  std::uint32_t rows, depth_count;
  std::int64_t batch_step, row_step, depth_step;
  bool along_depth;
  // From one of a thread's elements to the next, and from slice to slice.
  std::uint32_t k_jump, to_jump;
  std::int64_t from_jump, from_advance;

  MatrixOperand(const T* data, std::int64_t rows, std::int64_t depth, std::int64_t batch_step,
                std::int64_t row_step, std::int64_t depth_step)
      : data(data),
        rows(static_cast<std::uint32_t>(rows)),
        depth_count(static_cast<std::uint32_t>(depth)),
        batch_step(batch_step),
        row_step(row_step),
        depth_step(depth_step),
        along_depth(row_step != 1),
        from_advance(Depth * depth_step) {
    if (along_depth) {
      constexpr int kRowJump = Threads / Depth;
      k_jump = 0;
      to_jump = kRowJump;
      from_jump = kRowJump * row_step;
    } else {
      k_jump = Threads / Rows;
      to_jump = k_jump * tile_pitch<T>(Rows);
      from_jump = k_jump * depth_step;
    }
  }

  __device__ std::uint32_t depth(std::uint32_t) const { return depth_count; }

  class Loader {
   public:
    static constexpr bool kPlans = false;
    __device__ Loader(const MatrixOperand& m, std::uint32_t batch, std::uint32_t first_row,
                      std::uint32_t begin, std::uint32_t end)
        : m_(m), end_(end) {
      const std::uint32_t thread = threadIdx.x;
      const std::uint32_t row = m.along_depth ? thread / Depth : thread % Rows;
      const std::uint32_t k = m.along_depth ? thread % Depth : thread / Rows;
      from_ = m.data + batch * m.batch_step + (first_row + row) * m.row_step +
              (begin + k) * m.depth_step;
      to_ = k * tile_pitch<T>(Rows) + row;
      k_ = begin + k;
      inside_ = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (first_row + row + (m.along_depth ? i * (Threads / Depth) : 0) < m.rows)
          inside_ |= 1u << i;
    }

    /// Copies the next slice.
    __device__ __forceinline__ void fetch(T* slice) {
      const T* from = from_;
      T* to = slice + to_;
#pragma unroll
      for (int i = 0; i < kEach; ++i, from += m_.from_jump, to += m_.to_jump)
        async_copy<1>(to, from, (inside_ >> i & 1u) != 0 && k_ + i * m_.k_jump < end_);
      from_ += m_.from_advance;
      k_ += Depth;
    }

   private:
    const MatrixOperand& m_;
    const T* from_;
    std::uint32_t to_, k_, end_;
    std::uint32_t inside_;  // a bit for each of the thread's rows
  };

  template <int, int, int>
  __device__ Loader loader(std::uint32_t batch, std::uint32_t first_row, std::uint32_t begin,
                           std::uint32_t end) const {
    return {*this, batch, first_row, begin, end};
  }
};

/// Whether a matrix of these steps can be a PackedOperand.
template <class T>
bool can_pack(const T* data, std::int64_t row_step, std::int64_t depth_step) {
  constexpr int kRun = kPackBytes / static_cast<int>(sizeof(T));
  return row_step == 1 && depth_step % kRun == 0 && is_aligned(data, kRun);
}

/// A matrix whose rows are adjacent and aligned at each depth, so that a thread copies 16 bytes at
/// a time.
template <class T, int Rows, int Depth, int Threads>
struct PackedOperand {
  static constexpr int kRun = kPackBytes / static_cast<int>(sizeof(T));
  static constexpr int kAcross = Rows / kRun, kDown = Threads / kAcross;
  static constexpr int kEach = Depth / kDown;  // packs of a slice a thread
  static_assert(kAcross * kDown == Threads && kEach * kDown == Depth);

  const T* data;
  std::uint32_t rows, depth_count;
  std::int64_t depth_step;

  PackedOperand(const T* data, std::int64_t rows, std::int64_t depth, std::int64_t depth_step)
      : data(data),
        rows(static_cast<std::uint32_t>(rows)),
        depth_count(static_cast<std::uint32_t>(depth)),
        depth_step(depth_step) {}

  __device__ std::uint32_t depth(std::uint32_t) const { return depth_count; }

  class Loader {
   public:
    static constexpr bool kPlans = false;
    __device__ Loader(const PackedOperand& m, std::uint32_t first_row, std::uint32_t begin,
                      std::uint32_t end)
        : step_(m.depth_step), end_(end) {
      const std::uint32_t row = threadIdx.x % kAcross * kRun, k = threadIdx.x / kAcross;
      to_ = k * tile_pitch<T>(Rows) + row;
      k_ = begin + k;
      from_ = m.data + first_row + row + k_ * step_;
      const auto left = static_cast<int>(m.rows - first_row) - static_cast<int>(row);
      count_ = std::clamp(left, 0, int{kRun});
    }

    /// Copies the next slice.
    __device__ __forceinline__ void fetch(T* slice) {
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        async_copy_part<kRun>(slice + to_ + i * kDown * tile_pitch<T>(Rows),
                              from_ + i * kDown * step_, k_ + i * kDown < end_ ? count_ : 0);
      from_ += Depth * step_;
      k_ += Depth;
    }

   private:
    const T* from_;
    std::int64_t step_;
    std::uint32_t to_, k_, end_;
    int count_;  // the thread's rows inside of the matrix
  };

  template <int, int, int>
  __device__ Loader loader(std::uint32_t, std::uint32_t first_row, std::uint32_t begin,
                           std::uint32_t end) const {
    return {*this, first_row, begin, end};
  }
};

}  // namespace ferrite::kernels::cuda
