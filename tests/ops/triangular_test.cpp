// Triangular systems and products of several matrices: PyTorch's results.
#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/linalg.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Doubles = std::vector<double>;

Tensor matrix() { return tensor({{2.0, -1.0, 0.5}, {3.0, 1.5, 4.0}, {1.0, -2.0, 2.5}}, kFloat64); }
Tensor right() { return tensor({{1.0, 2.0}, {3.0, -4.0}, {0.5, 6.0}}, kFloat64); }
Tensor factor() { return tensor({{2.0, 0.0, 0.0}, {1.0, 3.0, 0.0}, {-1.0, 0.5, 1.5}}, kFloat64); }

}  // namespace

TEST_CASE("solve_triangular reads one triangle, on either side") {
  const struct {
    bool upper, left, unit;
    Doubles x;
  } cases[] = {
      {false, true, false, {0.5, 1, 1, -14 / 3.0, 0.8, -26 / 15.0}},
      {false, true, true, {1, 2, 0, -10, -0.5, -16}},
      {false, false, false, {-3, 34 / 15.0, 0.2, -1, 8 / 15.0, 2.4}},
      {false, false, true, {-11.5, 4, 0.5, -28, 8, 6}},
      {true, true, false, {71 / 60.0, -62 / 15.0, 22 / 15.0, -136 / 15.0, 0.2, 2.4}},
      {true, true, true, {1.75, -29, 1, -28, 0.5, 6}},
      {true, false, false, {0.5, 7 / 3.0, -109 / 30.0, 1, -2, 5.4}},
      {true, false, true, {1, 4, -16, 2, -2, 13}},
  };
  for (const Device& device : host_and_cuda())
    for (const auto& c : cases) {
      CAPTURE(c.upper);
      CAPTURE(c.left);
      CAPTURE(c.unit);
      const Tensor a = matrix().to(device), b = (c.left ? right() : right().mT()).to(device);
      check_close(linalg::solve_triangular(a, b, c.upper, c.left, c.unit), c.x, 1e-13, 1e-13);
      // A batch of matrices, one right side.
      const Tensor all = linalg::solve_triangular(a.expand({2, 3, 3}), b, c.upper, c.left, c.unit);
      check_close(all[1], c.x, 1e-13, 1e-13);
    }
}

TEST_CASE("cholesky_solve and cholesky_inverse") {
  const Doubles solved{85 / 324.0, 91 / 32.4, 19 / 81.0, -92 / 81.0, 7 / 27.0, 94 / 27.0};
  check_close(cholesky_solve(right(), factor()), solved, 1e-13);
  check_close(cholesky_solve(right(), factor().mT(), true), solved, 1e-13);
  const Tensor a = matmul(factor(), factor().mT());
  check_close(matmul(cholesky_inverse(factor()), a), eye(3, {.dtype = kFloat64}), 0, 1e-14);
  check_close(cholesky_inverse(factor().mT(), true), cholesky_inverse(factor()), 1e-14);
}

TEST_CASE("a right side of fewer dimensions is a matrix, though it fits a batch of vectors") {
  const Tensor a = tensor({{2.0, 1.0, 1.0}, {0.0, 2.0, 1.0}, {0.0, 0.0, 2.0}}, kFloat64),
               b = arange(9, kFloat64).reshape({3, 3});
  const Tensor batch = stack({a, 2 * a, 4 * a});
  const Tensor x = linalg::solve_triangular(batch, b, true);
  REQUIRE(x.shape() == Shape{3, 3, 3});
  const Doubles first{-1.5, -1.375, -1.25, 0, 0.25, 0.5, 3, 3.5, 4};
  check_close(x[0], first, 1e-14);
  check_close(x[2] * 4, first, 1e-14);
  const Tensor right = linalg::solve_triangular(batch, b, true, false);
  REQUIRE(right.shape() == Shape{3, 3, 3});
  check_close(matmul(right[1], 2 * a), b, 1e-14, 1e-14);
  const Tensor factors = (2 * eye(3, kFloat64)).expand({3, 3, 3});
  REQUIRE(cholesky_solve(b, factors).shape() == Shape{3, 3, 3});
  check_close(cholesky_solve(b, factors)[1], b / 4, 1e-14);
  CHECK(linalg::solve(batch, b).shape() == b.shape());  // there it is a batch of vectors

  using In = const std::vector<Tensor>&;
  const std::vector<Tensor> leaves{batch.detach().requires_grad_(), b.detach().requires_grad_()};
  CHECK(autograd::gradcheck([](In in) { return linalg::solve_triangular(in[0], in[1], true); },
                            leaves));
  CHECK(autograd::gradcheck(
      [](In in) { return linalg::solve_triangular(in[0], in[1], true, false); }, leaves));
}

TEST_CASE("a matrix with NaN or infinities is not positive definite") {
  const Tensor good = tensor({{4.0, 2.0}, {2.0, 5.0}}, kFloat64);
  for (const double bad : {double(NAN), double(INFINITY)})
    for (const auto& [row, column] : {std::pair(0, 0), std::pair(1, 0), std::pair(1, 1)}) {
      const Tensor x = stack({good, good});
      x[1][row][column] = bad;
      CHECK(contains(message_of<ValueError>([&] { linalg::cholesky(x); }),
                     "matrix 1 of the batch is not positive definite"));
    }
  const Tensor unread = good.clone();
  unread[0][1] = NAN;  // the upper triangle is not read
  check_close(linalg::cholesky(unread), {2, 0, 1, 2}, 1e-15);
  CHECK(linalg::cholesky(zeros({2, 0, 0})).shape() == Shape{2, 0, 0});
}

TEST_CASE("gradients of triangular systems reach one triangle") {
  using In = const std::vector<Tensor>&;
  const Tensor a = matrix().requires_grad_(), b = right().requires_grad_();
  for (const bool upper : {false, true})
    for (const bool unit : {false, true})
      CHECK(autograd::gradgradcheck(
          [=](In in) { return linalg::solve_triangular(in[0], in[1], upper, true, unit); },
          {a, b}));
  CHECK(autograd::gradgradcheck([](In in) { return cholesky_solve(in[1], in[0]); }, {a, b}));
  CHECK(autograd::gradcheck([](In in) { return cholesky_inverse(in[0]); }, {a}));
  linalg::solve_triangular(a, b, true, true, true).sum().backward();
  CHECK(a.grad().tril().eq(0).all().item<bool>());
}

TEST_CASE("condition numbers") {
  check_close(linalg::cond(matrix()), {3.9724499033134797}, 1e-13);
  check_close(linalg::cond(matrix(), -2), {0.251733822789278}, 1e-13);
  check_close(linalg::cond(matrix(), 1), {6.849462365591398}, 1e-13);
  CHECK(linalg::cond(ones({2, 2})).item<float>() > 1e6);
  check_close(linalg::cond(ones({3, 0, 0}), 1), {0, 0, 0}, 0);
  const Tensor both = stack({matrix(), ones({3, 3}, kFloat64)});  // the second has no inverse
  check_close(linalg::cond(both, 1), {6.849462365591398, INFINITY}, 1e-13);
}

TEST_CASE("multi_dot: any number of matrices, vectors at the ends") {
  const Tensor a = arange(6, kFloat64).reshape({2, 3}), b = arange(12, kFloat64).reshape({3, 4}),
               c = arange(8, kFloat64).reshape({4, 2}), v = arange(2, kFloat64);
  CHECK(equal(linalg::multi_dot({a, b, c}), matmul(matmul(a, b), c)));
  CHECK(equal(linalg::multi_dot({v, a, b, c, v}), matmul(matmul(v, matmul(matmul(a, b), c)), v)));
  CHECK(linalg::multi_dot({v, a}).shape() == Shape{3});
  CHECK(linalg::multi_dot({v, a, b, c, v}).dim() == 0);
  // From the left it would take a matrix of 6 GB.
  CHECK(linalg::multi_dot({ones({40000, 1}), ones({1, 40000}), ones({40000, 1})})
            .eq(40000)
            .all()
            .item<bool>());
  CHECK(contains(message_of<ValueError>([&] { linalg::multi_dot({a}); }),
                 "[linalg_multi_dot] expected two tensors or more, got 1"));
  CHECK(contains(message_of<ShapeError>([&] {
                   linalg::multi_dot({a, v, b});
                 }),
                 "tensor 1 has the shape [2]"));
  CHECK(contains(message_of<ShapeError>([&] {
                   linalg::multi_dot({a, c});
                 }),
                 "tensors 0 and 1 do not fit: [2, 3] and [4, 2]"));
}

TEST_CASE("vecdot conjugates the first; shapes that do not fit") {
  check_close(linalg::vecdot(matrix(), tensor({1.0, 2.0, 3.0}, kFloat64)), {1.5, 18, 4.5}, 1e-15);
  check_close(linalg::vecdot(matrix(), matrix(), 0), {14, 7.25, 22.5}, 1e-15);
  CHECK(contains(message_of<ShapeError>([] { linalg::solve_triangular(right(), right(), true); }),
                 "[linalg_solve_triangular] expected square matrices"));
  CHECK(contains(
      message_of<ShapeError>([] { linalg::solve_triangular(matrix(), right().mT(), true); }),
      "a matrix of [3, 3] for a right side of [2, 3]"));
  CHECK(contains(message_of<ShapeError>([] { cholesky_solve(right(), right()); }),
                 "[cholesky_solve] expected square matrices"));
}
