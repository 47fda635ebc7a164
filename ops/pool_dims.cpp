// Poolings of one, two and three dimensions, all by that of planes.
#include <array>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/pool_planes.h"
#include "ferrite/ops/renamed.h"
#include "ferrite/ops/traced.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

namespace {

using Indexed = std::pair<Tensor, Tensor>;

// ---- A line is a plane of one row, a volume one pooling of its planes and one along its depth

Pair row(std::int64_t size, std::int64_t other) { return {other, size}; }
OptionalPair row(const std::optional<std::int64_t>& size) {
  return size ? OptionalPair(1, *size) : OptionalPair();
}

/// The options of the planes of a pooling in one or three dimensions.
template <template <int> class Options, int N>
Options<2> of_plane(const Options<N>& o) {
  Options<2> plane{.ceil_mode = o.ceil_mode};
  if constexpr (N == 1) {
    plane.kernel_size = row(o.kernel_size), plane.stride = row(o.stride);
    plane.padding = row(o.padding, 0);
  } else {
    if (o.kernel_size) plane.kernel_size = o.kernel_size->plane();
    if (o.stride) plane.stride = o.stride->plane();
    plane.padding = o.padding.plane();
  }
  if constexpr (requires { plane.dilation; }) {
    if constexpr (N == 1)
      plane.dilation = row(o.dilation, 1);
    else
      plane.dilation = o.dilation.plane();
  } else {
    plane.count_include_pad = o.count_include_pad;
    // The sum of a volume is divided once: after the pooling along its depth.
    if (o.divisor_override) plane.divisor_override = N == 1 ? o.divisor_override : 1;
  }
  return plane;
}

/// Options of the pooling along the depth.
template <template <int> class Options>
Options<2> of_depth(const Options<3>& o) {
  Options<2> depth{.kernel_size = Pair(o.kernel_size->d, 1),
                   .padding = Pair(o.padding.d, 0),
                   .ceil_mode = o.ceil_mode};
  depth.stride = Pair(o.stride.value_or(*o.kernel_size).d, 1);
  if constexpr (requires { depth.dilation; }) {
    depth.dilation = Pair(o.dilation.d, 1);
  } else {
    depth.count_include_pad = o.count_include_pad;
    depth.divisor_override = o.divisor_override;
  }
  return depth;
}

void check_line(const Tensor& x, const char* op) {
  FERRITE_CHECK(x.defined(), ValueError, op, "input is undefined");
  FERRITE_CHECK(x.dim() == 2 || x.dim() == 3, ShapeError, op,
                "expects an input of [N, C, L] or [C, L], got {}", x.describe());
}

template <class Pool>
Tensor pool_line(const Tensor& x, const char* op, Pool pool) {
  check_line(x, op);
  return pool(x.unsqueeze(-2)).squeeze(-2);
}

template <class Pool>
Indexed pool_line_with_indices(const Tensor& x, const char* op, Pool pool) {
  Tensor indices;
  Tensor out = pool_line(x, op, [&](const Tensor& plane) { return pool(plane, &indices); });
  return {out, indices.squeeze(-2)};
}

void check_volume(const Tensor& x, const char* op) {
  FERRITE_CHECK(x.defined(), ValueError, op, "input is undefined");
  FERRITE_CHECK(is_floating(x.dtype()), DTypeError, op,
                "works on floating types, got {}; convert it with to()", x.describe());
  FERRITE_CHECK(x.dim() == 4 || x.dim() == 5, ShapeError, op,
                "expects an input of [N, C, D, H, W] or [C, D, H, W], got {}", x.describe());
  for (int d = x.dim() - 4; d < x.dim(); ++d)
    FERRITE_CHECK(x.size(d) > 0, ShapeError, op,
                  "expects an input that is empty in its batch at most, got {}", x.describe());
}

/// [N, C, D, H, W] as [N * C, D, H, W], and a result of other sizes back.
Tensor stacked(const Tensor& x) {
  const std::int64_t channels = x.dim() == 5 ? x.size(0) * x.size(1) : x.size(0);
  return x.reshape({channels, x.size(-3), x.size(-2), x.size(-1)});
}
Tensor unstacked(const Tensor& t, const Tensor& x) {
  Shape shape = x.shape();
  for (int d = 1; d <= 3; ++d) shape[x.dim() - d] = t.size(-d);
  return t.reshape(shape);
}

/// Pools planes, then, in the form [N * C, 1, D, H * W], along the depth.
template <class Planes, class Depth>
Tensor pool_volume(const Tensor& x, const char* op, Planes planes, Depth depth) {
  check_volume(x, op);
  const Tensor flat = planes(stacked(x));
  const std::int64_t h = flat.size(2), w = flat.size(3);
  const Tensor out = depth(flat.reshape({flat.size(0), 1, flat.size(1), h * w}));
  return unstacked(out.reshape({out.size(0), out.size(2), h, w}), x);
}

template <class Planes, class Depth>
Indexed pool_volume_with_indices(const Tensor& x, const char* op, Planes planes, Depth depth) {
  Tensor in_plane, in_depth;
  const Tensor out = pool_volume(
      x, op, [&](const Tensor& t) { return planes(t, &in_plane); },
      [&](const Tensor& t) { return depth(t, &in_depth); });
  const NoGradGuard guard;
  // in_depth [N * C, 1, D', H' W'] counts d * H' W' + position; -1 stands for no maximum.
  const std::int64_t count = in_plane.size(0), columns = in_plane.size(2) * in_plane.size(3);
  const Tensor at = in_depth.reshape({count, in_depth.size(2) * columns});
  const Tensor plane =
      gather(in_plane.reshape({count, in_plane.size(1) * columns}), 1, clamp_min(at, 0));
  const Tensor position = floor_divide(at, columns) * (x.size(-2) * x.size(-1)) + plane;
  const Tensor indices = where(logical_or(lt(at, 0), lt(plane, 0)), -1, position);
  return {out, indices.reshape(out.shape())};
}

}  // namespace

namespace {

template <class Options>
std::vector<tracing::Attribute> pool_attributes(const Options& o, const char* op) {
  ops::check_kernel_size(o, op);
  const auto kernel = *o.kernel_size;
  std::vector<tracing::Attribute> all{{"kernel_size", ops::size_list(kernel)},
                                      {"stride", ops::size_list(o.stride.value_or(kernel))},
                                      {"padding", ops::size_list(o.padding)},
                                      {"ceil_mode", o.ceil_mode}};
  if constexpr (requires { o.dilation; }) {
    all.push_back({"dilation", ops::size_list(o.dilation)});
  } else {
    all.push_back({"count_include_pad", o.count_include_pad});
    if (o.divisor_override) all.push_back({"divisor_override", *o.divisor_override});
  }
  return all;
}

}  // namespace

// ---- Maxima

Tensor max_pool2d(const Tensor& input, const MaxPool2dOptions& o) {
  if (tracing::on())
    return tracing::op("max_pool", {input}, pool_attributes(o, "max_pool2d"),
                       [&] { return max_pool2d(input, o); });
  const profiler::OpRange range("max_pool2d", input);
  return ops::max_pool_planes("max_pool2d", input, o, nullptr);
}
Tensor max_pool2d(const Tensor& input, Pair kernel_size, const MaxPool2dOptions& o) {
  return max_pool2d(input, ops::with_kernel_size(o, kernel_size, "max_pool2d"));
}
Tensor max_pool2d(const Tensor& input, Pair kernel_size, Pair stride, Pair padding, Pair dilation,
                  bool ceil_mode) {
  return max_pool2d(input, {.kernel_size = kernel_size,
                            .stride = stride,
                            .padding = padding,
                            .dilation = dilation,
                            .ceil_mode = ceil_mode});
}
Indexed max_pool2d_with_indices(const Tensor& input, const MaxPool2dOptions& o) {
  const profiler::OpRange range("max_pool2d_with_indices", input);
  Indexed result;
  result.first = ops::max_pool_planes("max_pool2d", input, o, &result.second);
  return result;
}

namespace {

/// Calls pool(plane, indices) for a line, or its parts for a volume.
auto max_planes(const char* op, const MaxPool2dOptions& o) {
  return [=](const Tensor& t, Tensor* indices = nullptr) {
    return ops::max_pool_planes(op, t, o, indices);
  };
}
auto avg_planes(const char* op, const AvgPool2dOptions& o) {
  return [=](const Tensor& t) { return ops::avg_pool_planes(op, t, o); };
}
auto adaptive_max_planes(const char* op, Pair size) {
  return [=](const Tensor& t, Tensor* indices = nullptr) {
    return ops::adaptive_max_pool_planes(op, t, size, indices);
  };
}
auto adaptive_avg_planes(const char* op, Pair size) {
  return [=](const Tensor& t) { return ops::adaptive_avg_pool_planes(op, t, size); };
}

}  // namespace

Tensor max_pool1d(const Tensor& input, const MaxPool1dOptions& o) {
  if (tracing::on())
    return tracing::op("max_pool", {input}, pool_attributes(o, "max_pool1d"),
                       [&] { return max_pool1d(input, o); });
  const profiler::OpRange range("max_pool1d", input);
  return pool_line(input, "max_pool1d", max_planes("max_pool1d", of_plane<MaxPoolOptions>(o)));
}
Tensor max_pool1d(const Tensor& input, std::int64_t kernel_size, const MaxPool1dOptions& o) {
  return max_pool1d(input, ops::with_kernel_size(o, kernel_size, "max_pool1d"));
}
Indexed max_pool1d_with_indices(const Tensor& input, const MaxPool1dOptions& o) {
  const profiler::OpRange range("max_pool1d_with_indices", input);
  return pool_line_with_indices(input, "max_pool1d",
                                max_planes("max_pool1d", of_plane<MaxPoolOptions>(o)));
}

Tensor max_pool3d(const Tensor& input, const MaxPool3dOptions& o) {
  if (tracing::on())
    return tracing::op("max_pool", {input}, pool_attributes(o, "max_pool3d"),
                       [&] { return max_pool3d(input, o); });
  const profiler::OpRange range("max_pool3d", input);
  ops::check_kernel_size(o, "max_pool3d");
  return pool_volume(input, "max_pool3d", max_planes("max_pool3d", of_plane<MaxPoolOptions>(o)),
                     max_planes("max_pool3d", of_depth<MaxPoolOptions>(o)));
}
Tensor max_pool3d(const Tensor& input, Triple kernel_size, const MaxPool3dOptions& o) {
  return max_pool3d(input, ops::with_kernel_size(o, kernel_size, "max_pool3d"));
}
Indexed max_pool3d_with_indices(const Tensor& input, const MaxPool3dOptions& o) {
  const profiler::OpRange range("max_pool3d_with_indices", input);
  ops::check_kernel_size(o, "max_pool3d");
  return pool_volume_with_indices(input, "max_pool3d",
                                  max_planes("max_pool3d", of_plane<MaxPoolOptions>(o)),
                                  max_planes("max_pool3d", of_depth<MaxPoolOptions>(o)));
}

// ---- Means

Tensor avg_pool2d(const Tensor& input, const AvgPool2dOptions& o) {
  if (tracing::on())
    return tracing::op("avg_pool", {input}, pool_attributes(o, "avg_pool2d"),
                       [&] { return avg_pool2d(input, o); });
  const profiler::OpRange range("avg_pool2d", input);
  return ops::avg_pool_planes("avg_pool2d", input, o);
}
Tensor avg_pool2d(const Tensor& input, Pair kernel_size, const AvgPool2dOptions& o) {
  return avg_pool2d(input, ops::with_kernel_size(o, kernel_size, "avg_pool2d"));
}
Tensor avg_pool2d(const Tensor& input, Pair kernel_size, Pair stride, Pair padding, bool ceil_mode,
                  bool count_include_pad, std::optional<std::int64_t> divisor_override) {
  return avg_pool2d(input, {.kernel_size = kernel_size,
                            .stride = stride,
                            .padding = padding,
                            .ceil_mode = ceil_mode,
                            .count_include_pad = count_include_pad,
                            .divisor_override = divisor_override});
}

namespace {

Tensor avg_line(const char* op, const Tensor& input, const AvgPool1dOptions& o) {
  return pool_line(input, op, avg_planes(op, of_plane<AvgPoolOptions>(o)));
}

Tensor avg_volume(const char* op, const Tensor& input, const AvgPool3dOptions& o) {
  ops::check_kernel_size(o, op);
  // The sums of planes, which only the pooling along the depth divides, can exceed a 16-bit type.
  if (o.divisor_override && input.defined() && is_floating(input.dtype()) &&
      itemsize(input.dtype()) == 2)
    return ops::renamed(op,
                        [&] { return avg_volume(op, input.to(kFloat32), o).to(input.dtype()); });
  return pool_volume(input, op, avg_planes(op, of_plane<AvgPoolOptions>(o)),
                     avg_planes(op, of_depth<AvgPoolOptions>(o)));
}

}  // namespace

Tensor avg_pool1d(const Tensor& input, const AvgPool1dOptions& o) {
  if (tracing::on())
    return tracing::op("avg_pool", {input}, pool_attributes(o, "avg_pool1d"),
                       [&] { return avg_pool1d(input, o); });
  const profiler::OpRange range("avg_pool1d", input);
  return avg_line("avg_pool1d", input, o);
}
Tensor avg_pool1d(const Tensor& input, std::int64_t kernel_size, const AvgPool1dOptions& o) {
  return avg_pool1d(input, ops::with_kernel_size(o, kernel_size, "avg_pool1d"));
}
Tensor avg_pool3d(const Tensor& input, const AvgPool3dOptions& o) {
  if (tracing::on())
    return tracing::op("avg_pool", {input}, pool_attributes(o, "avg_pool3d"),
                       [&] { return avg_pool3d(input, o); });
  const profiler::OpRange range("avg_pool3d", input);
  return avg_volume("avg_pool3d", input, o);
}
Tensor avg_pool3d(const Tensor& input, Triple kernel_size, const AvgPool3dOptions& o) {
  return avg_pool3d(input, ops::with_kernel_size(o, kernel_size, "avg_pool3d"));
}

// ---- Adaptive ones

Tensor adaptive_avg_pool2d(const Tensor& input, Pair size) {
  if (tracing::on())
    return tracing::op("adaptive_avg_pool", {input}, {{"size", ops::size_list(size)}},
                       [&] { return adaptive_avg_pool2d(input, size); });
  const profiler::OpRange range("adaptive_avg_pool2d", input);
  return ops::adaptive_avg_pool_planes("adaptive_avg_pool2d", input, size);
}
Tensor adaptive_max_pool2d(const Tensor& input, Pair size) {
  if (tracing::on())
    return tracing::op("adaptive_max_pool", {input}, {{"size", ops::size_list(size)}},
                       [&] { return adaptive_max_pool2d(input, size); });
  const profiler::OpRange range("adaptive_max_pool2d", input);
  return ops::adaptive_max_pool_planes("adaptive_max_pool2d", input, size, nullptr);
}
Indexed adaptive_max_pool2d_with_indices(const Tensor& input, Pair size) {
  const profiler::OpRange range("adaptive_max_pool2d_with_indices", input);
  Indexed result;
  result.first = ops::adaptive_max_pool_planes("adaptive_max_pool2d", input, size, &result.second);
  return result;
}

Tensor adaptive_avg_pool1d(const Tensor& input, std::int64_t size) {
  if (tracing::on())
    return tracing::op("adaptive_avg_pool", {input}, {{"size", ops::size_list(size)}},
                       [&] { return adaptive_avg_pool1d(input, size); });
  const profiler::OpRange range("adaptive_avg_pool1d", input);
  constexpr const char* op = "adaptive_avg_pool1d";
  return pool_line(input, op, adaptive_avg_planes(op, {1, size}));
}
Tensor adaptive_max_pool1d(const Tensor& input, std::int64_t size) {
  if (tracing::on())
    return tracing::op("adaptive_max_pool", {input}, {{"size", ops::size_list(size)}},
                       [&] { return adaptive_max_pool1d(input, size); });
  const profiler::OpRange range("adaptive_max_pool1d", input);
  constexpr const char* op = "adaptive_max_pool1d";
  return pool_line(input, op, adaptive_max_planes(op, {1, size}));
}
Indexed adaptive_max_pool1d_with_indices(const Tensor& input, std::int64_t size) {
  const profiler::OpRange range("adaptive_max_pool1d_with_indices", input);
  constexpr const char* op = "adaptive_max_pool1d";
  return pool_line_with_indices(input, op, adaptive_max_planes(op, {1, size}));
}

namespace {

/// The columns of all planes keep their places while the depth is pooled.
template <class Pool>
auto along_depth(Pool pool, std::int64_t size) {
  return
      [=](const Tensor& t, auto... indices) { return pool(Pair(size, t.size(3)))(t, indices...); };
}

}  // namespace

Tensor adaptive_avg_pool3d(const Tensor& input, Triple size) {
  if (tracing::on())
    return tracing::op("adaptive_avg_pool", {input}, {{"size", ops::size_list(size)}},
                       [&] { return adaptive_avg_pool3d(input, size); });
  const profiler::OpRange range("adaptive_avg_pool3d", input);
  constexpr const char* op = "adaptive_avg_pool3d";
  const auto pool = [](Pair p) { return adaptive_avg_planes(op, p); };
  return pool_volume(input, op, pool(size.plane()), along_depth(pool, size.d));
}
Tensor adaptive_max_pool3d(const Tensor& input, Triple size) {
  if (tracing::on())
    return tracing::op("adaptive_max_pool", {input}, {{"size", ops::size_list(size)}},
                       [&] { return adaptive_max_pool3d(input, size); });
  const profiler::OpRange range("adaptive_max_pool3d", input);
  constexpr const char* op = "adaptive_max_pool3d";
  const auto pool = [](Pair p) { return adaptive_max_planes(op, p); };
  return pool_volume(input, op, pool(size.plane()), along_depth(pool, size.d));
}
Indexed adaptive_max_pool3d_with_indices(const Tensor& input, Triple size) {
  const profiler::OpRange range("adaptive_max_pool3d_with_indices", input);
  constexpr const char* op = "adaptive_max_pool3d";
  const auto pool = [](Pair p) { return adaptive_max_planes(op, p); };
  return pool_volume_with_indices(input, op, pool(size.plane()), along_depth(pool, size.d));
}

// ---- Power means

namespace {

/// `mean` and `max` pool windows, of `cells` elements each.
template <class Mean, class Max>
Tensor power_mean(const char* op, const Tensor& x, double norm_type, std::int64_t cells, Mean mean,
                  Max max) {
  const profiler::OpRange range(op, x);
  FERRITE_CHECK(x.defined(), ValueError, op, "input is undefined");
  FERRITE_CHECK(is_floating(x.dtype()), DTypeError, op,
                "works on floating types, got {}; convert it with to()", x.describe());
  FERRITE_CHECK(norm_type != 0, ValueError, op, "norm_type must not be 0");
  if (std::isinf(norm_type))
    return ops::renamed(op, [&] { return norm_type > 0 ? max(abs(x)) : neg(max(neg(abs(x)))); });
  const Tensor means = mean(pow(x, norm_type));
  return pow(sign(means) * relu(abs(means)) * static_cast<double>(cells), 1 / norm_type);
}

}  // namespace

Tensor lp_pool1d(const Tensor& input, double norm_type, std::int64_t k, const LPPool1dOptions& o) {
  return power_mean(
      "lp_pool1d", input, norm_type, k,
      [&](const Tensor& x) {
        return avg_line("lp_pool1d", x,
                        {.kernel_size = k, .stride = o.stride, .ceil_mode = o.ceil_mode});
      },
      [&](const Tensor& x) {
        return max_pool1d(x, k, {.stride = o.stride, .ceil_mode = o.ceil_mode});
      });
}
Tensor lp_pool2d(const Tensor& input, double norm_type, Pair k, const LPPool2dOptions& o) {
  return power_mean(
      "lp_pool2d", input, norm_type, k.h * k.w,
      [&](const Tensor& x) {
        return ops::avg_pool_planes(
            "lp_pool2d", x, {.kernel_size = k, .stride = o.stride, .ceil_mode = o.ceil_mode});
      },
      [&](const Tensor& x) {
        return max_pool2d(x, k, {.stride = o.stride, .ceil_mode = o.ceil_mode});
      });
}
Tensor lp_pool3d(const Tensor& input, double norm_type, Triple k, const LPPool3dOptions& o) {
  return power_mean(
      "lp_pool3d", input, norm_type, k.d * k.h * k.w,
      [&](const Tensor& x) {
        return avg_volume("lp_pool3d", x,
                          {.kernel_size = k, .stride = o.stride, .ceil_mode = o.ceil_mode});
      },
      [&](const Tensor& x) {
        return max_pool3d(x, k, {.stride = o.stride, .ceil_mode = o.ceil_mode});
      });
}

// ---- Unpooling

namespace {

template <int N>
Tensor unpool(const char* op, const Tensor& x, const Tensor& indices, SizeOf<N> kernel_size,
              const MaxUnpoolOptions<N>& o) {
  const profiler::OpRange range(op, x, indices);
  FERRITE_CHECK(x.defined() && indices.defined(), ValueError, op,
                "the input or its indices are undefined");
  FERRITE_CHECK(x.dim() == N + 1 || x.dim() == N + 2, ShapeError, op,
                "expects an input of {} or {} dimensions, got {}", N + 2, N + 1, x.describe());
  FERRITE_CHECK(indices.shape() == x.shape(), ShapeError, op,
                "input and indices must agree in shape, got {} and {}", x.describe(),
                indices.describe());
  const int outer = x.dim() - N;
  Shape shape = x.shape(), flat_in, flat_out;
  const auto kernel = ops::sizes_of(kernel_size), padding = ops::sizes_of(o.padding),
             stride = ops::sizes_of(o.stride.value_or(kernel_size));
  for (int d = 0; d < N; ++d) {
    const auto i = static_cast<std::size_t>(d);
    std::int64_t& size = shape[outer + d];
    size = (size - 1) * stride[i] - 2 * padding[i] + kernel[i];
    if (o.output_size) {
      const std::int64_t given = ops::sizes_of(*o.output_size)[i];
      FERRITE_CHECK(given > size - stride[i] && given < size + stride[i], ValueError, op,
                    "expected an output_size {} between {} and {}, got {}: the windows of other "
                    "sizes are not those of the input",
                    d, size - stride[i], size + stride[i], given);
      size = given;
    }
    FERRITE_CHECK(size > 0, ShapeError, op, "the output's size {} would be {} for input {}", d,
                  size, x.describe());
  }
  std::int64_t from = 1, to = 1;
  for (int d = 0; d < x.dim(); ++d) {
    if (d < outer) flat_in.push_back(shape[d]), flat_out.push_back(shape[d]);
    if (d >= outer) from *= x.size(d), to *= shape[d];
  }
  flat_in.push_back(from), flat_out.push_back(to);
  return ops::renamed(op, [&] {
    return scatter(zeros(flat_out, {.dtype = x.dtype(), .device = x.device()}), -1,
                   indices.reshape(flat_in), x.reshape(flat_in))
        .reshape(shape);
  });
}

}  // namespace

Tensor max_unpool1d(const Tensor& input, const Tensor& indices, std::int64_t kernel_size,
                    const MaxUnpool1dOptions& o) {
  return unpool<1>("max_unpool1d", input, indices, kernel_size, o);
}
Tensor max_unpool2d(const Tensor& input, const Tensor& indices, Pair kernel_size,
                    const MaxUnpool2dOptions& o) {
  return unpool<2>("max_unpool2d", input, indices, kernel_size, o);
}
Tensor max_unpool3d(const Tensor& input, const Tensor& indices, Triple kernel_size,
                    const MaxUnpool3dOptions& o) {
  return unpool<3>("max_unpool3d", input, indices, kernel_size, o);
}

}  // namespace ferrite
