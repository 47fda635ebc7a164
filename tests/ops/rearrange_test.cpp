#include "ferrite/ops/rearrange.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <utility>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/linalg.h"
#include "ferrite/ops/quantile.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Function = std::function<Tensor(const Tensor&)>;

std::map<std::string, Function> all_functions() {
  std::map<std::string, Function> f{
      {"pad",
       [](const Tensor& x) {
         return pad(x, {1, 2, 0, 3}, PadMode::constant, 7.0);
       }},
      {"pad_crop",
       [](const Tensor& x) {
         return pad(x, {-1, 2, 1, -2, 0, 1});
       }},
      {"pad_reflect",
       [](const Tensor& x) {
         return pad(x, {4, 2, 3, 1}, PadMode::reflect);
       }},
      {"pad_replicate",
       [](const Tensor& x) {
         return pad(x, {6, 2, 0, 1}, PadMode::replicate);
       }},
      {"pad_circular",
       [](const Tensor& x) {
         return pad(x, {5, 2}, PadMode::circular);
       }},
      {"flip",
       [](const Tensor& x) {
         return flip(x, {0, 2});
       }},
      {"roll",
       [](const Tensor& x) {
         return roll(x, {1, -2}, {0, 2});
       }},
      {"roll_flat", [](const Tensor& x) { return roll(x, {7}); }},
  };
  for (int d : {-4, -1, 0, 2, 9}) {
    f["tril" + std::to_string(d)] = [d](const Tensor& x) { return tril(x, d); };
    f["triu" + std::to_string(d)] = [d](const Tensor& x) { return triu(x, d); };
  }
  return f;
}

}  // namespace

TEST_CASE("padding, flips, rolls, triangles and their gradients are PyTorch's") {
  const Golden golden("index");
  for (const auto& [name, function] : all_functions()) {
    CAPTURE(name);
    const Tensor x = golden.get("input", "x").clone();
    x.set_requires_grad();
    const Tensor y = function(x);
    check_equal(y.detach(), golden.get(name, "out"));
    const Tensor weight = linspace(-1, 2, y.numel(), {.dtype = kFloat64}).reshape(y.shape());
    sum(y * weight).backward();
    check_close(x.grad(), golden.get(name, "grad0"), 1e-12, 1e-14);
  }
}

TEST_CASE("gradients by finite differences, to the second order") {
  for (const auto& [name, function] : all_functions()) {
    CAPTURE(name);
    const Tensor x = randn({2, 4, 5}, {.dtype = kFloat64});
    x.set_requires_grad();
    CHECK(autograd::gradcheck(
        [&f = function](const std::vector<Tensor>& in) {
          const Tensor y = f(in[0]);
          return y * y;
        },
        {x}, {.second_order = true}));
  }
}

TEST_CASE("strided and channels-last inputs, every element type") {
  const Tensor x = randint(100, {3, 4, 5});
  for (const auto& [name, function] : all_functions()) {
    CAPTURE(name);
    const Tensor expected = function(x);
    check_equal(function(x.transpose(0, 2).clone().transpose(0, 2)), expected);
    for (DType dtype : {kFloat32, kFloat16, kBFloat16, kFloat64, kInt32, kInt16, kInt8, kUInt8})
      check_close(function(x.to(dtype)), expected, 0);
    check_close(function(x.to(kBool)), function(x.to(kBool).to(kInt64)), name == "pad" ? 10 : 0);
  }
  const Tensor nhwc = randn({2, 3, 4, 5}).to(kChannelsLast);
  CHECK(pad(nhwc, {1, 1, 1, 1}).is_contiguous(kChannelsLast));
  CHECK(flip(nhwc, {3}).is_contiguous(kChannelsLast));
  check_equal(pad(nhwc, {1, 1, 1, 1}), pad(nhwc.contiguous(), {1, 1, 1, 1}));
  check_equal(flip(nhwc, {1, 3}), flip(nhwc.contiguous(), {1, 3}));
}

TEST_CASE("large inputs") {
  const std::int64_t n = 100003;
  const Tensor x = arange(n);
  const auto backwards = flip(x, {0}).to_vector<std::int64_t>();
  const auto rolled = roll(x, {-5}).to_vector<std::int64_t>();
  const auto padded = pad(x, {2, 3}, PadMode::reflect).to_vector<std::int64_t>();
  bool right = padded[0] == 2 && padded.back() == n - 4;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    right = right && backwards[at] == n - 1 - i && rolled[at] == (i + 5) % n && padded[at + 2] == i;
  }
  CHECK(right);
  const Tensor low = tril(ones({513, 301}), 3);
  double expected = 0;
  for (int r = 0; r < 513; ++r) expected += std::min(301, r + 4);
  CHECK(sum(low).item<double>() == expected);
}

TEST_CASE("rolls and flips of rows of every length, and what they leave of a page") {
  for (const DType dtype : {kUInt8, kFloat16, kFloat32, kFloat64})
    for (const std::int64_t n : {1, 2, 7, 31, 64, 65, 1024, 1500}) {
      const Tensor x = remainder(arange(3 * n).view({3, n}), 251).to(dtype);
      const std::vector<double> in = x.to(kFloat64).to_vector<double>();
      const auto expect = [&](const Tensor& y, const auto& source) {
        const std::vector<double> out = y.to(kFloat64).to_vector<double>();
        bool same = true;
        for (std::int64_t i = 0; i < 3 * n; ++i)
          same = same && out[static_cast<std::size_t>(i)] ==
                             in[static_cast<std::size_t>(i / n * n + source(i % n))];
        CHECK(same);
      };
      CAPTURE(n);
      expect(flip(x, {1}), [&](std::int64_t j) { return n - 1 - j; });
      for (const std::int64_t shift : {std::int64_t{1}, std::int64_t{3}, n / 2, n - 1})
        expect(roll(x, {shift}, {1}), [&](std::int64_t j) { return ((j - shift) % n + n) % n; });
      const Tensor order = remainder(arange(n) * 7 + 3, n);
      expect(x.index_select(1, order), [&](std::int64_t j) { return (7 * j + 3) % n; });
    }
}

TEST_CASE("empty and small tensors") {
  CHECK(pad(zeros({0, 2}), {0, 0, 1, 1}, PadMode::constant, 4).to_vector<double>() ==
        std::vector<double>(4, 4));
  CHECK(pad(zeros({2, 2}), {-1, -1}).shape() == Shape{2, 0});
  CHECK(pad(tensor(3), {}).shape() == Shape{});
  const Tensor x = arange(3);
  CHECK_FALSE(pad(x, {}, PadMode::reflect).shares_storage(x));
  CHECK(flip(tensor(3), {0}).item<int>() == 3);
  CHECK(flip(zeros({0, 2}), {0, 1}).shape() == Shape{0, 2});
  CHECK(roll(zeros({0, 2}), {1}, {0}).shape() == Shape{0, 2});
  CHECK(roll(tensor(3), {2}).item<int>() == 3);
  CHECK(tril(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(triu(zeros({2, 0})).shape() == Shape{2, 0});
  CHECK(flip(tensor({7}).expand({3}), {0}).to_vector<double>() == std::vector<double>{7, 7, 7});
}

TEST_CASE("modes of padding by name") {
  const Tensor x = arange(6, kFloat32).view(2, 3);
  for (const auto& [name, mode] :
       {std::pair("reflect", PadMode::reflect), std::pair("replicate", PadMode::replicate),
        std::pair("circular", PadMode::circular)})
    CHECK(equal(pad(x, {1, 1}, name), pad(x, {1, 1}, mode)));
  CHECK(equal(pad(x, {1, 1}, "constant", 2), pad(x, {1, 1}, PadMode::constant, 2)));
  CHECK_THROWS_AS(pad(x, {1, 1}, "mirror"), ValueError);
}

TEST_CASE("errors") {
  CHECK_THROWS_AS(pad(ones({3}), {INT64_MAX, 1}), ValueError);
  CHECK_THROWS_AS(pad(ones({3}), {INT64_MIN, 1}), ValueError);
  CHECK_THROWS_AS(pad(ones({3}), {INT64_MAX / 4, INT64_MAX / 4}, PadMode::replicate), Error);
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_AS(pad(x, {1}), ValueError);
  CHECK_THROWS_AS(pad(x, {1, 1, 1, 1, 1, 1}), ShapeError);
  CHECK_THROWS_AS(pad(x, {-2, -2}), ShapeError);
  CHECK_THROWS_AS(pad(x, {3, 0}, PadMode::reflect), ValueError);
  CHECK_THROWS_AS(pad(x, {-1, 0}, PadMode::replicate), ValueError);
  CHECK_THROWS_AS(pad(x, {0, 4}, PadMode::circular), ValueError);
  CHECK_THROWS_AS(pad(zeros({0}), {1, 1}, PadMode::replicate), ValueError);
  CHECK_THROWS_AS(flip(x, {2}), IndexError);
  CHECK_THROWS_AS(flip(x, {0, -2}), ValueError);
  CHECK_THROWS_AS(roll(x, {1, 2}), ValueError);
  CHECK_THROWS_AS(roll(x, {1}, {0, 1}), ValueError);
  CHECK_THROWS_AS(roll(x, {1}, {2}), IndexError);
  CHECK_THROWS_AS(tril(zeros({3})), ShapeError);
  CHECK_THROWS_AS(triu(Tensor()), ValueError);
}

TEST_CASE("what is a copy in PyTorch is one, where the order of elements does not change, too") {
  const Tensor square = ones({3, 3}), image = ones({1, 4, 2, 2});
  const Tensor copies[] = {linalg::matrix_power(square, 1), diff(square, 0),
                           pixel_shuffle(image, 1),         pixel_unshuffle(image, 1),
                           pixel_unshuffle(image, 2),       channel_shuffle(image, 1),
                           channel_shuffle(image, 4)};
  for (const Tensor& t : copies) {
    CHECK_FALSE(t.shares_storage(square));
    CHECK_FALSE(t.shares_storage(image));
  }
  const Tensor none = zeros({0});
  CHECK_FALSE(diff(none).is_same(none));
}

TEST_CASE("shuffles of pixels and channels keep the memory format") {
  const Tensor image = rand({2, 12, 4, 6});
  using Shuffle = Tensor (*)(const Tensor&);
  const Shuffle shuffles[] = {[](const Tensor& x) { return pixel_shuffle(x, 2); },
                              [](const Tensor& x) { return pixel_unshuffle(x, 2); },
                              [](const Tensor& x) { return channel_shuffle(x, 3); }};
  for (const Shuffle shuffle : shuffles) {
    const Tensor x = image.clone().set_requires_grad();
    const Tensor last = image.contiguous(kChannelsLast).set_requires_grad();
    const Tensor out = shuffle(x), out_last = shuffle(last);
    CHECK(out.is_contiguous());
    CHECK(out_last.is_contiguous(kChannelsLast));
    CHECK(equal(out, out_last));
    const Tensor grad = rand_like(out.detach());
    out.backward(grad);
    out_last.backward(grad);
    CHECK(equal(x.grad(), last.grad()));
  }
}

TEST_CASE("order statistics along a dimension are contiguous") {
  const Tensor x = rand({2, 3, 4});
  for (int d = 0; d < 3; ++d)
    for (const bool keepdim : {false, true}) {
      CAPTURE(d);
      CHECK(kthvalue(x, 2, d, keepdim).values.is_contiguous());
      CHECK(kthvalue(x, 2, d, keepdim).indices.is_contiguous());
      CHECK(median(x, d, keepdim).values.is_contiguous());
      CHECK(nanmedian(x, d, keepdim).indices.is_contiguous());
      CHECK(mode(x, d, keepdim).values.is_contiguous());
      CHECK(quantile(x, 0.3, d, keepdim).is_contiguous());
    }
}
