// The forms in place of pow, scatter, scatter_add, index_add, cumsum and dropout, and operands that
// share memory with what is changed.
#include <doctest/doctest.h>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/generator.h"
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
