// Arrangements of elements made of views, joins and selections. Gradients are differentiable to any
// order.
#pragma once

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
/// All elements in one dimension.
inline Tensor ravel(const Tensor& x) { return x.reshape({-1}); }
/// Views with new dimensions of size 1, as in NumPy: [n] is [1, n] and [1, n, 1].
Tensor atleast_1d(const Tensor& x);
/// The tensor with dimensions of size 1 added, up to two dimensions.
Tensor atleast_2d(const Tensor& x);
/// The tensor with dimensions of size 1 added, up to three dimensions.
Tensor atleast_3d(const Tensor& x);
/// Views of the tensors, expanded to their common shape (ShapeError).
std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors);
/// `sections` views, of which the first are larger by 1 if the size is no multiple; or views
/// between the `indices`. ValueError for less than 1 section.
std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, int dim = 0);
std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<std::int64_t>& indices,
                                 int dim = 0);
/// Turned k times by 90 degrees, from the first of two dimensions to the second.
Tensor rot90(const Tensor& x, std::int64_t k = 1, const Dims& dims = {0, 1});

// ---- Joins
/// cat() along the second dimension (the first, of vectors); along the first of atleast_2d, and
/// along the third of atleast_3d.
Tensor hstack(std::span<const Tensor> tensors);
inline Tensor hstack(std::initializer_list<Tensor> tensors) {
  return hstack(std::span(tensors.begin(), tensors.size()));
}
/// Tensors joined along the first dimension; vectors become rows.
Tensor vstack(std::span<const Tensor> tensors);
inline Tensor vstack(std::initializer_list<Tensor> tensors) {
  return vstack(std::span(tensors.begin(), tensors.size()));
}
/// Tensors joined along the third dimension, which is added if need be.
Tensor dstack(std::span<const Tensor> tensors);
inline Tensor dstack(std::initializer_list<Tensor> tensors) {
  return dstack(std::span(tensors.begin(), tensors.size()));
}
/// A matrix with the tensors, of 2 dimensions at most, along its diagonal.
Tensor block_diag(std::span<const Tensor> tensors);
inline Tensor block_diag(std::initializer_list<Tensor> tensors) {
  return block_diag(std::span(tensors.begin(), tensors.size()));
}

// ---- Grids and pairs
/// The coordinates of a grid, expanded views of the vectors (or numbers): `indexing` "ij" has the
/// first along rows, "xy" along columns (ValueError for others).
std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, std::string_view indexing = "ij");
inline std::vector<Tensor> meshgrid(std::initializer_list<Tensor> tensors,
                                    std::string_view indexing = "ij") {
  return meshgrid(std::span(tensors.begin(), tensors.size()), indexing);
}
/// All rows with one element of each vector; the vector itself, if there is one.
Tensor cartesian_prod(std::span<const Tensor> tensors);
inline Tensor cartesian_prod(std::initializer_list<Tensor> tensors) {
  return cartesian_prod(std::span(tensors.begin(), tensors.size()));
}
/// All subsets of r elements, in order of position, as rows.
Tensor combinations(const Tensor& x, int r = 2, bool with_replacement = false);
/// int64 [2, n]: rows and columns of what tril() and triu() keep of [rows, columns].
Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0,
                    const TensorOptions& options = {.dtype = kInt64});
/// The indices of the upper triangle, [2, n].
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0,
                    const TensorOptions& options = {.dtype = kInt64});

// ---- Diagonals
/// A matrix with the vector as diagonal, or the diagonal of a matrix (ShapeError for others).
Tensor diag(const Tensor& x, std::int64_t diagonal = 0);
/// The last dimension as diagonal of the new dimensions dim1 and dim2; 0 elsewhere.
Tensor diag_embed(const Tensor& x, std::int64_t offset = 0, int dim1 = -2, int dim2 = -1);

// ---- Repeats
/// Each element (slice along `dim`) `repeats` times in a row; without `dim`, of one dimension.
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<int> dim = {});
/// Each as often as `repeats` (int64 or int32, [n] or of one element) says. Waits for the device.
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int> dim = {});

// ---- Images [..., C, H, W]
/// [..., C r^2, H, W] as [..., C, H r, W r], and back. ShapeError unless the sizes are multiples.
Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor);
/// Blocks of pixels become channels: [N, C, H r, W r] to [N, C r r, H, W].
Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor);
/// The channels of [N, C, ...], of `groups`, with the first of each group first.
Tensor channel_shuffle(const Tensor& x, std::int64_t groups);

struct FoldOptions {
  Pair dilation = 1;
  Pair padding = 0;
  Pair stride = 1;
};
/// The windows of [N, C, H, W] or [C, H, W], as columns: [N, C kh kw, L] (torch.nn.functional).
Tensor unfold(const Tensor& x, Pair kernel_size, const FoldOptions& options = {});
/// The sum of windows at their places, back to [N, C, height, width].
Tensor fold(const Tensor& x, Pair output_size, Pair kernel_size, const FoldOptions& options = {});

}  // namespace ferrite
