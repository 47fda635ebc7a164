#include "ferrite/ops/matmul.h"

#include <utility>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/elementwise.h"
#include "ferrite/kernels/matmul.h"
#include "ferrite/ops/activation_gradient.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/reduce.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using kernels::Activation;
using kernels::MatmulOptions;
using kernels::transposed;
using kernels::View;

namespace {

void check_operands(const Tensor& a, const Tensor& b, const char* op) {
  FERRITE_CHECK(a.defined() && b.defined(), ValueError, op, "an operand is undefined");
  FERRITE_CHECK(a.device() == b.device(), DeviceError, op,
                "the operands are on different devices: {} and {}; move one with to(device)",
                a.describe(), b.describe());
  FERRITE_CHECK(a.dtype() == b.dtype(), DTypeError, op,
                "expected operands of one dtype, got {} and {}; convert one with to(dtype)",
                a.describe(), b.describe());
  if (a.is_complex()) ferrite::detail::fail_type(op, a.dtype());
  FERRITE_CHECK(is_floating(a.dtype()) || itemsize(a.dtype()) > 2, DTypeError, op,
                "does not work on {}; convert the operands with to(dtype)", a.dtype());
}

void check_inner(const Tensor& a, const Tensor& b, const char* op) {
  const std::int64_t rows = b.size(b.dim() == 1 ? 0 : -2);
  FERRITE_CHECK(a.size(-1) == rows, ShapeError, op,
                "{} times {}: the first one's {} columns do not fit the second one's {} rows",
                a.shape(), b.shape(), a.size(-1), rows);
}

void check_product(const Tensor& a, const Tensor& b, int dim, const char* op) {
  check_operands(a, b, op);
  FERRITE_CHECK(a.dim() == dim && b.dim() == dim, ShapeError, op,
                "expected two {}-dimensional tensors, got {} and {}", dim, a.shape(), b.shape());
  check_inner(a, b, op);
  FERRITE_CHECK(dim == 2 || a.size(0) == b.size(0), ShapeError, op,
                "the batches of {} and {} differ", a.shape(), b.shape());
}

/// The product off the tape, as a new tensor of `like`'s dtype and device.
Tensor product(const Tensor& like, const View& a, const View& b,
               const MatmulOptions& options = {}) {
  Shape shape;
  for (int i = 0; i < a.ndim - 1; ++i) shape.push_back(a.sizes[i]);
  shape.push_back(b.sizes[b.ndim - 1]);
  Tensor out = empty(shape, {.dtype = like.dtype(), .device = like.device()});
  kernels::matmul(current_stream(out.device()), out, a, b, options);
  return out;
}

Tensor recorded_product(const Tensor& a, const Tensor& b, const char* op);

/// grad b^T and a^T grad: on the tape only if they are to be differentiated again.
Tensor times_transposed(const Tensor& grad, const Tensor& b, const char* op) {
  return grad_enabled() ? recorded_product(grad, b.transpose(-2, -1), op)
                        : product(grad, grad, transposed(b));
}
Tensor transposed_times(const Tensor& a, const Tensor& grad, const char* op) {
  return grad_enabled() ? recorded_product(a.transpose(-2, -1), grad, op)
                        : product(grad, transposed(a), grad);
}

/// The product of two matrices, or of two batches of them.
Tensor recorded_product(const Tensor& a, const Tensor& b, const char* op) {
  Tensor out = product(a, a, b);
  if (recording(a, b))
    record(
        out, op, {a, b},
        [a = Saved(b.requires_grad() ? a : Tensor()), b = Saved(a.requires_grad() ? b : Tensor()),
         op](const Tensor& grad, Needs needs) -> Gradients {
          return {needs[0] ? times_transposed(grad, b.get(), op) : Tensor(),
                  needs[1] ? transposed_times(a.get(), grad, op) : Tensor()};
        });
  return out;
}

Tensor column_sum(const Tensor& grad) {
  if (grad_enabled()) return sum(grad, {0});
  Tensor out = empty({grad.size(1)}, {.dtype = grad.dtype(), .device = grad.device()});
  kernels::column_sum(current_stream(out.device()), out, grad);
  return out;
}

Shape leading(const Tensor& t, int dims) {
  return Shape(std::span(t.shape().begin(), static_cast<std::size_t>(dims)));
}

}  // namespace

// ---- mm, bmm, mv, dot, outer

Tensor mm(const Tensor& a, const Tensor& b) {
  if (tracing::on()) return tracing::op("matmul", {a, b}, {}, [&] { return mm(a, b); });
  if (const auto cast = ops::autocast(AutocastOp::matmul, a, b)) {
    const auto& [x, y] = *cast;
    return mm(x, y);
  }
  const profiler::OpRange range("mm", a, b);
  check_product(a, b, 2, "mm");
  return recorded_product(a, b, "mm");
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  if (tracing::on()) return tracing::op("matmul", {a, b}, {}, [&] { return bmm(a, b); });
  if (const auto cast = ops::autocast(AutocastOp::matmul, a, b)) {
    const auto& [x, y] = *cast;
    return bmm(x, y);
  }
  const profiler::OpRange range("bmm", a, b);
  check_product(a, b, 3, "bmm");
  return recorded_product(a, b, "bmm");
}

Tensor mv(const Tensor& a, const Tensor& b) {
  if (tracing::on()) return tracing::op("matmul", {a, b}, {}, [&] { return mv(a, b); });
  if (const auto cast = ops::autocast(AutocastOp::matmul, a, b)) {
    const auto& [x, y] = *cast;
    return mv(x, y);
  }
  const profiler::OpRange range("mv", a, b);
  check_operands(a, b, "mv");
  FERRITE_CHECK(a.dim() == 2 && b.dim() == 1 && a.size(1) == b.size(0), ShapeError, "mv",
                "expected [m, k] and [k], got {} and {}", a.shape(), b.shape());
  return recorded_product(a, b.unsqueeze(1), "mv").squeeze(1);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  if (tracing::on()) return tracing::op("matmul", {a, b}, {}, [&] { return dot(a, b); });
  if (const auto cast = ops::autocast(AutocastOp::dot, a, b)) {
    const auto& [x, y] = *cast;
    return dot(x, y);
  }
  const profiler::OpRange range("dot", a, b);
  check_operands(a, b, "dot");
  FERRITE_CHECK(a.dim() == 1 && b.dim() == 1 && a.size(0) == b.size(0), ShapeError, "dot",
                "expected two vectors of one size, got {} and {}", a.shape(), b.shape());
  return recorded_product(a.unsqueeze(0), b.unsqueeze(1), "dot").reshape({});
}

Tensor outer(const Tensor& a, const Tensor& b) {
  const profiler::OpRange range("outer", a, b);
  ops::check_same_device(a, b, "outer");
  FERRITE_CHECK(a.dim() == 1 && b.dim() == 1, ShapeError, "outer",
                "expected two vectors, got {} and {}", a.shape(), b.shape());
  return mul(a.unsqueeze(1), b.unsqueeze(0));
}

// ---- matmul

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (tracing::on()) return tracing::op("matmul", {a, b}, {}, [&] { return matmul(a, b); });
  if (const auto cast = ops::autocast(AutocastOp::matmul, a, b)) {
    const auto& [x, y] = *cast;
    return matmul(x, y);
  }
  const profiler::OpRange range("matmul", a, b);
  if (a.defined() && b.defined() && a.is_complex() && a.dtype() == b.dtype()) {
    const autograd::AutocastScope off(nullptr);
    const Tensor ar = real(a), ai = imag(a), br = real(b), bi = imag(b);
    return complex(matmul(ar, br) - matmul(ai, bi), matmul(ar, bi) + matmul(ai, br));
  }
  check_operands(a, b, "matmul");
  FERRITE_CHECK(a.dim() > 0 && b.dim() > 0, ShapeError, "matmul",
                "expected at least one dimension each, got {} and {}; use mul for scalars",
                a.shape(), b.shape());
  check_inner(a, b, "matmul");
  if (a.dim() == 1 && b.dim() == 1) return dot(a, b);
  if (a.dim() == 1) return matmul(a.unsqueeze(0), b).squeeze(-2);
  if (b.dim() == 1) return matmul(a, b.unsqueeze(1)).squeeze(-1);
  if (a.dim() == 2 && b.dim() == 2) return recorded_product(a, b, "matmul");

  if (b.dim() == 2) {  // one product of all rows
    Shape shape = leading(a, a.dim() - 1);
    const Tensor rows = a.reshape({shape.numel(), a.size(-1)});
    shape.push_back(b.size(-1));
    return recorded_product(rows, b, "matmul").reshape(shape);
  }
  Shape shape = broadcast_shapes(leading(a, a.dim() - 2), leading(b, b.dim() - 2), "matmul");
  const auto batch_of = [&](const Tensor& t) {
    Shape expanded = shape;
    expanded.push_back(t.size(-2));
    expanded.push_back(t.size(-1));
    return t.expand(expanded).reshape({shape.numel(), t.size(-2), t.size(-1)});
  };
  const Tensor out = recorded_product(batch_of(a), batch_of(b), "matmul");
  shape.push_back(a.size(-2));
  shape.push_back(b.size(-1));
  return out.reshape(shape);
}

// ---- addmm

namespace {

/// The result off the tape.
Tensor added_product(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta,
                     Scalar alpha, Activation activation, const char* op) {
  check_product(a, b, 2, op);
  check_operands(input, a, op);
  const Shape shape{a.size(0), b.size(1)};
  FERRITE_CHECK(broadcast_shapes(input.shape(), shape, op) == shape, ShapeError, op,
                "input {} does not broadcast to the product's {}", input.shape(), shape);
  const double scale = beta.to<double>();
  const View start = ops::operand(input, a.dtype(), shape, a.device());
  Tensor out = empty(shape, {.dtype = a.dtype(), .device = a.device()});
  const Stream stream = current_stream(a.device());
  MatmulOptions options{.alpha = alpha.to<double>(), .activation = activation};
  if (scale == 1 && start.strides[0] == 0) {  // one row added to all rows: fused with the product
    options.bias = start;
    options.bias.ndim = 1;
    options.bias.numel = options.bias.sizes[0] = start.sizes[1];
    options.bias.strides[0] = start.strides[1];
  } else if (scale != 0) {
    kernels::binary(stream, kernels::BinaryOp::mul, out, start, beta);
    options.beta = 1;
  }
  kernels::matmul(stream, out, a, b, options);
  return out;
}

/// The gradients of input, a and b from that of beta * input + alpha * (a b). The gradient of a row
/// added to all rows is computed together with that of b, which reads the same data.
Gradients added_product_gradients(const Tensor& grad, const ops::Like& input, const Saved& a,
                                  const Saved& b, Scalar beta, Scalar alpha, Needs needs,
                                  const char* op) {
  const auto times = [&](Scalar s) { return s.to<double>() == 1 ? grad : grad * s; };
  const Tensor scaled = needs[1] || needs[2] ? times(alpha) : Tensor();
  Gradients result(3);
  if (needs[1]) result[1] = times_transposed(scaled, b.get(), op);
  const bool plain = beta.to<double>() == 1 && alpha.to<double>() == 1;
  if (needs[0] && needs[2] && plain && input.shape == Shape{grad.size(1)} && !grad_enabled()) {
    const TensorOptions like{.dtype = grad.dtype(), .device = grad.device()};
    const Tensor left = a.get();
    result[0] = empty(input.shape, like);
    result[2] = empty({left.size(1), grad.size(1)}, like);
    kernels::matmul(current_stream(grad.device()), transposed(result[2]), transposed(grad), left,
                    {.row_sums = result[0]});
    return result;
  }
  if (needs[0]) result[0] = input.reduce(times(beta));
  if (needs[2]) result[2] = transposed_times(a.get(), scaled, op);
  return result;
}

}  // namespace

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  if (tracing::on())
    return tracing::op("addmm", {input, a, b}, {{"beta", beta}, {"alpha", alpha}},
                       [&] { return addmm(input, a, b, beta, alpha); });
  if (const auto cast = ops::autocast(AutocastOp::addmm, input, a, b)) {
    const auto& [start, x, y] = *cast;
    return addmm(start, x, y, beta, alpha);
  }
  const profiler::OpRange range("addmm", input, a, b);
  Tensor out = added_product(input, a, b, beta, alpha, Activation::none, "addmm");
  if (recording(input, a, b))
    record(out, "addmm", {input, a, b},
           [like = ops::Like(input), a = Saved(b.requires_grad() ? a : Tensor()),
            b = Saved(a.requires_grad() ? b : Tensor()), beta,
            alpha](const Tensor& grad, Needs needs) -> Gradients {
             return added_product_gradients(grad, like, a, b, beta, alpha, needs, "addmm");
           });
  return out;
}

Tensor addmm_relu(const Tensor& input, const Tensor& a, const Tensor& b) {
  if (tracing::on()) return relu(addmm(input, a, b));
  if (const auto cast = ops::autocast(AutocastOp::addmm, input, a, b)) {
    const auto& [start, x, y] = *cast;
    return addmm_relu(start, x, y);
  }
  const profiler::OpRange range("addmm_relu", input, a, b);
  const bool floating = a.defined() && is_floating(a.dtype());
  Tensor out = added_product(input, a, b, 1, 1, floating ? Activation::relu : Activation::none,
                             "addmm_relu");
  if (!floating) return relu(out);
  if (recording(input, a, b))
    record(out, "addmm_relu", {input, a, b},
           [like = ops::Like(input), a = Saved(b.requires_grad() ? a : Tensor()),
            b = Saved(a.requires_grad() ? b : Tensor()),
            y = Saved::output(out)](const Tensor& grad, Needs needs) -> Gradients {
             return added_product_gradients(ops::relu_gradient(grad, y.get()), like, a, b, 1, 1,
                                            needs, "addmm_relu");
           });
  return out;
}

// ---- linear

namespace {

void check_linear(const Tensor& input, const Tensor& weight, const Tensor& bias, const char* op) {
  check_operands(input, weight, op);
  FERRITE_CHECK(weight.dim() == 2 && input.dim() > 0, ShapeError, op,
                "expected an input [..., in] and a weight [out, in], got {} and {}", input.shape(),
                weight.shape());
  FERRITE_CHECK(input.size(-1) == weight.size(1), ShapeError, op,
                "input {} has {} features, weight {} expects {}", input.shape(), input.size(-1),
                weight.shape(), weight.size(1));
  if (!bias.defined()) return;
  check_operands(bias, weight, op);
  FERRITE_CHECK(bias.dim() == 1 && bias.size(0) == weight.size(0), ShapeError, op,
                "expected a bias [{}], got {}", weight.size(0), bias.shape());
}

View optional_view(const Tensor& t) { return t.defined() ? View(t) : View(); }

/// Calls f(rows) with the input as a matrix, and restores the input's leading dimensions in the
/// result.
template <class F>
Tensor in_rows(const Tensor& input, const Tensor& weight, F f) {
  Shape shape = leading(input, input.dim() - 1);
  const Tensor rows = input.reshape({shape.numel(), weight.size(1)});
  shape.push_back(weight.size(0));
  return f(rows).reshape(shape);
}

/// The gradients of input, weight and bias from that of the product: the bias's together with the
/// weight's, which reads the same data.
Gradients linear_gradients(const Tensor& grad, const Saved& input, const Saved& weight, Needs needs,
                           const char* op) {
  Gradients result(3);
  if (needs[0])
    result[0] = grad_enabled() ? recorded_product(grad, weight.get(), op)
                               : product(grad, grad, weight.get());
  if (needs[1] && needs[2] && !grad_enabled()) {
    result[2] = empty({grad.size(1)}, {.dtype = grad.dtype(), .device = grad.device()});
    result[1] = product(grad, transposed(grad), input.get(), {.row_sums = result[2]});
    return result;
  }
  if (needs[1]) result[1] = transposed_times(grad, input.get(), op);
  if (needs[2]) result[2] = column_sum(grad);
  return result;
}

}  // namespace

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (tracing::on())
    return tracing::op("linear", {input, weight, bias}, {},
                       [&] { return linear(input, weight, bias); });
  if (const auto cast = ops::autocast(AutocastOp::linear, input, weight, bias)) {
    const auto& [x, w, b] = *cast;
    return linear(x, w, b);
  }
  const profiler::OpRange range("linear", input, weight, bias);
  check_linear(input, weight, bias, "linear");
  if (input.dim() != 2)
    return in_rows(input, weight, [&](const Tensor& rows) { return linear(rows, weight, bias); });
  Tensor out = product(input, input, transposed(weight), {.bias = optional_view(bias)});
  if (recording(input, weight, bias))
    record(out, "linear", {input, weight, bias},
           [x = Saved(weight.requires_grad() ? input : Tensor()),
            w = Saved(input.requires_grad() ? weight : Tensor())](const Tensor& grad, Needs needs)
               -> Gradients { return linear_gradients(grad, x, w, needs, "linear"); });
  return out;
}

Tensor linear_relu(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (tracing::on()) return relu(linear(input, weight, bias));
  if (const auto cast = ops::autocast(AutocastOp::linear, input, weight, bias)) {
    const auto& [x, w, b] = *cast;
    return linear_relu(x, w, b);
  }
  const profiler::OpRange range("linear_relu", input, weight, bias);
  check_linear(input, weight, bias, "linear_relu");
  if (!is_floating(input.dtype())) return relu(linear(input, weight, bias));
  if (input.dim() != 2)
    return in_rows(input, weight,
                   [&](const Tensor& rows) { return linear_relu(rows, weight, bias); });
  Tensor out = product(input, input, transposed(weight),
                       {.bias = optional_view(bias), .activation = Activation::relu});
  if (recording(input, weight, bias))
    record(out, "linear_relu", {input, weight, bias},
           [x = Saved(weight.requires_grad() ? input : Tensor()),
            w = Saved(input.requires_grad() ? weight : Tensor()),
            y = Saved::output(out)](const Tensor& grad, Needs needs) -> Gradients {
             return linear_gradients(ops::relu_gradient(grad, y.get()), x, w, needs, "linear_relu");
           });
  return out;
}

Tensor linear_gelu(const Tensor& input, const Tensor& weight, const Tensor& bias,
                   GeluApproximation approximation) {
  if (tracing::on()) return gelu(linear(input, weight, bias), approximation);
  if (const auto cast = ops::autocast(AutocastOp::linear, input, weight, bias)) {
    const auto& [x, w, b] = *cast;
    return linear_gelu(x, w, b, approximation);
  }
  const profiler::OpRange range("linear_gelu", input, weight, bias);
  check_linear(input, weight, bias, "linear_gelu");
  if (!is_floating(input.dtype())) return gelu(linear(input, weight, bias), approximation);
  if (input.dim() != 2)
    return in_rows(input, weight, [&](const Tensor& rows) {
      return linear_gelu(rows, weight, bias, approximation);
    });
  const bool records = recording(input, weight, bias);
  const Tensor before = records ? empty({input.size(0), weight.size(0)},
                                        {.dtype = input.dtype(), .device = input.device()})
                                : Tensor();
  Tensor out =
      product(input, input, transposed(weight),
              {.bias = optional_view(bias),
               .activation = approximation == GeluApproximation::tanh ? Activation::gelu_tanh
                                                                      : Activation::gelu,
               .before_activation = optional_view(before)});
  if (records)
    record(out, "linear_gelu", {input, weight, bias},
           [x = Saved(input), w = Saved(weight), b = Saved(bias), before = Saved(before),
            approximation](const Tensor& grad, Needs needs) -> Gradients {
             // If it is to be differentiated again, the sum itself must be on the tape.
             const Tensor total = grad_enabled() ? linear(x.get(), w.get(), b.get()) : before.get();
             return linear_gradients(ops::gelu_gradient(grad, total, approximation), x, w, needs,
                                     "linear_gelu");
           });
  return out;
}

}  // namespace ferrite
