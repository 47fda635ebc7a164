// cuBLASLt and our own kernels on a GPU: both must agree with the reference.
#include "ferrite/kernels/cuda/vendor/cublaslt.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/deterministic.h"
#include "ferrite/kernels/vendor.h"
#include "ferrite/tests/kit/doctest_context.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using kernels::Activation;
using kernels::MatmulOptions;
using kernels::View;
using kit::KernelCase;
using kit::Operand;

namespace {

constexpr const char* kCuda = "cuda:0";

/// Whether products may go to cuBLASLt here; prints the reason if not.
bool has_cublas() {
  if (!cublas::is_available()) {
    MESSAGE("skipped: this build has no cuBLASLt");
    return false;
  }
  return test::has_cuda();
}

/// Restores the settings at the end.
struct Settings {
  ~Settings() {
    cublas::set_enabled(enabled);
    cublas::set_allow_tf32(tf32);
    cublas::set_benchmark(benchmark);
    use_deterministic_algorithms(deterministic);
  }
  bool enabled = cublas::is_enabled(), tf32 = cublas::allow_tf32(), benchmark = cublas::benchmark(),
       deterministic = are_deterministic_algorithms_enabled();
};

/// Counts the products made by cuBLASLt.
struct Count {
  int asked = 0, made = 0;
  ~Count() { MESSAGE("cuBLASLt made ", made, " of ", asked, " products"); }
};

/// Uses cuBLASLt if it supports the product, else our own kernels.
void product(Count& count, const Stream& stream, const View& out, const View& a, const View& b,
             const MatmulOptions& options) {
  if (stream.device().is_cpu()) return kernels::matmul(stream, out, a, b, options);
  ++count.asked;
  if (kernels::cuda::vendor::matmul(stream, out, a, b, options))
    ++count.made;
  else
    kernels::matmul(stream, out, a, b, options);
}

/// Rounding of sums of k terms, of inputs to TF32, and of the result, twice after a GELU.
kit::Tolerance tolerance(DType dtype, std::int64_t k, bool tf32) {
  const double unit = dtype == kFloat64 ? 1.2e-16 : tf32 ? 1e-3 : 6e-8;
  const double rounding = dtype == kFloat16 ? 5e-4 : dtype == kBFloat16 ? 4e-3 : 8 * unit;
  // GELU's tanh is approximated in hardware.
  const double tanh = dtype == kFloat64 ? 0 : 2e-3;
  return {.rtol = 2 * rounding, .atol = 2 * static_cast<double>(k + 3) * unit + rounding + tanh};
}

/// A product with all options, of dense operands, each of which may be transposed.
void check_product(KernelCase& c, Count& count) {
  const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
  const std::int64_t batch = c.pick<std::int64_t>({0, 0, 0, 3}), step = c.coin() ? 8 : 1;
  const std::int64_t m = step * c.integer(2, 300 / step), k = step * c.integer(1, 300 / step),
                     n = step * c.integer(2, 300 / step);
  const auto shape = [&](std::int64_t rows, std::int64_t columns, bool across) {
    if (across) std::swap(rows, columns);
    return batch > 0 ? Shape{batch, rows, columns} : Shape{rows, columns};
  };
  const kit::OperandOptions values{.low = -1, .high = 1};
  const bool left = c.coin(), right = c.coin(), across = c.integer(0, 3) == 0;
  const auto activation =
      c.pick({Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh});
  const bool biased = c.coin(), keeps = activation != Activation::none && c.coin();
  const bool added = !keeps && c.coin(), sums = batch == 0 && c.integer(0, 3) == 0;
  const Operand a = c.input(shape(m, k, left), dtype, values);
  const Operand b = c.input(shape(k, n, right), dtype, values);
  const Operand bias = biased ? c.input({n}, dtype, values) : Operand();
  const Operand out =
      added ? c.inout(shape(m, n, across), dtype, values) : c.output(shape(m, n, across), dtype);
  const Operand before = keeps ? c.output(shape(m, n, across), dtype) : Operand();
  const Operand rows = sums ? c.output({m}, dtype) : Operand();
  const auto turn = [](const View& v, bool turned) { return turned ? kernels::transposed(v) : v; };
  c.run([&](const Stream& stream, const kit::Side& at) {
    product(count, stream, turn(at(out), across), turn(at(a), left), turn(at(b), right),
            {.alpha = 0.5,
             .beta = added ? 2.0 : 0,
             .bias = at(bias),
             .activation = activation,
             .before_activation = keeps ? turn(at(before), across) : View(),
             .row_sums = at(rows)});
  });
  const bool tf32 = dtype == kFloat32 && cublas::allow_tf32();
  c.check(out, tolerance(dtype, k, tf32));
  if (keeps) c.check(before, tolerance(dtype, k, tf32));
  if (sums) c.check(rows, tolerance(dtype, k, tf32));
}

Tensor matrix(std::int64_t rows, std::int64_t columns, int seed) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  Generator random(static_cast<std::uint64_t>(seed));
  for (float& v : values) v = static_cast<float>(2 * random.next_double() - 1);
  return test::on_device(values, {rows, columns}, Device(kCuda));
}

std::vector<unsigned char> bytes_of(const Tensor& t) {
  current_stream(t.device()).synchronize();
  return test::read_bytes(t.data_ptr(), t.nbytes());
}

}  // namespace

TEST_CASE("products with cuBLASLt") {
  if (!has_cublas()) return;
  Count count;
  kit::for_each_case("cublaslt", 400, [&](KernelCase& c) { check_product(c, count); });
  CHECK(count.made > 0);
}

TEST_CASE("products with cuBLASLt in TF32, measured and deterministic") {
  if (!has_cublas()) return;
  const Settings settings;
  Count count;
  cublas::set_allow_tf32(true);
  kit::for_each_case("cublaslt in TF32", 60, [&](KernelCase& c) { check_product(c, count); });
  cublas::set_allow_tf32(false);
  cublas::set_benchmark(true);
  kit::for_each_case("measured cublaslt", 60, [&](KernelCase& c) { check_product(c, count); });
  use_deterministic_algorithms(true);
  kit::for_each_case("deterministic cublaslt", 60, [&](KernelCase& c) { check_product(c, count); });
  CHECK(count.made > 0);
}

TEST_CASE("cuBLASLt computes nothing if it is switched off") {
  if (!has_cublas()) return;
  const Settings settings;
  const Tensor a = matrix(64, 64, 1), b = matrix(64, 64, 2), out = matrix(64, 64, 3);
  const Stream stream = current_stream(a.device());
  cublas::set_enabled(true);
  CHECK(kernels::cuda::vendor::matmul(stream, out, a, b, {}));
  cublas::set_enabled(false);
  CHECK_FALSE(kernels::cuda::vendor::matmul(stream, out, a, b, {}));
}

TEST_CASE("results have the same bits on every run") {
  if (!has_cublas()) return;
  const Tensor a = matrix(40, 20000, 1), b = matrix(20000, 24, 2);
  const Tensor first = matrix(40, 24, 3), other = matrix(40, 24, 4);
  const Stream stream = current_stream(a.device());
  kernels::matmul(stream, first, a, b);
  for (int i = 0; i < 20; ++i) {
    kernels::matmul(stream, other, a, b);
    CHECK(bytes_of(other) == bytes_of(first));
  }
}

TEST_CASE("a captured product is replayed to the bits of the eager one") {
  if (!has_cublas()) return;
  const Settings settings;
  cublas::set_benchmark(true);  // measuring is not possible while a graph is captured
  const Tensor a = matrix(96, 200, 1), b = matrix(200, 136, 2), bias = matrix(1, 136, 5);
  const Tensor eager = matrix(96, 136, 3), replayed = matrix(96, 136, 4);
  View row = bias;
  row.ndim = 1;
  row.sizes[0] = row.numel;
  row.strides[0] = 1;
  const MatmulOptions options{.bias = row, .activation = Activation::relu};
  cuda::Graph graph{Device(kCuda)};
  graph.capture([&] { kernels::matmul(current_stream(a.device()), replayed, a, b, options); });
  graph.replay();
  cublas::set_benchmark(false);
  kernels::matmul(current_stream(a.device()), eager, a, b, options);
  CHECK(bytes_of(replayed) == bytes_of(eager));
}

TEST_CASE("products from several threads at once") {
  if (!has_cublas()) return;
  constexpr int kThreads = 4;
  const Tensor a = matrix(128, 64, 1), b = matrix(64, 72, 2), expected = matrix(128, 72, 3);
  kernels::matmul(current_stream(a.device()), expected, a, b);
  const std::vector<unsigned char> right = bytes_of(expected);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const StreamGuard guard(Stream::create(Device(kCuda)));
      const Tensor out = matrix(128, 72, 10 + t);
      for (int i = 0; i < 200; ++i) kernels::matmul(current_stream(out.device()), out, a, b);
      if (bytes_of(out) != right) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("cuBLASLt's version is known if it can be loaded") {
  CHECK(cublas::version().empty() == !cublas::is_available());
  if (cublas::is_available())
    CHECK(cublas::version().find('.') != std::string::npos);
  else
    MESSAGE("this build has no cuBLASLt, or it cannot be loaded");
}
