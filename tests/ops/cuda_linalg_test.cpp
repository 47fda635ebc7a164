// Factors of matrices on cuda:0, emulated or real, by cuSOLVER: against their definitions, and
// against the host's where there is one answer.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/profiler/profile.h"
#include "ferrite/core/stream.h"
#include "ferrite/kernels/vendor.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/linalg.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

const char* const kCuda = "cuda:0";

/// Whether cuSOLVER serves here; prints the reason if not.
bool has_cusolver() {
  if (!cusolver::is_available()) {
    MESSAGE("skipped: this build has no cuSOLVER");
    return false;
  }
  return test::has_cuda();
}

/// On the host, well-conditioned where it is square: the random part's norm is below 3.
Tensor matrices(const Shape& shape, DType dtype, std::uint64_t seed = 1) {
  Generator generator(seed);
  const Tensor x = randn(shape, {.dtype = kFloat64}, &generator);
  const Tensor diagonal =
      eye(shape[shape.size() - 2], shape[shape.size() - 1], {.dtype = kFloat64});
  const auto columns = static_cast<double>(shape[shape.size() - 1]);
  return (x / std::sqrt(columns + 1) + diagonal * 3.0).to(dtype);
}

Tensor mT(const Tensor& x) { return x.transpose(-2, -1); }
Tensor near(const Tensor& x) { return x.cpu().to(kFloat64); }

struct Tolerance {
  double value;
  explicit Tolerance(DType dtype) : value(dtype == kFloat64 ? 1e-11 : 2e-4) {}
  void operator()(const Tensor& actual, const Tensor& expected) const {
    CHECK(actual.shape() == expected.shape());
    check_close(near(actual), near(expected), value, value);
  }
};

void check_orthonormal(const Tolerance& same, const Tensor& columns) {
  const Tensor x = near(columns);
  same(matmul(mT(x), x), eye(x.size(-1), {.dtype = kFloat64}).expand([&] {
    Shape shape = x.shape();
    shape[shape.size() - 2] = x.size(-1);
    return shape;
  }()));
}

/// How many calls of the libraries `work` makes on the device.
template <class Work>
std::ptrdiff_t calls(const Work& work) {
  profiler::Profile profile;
  work();
  profile.stop();
  return std::ranges::count_if(profile.recording().device, [](const profiler::DeviceEvent& e) {
    return std::string_view(e.name).starts_with("cu");
  });
}

}  // namespace

TEST_CASE("factors that are unique are the host's") {
  if (!has_cusolver()) return;
  for (const DType dtype : {kFloat64, kFloat32})
    for (const Shape& shape : std::vector<Shape>{
             {5, 5}, {3, 4, 4}, {2, 3, 1, 1}, {1, 17, 17}, {7, 40, 40}, {100, 1, 1}, {100, 6, 6}}) {
      CAPTURE(shape);
      const Tolerance same(dtype);
      // Turned, so that it is not contiguous.
      const Tensor x = mT(matrices(shape, dtype)), d = x.to(kCuda);
      const Tensor definite = matmul(x, mT(x)), b = matrices(shape, dtype, 2);
      same(linalg::cholesky(definite.to(kCuda)), linalg::cholesky(definite));
      same(linalg::solve(d, b.to(kCuda)), linalg::solve(x, b));
      same(linalg::inv(d), linalg::inv(x));
      same(linalg::det(d), linalg::det(x));
      // Rows in another order: signs of both kinds.
      const Tensor rolled = roll(x, {1}, {-2});
      const auto [sign, log] = linalg::slogdet(rolled.to(kCuda));
      const auto [host_sign, host_log] = linalg::slogdet(rolled);
      same(sign, host_sign);
      same(log, host_log);
      same(linalg::solve(rolled.to(kCuda), b.to(kCuda)), linalg::solve(rolled, b));
      CHECK(linalg::inv(d).is_contiguous());
    }
  // Too large to be factorized together.
  const Tensor large = matrices({2, 190, 190}, kFloat32);
  Tolerance{kFloat32}(linalg::inv(large.to(kCuda)), linalg::inv(large));
  const Tensor a = matrices({3, 4, 4}, kFloat64), vectors = matrices({3, 4}, kFloat64, 3);
  Tolerance{kFloat64}(linalg::solve(a.to(kCuda), vectors.to(kCuda)), linalg::solve(a, vectors));
  Tolerance{kFloat64}(linalg::solve(a[0].to(kCuda), vectors[0].to(kCuda)),
                      linalg::solve(a[0], vectors[0]));
}

TEST_CASE("qr, eigh and svd make the matrix again, of any shape") {
  if (!has_cusolver()) return;
  for (const DType dtype : {kFloat64, kFloat32})
    for (const Shape& shape : std::vector<Shape>{{4, 4},
                                                 {3, 5, 3},
                                                 {2, 3, 5},
                                                 {1, 1, 4},
                                                 {2, 2, 4, 1},
                                                 {40, 17},
                                                 {7, 32, 8},
                                                 {2, 40, 3},
                                                 {100, 1, 1},
                                                 {100, 6, 4},
                                                 {2, 258, 2}}) {
      CAPTURE(shape);
      const Tolerance same(dtype);
      const Tensor x = matrices(shape, dtype), d = x.to(kCuda);
      const std::int64_t rows = x.size(-2), columns = x.size(-1), k = std::min(rows, columns);
      for (const char* mode : {"reduced", "complete"}) {
        const auto [q, r] = linalg::qr(d, mode);
        const auto [host_q, host_r] = linalg::qr(x, mode);
        CHECK(q.shape() == host_q.shape());
        CHECK(r.shape() == host_r.shape());
        same(matmul(near(q), near(r)), x);
        check_orthonormal(same, q);
        same(triu(near(r)), near(r));
      }
      for (const bool full : {true, false}) {
        const auto [u, s, vh] = linalg::svd(d, full);
        const auto [host_u, host_s, host_vh] = linalg::svd(x, full);
        CHECK(u.shape() == host_u.shape());
        CHECK(vh.shape() == host_vh.shape());
        same(s, host_s);
        check_orthonormal(same, u);
        check_orthonormal(same, mT(vh));
        same(matmul(near(u).narrow(-1, 0, k) * near(s).unsqueeze(-2), near(vh).narrow(-2, 0, k)),
             x);
      }
      same(linalg::pinv(d), linalg::pinv(x));
      const Tensor b = matrices(shape, dtype, 4);
      same(linalg::lstsq(d, b.to(kCuda)), linalg::lstsq(x, b));
      // Only the lower triangle counts.
      const Tensor square = matmul(mT(x), x), symmetric = square + triu(ones_like(square), 1) * 5.0;
      const auto [values, v] = linalg::eigh(symmetric.to(kCuda));
      same(values, std::get<0>(linalg::eigh(symmetric)));
      check_orthonormal(same, v);
      const Tolerance wide(dtype);
      wide(matmul(near(v) * near(values).unsqueeze(-2), mT(near(v))), near(square));
    }
}

TEST_CASE("a batch of small matrices is a call or two of the libraries") {
  if (!has_cusolver()) return;
  for (const DType dtype : {kFloat64, kFloat32}) {
    const Tensor x = matrices({100, 6, 6}, dtype).to(kCuda), definite = matmul(x, mT(x));
    const Tensor many = matrices({20000, 1, 1}, dtype).to(kCuda);
    CHECK(calls([&] { linalg::cholesky(definite); }) == 1);
    CHECK(calls([&] { linalg::solve(x, x); }) == 2);
    CHECK(calls([&] { linalg::inv(x); }) == 2);
    CHECK(calls([&] { linalg::slogdet(x); }) == 1);
    CHECK(calls([&] { linalg::qr(x); }) == 1);
    CHECK(calls([&] { linalg::eigh(definite); }) == 1);
    CHECK(calls([&] { linalg::svd(x); }) == 1);
    // Calls that iterate have a limit.
    const Tolerance same(dtype);
    Tensor found;
    CHECK(calls([&] { found = linalg::eigvalsh(many); }) == 2);
    same(found, near(many.squeeze(-1)));
    CHECK(calls([&] { found = linalg::svdvals(many); }) == 2);
    same(found, near(abs(many.squeeze(-1))));
    // One matrix is one call, with or without a batch.
    CHECK(calls([&] { linalg::inv(x[0]); }) == 2);
    CHECK(calls([&] { linalg::svd(x.narrow(0, 0, 1)); }) == 1);
    CHECK(calls([&] { linalg::inv(matrices({2, 190, 190}, dtype).to(kCuda)); }) == 4);
  }
}

TEST_CASE("in a batch, reflections of nothing, and singular values that do not converge at once") {
  if (!has_cusolver()) return;
  Tensor x = matrices({3, 4, 3}, kFloat64);
  x[1].fill_(0);
  const Tolerance same(kFloat64);
  const auto [q, r] = linalg::qr(x.to(kCuda), "complete");
  check_orthonormal(same, q);
  same(matmul(near(q), near(r)), x);
  const auto [u, s, vh] = linalg::svd((x * 1e31).to(kCuda), false);
  same(s / 1e31, std::get<1>(linalg::svd(x, false)));
  same(matmul(near(u) * near(s / 1e31).unsqueeze(-2), near(vh)), x);
}

TEST_CASE("matrices without factors have the host's errors") {
  if (!has_cusolver()) return;
  Tensor x = matrices({3, 3, 3}, kFloat32);
  x[1].fill_(1);
  const Tensor d = x.to(kCuda);
  const char* const singular = "[linalg_inv] matrix 1 of the batch is singular";
  CHECK_THROWS_WITH_AS(linalg::inv(d), singular, ValueError);
  CHECK_THROWS_WITH_AS(linalg::inv(x), singular, ValueError);
  CHECK_THROWS_WITH_AS(linalg::solve(d, d), "[linalg_solve] matrix 1 of the batch is singular",
                       ValueError);
  const auto [sign, log] = linalg::slogdet(d);
  CHECK(sign[1].item<float>() == 0);
  CHECK(log[1].item<float>() == -INFINITY);
  CHECK(linalg::det(d)[1].item<float>() == 0);
  const Tensor definite = matmul(x, mT(x)) + eye(3);
  definite[2].mul_(-1);
  CHECK_THROWS_WITH_AS(linalg::cholesky(definite.to(kCuda)),
                       "[linalg_cholesky] matrix 2 of the batch is not positive definite",
                       ValueError);
  // Within a large batch, the first is named, and the others have their factors.
  Tensor many = matrices({100, 5, 5}, kFloat64), positive = matmul(many, mT(many));
  for (const int i : {41, 77}) many[i].fill_(1), positive[i].mul_(-1);
  CHECK_THROWS_WITH_AS(linalg::inv(many.to(kCuda)),
                       "[linalg_inv] matrix 41 of the batch is singular", ValueError);
  CHECK_THROWS_WITH_AS(linalg::cholesky(positive.to(kCuda)),
                       "[linalg_cholesky] matrix 41 of the batch is not positive definite",
                       ValueError);
  const auto [signs, logs] = linalg::slogdet(many.to(kCuda));
  const auto [host_signs, host_logs] = linalg::slogdet(many);
  check_equal(signs.cpu(), host_signs);
  check_close(exp(logs).cpu(), exp(host_logs), 1e-11, 1e-11);

  x[2][0][0].fill_(NAN);
  CHECK_THROWS_WITH_AS(linalg::eigh(x.to(kCuda)),
                       "[linalg_eigh] matrix 2 of the batch has NaN or infinities", ValueError);
  CHECK_THROWS_WITH_AS(linalg::svd(x.to(kCuda)),
                       "[linalg_svd] matrix 2 of the batch has NaN or infinities", ValueError);
}

TEST_CASE("empty batches and matrices, other streams, and cuSOLVER switched off") {
  if (!has_cusolver()) return;
  for (const Shape& shape : std::vector<Shape>{{0, 3, 3}, {2, 0, 0}}) {
    const Tensor x = zeros(shape, {.device = kCuda});
    CHECK(linalg::inv(x).shape() == shape);
    CHECK(linalg::cholesky(x).shape() == shape);
    CHECK(linalg::det(x).numel() == shape[0]);
  }
  CHECK(linalg::solve(eye(3, {.device = kCuda}), zeros({3, 0}, {.device = kCuda})).shape() ==
        Shape{3, 0});

  const Tensor x = matrices({4, 6, 6}, kFloat64), d = x.to(kCuda), expected = linalg::inv(x);
  synchronize(kCuda);
  {
    const StreamGuard other(Stream::create(Device(kCuda)));
    check_close(near(linalg::inv(d)), expected, 1e-11, 1e-11);
  }
  struct Switch {
    bool before = cusolver::is_enabled();
    ~Switch() { cusolver::set_enabled(before); }
  } restore;
  cusolver::set_enabled(false);
  check_equal(linalg::inv(d).cpu(), expected);
  CHECK(cusolver::version().starts_with("1"));
}

TEST_CASE("gradients through cuSOLVER's factors") {
  if (!has_cusolver()) return;
  const Tensor a = matrices({2, 3, 3}, kFloat64).to(kCuda),
               b = matrices({2, 3, 2}, kFloat64).to(kCuda);
  for (const Tensor* t : {&a, &b}) t->set_requires_grad();
  using In = const std::vector<Tensor>&;
  CHECK(autograd::gradcheck([](In x) { return linalg::solve(x[0], x[1]); }, {a, b}));
  CHECK(autograd::gradcheck([](In x) { return linalg::det(x[0]); }, {a}));
  CHECK(autograd::gradcheck([](In x) { return linalg::lstsq(x[0], x[1]); }, {a, b}));
  CHECK(autograd::gradcheck([](In x) { return std::get<1>(linalg::qr(x[0])); }, {a}));
}
