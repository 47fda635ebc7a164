// Arrangements of elements made of views, joins and selections. Gradients are differentiable to any
// order.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/pair.h"

namespace ferrite {

// ---- Shapes and views
/// As transpose().
inline Tensor swapaxes(const Tensor& x, int dim0, int dim1) { return x.transpose(dim0, dim1); }
/// As transpose().
inline Tensor swapdims(const Tensor& x, int dim0, int dim1) { return x.transpose(dim0, dim1); }
/// All elements in row-major order, [numel]: a view if the strides allow it, else a copy.
inline Tensor ravel(const Tensor& x) { return x.reshape({-1}); }
/// A tensor without dimensions as a view [1]; others as they are.
Tensor atleast_1d(const Tensor& x);
/// A view with two dimensions or more, as in NumPy: [] is [1, 1], [n] is [1, n].
Tensor atleast_2d(const Tensor& x);
/// A view with three dimensions or more, as in NumPy: [] is [1, 1, 1], [n] is [1, n, 1], [m, n] is
/// [m, n, 1].
Tensor atleast_3d(const Tensor& x);
/// Views of the tensors, expanded to their common shape: ShapeError if they do not broadcast,
/// ValueError if there are none.
std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors);
/// The same of a list in braces.
inline std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors) {
  return broadcast_tensors(std::span(tensors.begin(), tensors.size()));
}
/// `sections` views along a dimension; the first ones are larger by one if the size is no multiple.
/// ValueError for fewer than 1 section, or a tensor without dimensions; IndexError for a dimension
/// out of range.
///
///   tensor_split(arange(7), 3);  // 0, 1, 2; 3, 4; 5, 6
std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, int dim = 0);
/// Views from 0 to the first of the `indices`, from there to the second, and so on to the end: one
/// more than there are indices. Bounds are those of Tensor::slice().
///
///   tensor_split(arange(7), {2, 5});  // 0, 1; 2, 3, 4; 5, 6
///
/// `{2}` is a number of sections: a list of one index has to be a std::vector<std::int64_t>{2}.
std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<std::int64_t>& indices,
                                 int dim = 0);
/// As tensor_split() along the second dimension, or the only one of vectors. ShapeError unless
/// there is one, ValueError unless `sections` divides its size. A list of one index has to be a
/// std::vector<std::int64_t>{2}, because `{2}` is a number of sections.
std::vector<Tensor> hsplit(const Tensor& x, std::int64_t sections);
std::vector<Tensor> hsplit(const Tensor& x, const std::vector<std::int64_t>& indices);
/// The same along the first dimension of two or more.
std::vector<Tensor> vsplit(const Tensor& x, std::int64_t sections);
std::vector<Tensor> vsplit(const Tensor& x, const std::vector<std::int64_t>& indices);
/// The same along the third dimension.
std::vector<Tensor> dsplit(const Tensor& x, std::int64_t sections);
std::vector<Tensor> dsplit(const Tensor& x, const std::vector<std::int64_t>& indices);
/// A copy with the elements in reverse order along the second dimension, of two or more
/// (ShapeError).
Tensor fliplr(const Tensor& x);
/// A copy with the elements in reverse order along the first dimension, of one or more
/// (ShapeError).
Tensor flipud(const Tensor& x);
/// A copy, turned k times by 90 degrees from the first of two dimensions to the second, back for a
/// negative k. ValueError unless `dims` are two different dimensions.
///
///   rot90(tensor({{1, 2}, {3, 4}}));  // [[2, 4], [1, 3]]
Tensor rot90(const Tensor& x, std::int64_t k = 1, const Dims& dims = {0, 1});

// ---- Joins
/// cat() along the second dimension, and of vectors and numbers along the first; errors are those
/// of cat().
///
///   hstack({tensor({1, 2}), tensor({3})});  // 1, 2, 3
Tensor hstack(std::span<const Tensor> tensors);
inline Tensor hstack(std::initializer_list<Tensor> tensors) {
  return hstack(std::span(tensors.begin(), tensors.size()));
}
/// cat() of atleast_2d() of the tensors along the first dimension: vectors are rows.
///
///   vstack({tensor({1, 2}), tensor({3, 4})});  // [[1, 2], [3, 4]]
Tensor vstack(std::span<const Tensor> tensors);
inline Tensor vstack(std::initializer_list<Tensor> tensors) {
  return vstack(std::span(tensors.begin(), tensors.size()));
}
/// cat() of atleast_3d() of the tensors along the third dimension: two of [m, n] are [m, n, 2].
Tensor dstack(std::span<const Tensor> tensors);
inline Tensor dstack(std::initializer_list<Tensor> tensors) {
  return dstack(std::span(tensors.begin(), tensors.size()));
}
/// cat() along the second dimension, for which numbers and vectors are columns [n, 1].
///
///   column_stack({tensor({1, 2}), tensor({3, 4})});  // [[1, 3], [2, 4]]
Tensor column_stack(std::span<const Tensor> tensors);
inline Tensor column_stack(std::initializer_list<Tensor> tensors) {
  return column_stack(std::span(tensors.begin(), tensors.size()));
}
/// A matrix with the tensors along its diagonal and 0 elsewhere: [sum of rows, sum of columns], of
/// the promoted dtype. A vector is one row. ShapeError for more than 2 dimensions.
Tensor block_diag(std::span<const Tensor> tensors);
inline Tensor block_diag(std::initializer_list<Tensor> tensors) {
  return block_diag(std::span(tensors.begin(), tensors.size()));
}

// ---- Grids and pairs
/// The coordinates of a grid: vectors [n1], [n2], ... give as many views [n1, n2, ...], of which
/// number i has vector i along dimension i. `indexing` "xy" swaps the first two dimensions
/// (ValueError for others than "ij" and "xy"). ShapeError for more than 1 dimension, DTypeError and
/// DeviceError for mixed ones.
///
///   meshgrid({tensor({1, 2}), tensor({4, 5, 6})});  // [[1, 1, 1], [2, 2, 2]],
///                                                   // [[4, 5, 6], [4, 5, 6]]
std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, std::string_view indexing = "ij");
inline std::vector<Tensor> meshgrid(std::initializer_list<Tensor> tensors,
                                    std::string_view indexing = "ij") {
  return meshgrid(std::span(tensors.begin(), tensors.size()), indexing);
}
/// All combinations of one element from each of k vectors as rows, [product of sizes, k], the last
/// vector's changing fastest; a single vector is returned as it is. ShapeError unless all are
/// vectors, DTypeError for mixed dtypes.
///
///   cartesian_prod({tensor({1, 2}), tensor({4, 5})});  // [[1, 4], [1, 5], [2, 4], [2, 5]]
Tensor cartesian_prod(std::span<const Tensor> tensors);
inline Tensor cartesian_prod(std::initializer_list<Tensor> tensors) {
  return cartesian_prod(std::span(tensors.begin(), tensors.size()));
}
/// All combinations of r elements of a vector, in the order of their positions, as rows: [count,
/// r]. ShapeError unless x is a vector, ValueError for a negative r.
///
///   combinations(tensor({1, 2, 3}));  // [[1, 2], [1, 3], [2, 3]]
Tensor combinations(const Tensor& x, int r = 2, bool with_replacement = false);
/// Row indices and column indices, int64 [2, n], of the elements that tril() keeps of a matrix
/// [rows, columns], in row-major order. ValueError for negative sizes.
///
///   tril_indices(2, 2);  // [[0, 1, 1], [0, 0, 1]]
Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0,
                    const TensorOptions& options = {.dtype = kInt64});
/// The same for the elements that triu() keeps.
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0,
                    const TensorOptions& options = {.dtype = kInt64});

// ---- Diagonals
/// A square matrix with the vector on the given diagonal and 0 elsewhere; or, of a matrix, a copy
/// of that diagonal. ShapeError for other tensors.
///
///   diag(tensor({1, 2}));            // [[1, 0], [0, 2]]
///   diag(tensor({{1, 2}, {3, 4}}));  // 1, 4
Tensor diag(const Tensor& x, std::int64_t diagonal = 0);
/// Matrices with the last dimension on the given diagonal and 0 elsewhere: [..., n] gives [..., m,
/// m], where m is n + |offset|. Rows and columns are dimensions dim1 and dim2 of the result.
/// ShapeError for no dimension, ValueError if dim1 is dim2, IndexError for dimensions out of range.
Tensor diag_embed(const Tensor& x, std::int64_t offset = 0, int dim1 = -2, int dim2 = -1);

/// A square matrix with all elements of x, in row-major order, on the given diagonal.
Tensor diagflat(const Tensor& x, std::int64_t offset = 0);

// ---- Copies of which a part comes from another tensor. ShapeError unless `source` has the shape
// of the part; its dtype is converted. Both get gradients.
/// x.clone() with `source` in the place of select(dim, index).
Tensor select_scatter(const Tensor& x, const Tensor& source, int dim, std::int64_t index);
/// x.clone() with `source` in the place of slice(dim, start, end, step).
Tensor slice_scatter(const Tensor& x, const Tensor& source, int dim = 0, std::int64_t start = 0,
                     std::int64_t end = INT64_MAX, std::int64_t step = 1);
/// x.clone() with `source` in the place of diagonal(offset, dim1, dim2).
Tensor diagonal_scatter(const Tensor& x, const Tensor& source, std::int64_t offset = 0,
                        int dim1 = 0, int dim2 = 1);

// ---- Repeats
/// A copy with each index of a dimension `repeats` times in a row; without `dim` of the elements in
/// row-major order, [numel * repeats]. ValueError for negative repeats.
///
///   repeat_interleave(tensor({1, 2}), 2);  // 1, 1, 2, 2
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<int> dim = {});
/// A copy with index i of a dimension `repeats[i]` times. `repeats` is int64 or int32 (DTypeError),
/// [n] or of one element (ShapeError), on the device of x. Waits for the device.
///
///   repeat_interleave(tensor({1, 2}), tensor({3, 1}));  // 1, 1, 1, 2
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int> dim = {});

// ---- Images [..., C, H, W]
/// Channels become blocks of r x r pixels: [..., C r^2, H, W] gives [..., C, H r, W r]. ShapeError
/// unless r^2 divides the channels, ValueError for a factor below 1.
Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor);
/// Blocks of r x r pixels become channels: [..., C, H r, W r] gives [..., C r^2, H, W]. ShapeError
/// unless r divides height and width, ValueError for a factor below 1.
Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor);
/// The channels of [N, C, ...], of which each C / groups are a group, reordered: the first of each
/// group, then the second of each, and so on. 6 channels in 2 groups become 0, 3, 1, 4, 2, 5.
/// ShapeError unless `groups` divides C.
Tensor channel_shuffle(const Tensor& x, std::int64_t groups);

/// The windows of unfold() and fold().
struct FoldOptions {
  Pair dilation = 1;
  Pair padding = 0;
  Pair stride = 1;
};
/// The windows of an image as columns (im2col): [N, C, H, W] gives [N, C kh kw, L], and [C, H, W]
/// gives [C kh kw, L]. The windows are those of conv2d(), in row-major order; their number L is
/// (H + 2 padding - dilation (kh - 1) - 1) / stride + 1 times the same of W. ValueError for a size,
/// dilation or stride below 1 or a negative padding; ShapeError if a window is larger than the
/// padded image. Tensor::unfold() gives the windows of one dimension, as a view.
Tensor unfold(const Tensor& x, Pair kernel_size, const FoldOptions& options = {});
/// Adds windows up at their places (col2im): [N, C kh kw, L] gives [N, C, height, width], and
/// [C kh kw, L] gives [C, height, width], for an `output_size` {height, width}. Errors are those of
/// unfold(), and ShapeError for other sizes of x.
Tensor fold(const Tensor& x, Pair output_size, Pair kernel_size, const FoldOptions& options = {});

}  // namespace ferrite
