// The loop nest of a reduction: kept and reduced dimensions, each ordered by their strides and
// merged where the strides allow it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ferrite/kernels/view.h"

namespace ferrite::kernels {

struct ReduceNest {
  struct Dim {
    std::int64_t size = 1;
    std::int64_t in = 0, out = 0;  // strides in elements
  };
  /// Outermost first. There is at least one, of size 1 if necessary.
  struct Dims {
    int n = 0;
    std::array<Dim, kMaxDims> dims;
    const Dim& inner() const { return dims[static_cast<std::size_t>(n - 1)]; }
  };

  Dims kept, reduced;
  std::int64_t outputs = 1, count = 1;

  ReduceNest(const View& out, const View& in) {
    for (int d = 0; d < in.ndim; ++d) {
      const bool reduces = out.sizes[d] != in.sizes[d];
      (reduces ? count : outputs) *= in.sizes[d];
      if (in.sizes[d] != 1)
        insert(reduces ? reduced : kept,
               {in.sizes[d], in.strides[d], reduces ? 0 : out.strides[d]});
    }
    merge(kept);
    merge(reduced);
  }

  /// Whether adjacent elements in memory belong to the same output.
  bool rows() const {
    if (outputs == 1) return true;
    return count > 1 && reduced.inner().in < kept.inner().in;
  }

 private:
  static void insert(Dims& list, const Dim& dim) {
    int at = list.n++;
    for (; at > 0 && list.dims[at - 1].in < dim.in; --at) list.dims[at] = list.dims[at - 1];
    list.dims[at] = dim;
  }
  static void merge(Dims& list) {
    if (list.n == 0) list.dims[static_cast<std::size_t>(list.n++)] = {};
    int last = 0;
    for (int d = 1; d < list.n; ++d) {
      Dim& outer = list.dims[last];
      const Dim& inner = list.dims[d];
      if (outer.in == inner.in * inner.size && outer.out == inner.out * inner.size)
        outer = {outer.size * inner.size, inner.in, inner.out};
      else
        list.dims[++last] = inner;
    }
    list.n = last + 1;
  }
};

/// Calls body(in offset, out offset, length) for the contiguous pieces along the innermost
/// dimension that make up the elements [begin, end) of `list`, in order.
template <class Body>
void for_each_piece(const ReduceNest::Dims& list, std::int64_t begin, std::int64_t end,
                    Body&& body) {
  if (begin >= end) return;
  const int inner = list.n - 1;
  std::array<std::int64_t, kMaxDims> index{};
  std::int64_t rest = begin, in = 0, out = 0;
  for (int d = inner; d >= 0; --d) {
    index[d] = rest % list.dims[d].size;
    rest /= list.dims[d].size;
    in += index[d] * list.dims[d].in;
    out += index[d] * list.dims[d].out;
  }
  while (begin < end) {
    const std::int64_t length = std::min(list.dims[inner].size - index[inner], end - begin);
    body(in, out, length);
    begin += length;
    in -= index[inner] * list.dims[inner].in;
    out -= index[inner] * list.dims[inner].out;
    index[inner] = 0;
    for (int d = inner - 1; d >= 0; --d) {
      in += list.dims[d].in;
      out += list.dims[d].out;
      if (++index[d] < list.dims[d].size) break;
      in -= list.dims[d].size * list.dims[d].in;
      out -= list.dims[d].size * list.dims[d].out;
      index[d] = 0;
    }
  }
}

}  // namespace ferrite::kernels
