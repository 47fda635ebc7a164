// Complex numbers: values and gradients recorded from PyTorch, moves, views, promotion, and that
// ops which do not know them say so.
#include "ferrite/ops/complex.h"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "ferrite/autograd/anomaly.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/blend.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/quantile.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/ops/op_table.h"
#include "ferrite/tests/ops/outcome.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using T = const Tensor&;
using Z = std::complex<double>;
constexpr Z i(0, 1);

Tensor parts(T x) { return is_complex(x) ? view_as_real(x.detach()) : x.detach(); }
Tensor leaf(T t) { return t.clone().set_requires_grad(); }

/// Inputs recorded in complex.safetensors: z and w are complex, x is real.
struct Recorded {
  Golden golden{"complex"};

  Tensor input(const std::string& name) const {
    const Tensor t = golden.get("inputs", name);
    return name == "x" ? t : view_as_complex(t);
  }
  /// Compares f(inputs...) and its gradients with what was recorded under `name`.
  void check(const std::string& name, const std::vector<std::string>& inputs,
             const std::function<Tensor(const std::vector<Tensor>&)>& f) const {
    CAPTURE(name);
    std::vector<Tensor> leaves;
    for (const std::string& input_name : inputs) leaves.push_back(leaf(input(input_name)));
    const Tensor out = f(leaves), grad = golden.get(name, "grad");
    check_close(parts(out), golden.get(name, "out"), 1e-12, 1e-13);
    out.backward(is_complex(out) ? view_as_complex(grad) : grad);
    for (std::size_t k = 0; k < inputs.size(); ++k)
      check_close(parts(leaves[k].grad()), golden.get(name, inputs[k] + "_grad"), 1e-11, 1e-13);
  }
};

Tensor random_pairs(const Shape& shape) {
  return randn(shape, {.dtype = kFloat64}).set_requires_grad();
}

}  // namespace

TEST_CASE("complex: functions and their gradients are PyTorch's") {
  const Recorded recorded;
  const std::map<std::string, std::function<Tensor(T)>> functions{
      {"neg", [](T z) { return -z; }},
      {"conj", [](T z) { return conj(z); }},
      {"abs", [](T z) { return abs(z); }},
      {"angle", [](T z) { return angle(z); }},
      {"real", [](T z) { return real(z); }},
      {"imag", [](T z) { return imag(z); }},
      {"view_as_real", [](T z) { return view_as_real(z); }},
      {"sgn", [](T z) { return sgn(z); }},
      {"exp", [](T z) { return exp(z); }},
      {"reciprocal", [](T z) { return reciprocal(z); }},
      {"square", [](T z) { return square(z); }},
      {"sum", [](T z) { return sum(z); }},
      {"sum_dim", [](T z) { return sum(z, -1, true); }},
      {"mean",
       [](T z) {
         return mean(z, {0, 1});
       }},
      {"scalars",
       [](T z) { return ((z + 2) * 3 - (1. - 2. * i)) / (2. + i) + (i - z) * 0.5 + (2. - i) / z; }},
      {"to_real", [](T z) { return z.to(kFloat64); }},
      {"index",
       [](T z) {
         return z.index({Slice(), tensor({2, 0, 2})});
       }},
      {"where", [](T z) { return where(gt(real(z), 0), z, 1. - i); }},
      {"matmul", [](T z) { return matmul(z, z.mT()); }},
      {"cat",
       [](T z) {
         return roll(flip(cat({z, 2 * z}, 1), 0), 1, 0);
       }},
  };
  for (const auto& [name, f] : functions)
    recorded.check(name, {"z"}, [&f = f](const auto& in) { return f(in[0]); });
}

TEST_CASE("complex: arithmetic of complex and real tensors and its gradients are PyTorch's") {
  const Recorded recorded;
  const std::map<std::string, std::function<Tensor(T, T)>> functions{
      {"add", [](T a, T b) { return add(a, b, 2. - i); }},
      {"sub", [](T a, T b) { return sub(a, b, 3); }},
      {"mul", [](T a, T b) { return a * b; }},
      {"div", [](T a, T b) { return a / b; }},
  };
  for (const auto& [name, f] : functions) {
    const auto run = [&f = f](const auto& in) { return f(in[0], in[1]); };
    recorded.check(name + "_complex", {"z", "w"}, run);
    recorded.check(name + "_real", {"z", "x"}, run);
    recorded.check(name + "_mixed", {"x", "w"}, run);
  }
  const Tensor y = arange(4, {.dtype = kFloat64}) + 1;
  using Binary = Tensor (*)(T, T);
  for (const auto& [name, f] :
       {std::pair<std::string, Binary>{"complex", complex}, {"polar", polar}}) {
    CAPTURE(name);
    const Tensor a = leaf(abs(recorded.input("x"))), b = leaf(y);
    const Tensor out = f(a, b);
    check_close(parts(out), recorded.golden.get(name, "out"), 1e-13, 1e-14);
    out.backward(view_as_complex(recorded.golden.get(name, "grad")));
    check_close(a.grad(), recorded.golden.get(name, "x_grad"), 1e-12, 1e-13);
    check_close(b.grad(), recorded.golden.get(name, "y_grad"), 1e-12, 1e-13);
  }
}

TEST_CASE("complex: quotients are scaled, and gradients at 0 are 0") {
  const Golden golden("complex");
  const Tensor top = view_as_complex(golden.get("quotients", "top")),
               low = view_as_complex(golden.get("quotients", "low"));
  check_close(parts(top / low), golden.get("quotients", "out"), 1e-14, 0);
  const Tensor zero = zeros({2}, kComplex128).set_requires_grad();
  (sum(abs(zero)) + sum(angle(zero))).backward();
  check_close(parts(zero.grad()), golden.get("zero", "grad"), 0, 0);
}

TEST_CASE("complex: in-place changes and their gradients are those of new tensors") {
  const auto in_place = [](const std::vector<Tensor>& in) {
    const Tensor a = view_as_complex(in[0] * 1), b = view_as_complex(in[1]);
    a.mul_(b).div_(b + 3).add_(a, 2. + i).sub_(b).mul_(1. - i).add_(i);
    a[0] = 2 * b[1];
    return view_as_real(a);
  };
  const auto anew = [](const std::vector<Tensor>& in) {
    Tensor a = view_as_complex(in[0] * 1);
    const Tensor b = view_as_complex(in[1]);
    a = a * b / (b + 3);
    a = (a + a * (2. + i) - b) * (1. - i) + i;
    return view_as_real(cat({(2 * b[1]).unsqueeze(0), a.slice(0, 1)}, 0));
  };
  manual_seed(1);
  const std::vector<Tensor> in{random_pairs({2, 3, 2}), random_pairs({2, 3, 2})};
  check_close(in_place(in), anew(in), 1e-12, 1e-13);
  CHECK(autograd::gradcheck(in_place, in));
}

TEST_CASE("complex: gradients of gradients") {
  manual_seed(2);
  const auto check = [](const std::function<Tensor(T, T)>& f) {
    CHECK(autograd::gradcheck(
        [&](const std::vector<Tensor>& in) {
          const Tensor out = f(view_as_complex(in[0]), view_as_complex(in[1]));
          return is_complex(out) ? view_as_real(out) : out;
        },
        {random_pairs({3, 2}), random_pairs({3, 2})}, {.second_order = true}));
  };
  check([](T a, T b) { return a * conj(b); });
  check([](T a, T b) { return a / b; });
  check([](T a, T b) { return abs(a) * angle(b); });
  check([](T a, T b) { return real(a) * imag(b) + mean(exp(a)) * sgn(b); });
  check([](T a, T b) { return polar(abs(a), real(b)) - complex(imag(a), imag(b)); });
}

TEST_CASE("complex: real and imaginary parts are views that the tape follows") {
  const Tensor z = leaf(tensor({1. + 2. * i, 3. - i}, kComplex128)), w = z * 1;
  imag(w).mul_(3);
  real(w)[0] = 5;
  CHECK(w.to_vector<Z>() == std::vector<Z>{5. + 6. * i, 3. - 3. * i});
  sum(real(w * conj(w))).backward();
  CHECK(z.grad().to_vector<Z>() == std::vector<Z>{36. * i, 6. - 18. * i});

  const Tensor pairs = arange(12, kFloat32).reshape({3, 2, 2}), whole = view_as_complex(pairs);
  CHECK(whole.shape() == Shape{3, 2});
  whole[2].fill_(i);
  CHECK(pairs.slice(0, 2).to_vector<float>() == std::vector<float>{0, 1, 0, 1});
  CHECK(real(pairs).is_same(pairs));
  CHECK(view_as_real(whole.t()).shape() == Shape{2, 3, 2});
}

TEST_CASE("complex: pairs that begin at an odd place in memory") {
  // The gradient of `whole`, which starts at `begin`, is begin, begin + 1...
  const auto grad_of = [](T whole, T pairs, int begin) {
    const Tensor w = leaf(tensor({1. + i, 2. - i}));
    view_as_complex(pairs).mul_(w);
    sum(cat({zeros({begin}), whole}) * arange(whole.numel() + begin, kFloat32)).backward();
    return w.grad().to_vector<Z>();
  };
  for (const int begin : {1, 2}) {
    CAPTURE(begin);
    const Tensor even = ones({4}), odd = ones({7}).slice(0, 1).detach();
    const double g = begin;
    CHECK(grad_of(even, even.view({2, 2}), begin) ==
          std::vector<Z>{Z(g, g + 1) * (1. - i), Z(g + 2, g + 3) * (1. - i)});
    CHECK(grad_of(odd, odd.slice(0, 1, 5).view({2, 2}), begin) ==
          std::vector<Z>{Z(g + 1, g + 2) * (1. - i), Z(g + 3, g + 4) * (1. - i)});
  }

  const Tensor z = leaf(tensor({1. + 2. * i, 3. - i}));
  sum(cat({zeros({1}), view_as_real(z).flatten()}) * arange(5, kFloat32)).backward();
  CHECK(z.grad().to_vector<Z>() == std::vector<Z>{1. + 2. * i, 3. + 4. * i});

  // complex64 in memory that is aligned to float32 alone.
  std::vector<float> memory{0, 1, 2, 3, 4};
  const Tensor there = from_blob(memory.data() + 1, {2}, kComplex64);
  CHECK(there.clone().to_vector<Z>() == std::vector<Z>{1. + 2. * i, 3. + 4. * i});
  there.copy_(tensor({i, 2. - i}));
  CHECK(memory == std::vector<float>{0, 0, 1, 2, -1});
}

TEST_CASE("complex: elements are moved as others are") {
  for (const DType dtype : {kComplex64, kComplex128}) {
    CAPTURE(dtype);
    std::vector<Z> numbers;
    for (int k = 0; k < 24; ++k) numbers.emplace_back(k, -2 * k - 1);
    const Tensor z = from_vector(numbers, {2, 3, 4}).to(dtype);
    const Tensor n = arange(24, kFloat32).reshape({2, 3, 4});
    // A number stands for an element: k for k - (2 k + 1) i.
    const auto same = [&](T moved, T order) {
      CHECK(moved.dtype() == dtype);
      const Tensor expected = complex(order.to(kFloat64), order.to(kFloat64) * -2 - 1);
      CHECK(equal(moved.to(kComplex128), expected));
    };
    const Tensor mask = n.remainder(3).eq(0), ids = tensor({1, 0, 1});
    same(z.transpose(0, 2).contiguous(), n.transpose(0, 2));
    same(z.permute({2, 0, 1}).reshape({4, 6}), n.permute({2, 0, 1}).reshape({4, 6}));
    same(cat({z, z.slice(1, 0, 2)}, 1), cat({n, n.slice(1, 0, 2)}, 1));
    same(stack({z, z.clone()}, 2), stack({n, n}, 2));
    same(z.index({Ellipsis, ids}), n.index({Ellipsis, ids}));
    same(z.index({ids, Slice(), ids}), n.index({ids, Slice(), ids}));
    same(z[mask], n[mask]);
    same(z.gather(2, ids.expand({2, 3, 3})), n.gather(2, ids.expand({2, 3, 3})));
    same(flip(z, {0, 2}), flip(n, {0, 2}));
    same(roll(z, {1, 2}, {0, -1}), roll(n, {1, 2}, {0, -1}));
    same(z.repeat(2, 1, 2), n.repeat(2, 1, 2));
    same(z.unfold(2, 3, 1).clone(), n.unfold(2, 3, 1));
    same(where(mask, z, z[0]), where(mask, n, n[0]));
    const Tensor a = z.clone(), b = n.clone();
    a.index_put_({tensor({0, 1}), tensor({2, 0})}, z[1][1]);
    b.index_put_({tensor({0, 1}), tensor({2, 0})}, n[1][1]);
    a[1][2] = z[0][0];
    b[1][2] = n[0][0];
    same(a, b);
    a[mask] = 2;
    CHECK(equal(a[mask], full({8}, 2, dtype)));
    CHECK(equal(pad(z, {1, 2}).slice(2, 1, 5), z));
    CHECK(sum(abs(pad(z, {1, 2}).slice(2, 5))).item<double>() == 0);
  }
}

TEST_CASE("complex: creation, scalars and conversions") {
  const Tensor z = tensor({1. + 2. * i, 3. - i});
  CHECK(z.dtype() == kComplex64);
  CHECK(tensor(i).item<std::complex<float>>() == std::complex<float>(0, 1));
  CHECK(z[1].item().toComplexDouble() == 3. - i);
  CHECK(z.to_vector<std::complex<float>>()[1] == std::complex<float>(3, -1));
  CHECK(tensor({2.5}).to_vector<Z>()[0] == 2.5);
  CHECK(real(z)[0].item<float>() == 1);
  CHECK(outcome([&] { return z[0].item<double>(); }).find("1+2j is not a real number") !=
        std::string::npos);
  CHECK(tensor(2. + 0. * i).item<double>() == 2);
  CHECK(tensor(i).is_nonzero());
  CHECK(!tensor(0. * i).is_nonzero());
  CHECK(equal(zeros({2}, kComplex64) + 1, ones({2}, kComplex64)));
  CHECK(equal(full({2}, i, kComplex64), tensor({i, i})));
  const Z below = full({}, Z(0, -0.0), kComplex64).item().toComplexDouble();
  CHECK((!std::signbit(below.real()) && std::signbit(below.imag())));
  const Tensor there = z.to("cpu:1");
  CHECK(equal(where(tensor(true), there, there * 2).cpu(), z));
  CHECK(equal(there.masked_fill(tensor(false), 0).cpu(), z));
  CHECK(equal(z.to(kFloat64), tensor({1., 3.}, kFloat64)));
  CHECK(equal(tensor({0. * i, i, 1. + 0. * i}).to(kBool), tensor({false, true, true})));
  CHECK(equal(tensor({1.5, 2}).to(kComplex128), tensor({1.5 + 0. * i, 2. + 0. * i}, kComplex128)));
  CHECK(equal(nonzero(tensor({0. * i, i})), tensor({{1}})));
  CHECK(parse_dtype("complex128") == kComplexDouble);
  manual_seed(3);
  const Tensor r = randn({20000}, kComplex64);
  CHECK(mean(square(abs(r))).item<double>() == doctest::Approx(1).epsilon(0.05));
  CHECK(mean(square(real(r))).item<double>() == doctest::Approx(0.5).epsilon(0.05));
  CHECK(rand({4}, kComplex128).dtype() == kComplex128);
}

TEST_CASE("complex: scaled sums of products and quotients take factors of any kind") {
  const Tensor x = tensor({1. + 2. * i, i}, kComplex128), y = tensor({2. - i, 3. + i}, kComplex128);
  const Tensor whole = tensor({3, 7}, kInt64);
  check_close(parts(addcmul(x, x, y, 2.5)), parts(x + x * y * 2.5), 1e-15, 0);
  check_close(parts(addcmul(x, x, y, 1. - i)), parts(x + x * y * (1. - i)), 1e-15, 0);
  check_close(parts(addcdiv(x, y, whole, 0.5 * i)), parts(x + y * (0.5 * i) / whole), 1e-15, 0);
  check_close(parts(x.clone().addcdiv_(x, y, 2)), parts(x + x * 2 / y), 1e-15, 0);
  CHECK(is_error(outcome([&] { addcmul(ones({2}), ones({2}), ones({2}), i); }), "DTypeError",
                 "addcmul"));
  // In the type of the sum, not in that of the second operand and the factor.
  const Z third(0.1, 1. / 3);
  const Tensor weak = tensor(1. + i, kComplex128);
  CHECK(add(weak, whole, third).dtype() == kComplex128);
  CHECK(sub(weak, whole, third).dtype() == kComplex128);
  CHECK(equal(x.clone().add_(whole, third), x + whole.to(kComplex128) * third));
  CHECK(equal(x.clone().sub_(whole, third), x - whole.to(kComplex128) * third));
}

TEST_CASE("complex: sums, padding and copies into other types") {
  const Tensor z = tensor({{1. + 2. * i, 2.75 + i}, {-3. - i, 5. * i}}, kComplex128);
  CHECK(equal(sum(z, {0}, false, kInt64), tensor({-2, 2}, kInt64)));
  CHECK(equal(mean(z, {1}, false, kFloat32), tensor({1.875, -1.5}, kFloat32)));
  CHECK(equal(pad(z[0], {1, 0}, PadMode::constant, 2. - i),
              tensor({2. - i, 1. + 2. * i, 2.75 + i}, kComplex128)));
  CHECK(equal(pad(z[0], {0, 1}, PadMode::constant, 7),
              tensor({1. + 2. * i, 2.75 + i, 7. + 0. * i}, kComplex128)));
  CHECK(equal(empty({2}, kBool).copy_(tensor({i, 0. * i})), tensor({true, false})));
}

TEST_CASE("complex: gradients of sgn at 0 and of angles of real numbers are 0") {
  const Tensor z = leaf(tensor({Z(0, 0), Z(3, 4)}, kComplex128));
  real(sgn(z)).sum().backward();
  CHECK(z.grad()[0].item<Z>() == Z(0, 0));
  CHECK(std::abs(z.grad()[1].item<Z>() - Z(0.128, -0.096)) < 1e-15);
  const Tensor x = leaf(tensor({-1., 0., 2., static_cast<double>(NAN)}));
  angle(x).sum().backward();
  CHECK(equal(x.grad(), zeros({4})));
}

TEST_CASE("complex: comparisons") {
  const double inf = INFINITY, nan = NAN;
  const Tensor z = tensor({Z(1, 2), Z(inf, 0), Z(0, nan), Z(nan, inf), Z(0, -0.0)}, kComplex128);
  CHECK(equal(isfinite(z), tensor({true, false, false, false, true})));
  CHECK(equal(isinf(z), tensor({false, true, false, true, false})));
  CHECK(equal(isnan(z), tensor({false, false, true, true, false})));
  CHECK(equal(z == z, tensor({true, true, false, false, true})));
  CHECK(equal(z != 0, tensor({true, true, true, true, false})));
  CHECK(allclose(z[0], z[0] + 1e-9));
  CHECK(!allclose(z[0], z[0] + 1e-3 * i));
  CHECK(isclose(z, z, 0, 0, true).to_vector<bool>() == std::vector<bool>(5, true));
}

TEST_CASE("complex: types are promoted as PyTorch promotes them") {
  const auto of = [](DType dtype) { return ones({2}, dtype); };
  const auto weak = [](DType dtype) { return ones({}, dtype); };
  using ops::result_type;
  CHECK(result_type(of(kFloat32), of(kComplex64)) == kComplex64);
  CHECK(result_type(of(kFloat64), of(kComplex64)) == kComplex128);
  CHECK(result_type(of(kInt64), of(kComplex64)) == kComplex64);
  CHECK(result_type(of(kComplex64), of(kComplex128)) == kComplex128);
  CHECK(result_type(of(kInt64), i) == kComplex64);
  CHECK(result_type(of(kFloat64), i) == kComplex128);
  CHECK(result_type(of(kComplex64), 1.5) == kComplex64);
  CHECK(result_type(of(kComplex64), weak(kFloat64)) == kComplex64);
  CHECK(result_type(of(kFloat32), weak(kComplex128)) == kComplex64);
  CHECK(result_type(of(kFloat64), weak(kComplex64)) == kComplex128);
  CHECK(result_type(of(kComplex64), weak(kComplex128)) == kComplex64);
  CHECK(result_type(of(kInt64), weak(kComplex64)) == kComplex64);
  CHECK((of(kInt32) / of(kComplex64)).dtype() == kComplex64);
  CHECK(outcome([&] { of(kFloat32).mul_(i); }).find("cannot be stored in place") !=
        std::string::npos);
}

TEST_CASE("complex: printed as PyTorch prints") {
  const auto text = [](std::vector<Z> values) {
    return from_vector(values, {static_cast<std::int64_t>(values.size())}).to(kComplex64).str();
  };
  CHECK(text({1. + 2. * i, -0.5 - 3. * i}) == "tensor([ 1.0000+2.j, -0.5000-3.j])");
  CHECK(tensor(1.5 - 2. * i).str() == "tensor(1.5000-2.j)");
  CHECK(text({1e-5 + 1e5 * i, 2. - 3. * i}) ==
        "tensor([1.0000e-05+1.0000e+05j, 2.0000e+00-3.0000e+00j])");
  CHECK(text({Z(NAN, 0), Z(INFINITY, -INFINITY), 1. + 0.5 * i}) ==
        "tensor([nan+0.0000j, inf-infj, 1.+0.5000j])");
  CHECK(zeros({0}, kComplex64).str() == "tensor([], dtype=complex64)");
  CHECK(tensor({i}, kComplex128).str() == "tensor([0.+1.j], dtype=complex128)");
  CHECK((arange(9) * (1.25 - 2. * i)).str() ==
        "tensor([ 0.0000+0.j,  1.2500-2.j,  2.5000-4.j,  3.7500-6.j,  5.0000-8.j,\n"
        "         6.2500-10.j,  7.5000-12.j,  8.7500-14.j, 10.0000-16.j])");
  CHECK((arange(1200) * (1. + i)).str() ==
        "tensor([0.0000e+00+0.0000e+00j, 1.0000e+00+1.0000e+00j, 2.0000e+00+2.0000e+00j,\n"
        "         ..., 1.1970e+03+1.1970e+03j, 1.1980e+03+1.1980e+03j,\n"
        "        1.1990e+03+1.1990e+03j])");
  CHECK(leaf(tensor({1. + 2. * i})).str() == "tensor([1.+2.j], requires_grad=True)");
}

TEST_CASE("complex: errors") {
  const Tensor z = tensor({1. + 2. * i, i}), x = ones({2});
  const auto refused = [](const std::string& type, const std::string& op, auto f) {
    const std::string result = outcome(f);
    CHECK_MESSAGE(is_error(result, type, op), result);
  };
  refused("DTypeError", "imag", [&] { imag(x); });
  refused("DTypeError", "view_as_real", [&] { view_as_real(x); });
  refused("DTypeError", "view_as_complex", [&] { view_as_complex(ones({2}, kInt64)); });
  refused("ShapeError", "view_as_complex", [&] { view_as_complex(ones({2, 3})); });
  refused("ShapeError", "view_as_complex", [&] { view_as_complex(ones({2, 3}).t()); });
  refused("DTypeError", "complex", [&] { complex(x, ones({2}, kFloat64)); });
  refused("DTypeError", "polar", [&] { polar(x, z); });
  refused("DTypeError", "lt", [&] { lt(z, z); });
  refused("DTypeError", "pow", [&] { pow(z, -1); });
  refused("DTypeError", "pow", [&] { pow(x, i); });
  refused("DTypeError", "pow_", [&] { pow_(z.clone(), -1); });
  refused("DTypeError", "bincount", [&] { bincount(z); });
  refused("DTypeError", "add", [&] { add(x, x, i); });
  refused("ShapeError", "view_as_real", [&] { view_as_real(z.reshape({1, 1, 1, 1, 1, 1, 1, 2})); });
  const autograd::DetectAnomalyGuard anomaly;
  const Tensor w = leaf(z);
  CHECK(outcome([&] { (w * Z(NAN, 0)).backward(ones_like(w)); }).find("NaN") != std::string::npos);
}

TEST_CASE("every op takes complex numbers or says that it does not") {
  // Those whose values the tests above compare, and ops made of them or that only move elements;
  // softmax and its like with a real `dtype`. A new op that would drop imaginary parts is not here.
  std::istringstream names(
      "abs as_strided bincount add add_ addcdiv addcdiv_ addcmul addcmul_ addr addr_ allclose "
      "angle "
      "atleast_1d atleast_2d atleast_3d "
      "bartlett_window blackman_window block_diag broadcast_tensors cartesian_prod cat "
      "channel_shuffle chunk clone "
      "column_stack combinations contiguous copy_ corrcoef cov cross deg2rad deg2rad_ diag "
      "diag_embed diagflat diagonal diagonal_scatter diff div div_ dsplit dstack einsum eq eq_ "
      "equal "
      "exp "
      "expand fft fft2 fftn fftshift fill_ fill_diagonal_ flatten flip fliplr flipud full_like "
      "gather hfft hfft2 hfftn hsplit hstack ifft ifft2 ifftn ifftshift index index_put_ "
      "index_select irfft irfft2 irfftn isclose isfinite isinf isnan isreal kaiser_window kron "
      "linalg_multi_dot linalg_vecdot log_softmax "
      "masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select matmul mean "
      "meshgrid movedim mul mul_ nan_to_num nan_to_num_ narrow ne ne_ neg neg_ nonzero outer "
      "pad permute pixel_shuffle pixel_unshuffle positive rad2deg rad2deg_ rand_like "
      "randn_like reciprocal repeat repeat_interleave reshape roll rot90 select select_scatter "
      "sign slice slice_scatter "
      "softmax softsign split square squeeze stack stft sub sub_ sum sum_to t take "
      "take_along_dim tensor_split tile to trace transpose trapezoid unbind unflatten unfold "
      "unique_consecutive unsqueeze vdot view vsplit vstack where");
  const std::set<std::string> taking{std::istream_iterator<std::string>(names), {}};
  std::size_t refusing = 0, took = 0;
  for (const Op& op : op_table()) {
    std::vector<Tensor> in = make_inputs(op, kFloat32, {});
    bool any = false;
    for (std::size_t k = 0; k < in.size(); ++k) {
      if (op.args[k].fill != Fill::real && op.args[k].fill != Fill::positive) continue;
      in[k] = in[k].to(kComplex64) * (1. + 0.5 * i);
      any = true;
    }
    if (!any) continue;
    const std::string result = outcome([&] { op.call(in); });
    CAPTURE(op.name);
    if (result.empty()) {
      CHECK(taking.contains(op.name));
      ++took;
      continue;
    }
    // A clear error: not one of shapes, nor of something else on the way.
    CHECK_MESSAGE(result.starts_with("DTypeError"), result);
    CHECK_MESSAGE((result.find("complex64") != std::string::npos), result);
    ++refusing;
  }
  CHECK(took > 80);
  CHECK(refusing > 150);
  MESSAGE(took << " rows take complex numbers, " << refusing << " refuse them");
}
