#include "ferrite/ops/fractional_pool.h"

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite {

namespace {

template <int N>
using Extents = std::array<std::int64_t, N>;

/// Where the windows of one dimension begin, int64 [planes, out], for samples [planes, 1] of the
/// input's dtype: PyTorch's sequence.
Tensor begins(const Tensor& sample, std::int64_t in, std::int64_t out, std::int64_t kernel) {
  const Tensor last = full({sample.size(0), 1}, static_cast<double>(in - kernel),
                           {.dtype = kInt64, .device = sample.device()});
  if (out == 1) return last;
  const Tensor number = arange(0, out - 1, 1, {.dtype = sample.dtype(), .device = sample.device()});
  // The quotient of two sizes, rounded as the samples' type rounds it.
  const Tensor alpha = full({}, static_cast<double>(in - kernel),
                            {.dtype = sample.dtype(), .device = sample.device()}) /
                       static_cast<double>(out - 1);
  const Tensor first = trunc((number + sample) * alpha) - trunc(sample * alpha);
  return cat({first.to(kInt64), last}, 1);
}

/// Output sizes that the options give for the planes `in`.
template <int N>
Extents<N> output_sizes(const char* op, const FractionalMaxPoolOptions<N>& o, const Extents<N>& in,
                        const Extents<N>& kernel) {
  FERRITE_CHECK(o.output_size.has_value() != o.output_ratio.has_value(), ValueError, op,
                "expected one of output_size and output_ratio, got {}",
                o.output_size ? "both" : "neither");
  Extents<N> out;
  for (std::size_t d = 0; d < N; ++d) {
    if (o.output_ratio) {
      const double ratio = (*o.output_ratio)[d];
      FERRITE_CHECK(ratio > 0 && ratio < 1, ValueError, op,
                    "output_ratio: expected numbers between 0 and 1, got {}", ratio);
      out[d] = static_cast<std::int64_t>(static_cast<double>(in[d]) * ratio);
    } else {
      out[d] = ops::sizes_of(*o.output_size)[d];
    }
    FERRITE_CHECK(kernel[d] > 0, ValueError, op, "kernel_size: expected 1 or more, got {}",
                  kernel[d]);
    FERRITE_CHECK(out[d] > 0 && out[d] + kernel[d] - 1 <= in[d], ShapeError, op,
                  "{} windows of {} do not fit into {}: expected windows + size - 1 of at most the "
                  "input's size",
                  out[d], kernel[d], in[d]);
  }
  return out;
}

template <int N>
std::pair<Tensor, Tensor> fractional(const char* op, const Tensor& x, SizeOf<N> kernel_size,
                                     const FractionalMaxPoolOptions<N>& o, Generator* generator) {
  FERRITE_CHECK(x.defined(), ValueError, op, "input is undefined");
  FERRITE_CHECK(is_floating(x.dtype()), DTypeError, op, "works on floating types, got {}",
                x.describe());
  FERRITE_CHECK(x.dim() == N + 1 || x.dim() == N + 2, ShapeError, op,
                "expects an input of {} or {} dimensions, got {}", N + 2, N + 1, x.describe());
  const int outer = x.dim() - N;
  std::int64_t planes = 1;
  for (int d = 0; d < outer; ++d) planes *= x.size(d);
  const Extents<N> kernel = ops::sizes_of(kernel_size);
  Extents<N> in;
  for (int d = 0; d < N; ++d) in[static_cast<std::size_t>(d)] = x.size(outer + d);
  const Extents<N> out = output_sizes<N>(op, o, in, kernel);
  Shape samples_shape{outer == 2 ? x.size(0) : 1, x.size(outer - 1), N};
  FERRITE_CHECK(!o.random_samples.defined() || o.random_samples.shape() == samples_shape,
                ShapeError, op, "random_samples: expected {}, got {}", samples_shape,
                o.random_samples.shape());
  return ops::composite(op, [&]() -> std::pair<Tensor, Tensor> {
    // Positions in the plane: [planes, out..., kernel...].
    const Tensor places = no_grad([&] {
      const DType dtype = x.dtype() == kFloat64 ? kFloat64 : kFloat32;
      const Tensor samples =
          (o.random_samples.defined()
               ? o.random_samples.to(x.device()).to(dtype)
               : rand(samples_shape, {.dtype = dtype, .device = x.device()}, generator))
              .reshape({planes, N});
      Tensor sum;
      for (int d = 0; d < N; ++d) {
        const auto i = static_cast<std::size_t>(d);
        // In two dimensions the first sample is the width's.
        const Tensor begin = begins(samples.slice(1, N == 2 ? 1 - d : d, N == 2 ? 2 - d : d + 1),
                                    in[i], out[i], kernel[i]);
        Shape begin_shape{planes}, step_shape{1};
        for (int e = 0; e < 2 * N; ++e) {
          begin_shape.push_back(e == d ? out[i] : 1);
          step_shape.push_back(e == N + d ? kernel[i] : 1);
        }
        const Tensor steps = arange(0, kernel[i], 1, {.dtype = kInt64, .device = x.device()});
        const Tensor at = begin.reshape(begin_shape) + steps.reshape(step_shape);
        sum = d == 0 ? at : sum * in[i] + at;
      }
      return sum;
    });
    Shape shape;
    std::int64_t plane = 1, windows = 1, cells = 1;
    for (int d = 0; d < outer; ++d) shape.push_back(x.size(d));
    for (std::size_t d = 0; d < N; ++d) {
      shape.push_back(out[d]);
      plane *= in[d], windows *= out[d], cells *= kernel[d];
    }
    const Tensor index = places.reshape({planes, windows * cells});
    const auto [values, of_window] =
        max(gather(x.reshape({planes, plane}), 1, index).reshape({planes, windows, cells}), 2);
    const Tensor indices =
        gather(index.reshape({planes, windows, cells}), 2, of_window.unsqueeze(2));
    return {values.reshape(shape), indices.reshape(shape)};
  });
}

}  // namespace

std::pair<Tensor, Tensor> fractional_max_pool2d_with_indices(const Tensor& input, Pair kernel_size,
                                                             const FractionalMaxPool2dOptions& o,
                                                             Generator* generator) {
  return fractional<2>("fractional_max_pool2d", input, kernel_size, o, generator);
}
std::pair<Tensor, Tensor> fractional_max_pool3d_with_indices(const Tensor& input,
                                                             Triple kernel_size,
                                                             const FractionalMaxPool3dOptions& o,
                                                             Generator* generator) {
  return fractional<3>("fractional_max_pool3d", input, kernel_size, o, generator);
}
Tensor fractional_max_pool2d(const Tensor& input, Pair kernel_size,
                             const FractionalMaxPool2dOptions& o, Generator* generator) {
  return fractional_max_pool2d_with_indices(input, kernel_size, o, generator).first;
}
Tensor fractional_max_pool3d(const Tensor& input, Triple kernel_size,
                             const FractionalMaxPool3dOptions& o, Generator* generator) {
  return fractional_max_pool3d_with_indices(input, kernel_size, o, generator).first;
}

}  // namespace ferrite
