#include "ferrite/kernels/cross_entropy.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "ferrite/core/error.h"
#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kernels::CrossEntropyArgs;
using kernels::CrossEntropyResult;
using kernels::View;
using kit::KernelCase;
using kit::Operand;

namespace {

struct Setting {
  DType dtype = kFloat32;
  Shape logits;  // [N, C, ...]
  bool channels_last = false;
  std::int64_t ignore_index = -100;
  double smoothing = 0;
  bool weighted = false;
  bool log_probabilities = false;
  double spread = 3;

  Shape positions() const {
    Shape shape = logits;
    shape[1] = 1;
    return shape;
  }
  std::int64_t classes() const { return logits[1]; }

  /// The shape of operands with the layout of the logits, without gaps, and as the kernel sees it.
  Shape operand() const {
    return channels_last ? Shape{logits[0], logits[2], logits[3], logits[1]} : logits;
  }
  View seen(const View& operand) const {
    View v = operand;
    constexpr int kOrder[] = {0, 3, 1, 2};
    for (int d = 0; channels_last && d < 4; ++d) {
      v.sizes[d] = operand.sizes[kOrder[d]];
      v.strides[d] = operand.strides[kOrder[d]];
    }
    return v;
  }
};

Setting draw(KernelCase& c, const Shape& logits) {
  Setting s;
  s.dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
  s.logits = logits;
  s.channels_last = logits.size() == 4 && c.coin();
  s.smoothing = c.pick({0.0, 0.1});
  s.weighted = c.coin();
  s.log_probabilities = c.integer(0, 4) == 0;
  s.spread = c.pick({3.0, 30.0});
  // Sometimes an existing class.
  if (c.coin()) s.ignore_index = c.integer(0, std::max<std::int64_t>(0, s.classes() - 1));
  return s;
}

struct Operands {
  Operand logits, target, weight;

  Operands(KernelCase& c, const Setting& s) {
    logits = c.input(s.operand(), s.dtype,
                     {.low = -s.spread, .high = s.log_probabilities ? 0 : s.spread});
    Tensor classes = empty(s.positions(), {.dtype = kInt64});
    for (std::int64_t i = 0; i < classes.numel(); ++i)
      classes.data<std::int64_t>()[i] =
          c.integer(0, 9) == 0 ? s.ignore_index : c.integer(0, s.classes() - 1);
    target = c.input(classes, kInt64);
    if (s.weighted)
      weight = c.input({s.classes()}, s.dtype == kFloat64 ? kFloat64 : kFloat32,
                       {.misalignment = 0, .low = 0.5, .high = 2});
  }

  CrossEntropyArgs args(const Setting& s, const kit::Side& at) const {
    return {.logits = s.seen(at(logits)),
            .dim = 1,
            .target = at(target),
            .weight = at(weight),
            .ignore_index = s.ignore_index,
            .label_smoothing = s.smoothing,
            .log_probabilities = s.log_probabilities};
  }
};

/// Losses are differences of values as large as the logits, and log sums are computed in float32
/// except for float64.
kit::Tolerance tolerance_of(const Setting& s, DType out) {
  const bool wide = s.dtype == kFloat64;
  return {.rtol = out == kFloat16    ? 1e-3
                  : out == kBFloat16 ? 8e-3
                  : wide             ? 1e-12
                                     : 1e-5,
          .atol = (wide ? 1e-13 : 2e-6) * s.spread};
}

void check_forward(KernelCase& c, const Setting& s) {
  const Operands operands(c, s);
  Operand losses, log_sums, sum, mean, divisor;
  // Each of them is optional.
  if (c.coin()) losses = c.output(s.positions(), s.dtype);
  if (c.coin()) log_sums = c.output(s.positions(), kFloat64);
  if (c.coin()) sum = c.output({1}, c.pick({kFloat32, kFloat64}));
  if (c.coin()) mean = c.output({1}, s.dtype);
  if (c.coin()) divisor = c.output({1}, kFloat64);
  c.run([&](const Stream& stream, const kit::Side& at) {
    kernels::cross_entropy(stream, operands.args(s, at),
                           {.losses = at(losses),
                            .log_sums = at(log_sums),
                            .sum = at(sum),
                            .mean = at(mean),
                            .divisor = at(divisor)});
  });
  if (losses.number >= 0) c.check(losses, tolerance_of(s, s.dtype));
  if (log_sums.number >= 0)
    c.check(log_sums, tolerance_of(s, kFloat64 == s.dtype ? kFloat64 : kFloat32));
  if (sum.number >= 0) {
    kit::Tolerance tolerance = tolerance_of(s, kFloat32);
    if (c.result(sum).dtype() == kFloat32) tolerance.rtol = 1e-5;
    tolerance.atol *= static_cast<double>(s.positions().numel());
    c.check(sum, tolerance);
  }
  if (mean.number >= 0) c.check(mean, tolerance_of(s, s.dtype));
  if (divisor.number >= 0) c.check(divisor, {.rtol = 1e-6});
}

void check_backward(KernelCase& c, const Setting& s) {
  const Operands operands(c, s);
  const bool each = c.coin();  // a gradient for each position
  const Operand grad = each ? c.input(s.positions(), s.dtype, {.low = 0.5, .high = 2})
                            : c.input({1}, s.dtype, {.low = 0.5, .high = 2});
  Operand divisor;
  if (!each && c.coin()) divisor = c.input({1}, kFloat64, {.low = 1, .high = 3});
  const Operand log_sums = c.inout(s.positions(), kFloat64);
  const Operand out = c.output(s.operand(), s.dtype);
  c.run([&](const Stream& stream, const kit::Side& at) {
    const CrossEntropyArgs args = operands.args(s, at);
    kernels::cross_entropy(stream, args, {.log_sums = at(log_sums)});
    kernels::cross_entropy_backward(
        stream, at(out), args, s.log_probabilities ? View() : at(log_sums), at(grad), at(divisor));
  });
  kit::Tolerance tolerance = tolerance_of(s, s.dtype);
  tolerance.atol *= 2;  // the selected class's gradient: of probabilities and weights of up to 2
  c.check(out, tolerance);
}

Tensor filled_with_0(const Shape& shape, DType dtype) {
  const Tensor t = empty(shape, {.dtype = dtype});
  std::memset(t.data_ptr(), 0, t.nbytes());
  return t;
}

}  // namespace

TEST_CASE("cross_entropy of any layout, with weights, smoothing and ignored targets") {
  kit::for_each_case("cross_entropy", 120, [](KernelCase& c) {
    Shape shape{c.size(300, 1), c.size(40, 1)};
    if (c.coin()) shape = {c.integer(1, 4), c.integer(1, 25), c.integer(1, 9), c.integer(1, 9)};
    const Setting s = draw(c, shape);
    c.coin() ? check_forward(c, s) : check_backward(c, s);
  });
}

TEST_CASE("cross_entropy of many classes and of many positions") {
  kit::for_each_case("cross_entropy large", 40, [](KernelCase& c) {
    Shape shape;
    switch (c.integer(0, 3)) {
      case 0:
        shape = {c.integer(1, 9), c.integer(30, 140) * 8};
        break;
      case 1:  // one block per row
        shape = {c.integer(1, 3), c.integer(2100, 2600) * 8};
        break;
      case 2:  // columns shared by several threads
        shape = {1, c.integer(100, 300), c.integer(2, 12), c.integer(2, 9)};
        break;
      default:
        shape = {c.integer(500, 1500), c.integer(2, 12)};
    }
    const Setting s = draw(c, shape);
    c.coin() ? check_forward(c, s) : check_backward(c, s);
  });
}

TEST_CASE("cross_entropy without positions, or with all ignored") {
  kit::for_each_case("cross_entropy nothing", 8, [](KernelCase& c) {
    Setting s;
    s.logits = {c.coin() ? 0 : 5, 3};
    Tensor target = empty(s.positions(), {.dtype = kInt64});
    for (std::int64_t i = 0; i < target.numel(); ++i)
      target.data<std::int64_t>()[i] = s.ignore_index;
    const Operand logits = c.input(s.logits, kFloat32), classes = c.input(target, kInt64);
    const Operand sum = c.output({1}, kFloat32), mean = c.output({1}, kFloat32);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::cross_entropy(stream, {.logits = at(logits), .target = at(classes)},
                             {.sum = at(sum), .mean = at(mean)});
    });
    c.check_values(sum, {0});
    c.check_values(mean, {std::numeric_limits<double>::quiet_NaN()});
  });
}

TEST_CASE("cross_entropy of infinite logits agrees with the host") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  kit::for_each_case("cross_entropy infinities", 16, [&](KernelCase& c) {
    Setting s;
    s.dtype = c.pick({kFloat32, kFloat64});
    s.smoothing = c.pick({0.0, 0.1});
    const bool columns = c.coin();
    s.logits = columns ? Shape{1, 4, 2, 3} : Shape{6, 4};
    const std::vector<std::vector<double>> rows = {{-kInf, -kInf, -kInf, -kInf},
                                                   {-kInf, 1, -kInf, 2},
                                                   {kInf, 1, 2, 3},
                                                   {nan, 1, 2, 3},
                                                   {1, -kInf, 2, 3},
                                                   {1, 2, 3, 4}};
    Tensor values = empty(s.logits, {.dtype = kFloat64});
    for (std::int64_t r = 0; r < 6; ++r)
      for (std::int64_t k = 0; k < 4; ++k)
        values.data<double>()[columns ? k * 6 + r : r * 4 + k] =
            rows[static_cast<std::size_t>(r)][static_cast<std::size_t>(k)];
    const Operand logits = c.input(values, s.dtype);
    const Operand target = c.input(s.positions(), kInt64, {.low = 0, .high = 3});
    const Operand losses = c.output(s.positions(), s.dtype);
    const Operand log_sums = c.output(s.positions(), kFloat64);
    const Operand out = c.output(s.logits, s.dtype);
    const Operand grad = c.input({1}, s.dtype, {.low = 1, .high = 1});
    c.run([&](const Stream& stream, const kit::Side& at) {
      const CrossEntropyArgs args{
          .logits = at(logits), .target = at(target), .label_smoothing = s.smoothing};
      kernels::cross_entropy(stream, args, {.losses = at(losses), .log_sums = at(log_sums)});
      kernels::cross_entropy_backward(stream, at(out), args, at(log_sums), at(grad), {});
    });
    const kit::Tolerance tolerance{.rtol = 1e-5, .atol = 1e-6};
    c.check(losses, tolerance);
    c.check(log_sums, tolerance);
    c.check(out, tolerance);
  });
}

TEST_CASE("waiting for the stream reports a class out of range") {
  for (const Device& device : kit::test_devices()) {
    CAPTURE(device);
    const Tensor logits = filled_with_0({2, 5, 2, 2}, kFloat32).to(device);
    Tensor target = filled_with_0({2, 1, 2, 2}, kInt64);
    target.data<std::int64_t>()[5] = 7;  // image 1, row 0, column 1
    const Tensor where = target.to(device);
    const Tensor losses = empty({2, 1, 2, 2}, {.device = device});
    for (const bool log_probabilities : {false, true}) {
      const Stream stream = current_stream(device);
      std::string message;
      try {
        kernels::cross_entropy(
            stream, {.logits = logits, .target = where, .log_probabilities = log_probabilities},
            {.losses = losses});
        stream.synchronize();
      } catch (const IndexError& error) {
        message = error.what();
      }
      CHECK(message.find(log_probabilities ? "nll_loss" : "cross_entropy") != std::string::npos);
      CHECK(message.find("target 7 at position [1, 0, 1] is out of range for 5 classes") !=
            std::string::npos);
    }
  }
}
