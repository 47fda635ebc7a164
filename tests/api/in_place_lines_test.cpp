// Lines with methods in place as a libtorch user types them; further ones are in
// tensor_lines_test.cpp. Each must compile and run; what they compute is tested with the ops.
#include <doctest/doctest.h>

#include "ferrite/ferrite.h"

using namespace ferrite;

TEST_CASE("methods of two tensors in place are written as in libtorch") {
  Tensor x = rand({2, 3}), m = x > 0.5, n = tensor({{1, 2, 3}, {4, 5, 6}});
  const Tensor y = rand({3});
  x.atan2_(y).hypot_(y).copysign_(y).copysign_(-1).abs_().xlogy_(y).xlogy_(2).heaviside_(y);
  x.eq_(y).ne_(y).lt_(y).le_(y).gt_(y).ge_(y);
  x.eq_(1).ne_(1).lt_(1).le_(1).gt_(1).ge_(1);
  x.logical_and_(y).logical_or_(y).logical_xor_(y).logical_not_();
  m.logical_and_(m).bitwise_and_(m).bitwise_or_(m).bitwise_xor_(m).bitwise_not_();
  n.bitwise_and_(7).bitwise_or_(1).bitwise_xor_(2).bitwise_left_shift_(1).bitwise_right_shift_(1);
  n.bitwise_left_shift_(n).bitwise_right_shift_(n);
  n = n.bitwise_left_shift(1).bitwise_right_shift(1).bitwise_left_shift(n).bitwise_right_shift(n);
  n = (n << 1) >> n;
  x = rand({2, 3}).renorm_(2, 0, 1);
  CHECK(x.shape() == Shape{2, 3});
}

TEST_CASE("products in place are written as in libtorch") {
  Tensor x = zeros({2, 3}), v = zeros({2}), batches = zeros({4, 2, 3});
  x.addmm_(ones({2, 5}), ones({5, 3})).addmm_(ones({2, 5}), ones({5, 3}), 0.5, 2);
  x.addr_(ones({2}), ones({3})).addbmm_(ones({4, 2, 5}), ones({4, 5, 3}));
  v.addmv_(ones({2, 3}), ones({3}), 1, 2);
  batches.baddbmm_(ones({4, 2, 5}), ones({4, 5, 3}));
  CHECK(x.eq(0.5 * 5 + 10 + 1 + 20).all().item<bool>());
  CHECK(v.eq(6).all().item<bool>());
  CHECK(batches.eq(5).all().item<bool>());
}

TEST_CASE("special functions are written as in libtorch") {
  Tensor x = rand({2, 3}).add_(0.1).clamp_(0.1, 0.9);
  Tensor z = x.lgamma() + x.digamma() + x.polygamma(1) + x.mvlgamma(1) + x.erfinv();
  z = lgamma(x) + digamma(x) + polygamma(1, x) + mvlgamma(x, 1) + erfinv(x);
  z = special::gammaln(x) + special::digamma(x) + special::psi(x) + special::expit(x) +
      special::ndtr(x) + special::erf(x) + special::log1p(x) + special::logit(x) +
      special::xlogy(x, x) + special::softmax(x, 0);
  x.clone().lgamma_();
  x.clone().digamma_().polygamma_(1);
  x.clone().mvlgamma_(1);
  x.erfinv_();
  CHECK(z.shape() == x.shape());
}

TEST_CASE("shapes in place are written as in libtorch") {
  Tensor image = rand({4, 5, 3}).permute({2, 0, 1});
  image.unsqueeze_(0);
  CHECK(image.sizes() == Shape{1, 3, 4, 5});
  image.squeeze_(0).squeeze_().squeeze_({0}).transpose_(0, 1).swapaxes_(1, 2).swapdims_(0, 2);
  image[0].t_();
  CHECK(image.sizes() == Shape{3, 5, 4});
}

TEST_CASE("systems of equations are written as in libtorch") {
  const Tensor a = eye(3) * 4 + 0.5, b = rand({3, 2}), factor = linalg::cholesky(a);
  CHECK(allclose(a.matmul(b.cholesky_solve(factor)), b, 1e-4, 1e-5));
  CHECK(allclose(cholesky_solve(b, factor.mT(), true), b.cholesky_solve(factor), 1e-4, 1e-5));
  CHECK(allclose(a.matmul(factor.cholesky_inverse()), eye(3), 1e-4, 1e-5));
  CHECK(allclose(factor.matmul(linalg::solve_triangular(factor, b, false)), b, 1e-4, 1e-5));
  CHECK(linalg::multi_dot({a, a, b}).sizes() == Shape{3, 2});
  CHECK(linalg::vecdot(b, b).sizes() == Shape{3});
  CHECK(linalg::cond(a).item<float>() > 1);
}
