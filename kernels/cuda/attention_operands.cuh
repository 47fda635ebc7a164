// The operands of attention on CUDA devices, and what happens to a single weight.
#pragma once

#include <limits>

#include "ferrite/kernels/attention.h"
#include "ferrite/kernels/cuda/attention_tiles.cuh"

namespace ferrite::kernels::cuda {

/// Matrices [rows, width] of a [B, H, rows, width] view.
template <class T>
struct AttentionHeads {
  explicit AttentionHeads(const View& v)
      : data(v.as<T>()),
        batch_step(v.strides[0]),
        head_step(v.strides[1]),
        row_step(v.strides[2]),
        rows(static_cast<int>(v.sizes[2])),
        width(static_cast<int>(v.sizes[3])) {
    constexpr int kPack = kPackBytes / static_cast<int>(sizeof(T));
    packs = is_aligned(data, kPack) && batch_step % kPack == 0 && head_step % kPack == 0 &&
            row_step % kPack == 0;
  }
  AttentionHeads() = default;

  __device__ T* at(std::uint32_t b, std::uint32_t h, int row) const {
    return data + b * batch_step + h * head_step + row * row_step;
  }
  /// The rows from `row` on.
  __device__ AttentionRows<T> from(std::uint32_t b, std::uint32_t h, int row) const {
    return {at(b, h, row), row_step, rows - row, width, packs};
  }

  T* data = nullptr;
  std::int64_t batch_step = 0, head_step = 0, row_step = 0;
  int rows = 0, width = 0;
  bool packs = false;
};

template <class T>
struct AttentionProblem {
  using C = Compute<T>;

  explicit AttentionProblem(const AttentionOperands& o)
      : query(o.query),
        key(o.key),
        value(o.value),
        mask(o.mask.data),
        mask_is_bool(o.mask.dtype == kBool),
        causal(o.causal),
        heads(static_cast<std::uint32_t>(o.query.sizes[1])),
        group(heads / static_cast<std::uint32_t>(o.key.sizes[1])),
        scale(static_cast<C>(o.scale)),
        keep(static_cast<C>(1 / (1 - o.dropout))),
        dropout(o.dropout > 0),
        drop_below(attention_drop_below(o.dropout)),
        word_step(attention_word_step(o.key.sizes[2])),
        state(o.state) {
    if (mask)
      for (int d = 0; d < 4; ++d) mask_steps[d] = o.mask.strides[d];
  }

  /// The score of a product; -inf where the query does not attend to the key.
  __device__ C score(C product, std::uint32_t b, std::uint32_t h, int q, int k) const {
    constexpr C kNever = -std::numeric_limits<C>::infinity();
    if (q >= query.rows || k >= key.rows || (causal && k > q)) return kNever;
    product *= scale;
    if (!mask) return product;
    const std::int64_t at =
        b * mask_steps[0] + h * mask_steps[1] + q * mask_steps[2] + k * mask_steps[3];
    if (mask_is_bool) return static_cast<const bool*>(mask)[at] ? product : kNever;
    return product + static_cast<C>(static_cast<const T*>(mask)[at]);
  }
  /// What a weight is multiplied by: 0 if it is dropped.
  __device__ C kept(const PhiloxState& from, std::uint32_t b, std::uint32_t h, int q, int k) const {
    const std::int64_t row = (static_cast<std::int64_t>(b) * heads + h) * query.rows + q;
    const std::int64_t word = row * word_step + k;
    const PhiloxBlock block = philox(from.seed, from.offset + static_cast<std::uint64_t>(word / 4));
    // A choice of registers: an index would put the block into local memory.
    const std::uint32_t even = word % 4 < 2 ? block.v[0] : block.v[2];
    const std::uint32_t odd = word % 4 < 2 ? block.v[1] : block.v[3];
    return (word % 2 == 0 ? even : odd) < drop_below ? C(0) : keep;
  }
  /// Where a query's sums are in [B, H, L].
  __device__ std::int64_t row(std::uint32_t b, std::uint32_t h, int q) const {
    return (static_cast<std::int64_t>(b) * heads + h) * query.rows + q;
  }

  AttentionHeads<T> query, key, value;
  const void* mask;
  std::int64_t mask_steps[4] = {};
  bool mask_is_bool, causal;
  std::uint32_t heads, group;
  C scale, keep;
  bool dropout;
  std::uint32_t drop_below;
  std::int64_t word_step;
  PhiloxState state;
};

/// The matrices and rows of a block: all blocks of a head are neighbours.
struct AttentionPlace {
  std::uint32_t b, h;
  int row;

  __device__ AttentionPlace(std::uint32_t heads, int rows, int block_rows, bool last_first) {
    const auto blocks = static_cast<std::uint32_t>((rows + block_rows - 1) / block_rows);
    const std::uint32_t head = blockIdx.x / blocks, block = blockIdx.x % blocks;
    b = head / heads;
    h = head % heads;
    row = static_cast<int>(last_first ? blocks - 1 - block : block) * block_rows;
  }
};

/// Calls f.operator()<Tiles>() with tiles that fit the columns of keys and values.
template <class T, class F>
void with_attention_tiles(int width, F&& f) {
  if constexpr (!is_half_type<T>)
    f.template operator()<AttentionTiles<T, sizeof(T) == 8 ? 32 : 64>>();
  else if (width <= 64)
    f.template operator()<AttentionTiles<T, 64>>();
  else
    f.template operator()<AttentionTiles<T, 128>>();
}

}  // namespace ferrite::kernels::cuda
