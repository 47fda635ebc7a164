#include "ferrite/ops/index.h"

#include <doctest/doctest.h>

#include <functional>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

const std::vector<DType> kAllDTypes{kFloat32, kFloat16, kBFloat16, kFloat64, kInt64,
                                    kInt32,   kInt16,   kInt8,     kUInt8,   kBool};

/// Runs `f` on fresh leaves and compares result and gradients with the recorded case.
template <class F>
void check_case(const Golden& golden, const std::string& name, std::vector<Tensor> leaves, F f) {
  CAPTURE(name);
  for (Tensor& t : leaves) {
    t = t.clone();
    t.set_requires_grad();
  }
  const Tensor y = f(leaves);
  check_equal(y.detach(), golden.get(name, "out"));
  const Tensor weight = linspace(-1, 2, y.numel(), {.dtype = kFloat64}).reshape(y.shape());
  sum(y * weight).backward();
  for (std::size_t i = 0; i < leaves.size(); ++i)
    check_close(leaves[i].grad(), golden.get(name, "grad" + std::to_string(i)), 1e-12, 1e-14);
}

Tensor random(const Shape& shape) {
  const Tensor t = randn(shape, {.dtype = kFloat64});
  t.set_requires_grad();
  return t;
}

}  // namespace

TEST_CASE("indexing and its gradients are PyTorch's") {
  const Golden golden("index");
  const Tensor x = golden.get("input", "x"), source = golden.get("input", "source");
  for (int dim = 0; dim < 3; ++dim) {
    const auto named = [&](const char* op) { return op + std::to_string(dim); };
    const auto index = [&](const char* op) { return golden.get(named(op), "index"); };
    using In = const std::vector<Tensor>&;
    check_case(golden, named("gather"), {x},
               [&](In in) { return in[0].gather(dim, index("gather")); });
    check_case(golden, named("scatter_add"), {x, source},
               [&](In in) { return scatter_add(in[0], dim, index("scatter_add"), in[1]); });
    check_case(golden, named("scatter_value"), {x},
               [&](In in) { return scatter(in[0], dim, index("scatter_value"), 1.5); });
    check_case(golden, named("index_select"), {x},
               [&](In in) { return in[0].index_select(dim, index("index_select")); });
    check_case(golden, named("index_add"), {x, golden.get(named("index_add"), "source")},
               [&](In in) { return index_add(in[0], dim, index("index_add"), in[1], 2); });
    check_case(golden, named("scatter"), {x, x * 2},
               [&](In in) { return scatter(in[0], dim, index("scatter"), in[1]); });
  }
}

TEST_CASE("masks, one_hot and embeddings are PyTorch's") {
  const Golden golden("index");
  const Tensor x = golden.get("input", "x"), mask = golden.get("masked_fill", "mask");
  using In = const std::vector<Tensor>&;
  check_case(golden, "masked_fill", {x}, [&](In in) { return in[0].masked_fill(mask, 9.0); });
  check_case(golden, "masked_select", {x},
             [&](In in) { return masked_select(in[0], golden.get("masked_select", "mask")); });
  check_equal(nonzero(golden.get("nonzero", "x")), golden.get("nonzero", "out"));
  check_equal(one_hot(golden.get("one_hot", "classes"), 5), golden.get("one_hot", "out"));
  check_equal(one_hot(golden.get("one_hot", "classes")), golden.get("one_hot", "shortest"));
  const Tensor weight = golden.get("embedding", "weight"), ids = golden.get("embedding", "ids");
  check_case(golden, "embedding", {weight}, [&](In in) { return embedding(ids, in[0]); });
  check_case(golden, "embedding_padding", {weight},
             [&](In in) { return embedding(ids, in[0], -2); });
}

TEST_CASE("gradients by finite differences, to the second order") {
  const Tensor x = random({3, 4}), s = random({2, 4}), w = random({3, 2});
  const Tensor index = tensor({{0, 2, 1, 0}, {2, 2, 0, 1}}), one = tensor({2, 0, 2});
  const Tensor mask = tensor({{true, false, true, false}});
  const auto twice = [](auto f, const std::vector<Tensor>& inputs) {
    CHECK(autograd::gradcheck(
        [f](const std::vector<Tensor>& in) {
          const Tensor y = f(in);
          return y * y;
        },
        inputs, {.second_order = true}));
  };
  using In = const std::vector<Tensor>&;
  twice([&](In in) { return in[0].gather(0, index); }, {x});
  twice(
      [&](In in) {
        return scatter(in[0], 0, tensor({{0, 2, 1, 0}, {2, 1, 0, 1}}), in[1]);
      },
      {x, s});
  twice([&](In in) { return scatter(in[0], 0, index, -2.0); }, {x});
  twice([&](In in) { return scatter_add(in[0], 0, index, in[1]); }, {x, s});
  twice([&](In in) { return in[0].index_select(1, one); }, {x});
  twice([&](In in) { return index_add(in[0], 0, one, in[0], 3); }, {x});
  twice([&](In in) { return in[0].masked_fill(mask, 5); }, {x});
  twice([&](In in) { return masked_select(in[0], mask); }, {x});
  twice([&](In in) { return embedding(tensor({2, 1, 2}), in[0], 0); }, {w});
  twice(
      [&](In in) {
        const Tensor h = in[0] * 2.0;
        h.masked_fill_(mask, 3);
        return h;
      },
      {x});
}

TEST_CASE("every element type, 16-bit sums in float32") {
  const Tensor index = tensor({2, 0, 2, 2});
  for (DType dtype : kAllDTypes) {
    CAPTURE(name(dtype));
    const Tensor x = tensor({0, 1, 0}).to(dtype), source = tensor({1, 1, 0, 1}).to(dtype);
    CHECK(x.index_select(0, index).to_vector<double>() == std::vector<double>{0, 0, 0, 0});
    CHECK(x.gather(0, tensor({1, 1})).to_vector<double>() == std::vector<double>{1, 1});
    CHECK(scatter(x, 0, tensor({0}), source).to_vector<double>() == std::vector<double>{1, 1, 0});
    CHECK(x.masked_fill(x.to(kBool), 0).to_vector<double>() == std::vector<double>{0, 0, 0});
    CHECK(nonzero(x).to_vector<double>() == std::vector<double>{1});
    if (dtype == kBool) continue;
    CHECK(index_add(x, 0, index, source).to_vector<double>() == std::vector<double>{1, 1, 2});
    CHECK(scatter_add(x, 0, index, source).to_vector<double>() == std::vector<double>{1, 1, 2});
  }
  // 4096 ones do not add up in float16 one by one: 2048 + 1 is 2048.
  const Tensor many = zeros({4096}, {.dtype = kInt64}), ones16 = ones({4096}, {.dtype = kFloat16});
  CHECK(index_add(zeros({1}, {.dtype = kFloat16}), 0, many, ones16).item<double>() == 4096);
  CHECK(scatter_add(zeros({1}, {.dtype = kFloat16}), 0, many, ones16).item<double>() == 4096);
  const Tensor weight = zeros({2, 1}, {.dtype = kFloat16});
  weight.set_requires_grad();
  embedding(many, weight).backward(ones({4096, 1}, {.dtype = kFloat16}));
  CHECK(weight.grad().to_vector<double>() == std::vector<double>{4096, 0});
}

TEST_CASE("strided and channels-last inputs, int32 indices") {
  const Tensor x = randn({2, 3, 4, 5}), nhwc = x.to(kChannelsLast);
  const Tensor index = tensor({2, 0, 1, 1}).to(kInt32);
  for (int dim = 0; dim < 4; ++dim) {
    const Tensor picks = tensor({1, 0, 1});
    check_equal(nhwc.index_select(dim, picks), x.index_select(dim, picks));
    CHECK(nhwc.index_select(dim, picks).is_contiguous(kChannelsLast));
  }
  check_equal(x.transpose(0, 1).index_select(0, index), x.index_select(1, index).transpose(0, 1));
  const Tensor wide = randint(3, {2, 6, 4, 5});
  check_equal(nhwc.gather(1, wide), x.gather(1, wide));
  check_equal(x.gather(1, wide.transpose(2, 3).clone().transpose(2, 3)), x.gather(1, wide));
  const Tensor every_other = tensor({9, 2, 9, 0}).slice(0, 1, 4, 2);
  check_equal(x.index_select(1, every_other), x.index_select(1, tensor({2, 0})));
  const Tensor mask = randint(2, {4, 5}).to(kBool);
  CHECK(nhwc.masked_fill(mask, 1).is_contiguous(kChannelsLast));
  check_equal(nhwc.masked_fill(mask, 1), x.masked_fill(mask, 1));
  check_equal(masked_select(nhwc, mask), masked_select(x, mask));
  check_equal(nonzero(nhwc), nonzero(x));
}

TEST_CASE("large inputs against plain loops, and the same bits for every number of threads") {
  const std::int64_t rows = 300, width = 257, uses = 2000;
  const Tensor weight = randn({rows, width}), ids = randint(rows, {uses});
  weight.set_requires_grad();
  const Tensor grad = randn({uses, width});
  const auto w = weight.to_vector<double>(), g = grad.to_vector<double>();
  const auto id = ids.to_vector<std::int64_t>();
  std::vector<double> expected(static_cast<std::size_t>(rows * width)), picked;
  for (std::int64_t u = 0; u < uses; ++u)
    for (std::int64_t c = 0; c < width; ++c) {
      const auto at = static_cast<std::size_t>(id[static_cast<std::size_t>(u)] * width + c);
      picked.push_back(w[at]);
      expected[at] += g[static_cast<std::size_t>(u * width + c)];
    }
  const int threads = num_threads();
  std::vector<Tensor> grads;
  for (int n : {1, 3}) {
    set_num_threads(n);
    weight.set_grad({});
    const Tensor y = embedding(ids, weight);
    check_close(y.detach(), picked, 0);
    y.backward(grad);
    grads.push_back(weight.grad());
    check_close(weight.grad(), expected, 1e-5, 1e-5);
    const Tensor index = ids.unsqueeze(1).expand({uses, width});
    check_close(scatter_add(zeros({rows, width}), 0, index, grad), expected, 1e-5, 1e-5);
    const Tensor across = scatter_add(zeros({width, rows}), 1, index.t(), grad.t());
    check_close(across.t(), expected, 1e-5, 1e-5);
  }
  set_num_threads(threads);
  check_equal(grads[0], grads[1]);
}

TEST_CASE("empty and one-element tensors") {
  const Tensor none = zeros({0}, {.dtype = kInt64}), x = zeros({2, 3});
  CHECK(x.index_select(0, none).shape() == Shape{0, 3});
  CHECK(zeros({2, 0}).index_select(0, tensor({1, 1, 1})).shape() == Shape{3, 0});
  CHECK(x.gather(0, zeros({0, 3}, {.dtype = kInt64})).shape() == Shape{0, 3});
  check_equal(scatter_add(x, 0, zeros({0, 3}, {.dtype = kInt64}), x), x);
  check_equal(index_add(x, 0, none, zeros({0, 3})), x);
  CHECK(masked_select(x, zeros({3}, {.dtype = kBool})).shape() == Shape{0});
  CHECK(nonzero(zeros({0, 2})).shape() == Shape{0, 2});
  CHECK(nonzero(tensor(3)).shape() == Shape{1, 0});
  CHECK(nonzero(tensor(0)).shape() == Shape{0, 0});
  CHECK(one_hot(none, 3).shape() == Shape{0, 3});
  CHECK(embedding(none, x).shape() == Shape{0, 3});
  CHECK(embedding(tensor(1), x).shape() == Shape{3});
  CHECK(tensor(3.0).gather(0, tensor(0)).shape() == Shape{});
  CHECK(tensor(3.0).gather(0, tensor({0, 0})).to_vector<double>() == std::vector<double>{3, 3});
  CHECK(tensor(3.0).index_select(0, tensor({0})).shape() == Shape{});
  CHECK(scatter(tensor(3.0), 0, tensor(0), 5).item<double>() == 5);
  CHECK(scatter_add(tensor(3.0), 0, tensor(0), tensor(5.0)).item<double>() == 8);
  CHECK(index_add(zeros({3}), 0, tensor(1), tensor(2.0)).to_vector<double>() ==
        std::vector<double>{0, 2, 0});
  const Tensor w = zeros({2, 3});
  w.set_requires_grad();
  sum(embedding(none, w)).backward();
  check_equal(w.grad(), zeros({2, 3}));
}

TEST_CASE("the last of equal indices stays") {
  CHECK(scatter(zeros({3}), 0, tensor({1, 1}), tensor({2.0, 3.0})).to_vector<double>() ==
        std::vector<double>{0, 3, 0});
}

TEST_CASE("where() of a condition gives an index for each dimension") {
  const Tensor x = tensor({{1, 0, 2}, {0, 3, 0}});
  const std::vector<Tensor> at = where(x > 0);
  REQUIRE(at.size() == 2);
  check_equal(at[0], tensor({0, 0, 1}));
  check_equal(at[1], tensor({0, 2, 1}));
  CHECK(where(zeros({2, 2})).at(1).shape() == Shape{0});
  check_equal(where(tensor(1.5f)).at(0), tensor({0}));
  CHECK(where(tensor(0.0f)).at(0).shape() == Shape{0});
  CHECK(where(tensor(0.0f)).size() == 1);
}

TEST_CASE("masked_fill broadcasts both ways, masked_fill_ one way") {
  const Tensor x = zeros({2, 1}), mask = tensor({true, false});
  CHECK(x.masked_fill(mask, 3).to_vector<double>() == std::vector<double>{3, 0, 3, 0});
  CHECK_THROWS_AS(x.masked_fill_(mask, 3), ShapeError);
  const Tensor y = ones({2, 2}, {.dtype = kInt32});
  y.t().masked_fill_(mask, 7);
  CHECK(y.to_vector<double>() == std::vector<double>{7, 7, 1, 1});
  const Tensor leaf = ones({2});
  leaf.set_requires_grad();
  CHECK_THROWS_AS(leaf.masked_fill_(mask, 0), AutogradError);
}

TEST_CASE("an index out of range: named at once on the host, at synchronize() elsewhere") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(
      x.index_select(1, tensor({0, 3})),
      "[index_select] index 3 at position [1] is out of range for a dimension of size 3",
      IndexError);
  CHECK_THROWS_WITH_AS(x.t().index_select(0, tensor({0, -1})), doctest::Contains("index -1"),
                       IndexError);
  CHECK_THROWS_WITH_AS(x.gather(0, tensor({{0, 1, 5}})), doctest::Contains("position [0, 2]"),
                       IndexError);
  CHECK_THROWS_AS(scatter(x, 0, tensor({{2}}), 1), IndexError);
  CHECK_THROWS_AS(scatter_add(x, 0, tensor({{2}}), x), IndexError);
  CHECK_THROWS_AS(index_add(x, 0, tensor({2}), zeros({1, 3})), IndexError);
  CHECK_THROWS_AS(one_hot(tensor({3}), 3), IndexError);
  CHECK_THROWS_AS(one_hot(tensor({-1, 2})), IndexError);
  CHECK_THROWS_AS(embedding(tensor({2}), x), IndexError);
  const Tensor far = x.to(Device("cpu:0"));
  const Tensor bad = tensor({5}).to(Device("cpu:0"));
  const Tensor y = far.index_select(0, bad);
  CHECK_THROWS_WITH_AS(synchronize("cpu:0"), doctest::Contains("index 5"), IndexError);
  CHECK(far.index_select(0, tensor({1}).to(Device("cpu:0"))).to_vector<double>() ==
        std::vector<double>{0, 0, 0});
}

TEST_CASE("scatters and index_add in place") {
  const Tensor x = randn({3, 4}, {.dtype = kFloat64}), s = randn({2, 4}, {.dtype = kFloat64});
  const Tensor ids = tensor({{0, 2, 1, 1}, {2, 0, 0, 2}}), rows = tensor({2, 0});
  using Form = std::function<Tensor(const Tensor&, const Tensor&)>;
  const std::pair<Form, Form> forms[] = {
      {[&](const Tensor& a, const Tensor& b) { return scatter_(a, 0, ids, b); },
       [&](const Tensor& a, const Tensor& b) { return scatter(a, 0, ids, b); }},
      {[&](const Tensor& a, const Tensor&) { return scatter_(a, 0, ids, 2.5); },
       [&](const Tensor& a, const Tensor&) { return scatter(a, 0, ids, 2.5); }},
      {[&](const Tensor& a, const Tensor& b) { return scatter_add_(a, 0, ids, b); },
       [&](const Tensor& a, const Tensor& b) { return scatter_add(a, 0, ids, b); }},
      {[&](const Tensor& a, const Tensor& b) { return index_add_(a, 0, rows, b, 3); },
       [&](const Tensor& a, const Tensor& b) { return index_add(a, 0, rows, b, 3); }},
  };
  for (const auto& [inplace, functional] : forms) {
    const Tensor a = x.clone().set_requires_grad(), b = s.clone().set_requires_grad();
    const Tensor c = x.clone().set_requires_grad(), d = s.clone().set_requires_grad();
    const Tensor changed = a * 2, y = inplace(changed, b), expected = functional(c * 2, d);
    CHECK(y.shape() == expected.shape());
    check_equal(y.detach(), expected.detach());
    const Tensor grad = randn(y.shape(), {.dtype = kFloat64});
    y.backward(grad);
    expected.backward(grad);
    check_equal(a.grad(), c.grad());
    CHECK(b.grad().defined() == d.grad().defined());
    if (d.grad().defined()) check_equal(b.grad(), d.grad());
    CHECK_THROWS_AS(inplace(x.clone().set_requires_grad(), s), AutogradError);
    CHECK_THROWS_AS(inplace(Tensor(), s), ValueError);
    CHECK_THROWS_AS(inplace(ones({1, 4}, {.dtype = kFloat64}).expand({3, 4}), s), ValueError);
    // Through a view, and from the tensor's own memory.
    const Tensor base = x.t().contiguous(), own = x.clone();
    inplace(base.t(), s);
    check_equal(base.t(), functional(x, s));
    check_equal(inplace(own, own.slice(0, 0, 2)), functional(x, x.slice(0, 0, 2)));
  }
}

TEST_CASE("errors of indexing") {
  const Tensor x = zeros({2, 3}), index = tensor({0});
  CHECK_THROWS_AS(x.gather(0, index), ShapeError);
  CHECK_THROWS_AS(x.gather(2, tensor({{0}})), IndexError);
  CHECK_THROWS_AS(x.gather(0, tensor({{0, 0, 0, 0}})), ShapeError);
  CHECK_THROWS_AS(x.gather(0, zeros({1, 1})), DTypeError);
  CHECK_THROWS_AS(x.gather(0, tensor({{0}}).to(Device("cpu:0"))), DeviceError);
  CHECK_THROWS_AS(scatter(x, 0, tensor({{0, 1}}), zeros({1, 1})), ShapeError);
  CHECK_THROWS_AS(scatter(x, 0, tensor({{0}}), x.to(kFloat64)), DTypeError);
  CHECK_THROWS_AS(x.index_select(0, tensor({{0}})), ShapeError);
  CHECK_THROWS_AS(index_add(x, 0, index, zeros({2, 3})), ShapeError);
  CHECK_THROWS_AS(x.masked_fill(ones({3}), 1), DTypeError);
  CHECK_THROWS_AS(x.masked_fill(ones({4}, {.dtype = kBool}), 1), ShapeError);
  CHECK_THROWS_AS(masked_select(x, index), DTypeError);
  CHECK_THROWS_AS(one_hot(zeros({2})), DTypeError);
  CHECK_THROWS_AS(one_hot(zeros({0}, {.dtype = kInt64})), ValueError);
  CHECK_THROWS_AS(embedding(index, zeros({2})), ShapeError);
  CHECK_THROWS_AS(embedding(index, x, 2), IndexError);
  CHECK_THROWS_AS(embedding(x, x), DTypeError);
  CHECK_THROWS_AS(nonzero(Tensor()), ValueError);
  CHECK_THROWS_AS(x.gather(0, Tensor()), ValueError);
}
