// Complex numbers and Fourier transforms on CUDA devices: what the host computes, on a stream, in
// graphs, for every layout. The host's own are compared with PyTorch's in tests/ops.
#include "ferrite/kernels/fft.h"

#include <doctest/doctest.h>

#include <complex>
#include <vector>

#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/arange.h"
#include "ferrite/kernels/complex.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/unary.h"
#include "ferrite/kernels/vendor.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using kernels::View;

namespace {

using Z = std::complex<double>;

/// Irregular numbers, the same on every device.
Tensor numbers(const Shape& shape, DType dtype, const Device& device, double scale = 700) {
  const Stream stream = current_stream(device);
  const Tensor t = empty(shape, {.dtype = dtype, .device = device});
  const View all = is_complex(dtype) ? kernels::as_real(t) : View(t);
  kernels::linspace(stream, all, 0.3, scale);
  kernels::unary(stream, kernels::UnaryOp::sin, all, all);
  return t;
}

/// `part`: the type in which the numbers were computed.
void check_near(const Tensor& actual, const Tensor& expected, DType part) {
  CHECK(actual.dtype() == expected.dtype());
  const std::vector<Z> a = actual.to_vector<Z>(), e = expected.to_vector<Z>();
  REQUIRE(a.size() == e.size());
  const double tolerance = part == kFloat64 ? 1e-11 : 1e-4;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - e[i]));
  CHECK(worst <= tolerance);
}

/// f(device), on the host and on a CUDA device.
template <class F>
void compare(DType part, F f) {
  const Tensor expected = f(Device());
  check_near(f(Device("cuda:0")), expected, part);
}

Tensor transposed(const Tensor& t) { return geometry::apply(t, geometry::transpose(t, 0, 1)); }

bool has_cufft() {
  if (!test::has_cuda()) return false;
  if (!cufft::is_available()) MESSAGE("skipped: no cuFFT");
  return cufft::is_available();
}

/// The transform of irregular numbers [3, 4, 5, 2], of which `in` makes the input. Of the two
/// lengths of real numbers that complex ones may have, it is the odd one if `odd` is 1.
template <class In>
Tensor transform(const Device& device, const kernels::Fft& fft, DType from, DType to, In in,
                 int odd = 0) {
  const Tensor x = in(numbers({3, 4, 5, 2}, from, device));
  Shape shape = x.shape();
  const int last = static_cast<int>(fft.dims.back());
  if (!is_complex(from)) shape[last] = shape[last] / 2 + 1;
  if (!is_complex(to)) shape[last] = 2 * (shape[last] - 1) + odd;
  const Tensor out = empty(shape, {.dtype = to, .device = device});
  kernels::fft(current_stream(device), fft, out, x);
  return out;
}

}  // namespace

TEST_CASE("cuda fft: what the host computes, in every kind, dimension and layout") {
  if (!has_cufft()) return;
  for (const DType part : {kFloat32, kFloat64}) {
    const DType z = complex_type(part);
    for (const auto& in : {+[](const Tensor& t) { return t; }, transposed}) {
      for (const Dims& dims :
           {Dims{3}, Dims{2}, Dims{0}, Dims{0, 2}, Dims{1, 2, 3}, Dims{3, 2, 1, 0}})
        for (const bool inverse : {false, true})
          compare(part, [&](const Device& d) {
            return transform(d, {dims, inverse, 0.5}, z, z, in);
          });
      for (const int dim : {0, 1, 2, 3}) {
        compare(part, [&](const Device& d) { return transform(d, {dim, false, 1}, part, z, in); });
        for (const int odd : {0, 1})
          compare(part, [&](const Device& d) {
            return transform(d, {dim, true, 2}, z, part, in, odd);
          });
      }
    }
  }
}

TEST_CASE("cuda fft: leaves its input, writes strided memory, and serves captured graphs") {
  if (!has_cufft()) return;
  const Device device("cuda:0");
  const Tensor x = numbers({6, 8}, kComplex64, device);
  const std::vector<Z> before = x.to_vector<Z>();
  const Tensor signal = empty({6, 14}, {.device = device});
  kernels::fft(current_stream(device), {1, true, 1}, signal, x);
  CHECK(x.to_vector<Z>() == before);

  const Tensor rows = empty({8, 6}, {.dtype = kComplex64, .device = device});
  const Tensor expected = empty({6, 8}, {.dtype = kComplex64, .device = device});
  kernels::fft(current_stream(device), {1, false, 1}, expected, x);
  kernels::fft(current_stream(device), {1, false, 1}, transposed(rows), x);
  CHECK(transposed(rows).to_vector<Z>() == expected.to_vector<Z>());

  const Tensor out = empty({6, 8}, {.dtype = kComplex64, .device = device});
  cuda::Graph graph(device);
  graph.capture([&] {
    kernels::fft(current_stream(device), {1, false, 1}, out, x);
    kernels::fft(current_stream(device), {0, false, 1}, out, out);
  });
  kernels::fft(current_stream(device), {Dims{1, 0}, false, 1}, expected, x);
  for (int i = 0; i < 2; ++i) {
    kernels::fill(current_stream(device), out, 0);
    graph.replay();
    check_near(out, expected, kFloat32);
  }
}

TEST_CASE("cuda: arithmetic, copies and constants of complex numbers") {
  if (!test::has_cuda()) return;
  using kernels::BinaryOp;
  for (const DType dtype : {kComplex64, kComplex128}) {
    for (const BinaryOp op : {BinaryOp::add, BinaryOp::sub, BinaryOp::mul, BinaryOp::div})
      compare(real_type(dtype), [&](const Device& d) {
        const Tensor a = numbers({3, 4, 5}, dtype, d), b = numbers({4, 3, 5}, dtype, d, 123);
        const Tensor out = empty({3, 4, 5}, {.dtype = dtype, .device = d});
        kernels::binary(current_stream(d), op, out, a, transposed(b));
        return out;
      });
    for (const BinaryOp op : {BinaryOp::eq, BinaryOp::ne})
      compare(real_type(dtype), [&](const Device& d) {
        const Tensor a = numbers({30}, dtype, d), b = numbers({30}, dtype, d);
        kernels::fill(current_stream(d), geometry::apply(b, geometry::slice(b, 0, 3, 30, 4)),
                      Z(1, 2));
        const Tensor out = empty({30}, {.dtype = kBool, .device = d});
        kernels::binary(current_stream(d), op, out, a, b);
        return out;
      });
    for (const DType to : {kComplex64, kComplex128, kFloat32, kFloat64})
      compare(real_type(dtype), [&](const Device& d) {
        const Tensor a = numbers({4, 3, 5}, dtype, d);
        const Tensor out = empty({3, 4, 5}, {.dtype = to, .device = d});
        kernels::copy(current_stream(d), out, transposed(a));
        return out;
      });
    compare(kFloat32, [&](const Device& d) {  // aligned to the parts alone
      const Tensor memory = numbers({9}, real_type(dtype), d);
      char* const second = static_cast<char*>(memory.data_ptr()) + memory.element_size();
      const Tensor out = from_blob(second, {3}, dtype, d);
      kernels::copy(current_stream(d), out, numbers({3}, dtype, d, 5));
      return memory;
    });
    compare(kFloat32, [&](const Device& d) {
      const Tensor out = empty({7}, {.dtype = dtype, .device = d});
      kernels::copy(current_stream(d), out, numbers({7}, kFloat32, d));
      return out;
    });
  }
}

TEST_CASE("kernels of real numbers refuse complex ones at the call") {
  const Tensor z = empty({3}, {.dtype = kComplex64});
  CHECK_THROWS_AS(kernels::unary(Stream(), kernels::UnaryOp::exp, z, z), DTypeError);
  CHECK_THROWS_AS(kernels::linspace(Stream(), z, 0, 1), DTypeError);
  CHECK_THROWS_AS(kernels::binary(Stream(), kernels::BinaryOp::pow, z, z, z), DTypeError);
  CHECK_THROWS_AS(kernels::binary(Stream(), kernels::BinaryOp::add, z, z, Scalar(1)), DTypeError);
  CHECK_THROWS_AS(kernels::copy(Stream(), empty({3}, {.dtype = kBool}), z), DTypeError);
}
