// Epilogues of products: activations, their inputs, and sums of rows.
#include <doctest/doctest.h>

#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/matmul.h"
#include "ferrite/kernels/vendor.h"
#include "ferrite/tests/kit/doctest_context.h"
#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kernels::Activation;
using kernels::MatmulOptions;
using kernels::View;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;

namespace {

constexpr std::initializer_list<DType> kFloats = {kFloat32, kFloat16, kBFloat16, kFloat64};
constexpr std::initializer_list<Activation> kActivations = {Activation::relu, Activation::gelu,
                                                            Activation::gelu_tanh};

/// Sums of k terms below 1.5, plus two more, each addition rounded to float (double); erf and tanh
/// to a few units; and results that are rounded at most twice, where a GELU's slope is below 1.2.
kit::Tolerance tolerance(DType dtype, std::int64_t k, Activation activation) {
  const double unit = dtype == kFloat64 ? 1.2e-16 : 6e-8;
  const double sums = 1.2 * 1.5 * static_cast<double>(k + 3) * unit;
  const double rounding = dtype == kFloat16 ? 5e-4 : dtype == kBFloat16 ? 4e-3 : 4 * unit;
  const bool gelu = activation == Activation::gelu || activation == Activation::gelu_tanh;
  return {.rtol = gelu ? 2 * rounding : rounding, .atol = sums + (gelu ? rounding / 2 : 0)};
}

struct Sizes {
  std::int64_t batch, m, k, n;

  Shape shape(std::int64_t rows, std::int64_t columns) const {
    return batch > 0 ? Shape{batch, rows, columns} : Shape{rows, columns};
  }
};

/// The reference: the product, then the activation.
void unfused(const Stream& stream, const View& out, const View& a, const View& b,
             const MatmulOptions& options) {
  MatmulOptions product = options;
  product.activation = Activation::none;
  product.before_activation = {};
  kernels::matmul(stream, out, a, b, product);
  if (options.before_activation.data) kernels::copy(stream, options.before_activation, out);
  kernels::unary(stream, kernels::unary_op(options.activation), out, out);
}

void check_activation(KernelCase& c, const Sizes& s) {
  const DType dtype = c.pick(kFloats);
  const Activation activation = c.pick(kActivations);
  const bool biased = c.coin(), keeps = c.coin(), across = c.coin();
  const bool scaled = c.coin(), added = !keeps && c.coin();
  const kit::OperandOptions any{.layout = Layout::any, .low = -1, .high = 1};
  const Operand a = c.input(s.shape(s.m, s.k), dtype, any);
  const Operand b = c.input(s.shape(s.k, s.n), dtype, any);
  const Operand bias = biased ? c.input({s.n}, dtype, any) : Operand();
  // Both have the same layout: by rows or by columns.
  const Shape lies = across ? s.shape(s.n, s.m) : s.shape(s.m, s.n);
  const Operand before = keeps ? c.output(lies, dtype) : Operand();
  const Operand out = added ? c.inout(lies, dtype, {.low = -1, .high = 1}) : c.output(lies, dtype);
  const auto call = [&](auto f) {
    return [=](const Stream& stream, const kit::Side& at) {
      const auto turn = [&](const View& v) { return across ? kernels::transposed(v) : v; };
      f(stream, turn(at(out)), at(a), at(b),
        MatmulOptions{.alpha = scaled ? -1.5 : 1,
                      .beta = added ? 0.5 : 0,
                      .bias = at(bias),
                      .activation = activation,
                      .before_activation = keeps ? turn(at(before)) : View()});
    };
  };
  c.run(call(kernels::matmul), call(unfused));
  c.check(out, tolerance(dtype, s.k, activation));
  if (keeps) c.check(before, tolerance(dtype, s.k, Activation::none));
}

void check_sums(KernelCase& c, const Sizes& s) {
  const DType dtype = c.pick(kFloats);
  const bool left = c.coin(), across = c.coin();
  const kit::OperandOptions options{.low = -1, .high = 1};
  const auto turn = [](bool turned, const View& v) { return turned ? kernels::transposed(v) : v; };
  const Operand a = c.input(left ? Shape{s.k, s.m} : Shape{s.m, s.k}, dtype, options);
  const Operand b = c.input({s.k, s.n}, dtype, {.layout = Layout::any, .low = -1, .high = 1});
  const Operand out = c.output(across ? Shape{s.n, s.m} : Shape{s.m, s.n}, dtype);
  const Operand sums = c.output({s.m}, dtype, {.layout = Layout::any});
  c.run(
      [&](const Stream& stream, const kit::Side& at) {
        kernels::matmul(stream, turn(across, at(out)), turn(left, at(a)), at(b),
                        {.row_sums = at(sums)});
      },
      [&](const Stream& stream, const kit::Side& at) {
        const View matrix = turn(left, at(a)), to = at(sums);
        kernels::matmul(stream, turn(across, at(out)), matrix, at(b));
        for (std::int64_t i = 0; i < s.m; ++i) {
          double sum = 0;
          for (std::int64_t j = 0; j < s.k; ++j)
            sum += matrix.as<double>()[i * matrix.strides[0] + j * matrix.strides[1]];
          to.as<double>()[i * to.strides[0]] = sum;
        }
      });
  c.check(out, tolerance(dtype, s.k, Activation::none));
  c.check(sums, tolerance(dtype, s.k, Activation::none));
}

/// Disables cuBLASLt while it lives.
struct OwnProducts {
  OwnProducts() { cublas::set_enabled(false); }
  ~OwnProducts() { cublas::set_enabled(before); }
  bool before = cublas::is_enabled();
};

}  // namespace

TEST_CASE("activations of products of every floating dtype, layout and small size") {
  kit::for_each_case("activated matmul", 120, [](KernelCase& c) {
    check_activation(c, {c.pick<std::int64_t>({0, 0, 1, 3}), c.size(80), c.size(70), c.size(80)});
  });
}

TEST_CASE("activations of products that take several tiles") {
  kit::for_each_case("activated matmul of several tiles", 24, [](KernelCase& c) {
    check_activation(c, {0, c.integer(60, 300), c.integer(1, 60), c.integer(60, 300)});
  });
}

TEST_CASE("activations of products of few rows or columns") {
  kit::for_each_case("activated flat matmul", 48, [](KernelCase& c) {
    const std::int64_t few = c.coin() ? 1 : c.integer(1, 16), many = c.integer(1, 400);
    const bool rows = c.coin();
    check_activation(
        c, {c.pick<std::int64_t>({0, 2}), rows ? few : many, c.integer(1, 200), rows ? many : few});
  });
}

TEST_CASE("activations of long sums, which are cut into parts") {
  kit::for_each_case("activated deep matmul", 32, [](KernelCase& c) {
    check_activation(c, {c.pick<std::int64_t>({0, 2}), c.integer(1, 40), c.integer(500, 3000),
                         c.integer(1, 40)});
  });
  kit::for_each_case("activated very deep matmul", 6, [](KernelCase& c) {
    check_activation(c, {0, c.integer(5, 9), 9000, c.integer(5, 9)});
  });
}

TEST_CASE("a ReLU of a product keeps NaN and infinity") {
  const OwnProducts own;  // cuBLASLt treats NaN differently
  kit::for_each_case("activated matmul of specials", 16, [](KernelCase& c) {
    const DType dtype = c.pick(kFloats);
    const std::int64_t m = c.integer(1, 70), k = c.integer(0, 20), n = c.integer(1, 70);
    const Operand a = c.input({m, k}, dtype, {.low = -1, .high = 1, .special = 0.02});
    const Operand b = c.input({k, n}, dtype, {.low = -1, .high = 1});
    const Operand out = c.output({m, n}, dtype);
    const auto call = [&](auto f) {
      return [=](const Stream& stream, const kit::Side& at) {
        f(stream, at(out), at(a), at(b), MatmulOptions{.activation = Activation::relu});
      };
    };
    c.run(call(kernels::matmul), call(unfused));
    c.check(out, tolerance(dtype, k, Activation::relu));
  });
}

TEST_CASE("sums of rows computed with a product") {
  kit::for_each_case("matmul with sums", 48, [](KernelCase& c) {
    check_sums(c, {0, c.size(80), c.size(200), c.size(80)});
  });
}

TEST_CASE("integers have no activations") {
  const Tensor a = empty({2, 2}, {.dtype = kInt64}), out = empty({2, 2}, {.dtype = kInt64});
  CHECK_THROWS_AS(
      kernels::matmul(current_stream(Device()), out, a, a, {.activation = Activation::relu}),
      DTypeError);
}
