#include "ferrite/core/views.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

namespace ferrite::geometry {

View of(const Tensor& t) { return {t.shape(), t.strides(), t.storage_offset()}; }

View select(const Tensor& t, std::int64_t dim, std::int64_t index) {
  FERRITE_CHECK(t.dim() > 0, IndexError, "select", "a 0-dimensional tensor has nothing to index");
  const int d = normalize_dim(dim, t.dim(), "select");
  const std::int64_t n = t.shape()[d];
  FERRITE_CHECK(index >= -n && index < n, IndexError, "select",
                "index {} is out of range for dimension {} of size {}", index, d, n);
  View v = of(t);
  v.offset += (index < 0 ? index + n : index) * v.strides[d];
  v.shape.erase(d);
  v.strides.erase(d);
  return v;
}

View slice(const Tensor& t, std::int64_t dim, std::int64_t start, std::int64_t end,
           std::int64_t step) {
  FERRITE_CHECK(t.dim() > 0, IndexError, "slice", "a 0-dimensional tensor has nothing to slice");
  FERRITE_CHECK(step > 0, ValueError, "slice", "expected a step above 0, got {}", step);
  const int d = normalize_dim(dim, t.dim(), "slice");
  const std::int64_t n = t.shape()[d];
  const auto clip = [n](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n);
  };
  start = clip(start);
  end = std::max(clip(end), start);
  View v = of(t);
  v.offset += start * v.strides[d];
  v.shape[d] = (end - start) / step + ((end - start) % step != 0);
  if (v.shape[d] > 1)
    v.strides[d] *= step;  // else the stride is never used, and this might
                           // overflow
  return v;
}

View narrow(const Tensor& t, std::int64_t dim, std::int64_t start, std::int64_t length) {
  FERRITE_CHECK(t.dim() > 0, IndexError, "narrow", "a 0-dimensional tensor has nothing to narrow");
  const int d = normalize_dim(dim, t.dim(), "narrow");
  const std::int64_t n = t.shape()[d];
  const std::int64_t first = start < 0 ? start + n : start;
  FERRITE_CHECK(first >= 0 && length >= 0 && length <= n && first <= n - length, IndexError,
                "narrow", "start {} and length {} leave dimension {} of size {}", start, length, d,
                n);
  View v = of(t);
  v.offset += first * v.strides[d];
  v.shape[d] = length;
  return v;
}

View transpose(const Tensor& t, std::int64_t dim0, std::int64_t dim1) {
  const int a = normalize_dim(dim0, t.dim(), "transpose"),
            b = normalize_dim(dim1, t.dim(), "transpose");
  View v = of(t);
  if (t.dim() == 0) return v;
  std::swap(v.shape[a], v.shape[b]);
  std::swap(v.strides[a], v.strides[b]);
  return v;
}

View permute(const Tensor& t, const Shape& dims) {
  FERRITE_CHECK(dims.size() == t.dim(), ShapeError, "permute",
                "expected {} dimensions in an order of {}, got {}", t.dim(), t.shape(), dims);
  View v = of(t);
  unsigned seen = 0;
  for (int i = 0; i < dims.size(); ++i) {
    const int d = normalize_dim(dims[i], t.dim(), "permute");
    FERRITE_CHECK(!(seen >> d & 1u), ValueError, "permute", "dimension {} appears twice in {}", d,
                  dims);
    seen |= 1u << d;
    v.shape[i] = t.shape()[d];
    v.strides[i] = t.strides()[d];
  }
  return v;
}

View expand(const Tensor& t, const Shape& shape) {
  FERRITE_CHECK(shape.size() >= t.dim(), ShapeError, "expand", "{} has fewer dimensions than {}",
                shape, t.shape());
  View v{shape, Shape::filled(shape.size(), 0), t.storage_offset()};
  const int lead = shape.size() - t.dim();
  for (int i = 0; i < shape.size(); ++i) {
    const std::int64_t have = i < lead ? 1 : t.shape()[i - lead];
    if (shape[i] == -1 && i >= lead) v.shape[i] = have;
    FERRITE_CHECK(v.shape[i] == have || (have == 1 && v.shape[i] >= 0), ShapeError, "expand",
                  "{} does not expand to {}: size {} at dimension {} is neither {} nor 1",
                  t.shape(), shape, have, i, v.shape[i]);
    if (i >= lead && v.shape[i] == have) v.strides[i] = t.strides()[i - lead];
  }
  return v;
}

View squeeze(const Tensor& t) {
  View v{{}, {}, t.storage_offset()};
  for (int i = 0; i < t.dim(); ++i)
    if (t.shape()[i] != 1) v.shape.push_back(t.shape()[i]), v.strides.push_back(t.strides()[i]);
  return v;
}

View squeeze(const Tensor& t, std::int64_t dim) {
  const int d = normalize_dim(dim, t.dim(), "squeeze");
  View v = of(t);
  if (t.dim() > 0 && t.shape()[d] == 1) v.shape.erase(d), v.strides.erase(d);
  return v;
}

View unsqueeze(const Tensor& t, std::int64_t dim) {
  const int d = normalize_dim(dim, t.dim() + 1, "unsqueeze");
  View v = of(t);
  v.strides.insert(d, d < t.dim() ? t.shape()[d] * t.strides()[d] : 1);
  v.shape.insert(d, 1);
  return v;
}

View unfold(const Tensor& t, std::int64_t dim, std::int64_t size, std::int64_t step) {
  FERRITE_CHECK(t.dim() > 0, IndexError, "unfold", "a 0-dimensional tensor has nothing to unfold");
  const int d = normalize_dim(dim, t.dim(), "unfold");
  FERRITE_CHECK(size >= 0 && size <= t.shape()[d], ValueError, "unfold",
                "window size {} does not fit dimension {} of size {}", size, d, t.shape()[d]);
  FERRITE_CHECK(step > 0, ValueError, "unfold", "expected a step above 0, got {}", step);
  View v = of(t);
  v.shape.push_back(size);
  v.strides.push_back(t.strides()[d]);
  v.shape[d] = (t.shape()[d] - size) / step + 1;
  if (v.shape[d] > 1) v.strides[d] *= step;
  return v;
}

Shape infer_shape(const Shape& shape, std::int64_t numel, std::string_view op) {
  Shape full = shape;
  int missing = -1;
  for (int i = 0; i < shape.size(); ++i) {
    FERRITE_CHECK(shape[i] >= -1, ShapeError, op, "sizes must be 0 or more, or one -1, got {}",
                  shape);
    if (shape[i] != -1) continue;
    FERRITE_CHECK(missing < 0, ShapeError, op, "only one size may be -1, got {}", shape);
    missing = i;
    full[i] = 1;
  }
  const std::int64_t rest = full.numel();
  if (missing >= 0) {
    FERRITE_CHECK(rest > 0 && numel % rest == 0, ShapeError, op,
                  "{} elements cannot be arranged as {}", numel, shape);
    full[missing] = numel / rest;
  } else {
    FERRITE_CHECK(rest == numel, ShapeError, op, "shape {} has {} elements, the tensor has {}",
                  shape, rest, numel);
  }
  return full;
}

std::optional<View> view(const Tensor& t, const Shape& shape) {
  if (t.is_contiguous()) return View{shape, contiguous_strides(shape), t.storage_offset()};
  // Both shapes are cut into matching runs of dimensions; a run of the old shape must be dense to
  // be split differently.
  View v{shape, Shape::filled(shape.size(), 0), t.storage_offset()};
  int next = shape.size() - 1;
  std::int64_t run = 1, base_stride = 1;
  bool fresh = true;
  for (int d = t.dim() - 1; d >= 0; --d) {
    if (fresh) base_stride = t.strides()[d], run = 1, fresh = false;
    run *= t.shape()[d];
    const bool run_ends =
        d == 0 || (t.shape()[d - 1] != 1 && t.strides()[d - 1] != run * base_stride);
    if (!run_ends) continue;
    std::int64_t taken = 1;
    while (next >= 0 && (taken < run || shape[next] == 1)) {
      v.strides[next] = taken * base_stride;
      taken *= shape[next--];
    }
    if (taken != run) return std::nullopt;
    fresh = true;
  }
  if (next >= 0) return std::nullopt;
  return v;
}

View as_real(View v) {
  FERRITE_CHECK(v.shape.size() < kMaxDims, ShapeError, "view_as_real",
                "complex tensors have at most {} dimensions, got {}", kMaxDims - 1, v.shape);
  for (std::int64_t& stride : v.strides) stride *= 2;
  v.shape.push_back(2);
  v.strides.push_back(1);
  v.offset *= 2;
  return v;
}

View as_complex(const Tensor& t) {
  constexpr const char* kOp = "view_as_complex";
  FERRITE_CHECK(t.dim() > 0 && t.shape().back() == 2, ShapeError, kOp,
                "expected a last dimension of size 2, got {}", t.shape());
  View v{.shape = {}, .strides = {}, .offset = t.storage_offset() / 2};
  if (t.numel() == 0) {
    for (int d = 0; d < t.dim() - 1; ++d) v.shape.push_back(t.shape()[d]);
    v.strides = contiguous_strides(v.shape);
    return v;
  }
  bool even = t.storage_offset() % 2 == 0;
  for (int d = 0; d < t.dim() - 1; ++d) {
    v.shape.push_back(t.shape()[d]);
    v.strides.push_back(t.strides()[d] / 2);
    even = even && (t.strides()[d] % 2 == 0 || t.shape()[d] <= 1);
  }
  FERRITE_CHECK(t.strides().back() == 1 && even, ShapeError, kOp,
                "the strides {} and offset {} do not let pairs be seen as complex numbers; call "
                "clone(kContiguous) first",
                t.strides(), t.storage_offset());
  return v;
}

bool overlaps_itself(const Tensor& t) {
  // Dimensions of more than one element, in the order of their strides.
  std::array<std::pair<std::int64_t, std::int64_t>, kMaxDims> all;  // stride, last index
  std::size_t count = 0;
  for (int d = t.dim() - 1; d >= 0; --d) {
    if (t.shape()[d] == 0) return false;
    if (t.shape()[d] == 1) continue;
    const std::pair one(t.strides()[d], t.shape()[d] - 1);
    std::size_t at = count++;
    for (; at > 0 && one < all[at - 1]; --at) all[at] = all[at - 1];
    all[at] = one;
  }
  const std::span dims(all.data(), count);
  std::int64_t reach = 0;  // offset of the last element of the dimensions so far
  bool nested = true;      // each stride exceeds the extent of the dimensions before it
  for (const auto& [stride, last] : dims) {
    if (stride == 0) return true;
    nested = nested && stride > reach;
    reach += stride * last;
  }
  if (nested) return false;
  if (t.numel() > reach + 1) return true;
  // Strides that interleave, such as 2 and 3: only enumerating all elements decides.
  std::vector<bool> taken(static_cast<std::size_t>(reach) + 1);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (const auto& [stride, last] : dims) {
      offset += rest % (last + 1) * stride;
      rest /= last + 1;
    }
    if (taken[static_cast<std::size_t>(offset)]) return true;
    taken[static_cast<std::size_t>(offset)] = true;
  }
  return false;
}

bool may_overlap(const Tensor& a, const Tensor& b) {
  if (!a.shares_storage(b) || a.numel() == 0 || b.numel() == 0) return false;
  // Bytes of the storage from the first element to the last.
  const auto covered = [](const Tensor& t) {
    std::int64_t last = t.storage_offset();
    for (int d = 0; d < t.dim(); ++d) last += (t.shape()[d] - 1) * t.strides()[d];
    const auto size = static_cast<std::int64_t>(t.itemsize());
    return std::pair(t.storage_offset() * size, (last + 1) * size);
  };
  const auto [a_begin, a_end] = covered(a);
  const auto [b_begin, b_end] = covered(b);
  return a_begin < b_end && b_begin < a_end;
}

bool same_elements(const Tensor& a, const Tensor& b) {
  if (!a.shares_storage(b) || a.storage_offset() != b.storage_offset() || a.dtype() != b.dtype() ||
      a.shape() != b.shape())
    return false;
  for (int d = 0; d < a.dim(); ++d)
    if (a.shape()[d] > 1 && a.strides()[d] != b.strides()[d]) return false;
  return true;
}

}  // namespace ferrite::geometry
