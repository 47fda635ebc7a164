// Ferrite's problems for cuBLASLt, computed as its descriptors say, against float64.
#include <doctest/doctest.h>

#include <array>
#include <utility>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/stream.h"
#include "ferrite/emulator/emulator.h"
#include "ferrite/emulator/ledger.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/matmul.h"
#include "ferrite/kernels/vendor.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/linear_chain.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using kernels::Activation;
using kernels::MatmulOptions;
using kernels::transposed;
using kernels::View;
using test::check_close;

namespace {

const Device kCuda("cuda:0");

/// While it lives there is a cuBLASLt, and new memory is not filled with NaN, which would count.
struct WithCublaslt {
  WithCublaslt() {
    emulator::set_cublaslt(true);
    allocator(kCuda).set_poison(false);
  }
  ~WithCublaslt() {
    emulator::set_cublaslt(false);
    allocator(kCuda).set_poison(true);
  }
};

bool has_cublaslt() {
  if (!cublas::is_available()) MESSAGE("skipped: the build had no headers of cuBLASLt");
  return cublas::is_available();
}

/// Values that float16 holds, so that all dtypes begin with the same ones.
Tensor noise(const Shape& shape) { return randn(shape).to(kFloat16).to(kFloat64); }

/// How often cuBLASLt and anything else ran during f().
template <class F>
std::pair<int, int> calls_of(F&& f) {
  synchronize(kCuda);
  emulator::open_ledger();
  f();
  synchronize(kCuda);
  std::pair<int, int> calls{};
  for (const auto& e : emulator::close_ledger())
    ++(e.name == "cublaslt product" ? calls.first : calls.second);
  return calls;
}

double tolerance(DType dtype) {
  return dtype == kFloat64 ? 1e-12 : dtype == kFloat32 ? 1e-4 : dtype == kFloat16 ? 2e-2 : 1e-1;
}

/// a b with some options on the host in float64 and by cuBLASLt; all operands may be transposed.
struct Problem {
  DType dtype;
  bool left, right, across;
  Tensor a = noise({9, 20}), b = noise({20, 13}), bias = noise({13}), sums = noise({9}),
         out = noise({9, 13});

  Tensor on_device(const Tensor& t, bool turned = false) const {
    const Tensor moved = t.to(dtype).to(kCuda);
    return turned ? moved.transpose(0, 1).contiguous().transpose(0, 1) : moved;
  }
  void check(MatmulOptions options, bool biased, bool summed, int library_calls, int others) {
    INFO(dtype, " ", left, right, across, " ", biased, summed);
    const Tensor x = on_device(a, left), y = on_device(b, right), to = on_device(out, across),
                 v = on_device(bias), s = on_device(sums);
    const Tensor expected = out.clone(), expected_sums = sums.clone();
    MatmulOptions host = options;
    if (biased) options.bias = v, host.bias = bias;
    if (summed) options.row_sums = s, host.row_sums = expected_sums;
    const auto calls = calls_of([&] { kernels::matmul(current_stream(kCuda), to, x, y, options); });
    CHECK(calls == std::pair(library_calls, others));
    kernels::matmul(current_stream(Device("cpu")), expected, a, b, host);
    check_close(to.to("cpu").to(kFloat64), expected, tolerance(dtype), tolerance(dtype));
    check_close(s.to("cpu").to(kFloat64), expected_sums, tolerance(dtype), tolerance(dtype));
  }
};

}  // namespace

TEST_CASE("cuBLASLt's products with their epilogues, for all layouts") {
  const WithCublaslt library;
  if (!has_cublaslt()) return;
  manual_seed(1);
  for (const DType dtype : {kFloat32, kFloat16, kBFloat16, kFloat64})
    for (int layout = 0; layout < 8; ++layout) {
      Problem p{.dtype = dtype,
                .left = (layout & 1) != 0,
                .right = (layout & 2) != 0,
                .across = (layout & 4) != 0};
      p.check({.alpha = 0.5, .beta = 2}, false, false, 1, 0);
      if (dtype == kFloat64) {  // has no epilogues
        p.check({}, false, true, 1, 1);
        continue;
      }
      p.check({}, false, true, 1, 0);
      if (p.across) continue;  // the bias is one of its columns
      p.check({}, true, false, 1, 0);
      p.check({.activation = Activation::relu}, true, false, 1, 0);
      p.check({.activation = Activation::relu}, false, false, 1, 0);
      p.check({.activation = Activation::gelu_tanh}, true, false, 1, 0);
      p.check({.activation = Activation::gelu}, true, false, 1, 1);
    }
}

TEST_CASE("a ReLU's bits mask the gradient in the product") {
  const WithCublaslt library;
  if (!has_cublaslt()) return;
  manual_seed(2);
  const std::int64_t n = 7, k = 12, hidden = 130, m = 5;
  const Stream stream = current_stream(kCuda);
  for (const DType dtype : {kFloat32, kFloat16, kFloat64}) {
    INFO(dtype);
    const auto device = [&](const Tensor& t) { return t.to(dtype).to(kCuda); };
    const TensorOptions like{.dtype = dtype, .device = kCuda};
    const Tensor a = noise({n, k}), b = noise({k, hidden}), bias = noise({hidden}),
                 grad = noise({n, m}), w = noise({m, hidden});
    const Tensor on_a = device(a), on_b = device(b), on_bias = device(bias), on_grad = device(grad),
                 on_w = device(w), y = empty({n, hidden}, like), dx = empty({n, hidden}, like);
    const Tensor bits =
        empty({n, kernels::relu_bits_size(hidden)}, {.dtype = kUInt8, .device = kCuda});
    CHECK(bits.size(1) == 32);
    bool has_bits = false;
    kernels::matmul(stream, y, on_a, on_b,
                    {.bias = on_bias,
                     .activation = Activation::relu,
                     .relu_bits = bits,
                     .has_relu_bits = &has_bits});
    CHECK(has_bits == (dtype != kFloat64));
    MatmulOptions options{.relu_of = y};
    const auto masked_apart =
        calls_of([&] { kernels::matmul(stream, dx, on_grad, on_w, options); });
    CHECK(masked_apart == std::pair(1, 1));
    const Tensor apart = dx.clone();
    if (has_bits) {
      options.relu_bits = bits;
      const auto masked = calls_of([&] { kernels::matmul(stream, dx, on_grad, on_w, options); });
      CHECK(masked == std::pair(1, 0));
      check_close(dx.to("cpu"), apart.to("cpu"), 0, 0);
    }
    const Tensor expected = where(gt(addmm(bias, a, b), 0), mm(grad, w), 0);
    check_close(apart.to("cpu").to(kFloat64), expected, tolerance(dtype), tolerance(dtype));
  }
}

namespace {

/// Of a chain whose gradients take a product each; fewer come from one launch a layer.
constexpr int kManyRows = 520;

/// The gradients of a chain's parameters and input in float64, and the result.
std::vector<Tensor> chain(const Device& device, DType dtype, bool fused, bool twice,
                          std::int64_t rows) {
  manual_seed(3);
  std::vector<Tensor> all;
  const auto leaf = [&](const Shape& shape) {
    all.push_back(noise(shape).to(dtype).to(device).set_requires_grad());
    return all.back();
  };
  const Tensor x = leaf({rows, 10});
  const std::array layers{ops::LinearLayer{leaf({12, 10}), leaf({12})},
                          ops::LinearLayer{leaf({9, 12}), {}},
                          ops::LinearLayer{leaf({4, 9}), leaf({4})}};
  Tensor out;
  if (fused) {
    out = ops::linear_chain(x, layers).value();
  } else {
    out = linear_relu(x, layers[0].weight, layers[0].bias);
    out = linear_relu(out, layers[1].weight, {});
    out = linear(out, layers[2].weight, layers[2].bias);
  }
  const std::array outputs{(out * out).sum()};
  std::vector<Tensor> grads = autograd::grad(outputs, all, {}, twice, twice);
  if (twice) {
    Tensor total = zeros({}, {.dtype = dtype, .device = device});
    for (const Tensor& g : grads) total = total + (g * g).sum();
    const std::array totals{total};
    grads = autograd::grad(totals, all, {}, false, false, true);
  }
  grads.push_back(out.detach());
  for (Tensor& g : grads)
    if (g.defined()) g = g.to("cpu").to(kFloat64);
  return grads;
}

}  // namespace

TEST_CASE("a chain of linear layers has the gradients of its layers") {
  for (const bool found : {true, false}) {
    emulator::set_cublaslt(found);
    for (const DType dtype : {kFloat32, kFloat64})
      for (const auto& [rows, twice] : {std::pair(6, false), {6, true}, {kManyRows, false}}) {
        INFO(found, " ", dtype, " ", rows, " ", twice);
        const std::vector<Tensor> expected = chain(Device("cpu"), kFloat64, false, twice, rows);
        const std::vector<Tensor> got = chain(kCuda, dtype, true, twice, rows);
        REQUIRE(got.size() == expected.size());
        const double tolerance = dtype == kFloat64 ? 1e-10 : 1e-3;
        for (std::size_t i = 0; i < got.size(); ++i) {
          REQUIRE(got[i].defined() == expected[i].defined());
          if (got[i].defined()) check_close(got[i], expected[i], tolerance, tolerance);
        }
      }
  }
  emulator::set_cublaslt(false);
}

TEST_CASE("a chain's gradients take a launch a layer if it is small, else two products") {
  const WithCublaslt library;
  if (!has_cublaslt()) return;
  for (const int rows : {6, kManyRows}) {
    INFO(rows);
    const auto parameter = [](const Shape& shape) {
      return randn(shape).to(kCuda).set_requires_grad();
    };
    const std::array layers{ops::LinearLayer{parameter({16, 8}), parameter({16})},
                            ops::LinearLayer{parameter({4, 16}), parameter({4})}};
    const Tensor x = parameter({rows, 8}), grad = ones({rows, 4}, {.device = kCuda});
    Tensor out;
    CHECK(calls_of([&] { out = ops::linear_chain(x, layers).value(); }) == std::pair(2, 0));
    CHECK(calls_of([&] { out.backward(grad); }) ==
          (rows == kManyRows ? std::pair(4, 0) : std::pair(0, 2)));
    CHECK_FALSE(ops::linear_chain(x.to("cpu"), layers));
    CHECK_FALSE(ops::linear_chain(x, std::span(layers).first(1)));
  }
}

TEST_CASE("a chain has the gradients of any one of its tensors alone") {
  const WithCublaslt library;
  for (const DType dtype : {kFloat32, kFloat64}) {
    const auto leaf = [&](const Shape& shape) {
      return noise(shape).to(dtype).to(kCuda).set_requires_grad();
    };
    const std::array leaves{leaf({6, 10}), leaf({12, 10}), leaf({12}), leaf({4, 12}), leaf({4})};
    const std::array layers{ops::LinearLayer{leaves[1], leaves[2]},
                            ops::LinearLayer{leaves[3], leaves[4]}};
    const auto grads_of = [&](std::span<const Tensor> some) {
      const Tensor out = ops::linear_chain(leaves[0], layers).value();
      const std::array outputs{(out * out).sum()};
      return autograd::grad(outputs, some);
    };
    const std::vector<Tensor> all = grads_of(leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      INFO(dtype, " ", i);
      const double tolerance = dtype == kFloat64 ? 1e-10 : 1e-4;
      check_close(grads_of(std::span(leaves).subspan(i, 1))[0], all[i], tolerance, tolerance);
    }
  }
}
