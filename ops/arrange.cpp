#include "ferrite/ops/arrange.h"

#include <algorithm>

#include "ferrite/core/host_copy.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/indexing.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"

namespace ferrite {

using ops::composite;

namespace {

using T = const Tensor&;
using Tensors = std::span<const Tensor>;

/// f of a list of tensors, none of them undefined, of which there is one or more.
template <class F>
decltype(auto) of_list(const char* op, Tensors tensors, F&& f) {
  FERRITE_CHECK(!tensors.empty(), ValueError, op, "expected one tensor or more");
  for (T t : tensors) ops::check_defined(t, op);
  return composite(op, std::forward<F>(f), tensors[0]);
}

template <class F>
std::vector<Tensor> mapped(Tensors tensors, F&& f) {
  std::vector<Tensor> out;
  for (T t : tensors) out.push_back(f(t));
  return out;
}

}  // namespace

// ---- Shapes and views

Tensor atleast_1d(T x) {
  return composite(
      "atleast_1d", [&] { return x.dim() == 0 ? x.reshape({1}) : x; }, x);
}
Tensor atleast_2d(T x) {
  return composite(
      "atleast_2d", [&] { return x.dim() < 2 ? atleast_1d(x).unsqueeze(0) : x; }, x);
}
Tensor atleast_3d(T x) {
  return composite(
      "atleast_3d", [&] { return x.dim() < 3 ? atleast_2d(x).unsqueeze(-1) : x; }, x);
}

std::vector<Tensor> broadcast_tensors(Tensors tensors) {
  return of_list("broadcast_tensors", tensors, [&] {
    Shape shape;
    for (T t : tensors) shape = broadcast_shapes(shape, t.shape(), "broadcast_tensors");
    return mapped(tensors, [&](T t) { return t.expand(shape); });
  });
}

std::vector<Tensor> tensor_split(T x, std::int64_t sections, int dim) {
  return composite(
      "tensor_split",
      [&] {
        FERRITE_CHECK(sections > 0 && x.dim() > 0, ValueError, "tensor_split",
                      "expected 1 section or more of 1 dimension or more, got {} of {}", sections,
                      x.shape());
        const std::int64_t n = x.size(normalize_dim(dim, x.dim(), "tensor_split"));
        std::vector<std::int64_t> indices;
        for (std::int64_t s = 1; s < sections; ++s)
          indices.push_back(s * (n / sections) + std::min(s, n % sections));
        return tensor_split(x, indices, dim);
      },
      x);
}

std::vector<Tensor> tensor_split(T x, const std::vector<std::int64_t>& indices, int dim) {
  return composite(
      "tensor_split",
      [&] {
        FERRITE_CHECK(x.dim() > 0, ValueError, "tensor_split",
                      "a tensor of no dimensions cannot be split");
        const int d = normalize_dim(dim, x.dim(), "tensor_split");
        std::vector<Tensor> parts;
        std::int64_t start = 0;
        for (std::size_t i = 0; i <= indices.size(); ++i) {
          const std::int64_t end = i < indices.size() ? indices[i] : INT64_MAX;
          parts.push_back(x.slice(d, start, end));
          start = end;
        }
        return parts;
      },
      x);
}

Tensor rot90(T x, std::int64_t k, const Dims& dims) {
  return composite(
      "rot90",
      [&] {
        FERRITE_CHECK(dims.size() == 2 && x.dim() >= 2, ValueError, "rot90",
                      "expected two dimensions, got {} of {}", dims, x.shape());
        const int a = normalize_dim(dims[0], x.dim(), "rot90"),
                  b = normalize_dim(dims[1], x.dim(), "rot90");
        FERRITE_CHECK(a != b, ValueError, "rot90", "dimension {} is given twice", a);
        switch ((k % 4 + 4) % 4) {
          case 1:
            return flip(x, {b}).transpose(a, b);
          case 2:
            return flip(x, {a, b});
          case 3:
            return flip(x, {a}).transpose(a, b);
          default:
            return x.clone();
        }
      },
      x);
}

// ---- Joins

Tensor hstack(Tensors tensors) {
  return of_list("hstack", tensors, [&] {
    const auto parts = mapped(tensors, atleast_1d);
    return cat(parts, parts[0].dim() == 1 ? 0 : 1);
  });
}
Tensor vstack(Tensors tensors) {
  return of_list("vstack", tensors, [&] { return cat(mapped(tensors, atleast_2d), 0); });
}
Tensor dstack(Tensors tensors) {
  return of_list("dstack", tensors, [&] { return cat(mapped(tensors, atleast_3d), 2); });
}

Tensor column_stack(Tensors tensors) {
  return of_list("column_stack", tensors, [&] {
    return cat(mapped(tensors, [](T t) { return t.dim() < 2 ? t.reshape({-1, 1}) : t; }), 1);
  });
}
Tensor block_diag(Tensors tensors) {
  return of_list("block_diag", tensors, [&] {
    std::int64_t columns = 0, before = 0;
    const DType dtype = ops::result_type(tensors);
    const auto blocks = mapped(tensors, [&](T t) { return atleast_2d(t).to(dtype); });
    for (T b : blocks) {
      FERRITE_CHECK(b.dim() == 2, ShapeError, "block_diag", "expected 2 dimensions at most, got {}",
                    b.shape());
      columns += b.size(1);
    }
    std::vector<Tensor> rows;
    for (T b : blocks) {
      rows.push_back(pad(b, {before, columns - before - b.size(1)}));
      before += b.size(1);
    }
    return cat(rows, 0);
  });
}

// ---- Grids and pairs

std::vector<Tensor> meshgrid(Tensors tensors, std::string_view indexing) {
  return of_list("meshgrid", tensors, [&] {
    FERRITE_CHECK(indexing == "ij" || indexing == "xy", ValueError, "meshgrid",
                  "expected the indexing ij or xy, got {}", indexing);
    const int n = static_cast<int>(tensors.size());
    const bool swaps = indexing == "xy" && n >= 2;
    Shape shape;
    for (T t : tensors) {
      FERRITE_CHECK(t.dim() <= 1, ShapeError, "meshgrid", "expected vectors, got {}", t.shape());
      FERRITE_CHECK(t.dtype() == tensors[0].dtype(), DTypeError, "meshgrid",
                    "expected one dtype, got {} and {}", tensors[0].dtype(), t.dtype());
      FERRITE_CHECK(t.device() == tensors[0].device(), DeviceError, "meshgrid",
                    "expected one device, got {} and {}", tensors[0].device(), t.device());
      shape.push_back(t.numel());
    }
    std::vector<Tensor> grids;
    for (int i = 0; i < n; ++i) {
      Shape one = Shape::filled(n, 1);
      one[i] = shape[i];
      const Tensor grid = tensors[static_cast<std::size_t>(i)].reshape(one).expand(shape);
      grids.push_back(swaps ? grid.transpose(0, 1) : grid);
    }
    return grids;
  });
}

Tensor cartesian_prod(Tensors tensors) {
  return of_list("cartesian_prod", tensors, [&] {
    for (T t : tensors)
      FERRITE_CHECK(t.dim() == 1, ShapeError, "cartesian_prod", "expected vectors, got {}",
                    t.shape());
    if (tensors.size() == 1) return tensors[0];
    return stack(mapped(meshgrid(tensors), ravel), 1);
  });
}

Tensor combinations(T x, int r, bool with_replacement) {
  return composite(
      "combinations",
      [&] {
        FERRITE_CHECK(x.dim() == 1, ShapeError, "combinations", "expected a vector, got {}",
                      x.shape());
        FERRITE_CHECK(r >= 0, ValueError, "combinations", "expected r of 0 or more, got {}", r);
        if (r == 0) return empty({0}, {.dtype = x.dtype(), .device = x.device()});
        // Counted on the host: they depend on sizes alone.
        std::vector<std::int64_t> at, places(static_cast<std::size_t>(r));
        const std::int64_t n = x.numel();
        std::int64_t rows = 0;
        const auto extend = [&](const auto& self, int depth, std::int64_t from) -> void {
          if (depth == r) {
            at.insert(at.end(), places.begin(), places.end());
            ++rows;
            return;
          }
          for (std::int64_t i = from; i < n; ++i) {
            places[static_cast<std::size_t>(depth)] = i;
            self(self, depth + 1, with_replacement ? i : i + 1);
          }
        };
        if (r > 0) extend(extend, 0, 0);
        const Tensor ids = from_vector(at, {rows * r}).to(x.device());
        return x.index_select(0, ids).reshape({rows, r});
      },
      x);
}

namespace {

Tensor triangle_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset,
                        const TensorOptions& options, const char* op, auto first, auto end) {
  FERRITE_CHECK(rows >= 0 && columns >= 0, ValueError, op,
                "expected sizes of 0 or more, got {}, {}", rows, columns);
  offset = std::clamp(offset, -rows, columns);  // beyond which nothing changes
  std::vector<std::int64_t> r, c;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = std::clamp<std::int64_t>(first(i + offset), 0, columns);
         j < std::clamp<std::int64_t>(end(i + offset), 0, columns); ++j)
      r.push_back(i), c.push_back(j);
  const std::int64_t n = static_cast<std::int64_t>(r.size());
  r.insert(r.end(), c.begin(), c.end());
  return detail::with_grad(
      from_vector(r, {2, n}).to(options.device, options.dtype.value_or(kInt64)), options);
}

}  // namespace

Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset,
                    const TensorOptions& options) {
  return composite("tril_indices", [&] {
    return triangle_indices(
        rows, columns, offset, options, "tril_indices", [](std::int64_t) { return 0; },
        [](std::int64_t diagonal) { return diagonal + 1; });
  });
}
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset,
                    const TensorOptions& options) {
  return composite("triu_indices", [&] {
    return triangle_indices(
        rows, columns, offset, options, "triu_indices",
        [](std::int64_t diagonal) { return diagonal; }, [=](std::int64_t) { return columns; });
  });
}

// ---- Diagonals

Tensor diag(T x, std::int64_t diagonal) {
  return composite(
      "diag",
      [&] {
        FERRITE_CHECK(x.dim() == 1 || x.dim() == 2, ShapeError, "diag",
                      "expected a vector or a matrix, got {}", x.shape());
        return x.dim() == 1 ? diag_embed(x, diagonal) : ferrite::diagonal(x, diagonal).clone();
      },
      x);
}

Tensor diag_embed(T x, std::int64_t offset, int dim1, int dim2) {
  return composite(
      "diag_embed",
      [&] {
        FERRITE_CHECK(x.dim() > 0, ShapeError, "diag_embed", "expected 1 dimension or more");
        const int a = normalize_dim(dim1, x.dim() + 1, "diag_embed"),
                  b = normalize_dim(dim2, x.dim() + 1, "diag_embed");
        FERRITE_CHECK(a != b, ValueError, "diag_embed", "dimension {} is given twice", a);
        constexpr std::int64_t kMost = std::int64_t{1} << 31;  // whose square no memory has
        FERRITE_CHECK(offset > -kMost && offset < kMost, ValueError, "diag_embed",
                      "expected an offset below 2^31 and above -2^31, got {}", offset);
        // The elements, each followed by a row of zeros, are a square without its last row.
        const std::int64_t k = x.size(-1), shift = std::abs(offset), n = k + shift;
        Tensor square = pad(x.unsqueeze(-1), {0, n});
        Shape shape = x.shape();
        shape[shape.size() - 1] = k * (n + 1);
        square = square.reshape(shape);
        // Element i is to be at row i and column i + offset, or at row i - offset and column i.
        const std::int64_t start = offset > 0 ? offset : shift * n, total = n * n;
        const std::int64_t behind = total - start - k * (n + 1);
        square = pad(square, {start, behind});
        shape[shape.size() - 1] = n;
        shape.push_back(n);
        return movedim(square.reshape(shape), {-2, -1}, {a, b});
      },
      x);
}

// ---- Repeats

Tensor repeat_interleave(T x, std::int64_t repeats, std::optional<int> dim) {
  return composite(
      "repeat_interleave",
      [&] {
        FERRITE_CHECK(repeats >= 0, ValueError, "repeat_interleave",
                      "expected 0 repeats or more, got {}", repeats);
        const Tensor t = dim && x.dim() > 0 ? x : x.reshape({-1});
        const int d = normalize_dim(dim.value_or(0), t.dim(), "repeat_interleave");
        std::int64_t size = 0;
        FERRITE_CHECK(!__builtin_mul_overflow(t.size(d), repeats, &size), ValueError,
                      "repeat_interleave", "{} repeats of {} are more than 2^63", repeats,
                      t.size(d));
        const Tensor all = arange(size, {.dtype = kInt64, .device = x.device()});
        return t.index_select(d, floor_divide(all, std::max<std::int64_t>(repeats, 1)));
      },
      x);
}

Tensor repeat_interleave(T x, T repeats, std::optional<int> dim) {
  return composite(
      "repeat_interleave",
      [&] {
        ferrite::detail::check_may_read(x.device(), "repeat_interleave");
        const Tensor t = dim && x.dim() > 0 ? x : x.reshape({-1});
        const int d = normalize_dim(dim.value_or(0), t.dim(), "repeat_interleave");
        Tensor counts = ops::checked_index(repeats, x, "repeat_interleave");
        FERRITE_CHECK(counts.dim() <= 1 && (counts.numel() == 1 || counts.numel() == t.size(d)),
                      ShapeError, "repeat_interleave", "expected {} repeats or one, got {}",
                      t.size(d), repeats.shape());
        counts = counts.reshape({-1}).expand({t.size(d)});
        if (counts.numel() == 0) return t.clone();
        FERRITE_CHECK(min(counts).item<std::int64_t>() >= 0, ValueError, "repeat_interleave",
                      "expected repeats of 0 or more, got {}", min(counts).item<std::int64_t>());
        FERRITE_CHECK(sum(counts.to(kFloat64)).item<double>() < 0x1p62, ValueError,
                      "repeat_interleave", "the repeats add up to 2^62 or more");
        const Tensor ends = cumsum(counts, 0);
        const Tensor all = arange(ends.select(0, -1).item<std::int64_t>(),
                                  {.dtype = kInt64, .device = x.device()});
        return t.index_select(d, searchsorted(ends, all, {.right = true}));
      },
      x, repeats);
}

// ---- Images

namespace {

/// The leading dimensions of an image [..., C, H, W], and then these.
Shape with_leading(T x, std::initializer_list<std::int64_t> last) {
  Shape shape;
  for (int d = 0; d < x.dim() - 3; ++d) shape.push_back(x.size(d));
  for (std::int64_t n : last) shape.push_back(n);
  return shape;
}

void check_image(T x, std::int64_t factor, const char* op) {
  FERRITE_CHECK(factor > 0, ValueError, op, "expected a factor of 1 or more, got {}", factor);
  FERRITE_CHECK(x.dim() >= 3, ShapeError, op, "expected [..., C, H, W], got {}", x.shape());
}

/// `parts`, which are x's elements in another order, as [..., C, sizes...] in the memory format of
/// x; C is what `channels` dimensions of `parts`, those after the batch, make. Never a view of x.
Tensor joined(T x, T parts, int channels, const Shape& shape) {
  Tensor out;
  if (x.suggest_memory_format() == MemoryFormat::channels_last) {
    Shape from, to;
    for (int i = 0; i < channels; ++i) from.push_back(1 + i), to.push_back(i - channels);
    out = movedim(parts, from, to).reshape({shape[0], shape[2], shape[3], shape[1]});
    out = movedim(out, -1, 1);
  } else {
    out = parts.reshape(shape);
  }
  return out.shares_storage(x) ? out.clone() : out;
}

}  // namespace

Tensor pixel_shuffle(T x, std::int64_t r) {
  return composite(
      "pixel_shuffle",
      [&] {
        check_image(x, r, "pixel_shuffle");
        const std::int64_t c = x.size(-3) / r / r, h = x.size(-2), w = x.size(-1);
        FERRITE_CHECK(c * r * r == x.size(-3), ShapeError, "pixel_shuffle",
                      "{} channels are no multiple of the square of {}", x.size(-3), r);
        const int n = x.dim() - 3;
        const Tensor parts = x.reshape(with_leading(x, {c, r, r, h, w}));
        const Tensor moved = movedim(parts, {n + 1, n + 2}, {n + 2, n + 4});
        return joined(x, moved, 1, with_leading(x, {c, h * r, w * r}));
      },
      x);
}

Tensor pixel_unshuffle(T x, std::int64_t r) {
  return composite(
      "pixel_unshuffle",
      [&] {
        check_image(x, r, "pixel_unshuffle");
        const std::int64_t c = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
        FERRITE_CHECK(h * r == x.size(-2) && w * r == x.size(-1), ShapeError, "pixel_unshuffle",
                      "{} is no multiple of {}", x.shape(), r);
        const int n = x.dim() - 3;
        const Tensor parts = x.reshape(with_leading(x, {c, h, r, w, r}));
        const Tensor moved = movedim(parts, {n + 2, n + 4}, {n + 1, n + 2});
        return joined(x, moved, 3, with_leading(x, {c * r * r, h, w}));
      },
      x);
}

Tensor channel_shuffle(T x, std::int64_t groups) {
  return composite(
      "channel_shuffle",
      [&] {
        FERRITE_CHECK(x.dim() >= 3 && groups > 0 && x.size(1) % groups == 0, ShapeError,
                      "channel_shuffle", "expected [N, C, ...] with C a multiple of {}, got {}",
                      groups, x.shape());
        const Tensor parts = x.unflatten(1, {groups, x.size(1) / groups});
        return joined(x, parts.transpose(1, 2), 2, x.shape());
      },
      x);
}

namespace {

struct Windows {
  Pair kernel, count, reach;

  Windows(Pair kernel, Pair size, const FoldOptions& o, const char* op)
      : kernel(kernel),
        count(0),
        reach(o.dilation.h * (kernel.h - 1) + 1, o.dilation.w * (kernel.w - 1) + 1) {
    for (const Pair& p : {kernel, o.dilation, o.stride})
      FERRITE_CHECK(p.h > 0 && p.w > 0, ValueError, op,
                    "expected sizes, dilations and strides of 1 or more, got {}, {}", p.h, p.w);
    FERRITE_CHECK(o.padding.h >= 0 && o.padding.w >= 0, ValueError, op,
                  "expected a padding of 0 or more, got {}, {}", o.padding.h, o.padding.w);
    const std::int64_t h = size.h + 2 * o.padding.h - reach.h,
                       w = size.w + 2 * o.padding.w - reach.w;
    FERRITE_CHECK(h >= 0 && w >= 0, ShapeError, op,
                  "windows that reach over {} x {} do not fit an image of {} x {}", reach.h,
                  reach.w, size.h, size.w);
    count = {h / o.stride.h + 1, w / o.stride.w + 1};
  }
};

/// [N, C, H, W] as [N, C kh kw, L].
Tensor unfolded(T x, Pair kernel, const FoldOptions& o, const char* op) {
  const Windows w(kernel, {x.size(2), x.size(3)}, o, op);
  Tensor t = pad(x, {o.padding.w, o.padding.w, o.padding.h, o.padding.h});
  t = t.unfold(2, w.reach.h, o.stride.h).unfold(3, w.reach.w, o.stride.w);
  t = t.slice(4, 0, INT64_MAX, o.dilation.h).slice(5, 0, INT64_MAX, o.dilation.w);
  return t.permute({0, 1, 4, 5, 2, 3})
      .reshape({x.size(0), x.size(1) * kernel.h * kernel.w, w.count.h * w.count.w});
}

}  // namespace

Tensor unfold(T x, Pair kernel_size, const FoldOptions& options) {
  return composite(
      "unfold",
      [&] {
        FERRITE_CHECK((x.dim() == 3 || x.dim() == 4) && x.size(-3) > 0, ShapeError, "unfold",
                      "expected [N, C, H, W] or [C, H, W], got {}", x.shape());
        if (x.dim() == 4) return unfolded(x, kernel_size, options, "unfold");
        return unfolded(x.unsqueeze(0), kernel_size, options, "unfold").squeeze(0);
      },
      x);
}

Tensor fold(T x, Pair output_size, Pair kernel_size, const FoldOptions& options) {
  return composite(
      "fold",
      [&] {
        const Windows w(kernel_size, output_size, options, "fold");
        const std::int64_t k = kernel_size.h * kernel_size.w, l = w.count.h * w.count.w;
        const std::int64_t size = output_size.h * output_size.w;
        FERRITE_CHECK((x.dim() == 2 || x.dim() == 3) && x.size(-2) > 0 && x.size(-2) % k == 0 &&
                          x.size(-1) == l,
                      ShapeError, "fold", "expected [N, C * {}, {}], got {}", k, l, x.shape());
        const std::int64_t c = x.size(-2) / k, n = x.dim() == 3 ? x.size(0) : 1;
        // Where each element of a window comes from, from 1 on; 0 is the padding.
        const Tensor from = no_grad([&] {
          const TensorOptions like{.dtype = kInt64, .device = x.device()};
          const Tensor image = arange(1, size + 1, 1, like);
          return unfolded(image.reshape({1, 1, output_size.h, output_size.w}), kernel_size, options,
                          "fold")
              .reshape({-1});
        });
        const Tensor none = zeros({n * c, size + 1}, {.dtype = x.dtype(), .device = x.device()});
        const Tensor out = index_add(none, 1, from, x.reshape({n * c, k * l})).narrow(1, 1, size);
        const Tensor images = out.reshape({n, c, output_size.h, output_size.w});
        return x.dim() == 3 ? images : images.squeeze(0);
      },
      x);
}

}  // namespace ferrite
