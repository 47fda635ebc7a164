// Special functions: values of mpmath 1.3, PyTorch's at the edges, gradients of two orders.
#include "ferrite/ops/special.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using T = const Tensor&;
using Doubles = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = NAN;

Tensor row(const Doubles& values) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())});
}

const Doubles kPlaces{-2.5, -0.3, 1e-3, 0.5, 3.25, 40};

}  // namespace

TEST_CASE("gamma functions") {
  for (const Device& device : host_and_cuda()) {
    INFO(device.str());
    const Tensor x = row(kPlaces).to(device);
    const Doubles lgammas{-0.056243716497674051, 1.4648400508576025,  6.9071788853838537,
                          0.57236494292470009,   0.93580193110872536, 106.63176026064346};
    const Doubles digammas{1.1031566406452432,  2.1133097796353989, -1000.5755719318103,
                           -1.9635100260214235, 1.016990911068179,  3.6763273740348431};
    const Doubles trigammas{9.5392466449891238, 13.945160267805722,  1000001.6425331958,
                            4.9348022005446793, 0.35979829030957988, 0.025315103841291028};
    const Doubles fourth{-0.067995999506731363, 9731.8349562335204,    -24000000000000022.0,
                         -771.47424982666723,   -0.094871919953750832, -2.4633778392772127e-6};
    for (const DType dtype : {kFloat64, kFloat32}) {
      // In float32 the places themselves are rounded.
      const double tolerance = dtype == kFloat64 ? 1e-13 : 3e-6;
      check_close(lgamma(x.to(dtype)), lgammas, tolerance, tolerance);
      check_close(digamma(x.to(dtype)), digammas, tolerance, tolerance);
      check_close(polygamma(0, x.to(dtype)), digammas, tolerance, tolerance);
      check_close(polygamma(1, x.to(dtype)), trigammas, tolerance);
      // At -2.5, terms of 768 cancel.
      check_close(polygamma(4, x.to(dtype)), fourth, 4 * tolerance, 30 * tolerance);
    }
    // The zero of digamma, where what is left of the sum is as exact as the sum.
    check_close(digamma(row({1.4616321449683622}).to(device)), Doubles{0}, 0, 4e-15);
    check_close(mvlgamma(row({4.5}).to(device), 3), {7.1635644711916717}, 1e-14);
  }
}

TEST_CASE("gamma functions at poles and far away") {
  const Tensor x = row({0, -0.0, -1, kInf, -kInf, kNaN});
  check_close(lgamma(x), {kInf, kInf, kInf, kInf, kInf, kNaN}, 0);
  check_close(digamma(x), {-kInf, kInf, kNaN, kInf, kNaN, kNaN}, 0);
  check_close(polygamma(1, x.slice(0, 0, 4)), {kInf, kInf, kInf, 0}, 0);
  check_close(polygamma(2, x.slice(0, 0, 4)), {-kInf, -kInf, -kInf, 0}, 0);
  // Next to poles, and many poles below 0: pi^2 / sin(pi x)^2 - trigamma(1 - x).
  check_close(polygamma(1, row({-1e-9, -3 + 1e-7, -1e5 - 0.25})), {1e18, 1e14, 19.739198802178765},
              1e-8);
  check_close(digamma(row({1e300, 1e-300})), {std::log(1e300), -1e300}, 1e-15);
}

TEST_CASE("erfinv") {
  for (const Device& device : host_and_cuda()) {
    INFO(device.str());
    check_close(erfinv(row({1e-10, 0.25, -0.5, 0.9, 0.999999}).to(device)),
                {8.8622692545275805e-11, 0.2253120550121781, -0.47693627620446987,
                 1.1630871536766742, 3.4589107372754988},
                4e-15);
    check_close(erfinv(row({1, -1, 1.5, -2, 0, kNaN}).to(device)),
                {kInf, -kInf, kNaN, kNaN, 0, kNaN}, 0);
    // The inverse, over the whole range: as exact as what erf makes of the last digit.
    const Tensor y =
        cat({linspace(-0.999, 0.999, 1001, kFloat64), 1 - exp(linspace(-1, -34, 100, kFloat64))})
            .to(device);
    check_close(erf(erfinv(y)), y, 1e-15, 1e-15);
    const Tensor single = y.to(kFloat32), inside = single[single < 1];
    check_close(erf(erfinv(inside)), inside, 5e-7, 5e-7);
  }
}

TEST_CASE("gradients of special functions, of two orders") {
  const Tensor x = row({-2.3, -0.6, 0.4, 1.7, 12}).set_requires_grad();
  const Tensor y = row({-0.9, -0.2, 0.1, 0.7}).set_requires_grad();
  const Tensor z = row({1.2, 2.5, 30}).set_requires_grad();
  const autograd::GradcheckOptions options{.atol = 1e-4};
  using In = const std::vector<Tensor>&;
  CHECK(autograd::gradgradcheck([](In in) { return lgamma(in[0]); }, {x}, options));
  CHECK(autograd::gradgradcheck([](In in) { return digamma(in[0]); }, {x}, options));
  CHECK(autograd::gradgradcheck([](In in) { return polygamma(2, in[0]); }, {z}, options));
  CHECK(autograd::gradgradcheck([](In in) { return mvlgamma(in[0], 3); }, {z}, options));
  CHECK(autograd::gradgradcheck([](In in) { return erfinv(in[0]); }, {y}, options));
  CHECK(autograd::gradgradcheck([](In in) { return special::ndtr(in[0]); }, {x}, options));
  CHECK(autograd::gradgradcheck([](In in) { return (in[0] * 1).lgamma_(); }, {x}, options));
  CHECK(autograd::gradgradcheck([](In in) { return (in[0] * 1).polygamma_(1); }, {z}, options));
  CHECK(autograd::gradgradcheck([](In in) { return (in[0] * 1).erfinv_(); }, {y}, options));
}

TEST_CASE("special functions: integers, 16 bits, in place, names, what is refused") {
  const Tensor whole = tensor({1, 2, 5});
  CHECK(lgamma(whole).dtype() == kFloat32);
  check_close(lgamma(whole), {0, 0, std::log(24)}, 1e-6);
  CHECK(mvlgamma(whole, 1).dtype() == kFloat32);
  check_close(digamma(whole.to(kBFloat16)), digamma(whole), rounding_of(kBFloat16));
  const Tensor x = row({0.3, 0.6});
  for (const auto& [changed, expected] :
       {std::pair(x.clone().lgamma_(), lgamma(x)), std::pair(x.clone().digamma_(), digamma(x)),
        std::pair(x.clone().polygamma_(2), polygamma(2, x)),
        std::pair(x.clone().mvlgamma_(1), mvlgamma(x, 1)),
        std::pair(x.clone().erfinv_(), erfinv(x))})
    CHECK(equal(changed, expected));
  CHECK(equal(special::gammaln(x), lgamma(x)));
  CHECK(equal(special::psi(x), digamma(x)));
  CHECK(equal(special::multigammaln(x + 1, 2), mvlgamma(x + 1, 2)));
  CHECK(equal(special::expit(x), x.sigmoid()));
  check_close(special::ndtr(row({-8, 0, 1.5})), {6.2209605742717841e-16, 0.5, 0.93319279873114193},
              1e-13);
  const AutocastGuard autocast;
  CHECK(erfinv(x.to(kFloat16)).dtype() == kFloat32);
  CHECK(contains(message_of<ValueError>([&] { polygamma(-1, x); }),
                 "[polygamma] expected an order of 0 or more, got -1"));
  CHECK(
      contains(message_of<ValueError>([&] { mvlgamma(x, 0); }), "[mvlgamma] expected a dimension"));
  CHECK_THROWS_AS(tensor({1, 2}).lgamma_(), DTypeError);
  CHECK_THROWS_AS(lgamma(zeros({2}, kComplexFloat)), DTypeError);
  CHECK_THROWS_AS(lgamma(Tensor()), ValueError);
}
