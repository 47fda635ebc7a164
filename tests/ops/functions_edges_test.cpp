// Functions made of others where random comparisons with PyTorch found differences: the dtypes of
// mixed operands, 16-bit accuracy, gradients at edges, batches as large as their matrices.
#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/blend.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/linalg.h"
#include "ferrite/ops/margin_loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/products.h"
#include "ferrite/ops/quantile.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using T = const Tensor&;

/// The gradient of sum(f(x)).
template <class F>
Tensor slope(F&& f, T x) {
  const Tensor leaf = x.detach().clone().set_requires_grad();
  sum(f(leaf)).backward();
  return leaf.grad();
}

/// i sin(i), scaled, in rows.
Tensor wave(const Shape& shape, double step) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    v.push_back(std::sin(step * static_cast<double>(i) + 0.4));
  return from_vector(v, shape);
}

}  // namespace

TEST_CASE("of three operands those with dimensions decide the dtype") {
  const Tensor half = ones({2}).to(kFloat16), whole = ones({2}).to(kInt64);
  const Tensor number = full({}, 2, {.dtype = kFloat64});
  CHECK(addcmul(half, whole, number).dtype() == kFloat16);
  CHECK(addcdiv(half, half, number).dtype() == kFloat16);
  CHECK(block_diag(std::vector<Tensor>{half, whole, number}).dtype() == kFloat16);
  CHECK_THROWS_AS(addcmul(whole, whole, whole, 0.5), DTypeError);
  const Tensor narrow = ones({2});
  addcmul_(narrow, wave({2}, 1), number);
  CHECK(narrow.dtype() == kFloat32);
  CHECK(logaddexp(half, whole).dtype() == kFloat16);
  CHECK_THROWS_AS(logaddexp(whole, whole), DTypeError);
  CHECK(xlogy(full({}, 2, {.dtype = kFloat16}), 0.5).dtype() == kFloat16);
  check_close(xlogy(0.1, full({}, 3, {.dtype = kFloat64})), {0.1 * std::log(3.0)}, 1e-15);
  CHECK(heaviside(tensor({true, false}), tensor({true, true})).dtype() == kBool);
  CHECK(threshold(tensor({1, -5}), 0, -3).dtype() == kInt64);
  check_equal(threshold(tensor({1, -5}), 0, -3), tensor({1, -3}));
  CHECK(softsign(tensor({1, -5})).dtype() == kFloat32);
  CHECK(tanhshrink(tensor({1, -5})).dtype() == kFloat32);
  CHECK(bincount(tensor({1, 0}), half).dtype() == kFloat64);
  CHECK(combinations(half, 0).shape() == Shape{0});
  CHECK(diff(half, 0, 0, half).shape() == Shape{2});
}

TEST_CASE("functions of 16 bits are rounded once") {
  const Tensor x = wave({64}, 0.3) * 3, y = wave({64}, 0.7), w = wave({64}, 1.1);
  const auto one_rounding = [&](auto f) {
    const auto low = [](T t) { return t.to(kFloat16); };
    const Tensor exact = f(low(x).to(kFloat64), low(y).to(kFloat64), low(w).to(kFloat64));
    check_equal(f(low(x), low(y), low(w)).to(kFloat32),
                exact.to(kFloat32).to(kFloat16).to(kFloat32));
  };
  one_rounding([](T x, T, T) { return softsign(x); });
  one_rounding([](T x, T y, T) { return addcmul(x, x, y, 0.5); });
  one_rounding([](T x, T y, T w) { return lerp(x, y, w); });
  const Tensor integers = tensor({1.0, 2.0, -3.0}).to(kFloat16);
  check_close(sinc(integers).to(kFloat32), {0, 0, 0}, 0, 1e-6);
}

TEST_CASE("gradients at the edges of functions") {
  const double nan = NAN, inf = INFINITY;
  check_close(slope([&](T x) { return logit(x); }, tensor({0.5, 2.0, nan})), {4, nan, nan}, 1e-6);
  check_close(slope([&](T x) { return logit(x, 0.1); }, tensor({0.5, 0.05, 0.1})), {4, 0, 1 / 0.09},
              1e-6);
  check_close(slope(
                  [&](T x) {
                    return xlogy(x, tensor({0.0, 1.0}));
                  },
                  tensor({0.0, 0.0})),
              {0, 0}, 0);
  check_close(slope(
                  [&](T x) {
                    return logaddexp(x, tensor({-inf, 1.0}));
                  },
                  tensor({-inf, 1.0})),
              {0.5, 0.5}, 1e-6);
  check_close(slope([&](T x) { return prelu(x, tensor({nan})); }, tensor({2.0, 3.0})), {1, 1}, 0);
  check_close(slope([&](T w) { return lerp(tensor({inf}), tensor({1.0}), w); }, tensor({0.3})),
              {-inf}, 0);
  // Where a hinge begins it has no slope, and NaN stays NaN.
  const Tensor target = -ones({3});
  const auto loss = [&](T x) {
    return hinge_embedding_loss(x, target, {.reduction = Reduction::none});
  };
  check_close(slope(loss, tensor({0.0, 1.0, 2.0})), {-1, 0, 0}, 0);
  check_close(loss(tensor({0.0, 3.0, nan})), {1, 0, nan}, 0);
  const Tensor source = ones({2}).set_requires_grad();
  sum(masked_scatter(zeros({0}).set_requires_grad(), ones({0}).to(kBool), source)).backward();
  check_close(source.grad(), {0, 0}, 0);
}

TEST_CASE("linalg: a batch as large as its matrices, and gradients of equal singular values") {
  const Tensor x = wave({3, 3, 3}, 1.3) + eye(3) * 3;
  const Tensor inverse = linalg::inv(x);
  REQUIRE(inverse.shape() == x.shape());
  check_close(matmul(inverse, x), eye(3).expand({3, 3, 3}), 1e-4, 1e-5);
  const auto gradient_of = [](auto f) {
    return [f](const std::vector<Tensor>& t) { return f(t[0]); };
  };
  const auto leaf = [](T t) { return std::vector<Tensor>{t.to(kFloat64).set_requires_grad()}; };
  CHECK(autograd::gradcheck(gradient_of([](T x) { return linalg::det(x); }), leaf(x)));
  CHECK(autograd::gradcheck(gradient_of([](T x) { return linalg::inv(x); }), leaf(x)));
  const auto pinv = gradient_of([](T x) { return linalg::pinv(x); });
  CHECK(autograd::gradcheck(pinv, leaf(eye(3)), {.second_order = true}));
  CHECK(autograd::gradcheck(pinv, leaf(wave({2, 4, 2}, 2.3)), {.second_order = true}));
  CHECK(autograd::gradcheck(pinv, leaf(wave({2, 4}, 2.3))));
  check_close(slope([](T x) { return linalg::pinv(x); }, zeros({2, 1})), {0, 0}, 0);
}

TEST_CASE("pdist: pairs in rows; equal, few and no rows") {
  check_close(pdist(tensor({{0.0, 0.0}, {3.0, 4.0}, {0.0, 1.0}}, kFloat64)),
              {5, 1, std::sqrt(18.0)}, 1e-12);
  check_close(pdist(tensor({{0.0, 0.0}, {3.0, 4.0}}), INFINITY), {4}, 0);
  CHECK(pdist(zeros({1, 3})).shape() == Shape{0});
  CHECK(pdist(zeros({0, 3})).shape() == Shape{0});
  CHECK(pdist(zeros({0, 0}), INFINITY).shape() == Shape{0});
  check_equal(pdist(zeros({2, 0}), INFINITY), zeros({1}));
  check_close(slope([](T x) { return pdist(x); }, ones({3, 2})), {0, 0, 0, 0, 0, 0}, 0);
  CHECK_THROWS_AS(pdist(zeros({2, 3, 4})), ShapeError);
}

TEST_CASE("cdist: rows in blocks and by a product, in batches that broadcast") {
  // More differences than one block holds, of several powers.
  const Tensor a = wave({2, 700, 3}, 0.37).to(kFloat64), b = wave({1, 800, 3}, 0.71).to(kFloat64);
  for (const double p : {1.0, 2.0, 3.0}) {
    CAPTURE(p);
    const auto direct = [&](T x, T y) { return norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1); };
    check_close(cdist(a, b, p), direct(a, b), 1e-7, 1e-7);
    const Tensor x = a.clone().set_requires_grad(), y = b.clone().set_requires_grad();
    const Tensor u = a.clone().set_requires_grad(), v = b.clone().set_requires_grad();
    sum(square(cdist(x, y, p))).backward();
    sum(square(direct(u, v))).backward();
    check_close(x.grad(), u.grad(), 1e-7, 1e-6);
    check_close(y.grad(), v.grad(), 1e-7, 1e-6);
  }
  const auto f = [](const std::vector<Tensor>& t) { return cdist(t[0], t[1]); };
  CHECK(autograd::gradcheck(f,
                            {wave({2, 3, 2}, 1.9).to(kFloat64).set_requires_grad(),
                             wave({4, 2}, 0.9).to(kFloat64).set_requires_grad()},
                            {.second_order = true}));
  // Few slopes come from far rows, and none from no rows.
  const Tensor near = rand({5, 2}), far = rand({30, 2});
  far[29].fill_(1e6);
  const auto slopes = [](T a, T b) {
    const Tensor u = a.clone().set_requires_grad();
    cdist(u, b).sum().backward();
    return u.grad();
  };
  check_close(slopes(near, far).to(kFloat64), slopes(near.to(kFloat64), far.to(kFloat64)), 0, 1e-3);
  check_close(slopes(far, zeros({0, 2})), zeros({30, 2}), 0);
  // By products, with rows that are equal.
  const Tensor rows = wave({27, 2}, 1.9).to(kFloat64);
  CHECK(autograd::gradcheck(
      f, {rows.clone().set_requires_grad(), (rows.narrow(0, 0, 2) + 0.25).set_requires_grad()},
      {.second_order = true}));
  const Tensor x = (rows + 100).set_requires_grad();
  cdist(x, x.detach()).sum().backward();
  CHECK(all(isfinite(x.grad())).item<bool>());
  CHECK(cdist(zeros({3, 0}), zeros({30, 0})).shape() == Shape{3, 30});
  check_close(cdist(zeros({1, 0}), zeros({2, 0}), INFINITY), {0, 0}, 0);
  CHECK(cdist(zeros({0, 2}), zeros({30, 2})).shape() == Shape{0, 30});
}

TEST_CASE("unique compares slices by their elements in the tensor's order") {
  // The slices [0 1 0 0] and [0 0 1 1], the second of which comes first.
  const Tensor x = tensor({0, 0, 1, 0, 0, 1, 0, 1}).reshape({2, 2, 2});
  const Unique u = unique(x, {.return_inverse = true, .dim = 2});
  check_equal(u.inverse, tensor({1, 0}));
  check_equal(u.values, flip(x, {2}));
}

TEST_CASE("searchsorted: a fraction is between two integers") {
  const Tensor row = tensor({-1, 0, 0, 1, 2});
  CHECK(searchsorted(row, 0.5).item<std::int64_t>() == 3);
  CHECK(searchsorted(row, -0.5, {.right = true}).item<std::int64_t>() == 1);
}

TEST_CASE("searchsorted and bucketize promote dtypes") {
  const Tensor row = tensor({1, 3, 5});
  check_equal(searchsorted(row, tensor({2.5, 3.0})), tensor({1, 1}));
  check_equal(searchsorted(row.to(kInt32), tensor({2.5, 5.5}, kFloat64), {.right = true}),
              tensor({1, 3}));
  check_equal(bucketize(tensor({1.0, 3.0}), tensor({1, 2, 3}, kInt32)), tensor({0, 2}));
  check_equal(bucketize(tensor({2, 0}, kUInt8), tensor({-0.5, 1.5})), tensor({2, 1}));
  check_equal(searchsorted(tensor({-1, 3}), tensor({200, 2}, kUInt8)), tensor({2, 1}));
  CHECK_THROWS_AS(searchsorted(row, tensor({2.5}).to(kComplex64)), DTypeError);
}

TEST_CASE("masked_scatter of no elements into none") {
  const Tensor x = ones({2, 3}).set_requires_grad(), none = zeros({3}, {.dtype = kBool});
  const Tensor y = masked_scatter(x, none, zeros({0}));
  check_equal(y.detach(), ones({2, 3}));
  sum(y).backward();
  check_close(x.grad(), {1, 1, 1, 1, 1, 1}, 0);
  const Tensor z = ones({3});
  masked_scatter_(z, none, zeros({0}));
  check_equal(z, ones({3}));
  CHECK_THROWS_AS(masked_scatter(z, tensor({false, true, false}), zeros({0})), ValueError);
}

TEST_CASE("linalg::norm: an order without dimensions is of vectors and matrices") {
  const Tensor x = ones({2, 3, 4});
  CHECK_THROWS_AS(linalg::norm(x, 2), ShapeError);
  CHECK_THROWS_AS(linalg::norm(tensor(3.0), 2), ShapeError);
  check_close(linalg::norm(x), {std::sqrt(24.0)}, 1e-6);
  CHECK(linalg::norm(x, 2, {1, 2}).shape() == Shape{2});
  check_close(linalg::norm(x[0], 1), {3}, 1e-6);
  check_close(linalg::norm(x[0][0], 1), {4}, 1e-6);
}

TEST_CASE("tensordot broadcasts a size of 1") {
  const Tensor one = tensor({{2.0, 3.0}}), many = arange(6, kFloat32).reshape({3, 2});
  check_close(tensordot(one, many, {0}, {0}), {12, 18, 18, 27}, 1e-6);
  check_close(tensordot(many, one, {0}, {0}), {12, 18, 18, 27}, 1e-6);
  check_close(tensordot(ones({2, 1}), ones({3, 2, 4}), {0, 1}, {1, 0}), {6, 6, 6, 6}, 0);
  check_close(tensordot(one, ones({0, 2}), {0}, {0}), {0, 0, 0, 0}, 0);
  check_equal(tensordot(tensor({2}), tensor({1, 2, 3}), 1), tensor(12));
  check_close(slope([&](T x) { return tensordot(one, x, {0}, {0}); }, many), {5, 5, 5, 5, 5, 5}, 0);
  CHECK_THROWS_AS(tensordot(ones({2}), ones({3}), 1), ShapeError);
}

TEST_CASE("determinants of float32 have its digits") {
  check_close(linalg::det(eye(3) * 10), {1000}, 0);
  check_close(linalg::det(tensor({{1.0, 2.0}, {3.0, 4.0}})), {-2}, 0);
}

TEST_CASE("errors name the function that was called") {
  const Tensor z = ones({2}).to(kComplex64), spread = zeros({1}).expand({3});
  CHECK(contains(message_of<DTypeError>([&] { z.prod(); }), "[prod]"));
  CHECK(contains(message_of<DTypeError>([&] { z.max(); }), "[max]"));
  CHECK(contains(message_of<DTypeError>([&] { amin(z, {0}); }), "[amin]"));
  CHECK(contains(message_of<DTypeError>([&] { any(z); }), "[any]"));
  CHECK(
      contains(message_of<DTypeError>([&] { bitwise_not(z); }), "[bitwise_not] expected integers"));
  const auto put = [&](const Tensor& values) { spread.index_put_({tensor({0, 1})}, values); };
  CHECK(contains(message_of<ValueError>([&] { put(ones({2})); }), "[index_put_]"));
  CHECK(contains(message_of<ValueError>([&] { spread.index_put_({tensor({0})}, 1); }),
                 "[index_put_]"));
  const Tensor x = wave({4}, 1), levels = tensor({0.5, double(NAN)});
  CHECK(contains(message_of<ValueError>([&] { quantile(x, levels); }),
                 "[quantile] expected a q from 0 to 1, got nan"));
  CHECK(contains(message_of<ValueError>([&] { nanquantile(x, levels); }),
                 "[nanquantile] expected a q from 0 to 1, got nan"));
}

TEST_CASE("histc: a range of its own is finite") {
  CHECK(contains(message_of<ValueError>([] {
                   histc(tensor({1.0, double(NAN)}), 3);
                 }),
                 "[histc] expected finite elements"));
  CHECK(contains(message_of<ValueError>([] {
                   histc(tensor({1.0, double(INFINITY)}), 3);
                 }),
                 "got elements from 1 to inf"));
  check_close(histc(tensor({1.0, double(NAN), 2.0, double(INFINITY)}), 3, 0, 3), {0, 1, 1}, 0);
  check_close(histc(zeros({0}), 3), {0, 0, 0}, 0);
  check_close(histc(tensor({-3e38, -3e38}), 4), {0, 0, 2, 0}, 0);  // as equal numbers of any size
}

TEST_CASE("the slope of sinc has all of its digits, near 0 too") {
  for (const double x : {1e-6, 0.003, 0.1, 0.159, 0.16, 0.5, 1.7}) {
    CAPTURE(x);
    const long double at = std::acos(-1.0L) * static_cast<long double>(x);
    // By the series, which converges everywhere.
    long double term = -at / 3, series = 0;
    for (int n = 1; n < 40; ++n) {
      series += term;
      term *= -at * at * (2 * n + 2) / ((2 * n) * (2 * n + 2.0L) * (2 * n + 3));
    }
    const double expected = static_cast<double>(std::acos(-1.0L) * series);
    const auto f = [](T t) { return sinc(t); };
    const Tensor both = from_vector<double>({x, -x}, {2});
    check_close(slope(f, both), {expected, -expected}, 2e-14, 1e-15);
    check_close(slope(f, both.to(kFloat32)), {expected, -expected}, 4e-6);
  }
}

TEST_CASE("gradients beside infinities: logsumexp, cumprod") {
  const double inf = INFINITY;
  // exp(3e38) is infinite, and its share of an infinite sum 0; only infinity itself has no slope.
  check_close(slope([](T t) { return logsumexp(t); }, tensor({inf, 3e38, -inf, 1.0})),
              {NAN, 0, 0, 0}, 0);
  check_close(slope([](T t) { return logsumexp(t); }, tensor({3e38, 1.0})), {1, 0}, 0);
  // What follows the first 0 is 0, whatever it is multiplied with.
  check_close(slope([](T t) { return cumprod(t, 0); }, tensor({2.0, 3.0, 0.0, inf})),
              {1 + 3, 2, inf, 0}, 0);
  check_close(slope([](T t) { return cumprod(t, 0); }, tensor({inf})), {1}, 0);
}

TEST_CASE("lerp and addcmul promote a weight without dimensions; bincount of nothing counts") {
  const Tensor x = zeros({2}).to(kFloat16), weight = full({}, 0.5, {.dtype = kFloat64});
  CHECK(lerp(x, ones_like(x), weight).dtype() == kFloat16);
  check_close(lerp(tensor({0, 4}).to(kUInt8), tensor({2, 0}).to(kUInt8), weight), {1, 2}, 0);
  CHECK(lerp(tensor({0}).to(kUInt8), tensor({2}).to(kUInt8), weight).dtype() == kFloat64);
  for (const DType dtype : {kFloat16, kFloat32, kFloat64}) {
    const Tensor ends = tensor({1.0, 4.0, -2.0}).to(dtype), y = zeros_like(ends);
    lerp_(y, ends, weight);
    check_equal(y, lerp(zeros_like(ends), ends, weight));
    check_close(y, {0.5, 2, -1}, 0);
    addcmul_(y, ends, weight.to(kFloat32), -1);
    check_close(y, {0, 0, 0}, 0);
  }
  CHECK_THROWS_AS(lerp(x, x, weight.reshape({1})), DTypeError);
  CHECK_THROWS_AS(lerp_(tensor({0}).to(kUInt8), tensor({2}).to(kUInt8), weight), DTypeError);
  const Tensor none = zeros({0}, {.dtype = kInt64});
  CHECK(bincount(none, zeros({0}), 3).dtype() == kInt64);
}

TEST_CASE("methods of matrices") {
  const Tensor x = tensor({{4.0, 1.0}, {2.0, 3.0}}, kFloat64);
  check_close(x.det(), {10}, 1e-14);
  check_close(x.logdet(), {std::log(10.0)}, 1e-14);
  check_close(std::get<0>(x.slogdet()), {1}, 0);
  check_close(std::get<1>(x.slogdet()), {std::log(10.0)}, 1e-14);
  check_close(x.inverse(), {0.3, -0.1, -0.2, 0.4}, 1e-14);
  check_close(x.matrix_power(2), {18, 7, 14, 11}, 0);
  check_close(x.pinverse(), x.inverse(), 1e-13);
  // A determinant below 0 has no logarithm, and no gradient; that of 0 is -infinity.
  const Tensor batch = stack({x.flip({0}), x, zeros_like(x)});
  const Tensor logs = batch.logdet();
  CHECK(std::isnan(logs[0].item<double>()));
  CHECK(logs[2].item<double>() == -INFINITY);
  const Tensor leaf = batch.slice(0, 0, 2).clone().set_requires_grad();
  leaf.logdet().sum().backward();
  check_close(leaf.grad()[0], {0, 0, 0, 0}, 0);
  check_close(leaf.grad()[1], {0.3, -0.2, -0.1, 0.4}, 1e-14);

  const Tensor tall = tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 7.0}}, kFloat64);
  const auto [u, s, v] = tall.svd();
  CHECK((u.shape() == Shape{3, 2} && s.shape() == Shape{2} && v.shape() == Shape{2, 2}));
  check_close((u * s).matmul(v.t()), tall, 1e-13);
  const auto [all_u, all_s, all_v] = tall.t().svd(false);
  CHECK((all_u.shape() == Shape{2, 2} && all_v.shape() == Shape{3, 3}));
  check_close(all_s, s, 1e-13);
  const auto [no_u, only_s, no_v] = tall.set_requires_grad().svd(true, false);
  check_close(no_u, zeros({3, 3}, kFloat64), 0);
  check_close(no_v, zeros({2, 2}, kFloat64), 0);
  CHECK((only_s.requires_grad() && !no_u.requires_grad()));
  check_close(only_s.detach(), s, 1e-13);
  // Small singular values count, unlike linalg::pinv()'s.
  const Tensor steep = tensor({{1.0, 0.0}, {0.0, 1e-9}});
  CHECK(steep.pinverse()[1][1].item<double>() == doctest::Approx(1e9));
  CHECK(steep.pinverse(1e-6)[1][1].item<double>() == 0);
  CHECK_THROWS_WITH_AS(zeros({2, 2}).inverse(), doctest::Contains("[linalg_inv]"), ValueError);
  CHECK_THROWS_WITH_AS(zeros({2, 3}).logdet(), doctest::Contains("[logdet]"), ShapeError);
  CHECK_THROWS_AS(zeros({2}).svd(), ShapeError);
  CHECK_THROWS_AS(x.to(kFloat16).det(), DTypeError);
}

TEST_CASE("a NaN bound of clamp makes all elements NaN") {
  const Tensor x = tensor({1.0, 2.0});
  check_close(clamp(x, NAN, {}), {NAN, NAN}, 0);
  check_close(clamp_max(tensor({1, 2}), NAN), {NAN, NAN}, 0);
  check_close(x.clone().clamp_(0.0, NAN), {NAN, NAN}, 0);
  check_close(slope([](T t) { return clamp(t, NAN, 3); }, x), {0, 0}, 0);
}

TEST_CASE("bounds of uniform_ are numbers of the dtype, as is their difference") {
  CHECK_THROWS_AS(uniform_(ones({4}), -3e38, 3e38), ValueError);
  CHECK_THROWS_AS(uniform_(ones({4}, {.dtype = kFloat16}), 0, 1e6), ValueError);
  CHECK_THROWS_AS(uniform_(ones({4}), 0, INFINITY), ValueError);
  uniform_(ones({4}, {.dtype = kFloat16}), 0, 65504);
  uniform_(ones({4}, {.dtype = kBFloat16}), -1e38, 1e38);
  uniform_(ones({4}, {.dtype = kFloat64}), -8e307, 8e307);
}

TEST_CASE("integers are searched for numbers that their dtype does not have") {
  const auto place = [](T sorted, Scalar v, bool right = false) {
    return searchsorted(sorted, v, {.right = right}).item<std::int64_t>();
  };
  for (const DType dtype : {kInt64, kInt32, kInt8, kUInt8}) {
    const Tensor sorted = tensor({0, 50, 100}, {.dtype = dtype});
    for (const Scalar large : {Scalar(INFINITY), Scalar(1e30), Scalar(0x1p63)})
      CHECK(place(sorted, large) == 3);
    for (const Scalar small : {Scalar(-INFINITY), Scalar(-1e30)})
      CHECK(place(sorted, small, true) == 0);
    CHECK(place(sorted, 50.5) == 2);
    CHECK(place(sorted, 50.0) == 1);
  }
  CHECK(place(tensor({0, 50, 127}, {.dtype = kInt8}), 300) == 3);
  CHECK(place(tensor({0, 50, 127}, {.dtype = kInt8}), 127) == 2);
  CHECK(place(tensor({0, 50, 127}, {.dtype = kUInt8}), -1, true) == 0);
  const Tensor ends = tensor({INT64_MIN, INT64_MAX});
  CHECK(place(ends, INT64_MAX) == 1);
  CHECK(place(ends, -0x1p63, true) == 1);
}

TEST_CASE("sizes that 64 bits do not hold are errors") {
  const Tensor x = arange(4);
  CHECK_THROWS_AS(repeat_interleave(x, std::int64_t{1} << 62), ValueError);
  CHECK_THROWS_AS(repeat_interleave(x, (std::int64_t{1} << 62) + 1), ValueError);
  CHECK_THROWS_AS(
      repeat_interleave(x, tensor({INT64_MAX, INT64_MAX, std::int64_t{5}, std::int64_t{0}})),
      ValueError);
  CHECK_THROWS_AS(bincount(tensor({INT64_MAX})), ValueError);
  CHECK_THROWS_AS(diag_embed(ones({2}), INT64_MIN), ValueError);
  CHECK(eye(0, INT64_MAX).shape() == Shape{0, INT64_MAX});
  for (const std::int64_t offset : {INT64_MAX, INT64_MIN}) {
    CHECK(tril_indices(2, 3, offset).size(1) == (offset > 0 ? 6 : 0));
    CHECK(triu_indices(2, 3, offset).size(1) == (offset > 0 ? 0 : 6));
  }
  CHECK_THROWS_AS(cdist(zeros({2, 2}), zeros({2, 2}), -1), ValueError);
}

TEST_CASE("histc and quantile of more numbers than float32 counts") {
  const Tensor few = tensor({NAN, 0.5, 1.0});
  CHECK(sum(histc(few, 16'777'217, 0, 1)).item<double>() == 2);
  CHECK(histc(few, 33'554'435, 0, 1)[33'554'434].item<double>() == 1);
  const Tensor many = zeros({16'777'220});
  many[16'777'219] = 3.0;
  CHECK(quantile(many, 1.0).item<double>() == 3);
}

TEST_CASE("arange of an integer dtype counts in integers, as PyTorch") {
  check_equal(arange(-3.5, 3, 1, {.dtype = kInt64}),
              tensor({-3, -2, -1, 0, 1, 2, 3}, {.dtype = kInt64}));
  check_equal(arange(0, 5.5, 1.5, {.dtype = kInt32}), tensor({0, 1, 2, 3}, {.dtype = kInt32}));
}

TEST_CASE("sums of integers in scattered places wrap around") {
  for (const DType dtype : {kInt64, kInt32, kInt16, kInt8}) {
    const Tensor most = dtype == kInt64   ? tensor({INT64_MAX})
                        : dtype == kInt32 ? tensor({INT32_MAX}, {.dtype = kInt32})
                        : dtype == kInt16 ? tensor({INT16_MAX}, {.dtype = kInt16})
                                          : tensor({INT8_MAX}, {.dtype = kInt8});
    const Tensor at = zeros({1}, {.dtype = kInt64});
    const Tensor expected = full({1}, -2, {.dtype = dtype});
    check_equal(scatter_add(most, 0, at, most), expected);
    check_equal(index_add(most, 0, at, most), expected);
  }
  slope([](T t) { return pow(t, Scalar(INT64_MIN)); }, tensor({1.0, 2.0}));
}
