// A loop nest over several strided views of one shape, with as few dimensions as possible.
#pragma once

#include <array>
#include <cstdint>

#include "ferrite/kernels/view.h"

namespace ferrite::kernels {

/// The dimensions of N views of one shape, innermost last. They are ordered by the strides of the
/// first view, and merged where the strides of all views allow it.
template <std::size_t N>
struct LoopNest {
  int ndim = 1;
  std::int64_t numel = 0;
  std::array<std::int64_t, kMaxDims> sizes{};
  std::array<std::array<std::int64_t, N>, kMaxDims> strides{};  // in elements

  explicit LoopNest(const std::array<const View*, N>& views) : numel(views[0]->numel) {
    bool flat = true;
    for (const View* v : views) flat = flat && v->is_contiguous();
    if (flat || numel == 0) {
      sizes[0] = numel;
      strides[0].fill(1);
      return;
    }
    ndim = 0;
    for (int d = 0; d < views[0]->ndim; ++d) {
      if (views[0]->sizes[d] == 1) continue;
      // Insertion sort by descending stride, in the first view whose strides of the two dimensions
      // differ.
      std::array<std::int64_t, N> s;
      for (std::size_t k = 0; k < N; ++k) s[k] = views[k]->strides[d];
      int at = ndim++;
      for (; at > 0 && inner_of(strides[at - 1], s); --at) {
        sizes[at] = sizes[at - 1];
        strides[at] = strides[at - 1];
      }
      sizes[at] = views[0]->sizes[d];
      strides[at] = s;
    }
    if (ndim == 0) {
      ndim = 1;
      sizes[0] = 1;
      strides[0].fill(1);
    }
    merge();
  }

 private:
  /// Whether a dimension with strides `a` belongs inside one with strides `b`.
  static bool inner_of(const std::array<std::int64_t, N>& a, const std::array<std::int64_t, N>& b) {
    for (std::size_t k = 0; k < N; ++k)
      if (a[k] != b[k]) return a[k] != 0 && b[k] != 0 ? a[k] < b[k] : false;
    return false;
  }
  void merge() {
    int last = 0;
    for (int d = 1; d < ndim; ++d) {
      bool mergeable = true;
      for (std::size_t k = 0; k < N; ++k)
        mergeable = mergeable && strides[last][k] == strides[d][k] * sizes[d];
      if (mergeable) {
        sizes[last] *= sizes[d];
        strides[last] = strides[d];
      } else {
        ++last;
        sizes[last] = sizes[d];
        strides[last] = strides[d];
      }
    }
    ndim = last + 1;
  }
};

}  // namespace ferrite::kernels
