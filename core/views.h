// The geometry of views: shapes, strides and offsets alone. ops/views.h puts them on the tape.
// Dimensions may be negative; errors are IndexError (dimension or index out of range), ShapeError
// and ValueError, tagged with the view's name.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"

namespace ferrite::geometry {

struct View {
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;  ///< in elements, absolute
};

View of(const Tensor& t);
View select(const Tensor& t, std::int64_t dim, std::int64_t index);
/// Python's rules: negative and out-of-range bounds are clipped; `step` must be above 0.
View slice(const Tensor& t, std::int64_t dim, std::int64_t start, std::int64_t end,
           std::int64_t step);
/// Unlike slice, throws where the range leaves the dimension.
View narrow(const Tensor& t, std::int64_t dim, std::int64_t start, std::int64_t length);
View transpose(const Tensor& t, std::int64_t dim0, std::int64_t dim1);
View permute(const Tensor& t, const Shape& dims);
/// -1 keeps a size; new leading dimensions are allowed.
View expand(const Tensor& t, const Shape& shape);
View squeeze(const Tensor& t);
View squeeze(const Tensor& t, std::int64_t dim);
View unsqueeze(const Tensor& t, std::int64_t dim);
/// A new last dimension holds windows of `size` elements, `step` apart (torch.Tensor.unfold).
View unfold(const Tensor& t, std::int64_t dim, std::int64_t size, std::int64_t step);

/// `shape` with its -1 replaced; ShapeError if the element counts cannot agree.
Shape infer_shape(const Shape& shape, std::int64_t numel, std::string_view op);
/// Nothing if the strides do not allow a view of that (complete) shape.
std::optional<View> view(const Tensor& t, const Shape& shape);

/// The two parts of complex numbers as a new last dimension of size 2, in elements of their type.
View as_real(View v);
/// The inverse; ShapeError unless the last dimension has size 2 and stride 1, and other strides and
/// the offset are even.
View as_complex(const Tensor& t);

/// as_strided(), off the tape.
inline Tensor as_strided(const Tensor& t, const Shape& shape, const Strides& strides,
                         std::int64_t offset) {
  return ferrite::as_strided(t, shape, strides, offset, t.dtype());
}
inline Tensor apply(const Tensor& t, const View& v, DType dtype) {
  return ferrite::as_strided(t, v.shape, v.strides, v.offset, dtype);
}
inline Tensor apply(const Tensor& t, const View& v) {
  return geometry::as_strided(t, v.shape, v.strides, v.offset);
}
/// The memory of complex numbers as real ones, by as_real().
inline Tensor as_real(const Tensor& t) { return apply(t, as_real(of(t)), real_type(t.dtype())); }

/// Whether several elements of `t` share one memory location, as in an expanded tensor or in
/// overlapping windows.
bool overlaps_itself(const Tensor& t);
/// Whether elements of the two may share memory. May return true although they do not: interleaved
/// views of one storage count as overlapping.
bool may_overlap(const Tensor& a, const Tensor& b);
/// Whether the two have the same elements in the same order.
bool same_elements(const Tensor& a, const Tensor& b);

}  // namespace ferrite::geometry
