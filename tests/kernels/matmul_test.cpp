#include "ferrite/kernels/matmul.h"

#include <doctest/doctest.h>

#include "ferrite/tests/kit/doctest_context.h"
#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;

namespace {

/// The sizes of a product; a batch of 0 means matrices without a batch dimension.
struct Sizes {
  std::int64_t batch, m, k, n;

  Shape shape(std::int64_t rows, std::int64_t columns) const {
    return batch > 0 ? Shape{batch, rows, columns} : Shape{rows, columns};
  }
};

/// Sums of k terms below 1.5, plus two more, each addition rounded to float (double), before the
/// result is rounded to its type.
kit::Tolerance tolerance(DType dtype, std::int64_t k) {
  return {.atol = 1.5 * static_cast<double>(k + 3) * (dtype == kFloat64 ? 1e-16 : 6e-8)};
}

/// A product of operands of any layout, scaled, accumulated, and sometimes with a bias.
void check_product(KernelCase& c, DType dtype, const Sizes& s) {
  const bool scaled = c.coin(), added = c.coin(), biased = c.coin();
  const auto any = [&] { return kit::OperandOptions{.layout = Layout::any, .low = -1, .high = 1}; };
  const Operand a = c.input(s.shape(s.m, s.k), dtype, any());
  const Operand b = c.input(s.shape(s.k, s.n), dtype, any());
  const Operand bias = biased ? c.input({s.n}, dtype, any()) : Operand();
  const Operand out =
      added ? c.inout(s.shape(s.m, s.n), dtype, any()) : c.output(s.shape(s.m, s.n), dtype, any());
  c.run([&](const Stream& stream, const kit::Side& at) {
    kernels::matmul(stream, at(out), at(a), at(b),
                    {.alpha = scaled ? -1.5 : 1, .beta = added ? 2.25 : 0, .bias = at(bias)});
  });
  c.check(out, tolerance(dtype, s.k));
}

constexpr std::initializer_list<DType> kTypes = {kFloat32, kFloat16, kBFloat16,
                                                 kFloat64, kInt64,   kInt32};

}  // namespace

TEST_CASE("products of every dtype, layout and small size") {
  kit::for_each_case("matmul", 90, [](KernelCase& c) {
    const Sizes s{c.pick<std::int64_t>({0, 0, 1, 3}), c.size(80), c.size(70), c.size(80)};
    check_product(c, c.pick(kTypes), s);
  });
}

TEST_CASE("products that take several tiles") {
  kit::for_each_case("matmul of several tiles", 18, [](KernelCase& c) {
    const Sizes s{0, c.integer(60, 300), c.integer(1, 60), c.integer(60, 300)};
    check_product(c, c.pick(kTypes), s);
  });
}

TEST_CASE("products of vectors and of few rows or columns") {
  kit::for_each_case("flat matmul", 48, [](KernelCase& c) {
    std::int64_t few = c.integer(1, 16), many = c.integer(1, 600);
    if (c.coin()) few = 1;
    const bool rows = c.coin();
    const Sizes s{c.pick<std::int64_t>({0, 0, 2}), rows ? few : many, c.integer(1, 200),
                  rows ? many : few};
    check_product(c, c.pick(kTypes), s);
  });
}

TEST_CASE("products of dense matrices and vectors, also in parts") {
  kit::for_each_case("matmul of vectors", 40, [](KernelCase& c) {
    const std::int64_t batch = c.pick<std::int64_t>({0, 0, 3}),
                       many = c.pick<std::int64_t>({1, 3, 50});
    const std::int64_t k = c.coin() ? 8 * c.integer(1, 30) : c.integer(1, 9000);
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const kit::OperandOptions dense{.misalignment = 0, .low = -1, .high = 1};
    const bool left = c.coin(), transposed = c.coin();
    const Sizes s{batch, left ? 1 : many, k, left ? many : 1};
    const Operand a = c.input(s.shape(s.m, k), dtype, dense);
    const Operand b = transposed ? c.input(s.shape(s.n, k), dtype, dense)
                                 : c.input(s.shape(k, s.n), dtype, dense);
    const Operand out = c.output(s.shape(s.m, s.n), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::View right = at(b);
      if (transposed) {
        std::swap(right.sizes[right.ndim - 1], right.sizes[right.ndim - 2]);
        std::swap(right.strides[right.ndim - 1], right.strides[right.ndim - 2]);
      }
      kernels::matmul(stream, at(out), at(a), right);
    });
    c.check(out, tolerance(dtype, k));
  });
}

TEST_CASE("a transposed left operand whose columns fall into few sets of a cache") {
  kit::for_each_case("matmul of 512 rows", 6, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat64, kFloat16, kBFloat16});
    const std::int64_t m = 512, k = c.integer(1, 420), n = c.integer(5, 40);
    const kit::OperandOptions dense{.low = -1, .high = 1};
    const Operand a = c.input({k, m}, dtype, dense), b = c.input({k, n}, dtype, dense);
    const Operand out = c.output({m, n}, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::matmul(stream, at(out), kernels::transposed(at(a)), at(b));
    });
    c.check(out, tolerance(dtype, k));
  });
}

TEST_CASE("long sums of few results, in parts") {
  kit::for_each_case("deep matmul", 30, [](KernelCase& c) {
    const Sizes s{c.pick<std::int64_t>({0, 2}), c.integer(1, 40), c.integer(500, 3000),
                  c.integer(1, 40)};
    check_product(c, c.pick(kTypes), s);
  });
}

TEST_CASE("batches large enough for the largest tiles") {
  kit::for_each_case("batched matmul", 8, [](KernelCase& c) {
    // Whole packs, so that results are stored 16 bytes at a time.
    const std::int64_t n = c.coin() ? 24 : 19;
    const Sizes s{130, c.coin() ? 40 : 17, c.integer(1, 20), n};
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16});
    if (c.coin()) return check_product(c, dtype, s);
    const Operand a = c.input({s.batch, s.m, s.k}, dtype, {.low = -1, .high = 1});
    const Operand b =
        c.input({s.batch, s.k, s.n}, dtype, {.layout = Layout::permuted, .low = -1, .high = 1});
    const Operand out = c.output({s.batch, s.m, s.n}, dtype, {.misalignment = 0});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::matmul(stream, at(out), at(a), at(b));
    });
    c.check(out, tolerance(dtype, s.k));
  });
}

/// Aligned operands of a product of 16-bit types, each in either layout.
void check_aligned_product(KernelCase& c, bool left, bool right, const Sizes& s) {
  const DType dtype = c.pick({kFloat16, kBFloat16});
  const kit::OperandOptions aligned{.misalignment = 0, .low = -1, .high = 1};
  const bool across = c.coin();
  const Operand a = c.input(left ? s.shape(s.k, s.m) : s.shape(s.m, s.k), dtype, aligned);
  const Operand b = c.input(right ? s.shape(s.n, s.k) : s.shape(s.k, s.n), dtype, aligned);
  const Operand out = c.output(across ? s.shape(s.n, s.m) : s.shape(s.m, s.n), dtype, aligned);
  const auto matrix = [](kernels::View v, bool transposed) {
    if (transposed) {
      std::swap(v.sizes[v.ndim - 2], v.sizes[v.ndim - 1]);
      std::swap(v.strides[v.ndim - 2], v.strides[v.ndim - 1]);
    }
    return v;
  };
  c.run([&](const Stream& stream, const kit::Side& at) {
    kernels::matmul(stream, matrix(at(out), across), matrix(at(a), left), matrix(at(b), right));
  });
  c.check(out, tolerance(dtype, s.k));
}

TEST_CASE("aligned 16-bit operands in all four layouts") {
  kit::for_each_case("transposed matmul", 16, [](KernelCase& c) {
    const Sizes s{0, 8 * c.integer(1, 20), 8 * c.integer(1, 12), 8 * c.integer(1, 20)};
    check_aligned_product(c, c.coin(), c.coin(), s);
  });
}

TEST_CASE("aligned 16-bit operands, large enough for the largest tiles, in all four layouts") {
  int number = 0;
  kit::for_each_case("large transposed matmul", 4, [&](KernelCase& c) {
    // Five slices of the depth, of which the last is not whole.
    check_aligned_product(c, number & 1, number & 2, {130, 24, 136 + 8 * c.integer(0, 1), 40});
    ++number;
  });
}

TEST_CASE("products of NaN and infinity, and of empty depth") {
  kit::for_each_case("matmul of specials", 24, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const std::int64_t m = c.integer(1, 70), k = c.integer(0, 40), n = c.integer(1, 70);
    const Operand a = c.input({m, k}, dtype, {.low = -1, .high = 1, .special = 0.01});
    const Operand b = c.input({k, n}, dtype, {.low = -1, .high = 1});
    const Operand out = c.output({m, n}, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::matmul(stream, at(out), at(a), at(b));
    });
    c.check(out, tolerance(dtype, k));
  });
}

TEST_CASE("batches of products of empty depth") {
  kit::for_each_case("bmm of empty depth", 8, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const std::int64_t m = c.integer(1, 70), n = c.integer(1, 70);
    const Operand a = c.input({3, m, 0}, dtype), b = c.input({3, 0, n}, dtype);
    const Operand out = c.output({3, m, n}, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::matmul(stream, at(out), at(a), at(b));
    });
    c.check(out, {.rtol = 0});
  });
}

TEST_CASE("integer products wrap around") {
  kit::for_each_case("wrapping matmul", 8, [](KernelCase& c) {
    const DType dtype = c.pick({kInt32, kInt64});
    const double most = dtype == kInt32 ? 2e9 : 9e18;
    const Operand a = c.input({20, 30}, dtype, {.low = -most, .high = most});
    const Operand b = c.input({30, 25}, dtype, {.low = -most, .high = most});
    const Operand out = c.inout({20, 25}, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::matmul(stream, at(out), at(a), at(b), {.alpha = -3.9, .beta = 2.9});
    });
    c.check(out);
  });
}
