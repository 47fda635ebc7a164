// What libtorch's spelling of tensors computes: expected values are PyTorch's, worked out by hand.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sstream>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/warning.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/fft.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"

using namespace ferrite;
using autograd::gradcheck;

namespace {

using Values = std::vector<double>;

Values values(const Tensor& t) { return t.to_vector<double>(); }

/// [[0, 1, 2], [3, 4, 5]]
Tensor table() { return arange(6, kFloat).view(2, 3); }

}  // namespace

// ---- Assignment to parts

TEST_CASE("assigning to x[i], select, slice and narrow writes into x") {
  Tensor x = zeros({2, 3});
  x[0] = tensor({1.0, 2.0, 3.0});
  x[1][2] = 9;
  CHECK(values(x) == Values{1, 2, 3, 0, 0, 9});
  x.select(1, 0) = tensor({7.0, 8.0});
  CHECK(values(x) == Values{7, 2, 3, 8, 0, 9});
  x.slice(1, 1, 3) = tensor(5.0);  // broadcasts
  CHECK(values(x) == Values{7, 5, 5, 8, 5, 5});
  x.narrow(0, 1, 1) = 0;
  CHECK(values(x) == Values{7, 5, 5, 0, 0, 0});
  x.diagonal() = -1;
  CHECK(values(x) == Values{-1, 5, 5, 0, -1, 0});
  x[1] = x[0];
  CHECK(values(x) == Values{-1, 5, 5, -1, 5, 5});
  x[0] = x[1] = 4;
  CHECK(values(x) == Values{4, 4, 4, 4, 4, 4});
  x.view({6}) = arange(6, kFloat);
  x.t()[2] = 0;
  CHECK(values(x) == Values{0, 1, 0, 3, 4, 0});
  CHECK_THROWS_AS(x[0] = zeros({2}), ShapeError);
  CHECK_THROWS_AS(x[2] = 0, IndexError);
}

TEST_CASE("a variable that holds a part is a handle: assigning to it leaves the tensor") {
  const Tensor x = table(), y = ones({3});
  auto row = x[0];
  row = y;
  CHECK(row.is_same(y));
  row = x[1];
  CHECK(row.shares_storage(x));
  row = Tensor();
  CHECK_FALSE(row.defined());
  Tensor part = x[1];
  part = y;
  CHECK(values(x) == Values{0, 1, 2, 3, 4, 5});
}

TEST_CASE("assigning to a temporary that is no part is an error") {
  const Tensor x = table();
  CHECK_THROWS_AS((x + x) = x, ValueError);
  CHECK_THROWS_AS(x.clone() = 1, ValueError);
  CHECK_THROWS_AS(Tensor() = x, ValueError);
  CHECK_THROWS_AS(x.t().reshape({6}) = x, ValueError);  // a copy
}

TEST_CASE("parts have the type of other tensors") {
  const Tensor x = table();
  std::int64_t elements = 0;
  for (const Tensor& t : {x, x[0], x.slice(1, 0, 2), x.diagonal(), x.clone()})
    elements += t.numel();
  CHECK(elements == 6 + 3 + 4 + 2 + 6);
}

TEST_CASE("assigning to a part is on the tape and counted as a change") {
  const Tensor w = tensor({1.0, 2.0, 3.0}, requires_grad());
  const Tensor x = zeros({2, 3});
  const auto version = x.version();
  x[0] = w * 2;
  x[1] = w;
  x[1][0] = 5;  // cuts off w[0]
  CHECK(x.version() == version + 3);
  CHECK(x.requires_grad());
  (x * x).sum().backward();  // of 4 w^2 + w^2: 8 w + 2 w
  CHECK(values(w.grad()) == Values{8, 20, 30});

  const Tensor leaf = zeros({2}, requires_grad());
  CHECK_THROWS_AS(leaf[0] = 1, AutogradError);
  const Tensor saved = ones({2}, requires_grad()) * 1;
  const Tensor square = saved * saved;
  saved[0] = 3;
  CHECK_THROWS_AS(square.sum().backward(), AutogradError);
}

TEST_CASE("parts are changed by compound operators, copies selected by tensors too") {
  const Tensor x = table();
  x[0] += 10;
  x.select(1, 2) *= tensor({2.0, 3.0});
  CHECK(values(x) == Values{10, 11, 24, 3, 4, 15});
  x[x > 10] -= 10;
  CHECK(values(x) == Values{10, 1, 14, 3, 4, 5});
  x.index({tensor({1}), tensor({0, 1})}) /= 2;
  CHECK(values(x) == Values{10, 1, 14, 1.5, 2, 5});
}

TEST_CASE("fill_ takes a tensor without dimensions, set_grad and mutable_grad a gradient") {
  const Tensor w = ones({2}, requires_grad());
  w.mutable_grad() = tensor({1.0, 2.0});
  CHECK(values(w.grad()) == Values{1, 2});
  w.mutable_grad() = Tensor();
  CHECK_FALSE(w.grad().defined());
  const Tensor x = zeros({2});
  x.fill_(w.sum());
  CHECK(values(x) == Values{2, 2});
  CHECK(x.requires_grad());
  CHECK_THROWS_AS(x.fill_(w), ShapeError);
}

TEST_CASE("detach_ makes a leaf of a result, not of a view") {
  const Tensor w = ones({2}, requires_grad()), y = w * 2;
  CHECK(y.detach_().is_leaf());
  CHECK_FALSE(y.requires_grad());
  CHECK_THROWS_AS((w * 2)[0].detach_(), AutogradError);
}

// ---- Indexing

TEST_CASE("index by numbers, slices, None and an ellipsis is a view") {
  const Tensor x = arange(24).view(2, 3, 4);
  const auto check = [&](const Tensor& part, const Shape& shape, const Values& expected) {
    CHECK(part.shape() == shape);
    CHECK(values(part) == expected);
    CHECK(part.shares_storage(x));
  };
  check(x.index({1, 2}), {4}, {20, 21, 22, 23});
  check(x.index({-1, -1, -1}), {}, {23});
  check(x.index({Slice(), 1, Slice(1, -1)}), {2, 2}, {5, 6, 17, 18});
  check(x.index({"...", 0}), {2, 3}, {0, 4, 8, 12, 16, 20});
  check(x.index({0, Ellipsis, Slice(None, None, 3)}), {3, 2}, {0, 3, 4, 7, 8, 11});
  check(x.index({0, None, 0}), {1, 4}, {0, 1, 2, 3});
  check(x.index({0, 0, Slice(2, None), None}), {2, 1}, {2, 3});
  check(x[Slice(1, 2)].index({0, 0, 0}), {}, {12});
  CHECK_THROWS_AS(x.index({0, 0, 0, 0}), IndexError);
  CHECK_THROWS_AS(x.index({2}), IndexError);
  CHECK_THROWS_AS(x.index({"...", "..."}), IndexError);
  CHECK_THROWS_AS(x.index({":"}), ValueError);
  CHECK_THROWS_AS(x.index({Slice(0, 2, -1)}), ValueError);
  CHECK_THROWS_AS(x.index({Tensor()}), ValueError);
  CHECK_THROWS_AS(x.index({zeros({2})}), DTypeError);
}

TEST_CASE("index by positions, which may be negative and have any shape") {
  const Tensor x = arange(6).view(2, 3);
  CHECK(values(x[tensor({1, -2, 1})]) == Values{3, 4, 5, 0, 1, 2, 3, 4, 5});
  CHECK(values(x.index({Slice(), tensor({2, 0})})) == Values{2, 0, 5, 3});
  const Tensor square = x.index({Slice(), tensor({{0, 1}, {-1, 0}})});
  CHECK(square.shape() == Shape{2, 2, 2});
  CHECK(values(square) == Values{0, 1, 2, 0, 3, 4, 5, 3});
  CHECK(values(x.index({tensor({0, 1}), tensor({2, -3})})) == Values{2, 3});
  CHECK(values(x.index({tensor({0, 1}).view(2, 1), tensor({2, 0})})) == Values{2, 0, 5, 3});
  CHECK(values(x.index({tensor({1}, kInt), Slice(1, None)})) == Values{4, 5});
  CHECK(x[zeros({0}, kLong)].shape() == Shape{0, 3});
  CHECK(values(x[tensor(1)]) == Values{3, 4, 5});
  CHECK(x[tensor(1)].shares_storage(x));  // a single position: as x[1]
}

TEST_CASE("positions side by side keep their place, others come first") {
  const Tensor x = arange(120).view(2, 3, 4, 5), rows = tensor({0, 1}), columns = tensor({2, 0});
  CHECK(x.index({Slice(), rows, columns}).shape() == Shape{2, 2, 5});
  CHECK(values(x.index({0, Slice(), rows, columns})) == Values{2, 5, 22, 25, 42, 45});
  const Tensor apart = x.index({Slice(), rows, Slice(), columns});
  CHECK(apart.shape() == Shape{2, 2, 4});
  CHECK(apart[0][1][2].item<int>() == 72);  // x[1, 0, 2, 2]
  CHECK(apart[1][0][3].item<int>() == 35);  // x[0, 1, 3, 0]
  CHECK(x.index({rows, None, columns}).shape() == Shape{2, 1, 4, 5});
}

TEST_CASE("index by masks, of one dimension or several") {
  const Tensor x = table(), mask = x > 2;
  CHECK(values(x[mask]) == Values{3, 4, 5});
  CHECK(values(x[tensor({false, true})]) == Values{3, 4, 5});
  CHECK(values(x.index({Slice(), tensor({true, false, true})})) == Values{0, 2, 3, 5});
  CHECK(values(x.index({tensor({true, true}), tensor({1, 2})})) == Values{1, 5});
  CHECK(x.index({true}).shape() == Shape{1, 2, 3});
  CHECK(x.index({tensor(false)}).shape() == Shape{0, 2, 3});
  CHECK(x[x > 9].shape() == Shape{0});
  CHECK_THROWS_AS(x[tensor({true})], IndexError);
  CHECK_THROWS_AS(x[ones({2, 4}, kBool)], IndexError);
  CHECK_THROWS_AS(x.index_put_({tensor({true})}, 0), IndexError);
}

TEST_CASE("positions out of range are refused in every dimension") {
  const Tensor x = table();
  CHECK_THROWS_AS(x[tensor({2})], IndexError);
  CHECK_THROWS_AS(x[tensor({-3})], IndexError);
  // 0 * 3 + 4 would be an element, but there is no column 4.
  CHECK_THROWS_AS(x.index({tensor({0}), tensor({4})}), IndexError);
  CHECK_THROWS_AS(x.index_put_({tensor({0}), tensor({4})}, 1), IndexError);
}

TEST_CASE("index_put_ writes and accumulates") {
  const Tensor x = zeros({2, 3});
  x.index_put_({tensor({0, 1}), tensor({2, 0})}, tensor({1.0, 2.0}));
  CHECK(values(x) == Values{0, 0, 1, 2, 0, 0});
  x.index_put_({tensor({1, 1, 1}), tensor({0, 0, 1})}, tensor({1.0, 2.0, 3.0}), true);
  CHECK(values(x) == Values{0, 0, 1, 5, 3, 0});
  x.index_put_({Slice(), tensor({1})}, tensor({{8.0}, {9.0}}));
  CHECK(values(x) == Values{0, 8, 1, 5, 9, 0});
  x.index_put_({x > 5}, tensor({-1.0, -2.0}));
  CHECK(values(x) == Values{0, -1, 1, 5, -2, 0});
  x.index_put_({x < 0}, 7);
  CHECK(values(x) == Values{0, 7, 1, 5, 7, 0});
  x.index_put_({0}, tensor({1.0, 1.0, 1.0}), true);
  CHECK(values(x) == Values{1, 8, 2, 5, 7, 0});
  x.t().index_put_({tensor({0, 2}), tensor({1, 0})}, 6);  // into a transposed view
  CHECK(values(x) == Values{1, 8, 6, 6, 7, 0});
  x.index({tensor({0}), tensor({true, false, true})}) = tensor(4);
  CHECK(values(x) == Values{4, 8, 4, 6, 7, 0});
  CHECK_THROWS_AS(x.index_put_({tensor({0})}, zeros({2})), ShapeError);
  CHECK_THROWS_AS(x.index_put_({tensor({0})}, zeros({3}, kDouble)), DTypeError);
  CHECK_THROWS_AS(zeros({1, 3}).expand(2, 3).index_put_({tensor({0})}, 1), ValueError);
}

TEST_CASE("index and index_put_ have gradients") {
  const Tensor rows = tensor({1, 0, 1}), columns = tensor({0, 2, 0});
  const Tensor x = randn({2, 3, 2}, kDouble), v = randn({3, 2}, kDouble);
  const auto check = [](auto f, std::vector<Tensor> inputs) {
    for (Tensor& t : inputs) t = t.clone().requires_grad_();
    CHECK(gradcheck(f, inputs));
  };
  using Inputs = const std::vector<Tensor>&;
  check([&](Inputs in) { return in[0].index({rows, columns}); }, {x});
  check([&](Inputs in) { return in[0].index({rows, Slice(), tensor({0, 1, 1})}); }, {x});
  check([&](Inputs in) { return in[0].index({"...", tensor({1, 1})}); }, {x});
  check([&](Inputs in) { return in[0][x > 0]; }, {x});
  for (const bool accumulate : {false, true})
    check(
        [&](Inputs in) {
          const Tensor out = in[0] * 1;
          // Distinct positions: where one occurs twice, PyTorch's gradient is not that of the
          // values.
          const Tensor distinct = accumulate ? rows : tensor({1, 0, 0});
          out.index_put_({distinct, accumulate ? columns : tensor({0, 2, 1})}, in[1], accumulate);
          return out;
        },
        {x, v});
  check(
      [&](Inputs in) {
        const Tensor out = in[0] * 1;
        out[x > 0] = 2;
        out.index({0, tensor({1})}) = in[1][0];
        return out * out;
      },
      {x, v});
}

TEST_CASE("indexing works on other devices") {
  const Tensor x = table().to("cpu:1");
  CHECK(values(x[x > 2]) == Values{3, 4, 5});
  CHECK(values(x.index({tensor({1, 0}), tensor({0, 1})})) == Values{3, 1});  // positions are moved
  x[tensor({0})] = 1;
  x[0][0] = tensor(5.0);
  x[x == 4] = tensor(8.0);
  CHECK(values(x) == Values{5, 1, 1, 3, 8, 5});
  CHECK_THROWS_AS(
      [&] {
        x[tensor({7})];
        synchronize("cpu:1");
      }(),
      IndexError);
}

// ---- Operators and methods

TEST_CASE("comparison operators give masks, and masks combine") {
  const Tensor x = tensor({1, 2, 3}), y = tensor({3, 2, 1});
  CHECK(values(x == y) == Values{0, 1, 0});
  CHECK(values(x != y) == Values{1, 0, 1});
  CHECK(values(x < y) == Values{1, 0, 0});
  CHECK(values(x <= y) == Values{1, 1, 0});
  CHECK(values(x > y) == Values{0, 0, 1});
  CHECK(values(x >= y) == Values{0, 1, 1});
  CHECK(values(x == 2) == Values{0, 1, 0});
  CHECK(values(2 != x) == Values{1, 0, 1});
  CHECK(values(2 < x) == Values{0, 0, 1});
  CHECK(values(2 <= x) == Values{0, 1, 1});
  CHECK(values(2 > x) == Values{1, 0, 0});
  CHECK(values(2 >= x) == Values{1, 1, 0});
  CHECK(values((x > 1) & (y > 1)) == Values{0, 1, 0});
  CHECK(values((x > 2) | (y > 2)) == Values{1, 0, 1});
  CHECK(values((x > 1) ^ (y > 1)) == Values{1, 0, 1});
  CHECK(values(~(x > 1)) == Values{1, 0, 0});
  CHECK(values(!(x - 1)) == Values{1, 0, 0});
  CHECK(values(~x) == Values{-2, -3, -4});
  CHECK(values(~tensor({0, 255}, kByte)) == Values{255, 0});
  const Tensor m = x > 1;
  m &= y > 1;
  CHECK(values(m) == Values{0, 1, 0});
  m |= x == 1;
  CHECK(values(m) == Values{1, 1, 0});
  m ^= x > 1;
  CHECK(values(m) == Values{1, 0, 1});
  CHECK(values(x & y) == Values{1, 2, 1});
  CHECK_THROWS_AS(ones({2}) & 1, DTypeError);
  CHECK_THROWS_AS(~ones({2}), DTypeError);
}

TEST_CASE("methods compute what the functions do") {
  const Tensor x = tensor({{4.0, 1.0}, {2.0, 3.0}}), y = tensor({{1.0, 2.0}, {3.0, 4.0}});
  CHECK(values(x.add(1)) == Values{5, 2, 3, 4});
  CHECK(values(x.sub(y, 2)) == Values{2, -3, -4, -5});
  CHECK(values(x.where(x > 2, y)) == Values{4, 2, 3, 3});
  CHECK(values(x.where(x > 2, -1)) == Values{4, -1, -1, 3});
  CHECK(values(x.max(y)) == Values{4, 2, 3, 4});
  CHECK(values(x.min(y)) == Values{1, 1, 2, 3});
  CHECK(values(max(x, y)) == Values{4, 2, 3, 4});
  CHECK(values(x % 2) == Values{0, 1, 0, 1});
  CHECK(values(where(x > 2, 1, 0)) == Values{1, 0, 0, 1});
  CHECK(where(x > 2, 1, 0).dtype() == kInt64);
  CHECK(where(x > 2, 1, 0.5).dtype() == kFloat32);
  CHECK(where(x > 2, true, false).dtype() == kBool);
  CHECK(values(min(x, y)) == Values{1, 1, 2, 3});
  CHECK(values(x.max(0).values) == Values{4, 3});
  CHECK(values(x.min(1).indices) == Values{1, 0});
  auto [sorted, order] = x.sort(1);
  CHECK(values(sorted) == Values{1, 4, 2, 3});
  std::tie(sorted, order) = x.topk(1, 0);
  CHECK(values(sorted) == Values{4, 3});
  CHECK(values(order) == Values{0, 1});
  CHECK(values(x.var(false)) == Values{1.25});
  CHECK(x.var().item<float>() == doctest::Approx(5.0 / 3));
  CHECK(values(x.std(0, false)) == Values{1, 1});
  CHECK(values(x.norm(1, 1)) == Values{5, 5});
  CHECK(values(x.sum(kDouble)) == Values{10});
  CHECK(x.sum(kDouble).dtype() == kDouble);
  CHECK(values(x.sum_to_size({1, 2})) == Values{6, 4});
  CHECK(values(x.flip(0, 1)) == Values{3, 2, 1, 4});
  CHECK(values(x.repeat(1, 2)[0]) == Values{4, 1, 4, 1});
  CHECK(values(x.diagonal()) == Values{4, 3});
  CHECK(values(zeros({2, 2}).addmm(x, y, 1, 2)) == Values{14, 24, 22, 32});
  CHECK(x.permute(1, 0).strides() == Shape{1, 2});
  CHECK(x.split_with_sizes({1, 1}, 1)[1].sizes() == Shape{2, 1});
}

// ---- Options, conversions, items

TEST_CASE("options: one, several, or those of another tensor") {
  CHECK(zeros({2}, kLong).dtype() == kInt64);
  CHECK(zeros(2, 3).sizes() == Shape{2, 3});
  CHECK(randn({2}, "cpu:0").device() == Device("cpu:0"));
  CHECK(zeros({2}, dtype(kHalf).device("cpu:0")).describe() == "float16[2] on cpu:0");
  CHECK(tensor({1, 2}, device("cpu:0")).describe() == "int64[2] on cpu:0");
  CHECK(arange(3, "cpu:0").dtype() == kInt64);
  const Tensor x = zeros({2}, {.dtype = kDouble, .device = "cpu:0"});
  CHECK(zeros({3}, x.options()).describe() == "float64[3] on cpu:0");
  CHECK(ones_like(x, kLong).describe() == "int64[2] on cpu:0");
  CHECK(x.new_zeros({1}, dtype(kInt)).describe() == "int32[1] on cpu:0");
  CHECK(x.new_full({1}, 2, "cpu").describe() == "float64[1] on cpu");
  const Tensor image = zeros({1, 2, 3, 3}, {.memory_format = kChannelsLast});
  CHECK(zeros({3}, image.options()).sizes() == Shape{3});  // without its layout, as in PyTorch
  CHECK(image.new_ones({2, 2, 2, 2}).is_contiguous());
  CHECK(ones({1}).to(x).describe() == "float64[1] on cpu:0");
  for (const Tensor& leaf :
       {zeros({2}, requires_grad()), rand({2}, requires_grad()),
        arange(2, dtype(kFloat).requires_grad(true)), eye(2, requires_grad()),
        tensor({1.0}, requires_grad()), full({1}, 2, {.requires_grad = true}),
        linspace(0, 1, 2, requires_grad()), normal(0, 1, {2}, {.requires_grad = true})}) {
    CHECK(leaf.requires_grad());
    CHECK(leaf.is_leaf());
  }
  CHECK_THROWS_AS(zeros({2}, dtype(kLong).requires_grad(true)), AutogradError);
  CHECK_THROWS_AS(empty({2}, requires_grad()), AutogradError);
}

TEST_CASE("set_default_dtype decides about literals, factories and quotients of integers") {
  CHECK_THROWS_AS(set_default_dtype(kLong), DTypeError);
  set_default_dtype(kDouble);
  const Tensor made[] = {zeros({1}),        tensor({1.5}),   tensor(1.5),
                         arange(0, 1, 0.5), tensor({1}) / 2, tensor({1}).exp()};
  set_default_dtype(kFloat);
  for (const Tensor& t : made) CHECK(t.dtype() == kDouble);
  CHECK(zeros({1}).dtype() == kFloat);
}

TEST_CASE("item converts") {
  const Tensor x = tensor({1.5, 2.0});
  const double d = x[0].item();
  CHECK(d == 1.5);
  double total = 1;
  total += x[1].item();
  CHECK(total == 3);
  CHECK(x[1].item().toInt() == 2);
  CHECK(tensor(INT64_MAX).item().toLong() == INT64_MAX);
  CHECK(tensor(true).item().toBool());
  CHECK(x.data_ptr<float>()[1] == 2);
  CHECK_THROWS_AS(x.item(), ShapeError);
}

TEST_CASE("three-dimensional literals") {
  const Tensor x = tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}});
  CHECK(x.sizes() == Shape{2, 2, 2});
  CHECK(x.dtype() == kLong);
  CHECK(values(x[1][0]) == Values{5, 6});
  CHECK_THROWS_AS(tensor({{{1, 2}, {3, 4}}, {{5, 6}}}), ShapeError);
}

// ---- Printing

TEST_CASE("printing shows requires_grad and grad_fn; shapes, types and devices print, too") {
  const Tensor w = tensor({1.0, 2.0}, requires_grad());
  CHECK(w.str() == "tensor([1., 2.], requires_grad=True)");
  CHECK((w + 1).str() == "tensor([2., 3.], grad_fn=<add>)");
  CHECK(w.detach().str() == "tensor([1., 2.])");
  CHECK((zeros({1}) / zeros({1})).str() == "tensor([nan])");
  CHECK((-(zeros({1}) / zeros({1}))).str() == "tensor([nan])");
  std::ostringstream out;
  out << w.sizes() << ' ' << w.dtype() << ' ' << w.device() << ' ' << w[1].item() << ' ' << w[0];
  CHECK(out.str() == "[2] float32 cpu 2 tensor(1., grad_fn=<select>)");
  CHECK(fmt::format("{} {} {:.1f}", w.detach(), w.sizes(), w[1].item()) ==
        "tensor([1., 2.]) [2] 2.0");
}

// ---- Warnings

TEST_CASE("losses warn once where input and target are broadcast") {
  std::vector<std::string> warnings;
  const auto before =
      set_warning_handler([&](std::string_view warning) { warnings.emplace_back(warning); });
  mse_loss(zeros({4, 1}), zeros({4, 1}));
  CHECK(warnings.empty());
  mse_loss(zeros({4, 1}), zeros({4}));
  l1_loss(zeros({4, 1}), zeros({4}));
  set_warning_handler(before);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] ==
        "[mse_loss] input [4, 1] and target [4] differ in shape and are broadcast to [4, 4], which "
        "is rarely meant; reshape one of them");
}

TEST_CASE("accessors read and write elements of any strides") {
  const Tensor x = arange(6, kFloat).view({2, 3});
  auto a = x.accessor<float, 2>();
  CHECK(a.size(0) == 2);
  CHECK(a.stride(0) == 3);
  CHECK(a[1][2] == 5);
  a[0][1] = 7;
  CHECK(x[0][1].item<float>() == 7);
  const Tensor t = x.t();
  CHECK(t.accessor<float, 2>()[2][1] == 5);
  const auto row = a[1];
  CHECK(row[0] == 3);
  CHECK_THROWS_AS((t.accessor<double, 2>()), DTypeError);
  CHECK_THROWS_AS((t.accessor<float, 1>()), ShapeError);
}

TEST_CASE("accessors are views like std::mdspan") {
  const Tensor x = arange(24, kFloat).view({2, 3, 4}).transpose(0, 1);  // [3, 2, 4]
  const auto a = x.accessor<float, 3>();
  static_assert(a.rank() == 3);
  CHECK(a.extents() == std::array<std::int64_t, 3>{3, 2, 4});
  CHECK(a.strides() == std::array<std::int64_t, 3>{4, 12, 1});
  CHECK(a.numel() == 24);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j)
      for (int k = 0; k < 4; ++k) {
        CHECK(a(i, j, k) == x[i][j][k].item<float>());
        CHECK(&a(i, j, k) == &a[i][j][k]);
      }
  a(2, 1, 3) = -1;
  CHECK(x[2][1][3].item<float>() == -1);

  // Parts.
  const auto column = a.select(2, 1);
  CHECK(column.extents() == std::array<std::int64_t, 2>{3, 2});
  CHECK(column(2, 0) == 9);
  const auto odd = a.slice(2, 1, 4, 2);
  CHECK(odd.extent(2) == 2);
  CHECK(odd(0, 1, 1) == 15);
  CHECK(a.slice(0, 2, 2).numel() == 0);

  // Loops, also of what only reads.
  float sum = 0;
  for (const auto matrix : TensorAccessor<const float, 3>(a))
    for (const auto row : matrix)
      for (const float& value : row) sum += value;
  CHECK(sum == 276 - 23 - 1);
  for (float& value : a[0][0]) value = 0;
  CHECK(x[0][0].sum().item<float>() == 0);
  const auto constant = x.accessor<const float, 3>();
  static_assert(std::is_same_v<decltype(constant(0, 0, 0)), const float&>);
  CHECK(constant[1][0][0] == 4);
  CHECK_THROWS_AS((x.accessor<const double, 3>()), DTypeError);
}

TEST_CASE("options that name no dtype leave it to the function, as in PyTorch") {
  Generator g(1);
  for (const Tensor& t :
       {tensor({1, 2}, {.device = "cpu"}), tensor({{1, 2}}, {.device = "cpu"}),
        tensor({{{1, 2}}}, {.device = "cpu"}), tensor(1, {.device = "cpu"}),
        tensor(std::vector<int>{1}, {.device = "cpu"}), arange(5, {.device = "cpu"}),
        arange(1, 5, {.device = "cpu"}), arange(0, 5, 2, {.device = "cpu"}),
        randint(0, 9, {2}, {.device = "cpu"}), randint(9, {2}, {}, &g),
        randperm(5, {.device = "cpu"}), randperm(5, {}, &g), tril_indices(2, 2, 0, {}),
        triu_indices(2, 2, 0, {.device = "cpu"}), arange(5, TensorOptions()),
        arange(5, TensorOptions(device("cpu")))})
    CHECK(t.dtype() == kInt64);
  CHECK(tensor({true}, {.device = "cpu"}).dtype() == kBool);
  CHECK(tensor(true, {.device = "cpu"}).dtype() == kBool);
  CHECK(tensor({1.5}, {.device = "cpu"}).dtype() == kFloat32);
  CHECK(arange(0, 1, 0.25, {.device = "cpu"}).dtype() == kFloat32);
  CHECK(arange(5, {.dtype = kFloat32}).dtype() == kFloat32);
  CHECK(arange(5, TensorOptions(dtype(kFloat32))).dtype() == kFloat32);
  CHECK(randperm(5, {.dtype = kInt32}, &g).dtype() == kInt32);
  TensorOptions options;
  CHECK(!options.dtype.given());
  CHECK(options.dtype == get_default_dtype());
  options.dtype = kFloat32;
  CHECK(tensor({1, 2}, options).dtype() == kFloat32);
  CHECK(zeros({2}, {.device = "cpu"}).dtype() == kFloat32);
  CHECK(fft::rfftfreq(4, 1, {.device = "cpu"}).dtype() == kFloat32);
  CHECK(fmt::format("{}", options.dtype) == "float32");
}

TEST_CASE("to() changes only what its options name") {
  const Tensor i = arange(3), x = randn({2}, Device("cpu:1"));
  CHECK(i.to(device("cpu:1")).dtype() == kInt64);
  CHECK(i.to(device("cpu:1")).device() == Device("cpu:1"));
  CHECK(i.to({.device = "cpu:1"}).dtype() == kInt64);
  CHECK(x.to(dtype(kFloat64)).device() == Device("cpu:1"));
  CHECK(x.to(dtype(kFloat64)).dtype() == kFloat64);
  CHECK(x.to(i.options()).dtype() == kInt64);
  CHECK(x.to(i.options()).device() == Device());
}
