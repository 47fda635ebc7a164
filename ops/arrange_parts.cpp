// The functions of ops/arrange.h that split tensors, and those that put a part in the place of
// another.
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/views.h"

namespace ferrite {

using ops::composite;

namespace {

using T = const Tensor&;

void check_dims(T x, int least, const char* op) {
  FERRITE_CHECK(x.dim() >= least, ShapeError, op, "expected {} dimension{} or more, got {}", least,
                least == 1 ? "" : "s", x.shape());
}

std::vector<Tensor> split_along(T x, std::int64_t sections, int dim, int least, const char* op) {
  return composite(
      op,
      [&] {
        check_dims(x, least, op);
        FERRITE_CHECK(sections > 0 && x.size(dim) % sections == 0, ValueError, op,
                      "expected a number of sections that divides a size of {}, got {}",
                      x.size(dim), sections);
        return tensor_split(x, sections, dim);
      },
      x);
}
std::vector<Tensor> split_along(T x, const std::vector<std::int64_t>& indices, int dim, int least,
                                const char* op) {
  return composite(
      op,
      [&] {
        check_dims(x, least, op);
        return tensor_split(x, indices, dim);
      },
      x);
}

/// A copy of x, in which `part` of the copy is the source.
template <class Part>
Tensor with_part(const char* op, T x, T source, Part part) {
  return composite(
      op,
      [&] {
        ops::check_same_device(x, source, op);
        const Tensor out = x.clone();
        const Tensor to = part(out);
        FERRITE_CHECK(source.shape() == to.shape(), ShapeError, op,
                      "expected a source of the part's shape {}, got {}", to.shape(),
                      source.shape());
        to.copy_(source);
        return out;
      },
      x, source);
}

}  // namespace

// A tensor without dimensions is refused before its dimension is asked for.
std::vector<Tensor> hsplit(T x, std::int64_t sections) {
  return split_along(x, sections, x.defined() && x.dim() > 1 ? 1 : 0, 1, "hsplit");
}
std::vector<Tensor> hsplit(T x, const std::vector<std::int64_t>& indices) {
  return split_along(x, indices, x.defined() && x.dim() > 1 ? 1 : 0, 1, "hsplit");
}
std::vector<Tensor> vsplit(T x, std::int64_t sections) {
  return split_along(x, sections, 0, 2, "vsplit");
}
std::vector<Tensor> vsplit(T x, const std::vector<std::int64_t>& indices) {
  return split_along(x, indices, 0, 2, "vsplit");
}
std::vector<Tensor> dsplit(T x, std::int64_t sections) {
  return split_along(x, sections, 2, 3, "dsplit");
}
std::vector<Tensor> dsplit(T x, const std::vector<std::int64_t>& indices) {
  return split_along(x, indices, 2, 3, "dsplit");
}

Tensor fliplr(T x) {
  return composite(
      "fliplr",
      [&] {
        check_dims(x, 2, "fliplr");
        return flip(x, {1});
      },
      x);
}
Tensor flipud(T x) {
  return composite(
      "flipud",
      [&] {
        check_dims(x, 1, "flipud");
        return flip(x, {0});
      },
      x);
}

Tensor diagflat(T x, std::int64_t offset) {
  return composite(
      "diagflat", [&] { return diag(x.reshape({-1}), offset); }, x);
}

Tensor select_scatter(T x, T source, int dim, std::int64_t index) {
  return with_part("select_scatter", x, source, [&](T t) { return t.select(dim, index); });
}
Tensor slice_scatter(T x, T source, int dim, std::int64_t start, std::int64_t end,
                     std::int64_t step) {
  return with_part("slice_scatter", x, source, [&](T t) { return t.slice(dim, start, end, step); });
}
Tensor diagonal_scatter(T x, T source, std::int64_t offset, int dim1, int dim2) {
  return with_part("diagonal_scatter", x, source,
                   [&](T t) { return diagonal(t, offset, dim1, dim2); });
}

}  // namespace ferrite
