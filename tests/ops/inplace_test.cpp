// The forms in place of pow, scatter, scatter_add, index_add, cumsum and dropout, and operands that
// share memory with what is changed.
#include <doctest/doctest.h>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/autograd/meta.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/ops/op_table.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Values = std::vector<double>;
using T = const Tensor&;

const Tensor kGrid = tensor({{0, 2, 1}, {2, 0, 0}}), kList = tensor({2, 0});

struct Pair {
  const char* name;
  std::function<Tensor(T, T)> plain, inplace;
};

/// x is [3, 3], y [2, 3].
const std::vector<Pair> kPairs{
    {"pow", [](T x, T) { return pow(x, 3); }, [](T x, T) { return pow_(x, 3); }},
    {"pow 0.5", [](T x, T) { return pow(x, 0.5); }, [](T x, T) { return pow_(x, 0.5); }},
    {"pow of a tensor", [](T x, T y) { return pow(x, y[0]); },
     [](T x, T y) { return pow_(x, y[0]); }},
    {"scatter", [](T x, T y) { return scatter(x, 0, kGrid, y); },
     [](T x, T y) { return scatter_(x, 0, kGrid, y); }},
    {"scatter of a value", [](T x, T) { return scatter(x, 0, kGrid, 7); },
     [](T x, T) { return scatter_(x, 0, kGrid, 7); }},
    {"scatter_add", [](T x, T y) { return scatter_add(x, 0, kGrid, y); },
     [](T x, T y) { return scatter_add_(x, 0, kGrid, y); }},
    {"index_add", [](T x, T y) { return index_add(x, 0, kList, y, 2); },
     [](T x, T y) { return index_add_(x, 0, kList, y, 2); }},
    {"cumsum", [](T x, T) { return cumsum(x, 0); }, [](T x, T) { return cumsum_(x, 0); }},
    {"dropout",
     [](T x, T) {
       Generator g(3);
       return dropout(x, 0.5, true, &g);
     },
     [](T x, T) {
       Generator g(3);
       return dropout_(x, 0.5, true, &g);
     }},
    {"dropout of everything", [](T x, T) { return dropout(x, 1); },
     [](T x, T) { return dropout_(x, 1); }},
};

Tensor positive(const Shape& shape, DType dtype, int seed = 0) {
  return make_input({shape, Fill::positive}, dtype, {}, seed);
}

}  // namespace

TEST_CASE("in place: the values of the form that returns a new tensor, any dtype and layout") {
  for (const Pair& p : kPairs) {
    for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      CAPTURE(std::string(p.name));
      CAPTURE(name(dtype));
      const Tensor y = positive({2, 3}, dtype, 1), x = positive({3, 3}, dtype);
      const Tensor dense = x.clone();
      const auto before = dense.version();
      CHECK(p.inplace(dense, y).is_same(dense));
      CHECK(dense.version() > before);
      check_equal(dense, p.plain(x, y));
      if (std::string(p.name) == "dropout") continue;  // draws by position in memory
      const Tensor buffer = positive({3, 6}, dtype, 2), untouched = buffer.clone();
      const Tensor strided = buffer.slice(1, 0, 6, 2);
      const Tensor expected = p.plain(strided.clone(), y);
      p.inplace(strided, y);
      check_equal(strided, expected);
      check_equal(buffer.slice(1, 1, 6, 2), untouched.slice(1, 1, 6, 2));
    }
  }
}

TEST_CASE("in place: gradients, to the second order, through views too") {
  for (const Pair& p : kPairs) {
    CAPTURE(std::string(p.name));
    std::vector<Tensor> inputs{positive({3, 3}, kFloat64), positive({2, 3}, kFloat64, 1)};
    for (const Tensor& t : inputs) t.set_requires_grad();
    const auto whole = [&](const std::vector<Tensor>& in) {
      const Tensor h = in[0] * in[1][0];
      p.inplace(h, in[1]);
      return h * h;
    };
    const auto part = [&](const std::vector<Tensor>& in) {
      const Tensor h = in[0].unsqueeze(0).expand({2, 3, 3}).reshape({6, 3}) * in[1][1];
      p.inplace(h.narrow(0, 1, 3), in[1]);
      return h * h;
    };
    for (bool second : {false, true}) {
      CHECK(autograd::gradcheck(whole, inputs, {.second_order = second}));
      CHECK(autograd::gradcheck(part, inputs, {.second_order = second}));
    }
  }
}

TEST_CASE("in place: integers and 0-dimensional tensors") {
  const Tensor i = tensor({1, 2, 3}, {.dtype = kInt32});
  CHECK(pow_(i, 2).to_vector<double>() == Values{1, 4, 9});
  CHECK(cumsum_(i, 0).to_vector<double>() == Values{1, 5, 14});
  CHECK(i.dtype() == kInt32);
  CHECK(index_add_(i, 0, tensor({0, 0}), i.slice(0, 1)).to_vector<double>() == Values{20, 5, 14});
  const Tensor zero_dim = tensor(2.0), at = tensor(0);
  CHECK(scatter_(zero_dim, 0, at, tensor(5.0)).item<double>() == 5);
  CHECK(scatter_add_(zero_dim, 0, at, tensor(1.5)).item<double>() == 6.5);
  CHECK(index_add_(zero_dim, 0, at, tensor(1.0)).item<double>() == 7.5);
  CHECK(cumsum_(zero_dim, 0).item<double>() == 7.5);
  CHECK(pow_(zero_dim, 2).item<double>() == 56.25);
  const Tensor leaf = tensor(2.0).set_requires_grad();
  const Tensor h = leaf * 3;
  scatter_add_(h, 0, at, leaf);
  h.backward();
  CHECK(leaf.grad().item<double>() == 4);
}

TEST_CASE("in place: not of leaves that require a gradient, not of expanded tensors") {
  const Tensor y = positive({2, 3}, kFloat32, 1);
  for (const Pair& p : kPairs) {
    CAPTURE(std::string(p.name));
    const Tensor leaf = positive({3, 3}, kFloat32).set_requires_grad();
    CHECK_THROWS_AS(p.inplace(leaf, y), AutogradError);
    CHECK_THROWS_AS(p.inplace(positive({3}, kFloat32).expand({3, 3}), y), ValueError);
  }
}

TEST_CASE("in place: operands that share the memory count as they were") {
  const Tensor x = tensor({1.0, 2, 3, 4});
  x.slice(0, 1).add_(x.slice(0, 0, 3));
  CHECK(x.to_vector<double>() == Values{1, 3, 5, 7});
  x.mul_(x[1]);
  CHECK(x.to_vector<double>() == Values{3, 9, 15, 21});
  const Tensor m = tensor({{1.0, 2}, {3, 4}});
  m.sub_(m.t());
  CHECK(m.to_vector<double>() == Values{0, -1, 1, 0});
  const Tensor s = tensor({1.0, 2, 3});
  scatter_(s, 0, tensor({2, 0}), s.slice(0, 0, 2));
  CHECK(s.to_vector<double>() == Values{2, 2, 1});
  const Tensor i = tensor({1, 0, 2});
  scatter_(i, 0, i, tensor({5, 6, 7}));
  CHECK(i.to_vector<double>() == Values{6, 5, 7});
}

TEST_CASE("in place: a tensor with itself has the gradient of both") {
  const auto gradient = [](const std::function<void(T)>& change) {
    const Tensor x = tensor({2.0, 3.0}, {.dtype = kFloat64}).set_requires_grad();
    const Tensor h = x * 1;
    change(h);
    sum(h).backward();
    return x.grad().to_vector<double>();
  };
  CHECK(gradient([](T h) { h.mul_(h); }) == Values{4, 6});
  CHECK(gradient([](T h) { h.add_(h); }) == Values{2, 2});
  CHECK(gradient([](T h) { h.div_(h); }) == Values{0, 0});
  const Values p = gradient([](T h) { pow_(h, h); });  // x^x (log x + 1)
  check_close(from_vector(p, {2}), {4 * (std::log(2.0) + 1), 27 * (std::log(3.0) + 1)}, 1e-12);
}

TEST_CASE("in place: not of windows that overlap, of others as of any view") {
  const Tensor x = ones({6});
  const std::vector<std::pair<std::string, std::function<void(const Tensor&)>>> changes = {
      {"add_", [](const Tensor& t) { t.add_(1); }},
      {"mul_", [](const Tensor& t) { t.mul_(ones(t.shape())); }},
      {"fill_", [](const Tensor& t) { t.fill_(2); }},
      {"copy_", [](const Tensor& t) { t.copy_(zeros(t.shape())); }},
      {"exp_", [](const Tensor& t) { exp_(t); }},
      {"clamp_", [](const Tensor& t) { t.clamp_(0, 1); }},
      {"cumsum_", [](const Tensor& t) { cumsum_(t, 0); }},
  };
  for (const auto& [name, change] : changes) {
    CHECK_THROWS_WITH_AS(change(x.unfold(0, 3, 2)), doctest::Contains(("[" + name + "]").c_str()),
                         ValueError);
    CHECK_THROWS_AS(change(as_strided(x, {3, 2}, {1, 1}, 0)), ValueError);
  }
  CHECK(x.to_vector<double>() == Values(6, 1));
  x.unfold(0, 2, 3).add_(1);
  CHECK(x.to_vector<double>() == Values{2, 2, 1, 2, 2, 1});
}

TEST_CASE("in place: every change is a node of its own") {
  using Change = std::function<void(T)>;
  const Tensor other = full({3}, 0.5), rows = tensor({0, 2}), two = full({2, 3}, 0.25);
  const Tensor mask = tensor({true, false, true});
  const std::vector<std::pair<const char*, Change>> changes{
      {"add", [](T y) { y.add_(1); }},
      {"sub", [](T y) { y.sub_(1); }},
      {"+=", [](T y) { Tensor(y) += 1; }},
      {"-=", [](T y) { Tensor(y) -= 1; }},
      {"subtract", [](T y) { y.subtract_(1); }},
      {"add of a part", [](T y) { y[0].add_(1); }},
      {"sub of a part", [](T y) { y.select(1, 0).sub_(1); }},
      {"add of a tensor", [&](T y) { y.add_(other); }},
      {"sub of a tensor", [&](T y) { y.sub_(other, 2); }},
      {"mul", [](T y) { y.mul_(2); }},
      {"div", [](T y) { y.div_(2); }},
      {"mul by a tensor", [&](T y) { y.mul_(other); }},
      {"div by a tensor", [&](T y) { y.div_(other); }},
      {"pow", [](T y) { y.pow_(2); }},
      {"pow of a tensor", [&](T y) { y.pow_(other); }},
      {"floor_divide", [](T y) { y.floor_divide_(2); }},
      {"remainder", [](T y) { y.remainder_(2); }},
      {"fmod", [&](T y) { y.fmod_(other); }},
      {"lerp", [&](T y) { y.lerp_(other, 0.5); }},
      {"addcmul", [&](T y) { y.addcmul_(other, other); }},
      {"addcdiv", [&](T y) { y.addcdiv_(other, other); }},
      {"clamp", [](T y) { y.clamp_(0, 1); }},
      {"clamp_min", [](T y) { y.clamp_min_(0); }},
      {"clamp_max", [](T y) { y.clamp_max_(1); }},
      {"tril", [](T y) { y.tril_(); }},
      {"triu", [](T y) { y.triu_(); }},
      {"cumsum", [](T y) { y.cumsum_(0); }},
      {"cumprod", [](T y) { y.cumprod_(0); }},
      {"neg", [](T y) { y.neg_(); }},
      {"floor", [](T y) { y.floor_(); }},
      {"round", [](T y) { y.round_(); }},
      {"sign", [](T y) { y.sign_(); }},
      {"exp", [](T y) { y.exp_(); }},
      {"deg2rad", [](T y) { y.deg2rad_(); }},
      {"frac", [](T y) { y.frac_(); }},
      {"logit", [](T y) { y.logit_(0.1); }},
      {"nan_to_num", [](T y) { y.nan_to_num_(); }},
      {"relu", [](T y) { y.relu_(); }},
      {"leaky_relu", [](T y) { leaky_relu_(y); }},
      {"elu", [](T y) { elu_(y); }},
      {"celu", [](T y) { celu_(y); }},
      {"selu", [](T y) { selu_(y); }},
      {"silu", [](T y) { silu_(y); }},
      {"mish", [](T y) { mish_(y); }},
      {"hardtanh", [](T y) { hardtanh_(y); }},
      {"hardsigmoid", [](T y) { hardsigmoid_(y); }},
      {"hardswish", [](T y) { hardswish_(y); }},
      {"threshold", [](T y) { threshold_(y, 0.5, 0); }},
      {"rrelu", [](T y) { rrelu_(y); }},
      {"dropout", [](T y) { dropout_(y); }},
      {"alpha_dropout", [](T y) { alpha_dropout_(y, 0.5, true); }},
      {"feature_dropout", [](T y) { feature_dropout_(y); }},
      {"copy", [&](T y) { y.copy_(other); }},
      {"fill", [](T y) { y.fill_(1); }},
      {"zero", [](T y) { y.zero_(); }},
      {"fill_diagonal", [](T y) { y.fill_diagonal_(1); }},
      {"masked_fill", [&](T y) { y.masked_fill_(mask, 1); }},
      {"masked_scatter", [&](T y) { y.masked_scatter_(mask, two); }},
      {"scatter", [](T y) { y.scatter_(0, tensor({{0}}), 1); }},
      {"scatter of a tensor", [&](T y) { y.scatter_(0, tensor({{0}}), two); }},
      {"scatter_add", [&](T y) { y.scatter_add_(0, tensor({{0}}), two); }},
      {"scatter_reduce", [&](T y) { y.scatter_reduce_(0, tensor({{0}}), two, "sum"); }},
      {"index_add", [&](T y) { y.index_add_(0, rows, two); }},
      {"index_copy", [&](T y) { y.index_copy_(0, rows, two); }},
      {"index_fill", [&](T y) { y.index_fill_(0, rows, 1); }},
      {"index_put", [&](T y) { y.index_put_({rows}, 1); }},
      {"index_put of a tensor", [&](T y) { y.index_put_({rows}, two, true); }},
      {"index_put of a slice", [](T y) { y.index_put_({Slice(1)}, 1); }},
      {"index_put of a mask", [&](T y) { y.index_put_({mask}, 1); }},
      {"uniform", [](T y) { y.uniform_(); }},
      {"normal", [](T y) { y.normal_(); }},
      {"bernoulli", [](T y) { y.bernoulli_(); }},
      {"exponential", [](T y) { y.exponential_(); }},
      {"log_normal", [](T y) { y.log_normal_(); }},
      {"cauchy", [](T y) { y.cauchy_(); }},
      {"geometric", [](T y) { y.geometric_(0.5); }},
      {"random", [](T y) { y.random_(0, 4); }},
  };
  for (const auto& [name, change] : changes) {
    CAPTURE(std::string(name));
    const Tensor x = full({3, 3}, 0.5).set_requires_grad(), y = x * 1;
    const auto before = autograd::gradient_edge(y).node;
    change(y);
    CHECK(autograd::gradient_edge(y).node.get() != before.get());
    CHECK(y.requires_grad());
  }
}
