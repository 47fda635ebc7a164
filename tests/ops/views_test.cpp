#include "ferrite/ops/views.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/tensor_index.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Function = std::function<Tensor(const Tensor&)>;

const std::map<std::string, Function>& all_views() {
  static const std::map<std::string, Function> functions{
      {"view",
       [](const Tensor& x) {
         return x.view({6, -1});
       }},
      {"reshape",
       [](const Tensor& x) {
         return x.transpose(0, 2).reshape({4, 6});
       }},
      {"flatten",
       [](const Tensor& x) {
         return x.permute({2, 0, 1}).flatten(1);
       }},
      {"transpose", [](const Tensor& x) { return x.transpose(-1, 0); }},
      {"permute",
       [](const Tensor& x) {
         return x.permute({2, 0, 1});
       }},
      {"select", [](const Tensor& x) { return x.select(1, -1); }},
      {"slice", [](const Tensor& x) { return x.slice(2, 1, 4, 2); }},
      {"narrow", [](const Tensor& x) { return x.narrow(2, 1, 2); }},
      {"expand",
       [](const Tensor& x) {
         return x.unsqueeze(1).expand({2, 5, 3, 4});
       }},
      {"squeeze", [](const Tensor& x) { return x.slice(1, 0, 1).squeeze(1); }},
      {"unfold", [](const Tensor& x) { return x.unfold(2, 3, 1); }},
      {"unfold_gaps", [](const Tensor& x) { return x.unfold(1, 1, 2); }},
      {"movedim",
       [](const Tensor& x) {
         return movedim(x, {0, 1}, {2, 0});
       }},
      {"diagonal", [](const Tensor& x) { return diagonal(x, 1, 1, 2); }},
      {"diagonal_below", [](const Tensor& x) { return diagonal(x, -1, 2, 0); }},
      {"repeat",
       [](const Tensor& x) {
         return repeat(x, {2, 1, 3, 2});
       }},
      {"tile",
       [](const Tensor& x) {
         return tile(x, {2, 2});
       }},
  };
  return functions;
}

Tensor weights_like(const Tensor& y) {
  return linspace(-1, 2, y.numel(), {.dtype = y.dtype(), .device = y.device()}).reshape(y.shape());
}

}  // namespace

TEST_CASE("views, repeats and their gradients are PyTorch's") {
  const Golden golden("views");
  for (const auto& [name, function] : all_views()) {
    CAPTURE(name);
    const Tensor x = golden.get("input", "x").clone();
    x.set_requires_grad();
    const Tensor y = function(x);
    check_equal(y.detach(), golden.get(name, "out"));
    sum(y * weights_like(y)).backward();
    check_close(x.grad(), golden.get(name, "grad"), 1e-12, 1e-14);
  }
}

TEST_CASE("gradients of views by finite differences, to the second order") {
  for (const auto& [name, function] : all_views()) {
    CAPTURE(name);
    const Tensor x = randn({2, 3, 4}, {.dtype = kFloat64});
    x.set_requires_grad();
    const auto squared = [&f = function](const std::vector<Tensor>& in) {
      const Tensor y = f(in[0]);
      return y * y * in[0].select(0, 0).select(0, 0).select(0, 0);
    };
    CHECK(autograd::gradcheck(squared, {x}, {.second_order = true}));
  }
}

TEST_CASE("views of strided, channels-last and expanded tensors") {
  const Tensor x = arange(2 * 3 * 4 * 5).reshape({2, 3, 4, 5}).to(kFloat32);
  const Tensor nhwc = x.to(kChannelsLast);
  for (const auto& [name, function] : all_views()) {
    CAPTURE(name);
    if (name == "view") continue;  // refuses these strides
    check_equal(function(nhwc.select(3, 1)), function(x.select(3, 1).clone(kContiguous)));
    check_equal(function(nhwc.slice(3, 0, 1).transpose(0, 3).squeeze(0).permute({2, 0, 1})),
                function(x.select(3, 0).clone(kContiguous)));
  }
  const Tensor e = x.select(0, 0).slice(0, 0, 1).expand({3, 4, 5});
  check_equal(e.reshape({12, 5}), e.clone(kContiguous).view({12, 5}));
}

TEST_CASE("channels-last flattens to logical order, by a copy") {
  const Tensor x = arange(48).reshape({2, 3, 2, 4});
  const Tensor nhwc = x.to(kChannelsLast);
  check_equal(nhwc.flatten(1), x.view({2, 24}));
  check_equal(nhwc.reshape({-1}), x.view({48}));
  CHECK_FALSE(nhwc.flatten(1).shares_storage(nhwc));
  CHECK(nhwc.flatten(2).shape() == Shape{2, 3, 8});
  CHECK(nhwc.flatten(2).shares_storage(nhwc));
  CHECK_THROWS_AS(nhwc.view({2, 24}), ShapeError);
}

TEST_CASE("views share memory, keep every dtype, and cost nothing but geometry") {
  for (DType dtype :
       {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool}) {
    const Tensor x = zeros({2, 3}, {.dtype = dtype});
    const Tensor v = x.t()[1];
    CHECK(v.dtype() == dtype);
    CHECK(v.shares_storage(x));
    v.fill_(1);
    CHECK(x.to_vector<double>() == std::vector<double>{0, 1, 0, 0, 1, 0});
  }
}

TEST_CASE("all of a tensor by index is a view of it, with hooks of its own") {
  const Tensor w = ones({2, 3}).set_requires_grad();
  const Tensor all[] = {w[Slice()], w.index({Slice()}), w.index({"..."}), w.index({Slice(), "..."}),
                        ones({}).index({"..."})};
  int hooks = 0;
  for (const Tensor& v : all) {
    CHECK_FALSE(v.is_same(w));
    if (v.dim() == 0) continue;
    CHECK(v.shares_storage(w));
    CHECK(v.strides() == w.strides());
    CHECK_FALSE(v.is_leaf());
    v.register_hook([&](const Tensor& g) {
      ++hooks;
      return g;
    });
  }
  sum(w * 2).backward();
  CHECK(hooks == 0);
  const Tensor frozen = w.detach()[Slice()].set_requires_grad();
  CHECK(frozen.requires_grad());
  const Tensor plain = ones({2, 3}).t();
  plain[Slice()].set_requires_grad();
  CHECK_FALSE(plain.requires_grad());
  plain[Slice()] = 7;
  plain.index_put_({"..."}, 8);
  CHECK(plain.to_vector<double>() == std::vector<double>(6, 8));
}

TEST_CASE("assignment drops leading dimensions of size 1, as in Python") {
  const Tensor x = zeros({2, 3}, kFloat64), mask = tensor({true, false, true});
  x[1] = ones({1, 3}, kFloat64);
  x[0][2] = tensor({5.0}, kFloat64);
  check_close(x, {0, 0, 5, 1, 1, 1}, 0);
  x.index({Slice(0, 2), 0}) = full({1, 1, 2}, 7.0, kFloat64);
  x[0].index({mask}) = full({1, 2}, 8.0, kFloat64);
  check_close(x, {8, 0, 8, 7, 1, 1}, 0);
  CHECK_THROWS_AS((x[0] = ones({2, 3}, kFloat64)), ShapeError);
  const Tensor row = ones({1, 3}, kFloat64).set_requires_grad(), y = zeros({2, 3}, kFloat64);
  y[1] = row * 2;
  (y * y).sum().backward();
  check_close(row.grad(), {8, 8, 8}, 0);
  CHECK(x[true].shape() == Shape{1, 2, 3});
  CHECK(x[false].shape() == Shape{0, 2, 3});
}

TEST_CASE("edge cases of shapes") {
  const Tensor scalar = tensor(3.5), none = zeros({2, 0, 3});
  CHECK(scalar.flatten().shape() == Shape{1});
  CHECK(scalar.view({1, 1}).shape() == Shape{1, 1});
  CHECK(scalar.unsqueeze(-1).shape() == Shape{1});
  CHECK(scalar.expand({2, 2}).to_vector<double>() == std::vector<double>(4, 3.5));
  CHECK(scalar.t().shape() == Shape{});
  CHECK(scalar.transpose(0, -1).shape() == Shape{});
  CHECK(scalar.permute({}).shape() == Shape{});
  CHECK(scalar.squeeze(0).shape() == Shape{});
  CHECK(none.reshape({3, 0}).shape() == Shape{3, 0});
  CHECK(none.flatten().shape() == Shape{0});
  CHECK(none.expand({5, 2, 0, 3}).shape() == Shape{5, 2, 0, 3});
  CHECK(none.slice(0, 5).shape() == Shape{0, 0, 3});
  CHECK(none.unfold(2, 2, 1).shape() == Shape{2, 0, 2, 2});
  CHECK(zeros({3}).slice(0, -100, 100, 7).shape() == Shape{1});
  CHECK(zeros({3}).slice(0, 2, 1).shape() == Shape{0});
  CHECK(zeros({1, 3, 1}).squeeze().shape() == Shape{3});
  CHECK(zeros({1, 3, 1}).squeeze(1).shape() == Shape{1, 3, 1});
  CHECK(unflatten(zeros({2, 12}), -1, {3, -1}).shape() == Shape{2, 3, 4});
  CHECK(unflatten(zeros({2, 12}), 0, {2, 1}).shape() == Shape{2, 1, 12});
  CHECK(diagonal(zeros({2, 3}), 7).shape() == Shape{0});
  CHECK(diagonal(zeros({2, 3}), -7).shape() == Shape{0});
  CHECK(broadcast_to(zeros({3}), {2, 3}).shape() == Shape{2, 3});
  CHECK(view_as(zeros({6}), zeros({2, 3})).shape() == Shape{2, 3});
  CHECK(reshape_as(zeros({6}), zeros({2, 3})).shape() == Shape{2, 3});
  CHECK(expand_as(zeros({3}), zeros({2, 3})).shape() == Shape{2, 3});
  CHECK(movedim(zeros({2, 3, 4}), 0, -1).shape() == Shape{3, 4, 2});
}

TEST_CASE("squeeze of several dimensions") {
  const Tensor x = zeros({1, 2, 1, 1}).set_requires_grad();
  CHECK(x.squeeze({0, 2}).shape() == Shape{2, 1});
  CHECK(squeeze(x, {-1, 1, 0}).shape() == Shape{2, 1});
  CHECK_THROWS_AS(x.squeeze({0, -4}), ValueError);
  CHECK_THROWS_AS(x.squeeze({0, 4}), IndexError);
  x.squeeze({0, 3}).sum().backward();
  check_equal(x.grad(), ones({1, 2, 1, 1}));
}

TEST_CASE("the bytes of a tensor as elements of another dtype") {
  const Tensor x = tensor({{1.0, 2.0, 0.0, -0.0}, {0.5, NAN, 3.0, 4.0}});
  const Tensor bits = x.view(kInt32);
  CHECK(bits[0].to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{0x3f800000, 0x40000000, 0, INT32_MIN});
  bits[0][2].fill_(0x40400000);
  CHECK(x[0][2].item<float>() == 3);
  check_equal(bits.view(kFloat32), x);
  CHECK(x.view(kUInt8).shape() == Shape{2, 16});
  CHECK(x.view(kFloat64).shape() == Shape{2, 2});
  check_equal(x.view(kComplexFloat).real(),
              x.index({indexing::Slice(), indexing::Slice(0, {}, 2)}));
  CHECK(x.t().view(kInt32).strides() == Strides{1, 4});
  CHECK(x.transpose(0, 1).unsqueeze(-1).expand({4, 2, 1}).view(kInt32).shape() == Shape{4, 2, 1});
  CHECK(zeros({}).view(kInt32).item<std::int64_t>() == 0);
  const Tensor leaf = ones({2}).set_requires_grad();
  CHECK_FALSE(leaf.view(kInt32).requires_grad());
  CHECK_THROWS_AS(x.t().view(kFloat64), ShapeError);
  CHECK_THROWS_AS(zeros({2, 3}).view(kFloat64), ShapeError);
  CHECK_THROWS_AS(x.narrow(1, 1, 2).view(kFloat64), ShapeError);
  CHECK_THROWS_AS(zeros({}).view(kUInt8), ShapeError);
  CHECK_THROWS_AS(Tensor().view(kUInt8), ValueError);
}

TEST_CASE("errors of views") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(x.t().view({6}), doctest::Contains("reshape"), ShapeError);
  CHECK_THROWS_AS(x.view({4}), ShapeError);
  CHECK_THROWS_AS(x.reshape({-1, -1}), ShapeError);
  CHECK_THROWS_AS(x.flatten(1, 0), ValueError);
  CHECK_THROWS_AS(x.flatten(2), IndexError);
  CHECK_THROWS_AS(x.transpose(0, 2), IndexError);
  CHECK_THROWS_AS(x.unsqueeze(0).t(), ShapeError);
  CHECK_THROWS_AS(x.permute({0}), ShapeError);
  CHECK_THROWS_AS(x.permute({0, 0}), ValueError);
  CHECK_THROWS_AS(x[2], IndexError);
  CHECK_THROWS_AS(x[0][0][0], IndexError);
  CHECK_THROWS_AS(x.slice(0, 0, 1, 0), ValueError);
  CHECK_THROWS_AS(x.narrow(1, 2, 2), IndexError);
  CHECK_THROWS_AS(x.expand({2, 4}), ShapeError);
  CHECK_THROWS_AS(x.expand({3}), ShapeError);
  CHECK_THROWS_AS(x.unfold(1, 4, 1), ValueError);
  CHECK_THROWS_AS(x.unfold(1, 2, 0), ValueError);
  CHECK_THROWS_AS(movedim(x, {0, 0}, {0, 1}), ValueError);
  CHECK_THROWS_AS(movedim(x, {0, 1}, {1, 1}), ValueError);
  CHECK_THROWS_AS(movedim(x, {0}, {0, 1}), ShapeError);
  CHECK_THROWS_AS(diagonal(x, 0, 1, 1), ValueError);
  CHECK_THROWS_AS(unflatten(x, 1, {2, 2}), ShapeError);
  CHECK_THROWS_AS(Tensor().view({1}), ValueError);
  CHECK_THROWS_AS(Tensor().select(0, 0), ValueError);
}

TEST_CASE("in-place changes of views of views: PyTorch's values and gradients") {
  const Golden golden("views");
  const Tensor x = golden.get("inplace", "x"), w = golden.get("inplace", "w");
  x.set_requires_grad(), w.set_requires_grad();
  const Tensor base = x * 2;
  const Tensor view = base.t().slice(0, 1);
  const Tensor column = view.select(1, 0);
  const Tensor early = base[1];
  column.mul_(w);
  base.add_(x);
  view.select(0, 0).mul_(x.select(1, 2));
  early.div_(w[0]);
  check_close(base.detach(), golden.get("inplace", "base"), 1e-12);
  (sum(base * base) + sum(early * 3) + sum(view * view * view)).backward();
  check_close(x.grad(), golden.get("inplace", "grad_x"), 1e-12);
  check_close(w.grad(), golden.get("inplace", "grad_w"), 1e-12);
}
