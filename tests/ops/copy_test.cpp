#include "ferrite/ops/copy.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/stream.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

const std::vector<DType> kAll = {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64,
                                 kInt32,   kInt16,   kInt8,    kUInt8,    kBool};

/// Makes the device's stream late, so that a copy that does not wait reads what is not there yet.
void delay(const Device& device) {
  current_stream(device).enqueue(
      [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
}

}  // namespace

TEST_CASE("to: every dtype to every other") {
  for (DType from : kAll)
    for (DType to : kAll) {
      CAPTURE(from);
      CAPTURE(to);
      const Tensor x = tensor({0, 1, 2, 3, 100}, {.dtype = from}), y = x.to(to);
      CHECK(y.dtype() == to);
      std::vector<double> expected = x.to_vector<double>();
      if (to == kBool)
        for (double& v : expected) v = v != 0;
      check_close(y, expected, 0);
      if (from == to) CHECK(y.is_same(x));
    }
  check_equal(tensor({1.9, -1.9, 300.0}).to(kInt32), tensor({1, -1, 300}, {.dtype = kInt32}));
  check_equal(tensor({-1.0}).to(kUInt8), tensor({255}, {.dtype = kUInt8}));
  check_equal(tensor({NAN, 0.0}).to(kBool), tensor({true, false}));
  for (const DType from : {kFloat32, kFloat64, kBFloat16}) {
    const Tensor beyond = tensor({NAN, INFINITY, -INFINITY, 0x1p63, 1e30, -1e30}, {.dtype = from});
    check_equal(beyond.to(kInt64), full({6}, INT64_MIN, {.dtype = kInt64}));
  }
  check_equal(tensor({-0x1p63, 0x1.fffffep62}).to(kInt64),
              tensor({INT64_MIN, INT64_MAX - 0x7fffffffff}));
  check_close(tensor({65519.0, 65520.0}).to(kFloat16), {65504, INFINITY}, 0);
}

TEST_CASE("to: strides and layouts") {
  const Tensor base = arange(2 * 3 * 4 * 5).reshape({2, 3, 4, 5});
  for (const Tensor& x :
       {base.transpose(0, 3), base.slice(2, 1, 4, 2), base.select(1, 1), base.permute({2, 0, 3, 1}),
        base.slice(0, 0, 1).expand({4, 3, 4, 5}), base.slice(0, 0, 0)}) {
    check_close(x.to(kFloat32), x.to_vector<double>(), 0);
    check_equal(x.contiguous(), x);
    CHECK(x.contiguous().is_contiguous());
    check_equal(x.clone(), x);
  }
  const Tensor nhwc = base.contiguous(kChannelsLast);
  CHECK(nhwc.is_contiguous(kChannelsLast));
  check_equal(nhwc, base);
  CHECK(nhwc.contiguous(kChannelsLast).is_same(nhwc));
  CHECK(nhwc.to(kFloat32).is_contiguous(kChannelsLast));
  CHECK(nhwc.clone().is_contiguous(kChannelsLast));
  CHECK(nhwc.clone(kContiguous).is_contiguous());
  CHECK(nhwc.to(MemoryFormat::preserve).is_same(nhwc));
  CHECK(nhwc.to(kChannelsLast).is_same(nhwc));
  for (const Shape& shape : {Shape{6, 1, 4, 5}, Shape{6, 20, 1, 1}}) {  // both formats at once
    const Tensor plain = base.reshape(shape), named = plain.to(kChannelsLast);
    CHECK(plain.contiguous(kChannelsLast).is_same(plain));
    CHECK(named.suggest_memory_format() == kChannelsLast);
    CHECK(named.to(kChannelsLast).is_same(named));
    CHECK(named.to(kContiguous).suggest_memory_format() == kContiguous);
    check_equal(named, plain);
  }
  const Tensor column = base.reshape({120, 1, 1, 1});  // there the strides are the same too
  CHECK(column.to(kChannelsLast).is_same(column));
  check_equal(nhwc.to(kContiguous), base);
  CHECK_FALSE(base.clone().shares_storage(base));
  CHECK_THROWS_AS(arange(3).contiguous(kChannelsLast), ShapeError);
  CHECK_THROWS_AS(base.contiguous(MemoryFormat::preserve), ValueError);
  CHECK_THROWS_AS(Tensor().to(kFloat32), ValueError);
  CHECK_THROWS_AS(Tensor().clone(), ValueError);
  CHECK_THROWS_AS(Tensor().contiguous(), ValueError);
}

TEST_CASE("to: options") {
  const Tensor x = randn({2, 3, 4, 5}), last = x.to(kChannelsLast);
  CHECK(x.to(memory_format(kChannelsLast)).is_contiguous(kChannelsLast));
  CHECK(x.to(TensorOptions{.memory_format = kChannelsLast}).is_contiguous(kChannelsLast));
  CHECK(last.to(dtype(kFloat64)).is_contiguous(kChannelsLast));
  CHECK(last.to(memory_format(kContiguous)).is_contiguous());
  const Tensor gray = zeros({2, 1, 4, 4}).to(kChannelsLast);  // in both formats
  CHECK(gray.to(memory_format(kContiguous)).suggest_memory_format() == kContiguous);
  CHECK(x.to(x.options()).is_same(x));
  CHECK_THROWS_AS(x.to(requires_grad()), ValueError);
  CHECK_THROWS_AS(x.to(TensorOptions{.pinned = true}), ValueError);
}

TEST_CASE("to: devices, with late streams") {
  const Tensor host = arange(100000);
  const Tensor a = host.to("cpu:0");
  CHECK(a.device() == Device("cpu:0"));
  CHECK(a.to("cpu:0").is_same(a));
  for (int repeat = 0; repeat < 3; ++repeat) {
    delay("cpu:0");
    const Tensor b = (a + repeat).to("cpu:1", kFloat64);
    check_close(b.cpu(), (host + repeat).to_vector<double>(), 0);
    delay("cpu:1");
    check_equal((b * 2.0).to(Device(), kInt64, non_blocking), (host + repeat) * 2);
  }
  // The source may be changed, or go, as soon as to() returned.
  delay("cpu:1");
  Tensor source = host.to("cpu:0");
  const Tensor kept = source.to("cpu:1");
  source.zero_();
  source = {};
  check_equal(kept.cpu(), host);
  // A host source may go after a copy that does not block.
  delay("cpu:0");
  Tensor temporary = host + 1;
  const Tensor queued = temporary.to("cpu:0", non_blocking);
  temporary = {};
  const Tensor reused = zeros({100000}, {.dtype = kInt64});
  check_equal(queued.cpu(), host + 1);
  std::vector<float> own(1000, 3.0f);
  bool freed = false;
  delay("cpu:0");
  const Tensor wrapped =
      from_blob(own.data(), {1000}, kFloat32, [&] { freed = true; }).to("cpu:0", non_blocking);
  CHECK_FALSE(freed);
  check_equal(wrapped.cpu(), full({1000}, 3));
  synchronize("cpu:0");
  CHECK(freed);
}

TEST_CASE("to, clone, contiguous: gradients") {
  const Tensor x = randn({2, 3, 2, 2}, {.dtype = kFloat64}).set_requires_grad();
  const auto check = [&](auto f) {
    CHECK(autograd::gradcheck([&](const auto& in) { return f(in[0]) * in[0]; }, {x},
                              {.second_order = true}));
  };
  check([](const Tensor& t) { return t.clone(); });
  check([](const Tensor& t) { return t.contiguous(kChannelsLast); });
  check([](const Tensor& t) { return t.to("cpu:0").to("cpu:1").cpu(); });
  const Tensor half = randn({3}).set_requires_grad();
  sum(half.to(kFloat16).to("cpu:0", kFloat64)).backward();
  CHECK(half.grad().dtype() == kFloat32);
  CHECK(half.grad().device() == Device());
  check_equal(half.grad(), ones({3}));
  CHECK_FALSE(half.to(kInt64).requires_grad());
}

TEST_CASE("copy_: broadcasting, conversion, devices, overlap") {
  const Tensor x = zeros({2, 3});
  CHECK(x.copy_(tensor({1, 2, 3})).is_same(x));
  check_close(x, {1, 2, 3, 1, 2, 3}, 0);
  x.copy_(tensor(7));
  check_close(x, std::vector<double>(6, 7), 0);
  x.t().copy_(arange(6).reshape({3, 2}));
  check_close(x, {0, 2, 4, 1, 3, 5}, 0);
  x.select(0, 1).copy_(tensor({9, 9, 9}, {.device = "cpu:0"}));
  check_close(x, {0, 2, 4, 9, 9, 9}, 0);
  const Tensor there = zeros({2, 3}, {.dtype = kFloat16, .device = "cpu:1"});
  there.copy_(x, non_blocking);
  check_close(there.cpu(), x, 0);
  // Overlapping memory: as if the source had been read first.
  const Tensor line = arange(6);
  line.slice(0, 1).copy_(line.slice(0, 0, 5));
  check_equal(line, tensor({0, 0, 1, 2, 3, 4}));
  const Tensor square = arange(9).reshape({3, 3});
  const Tensor expected = square.t().clone();
  square.copy_(square.t());
  check_equal(square, expected);
  const std::uint32_t version = x.version();
  x.copy_(zeros({3}));
  CHECK(x.version() == version + 1);

  CHECK_THROWS_AS(x.copy_(zeros({4})), ShapeError);
  CHECK_THROWS_AS(zeros({3}).copy_(zeros({2, 3})), ShapeError);
  CHECK_THROWS_AS(x.copy_(Tensor()), ValueError);
  CHECK_THROWS_AS(zeros({1}).expand({3}).copy_(zeros({3})), ValueError);
  CHECK_THROWS_AS(ones({3}).set_requires_grad().copy_(zeros({3})), AutogradError);
}

TEST_CASE("copy_: gradients") {
  const Tensor x = randn({2, 3}, {.dtype = kFloat64}).set_requires_grad();
  const Tensor y = randn({3}, {.dtype = kFloat64}).set_requires_grad();
  CHECK(autograd::gradcheck(
      [](const auto& in) {
        const Tensor t = randn({2, 3}, {.dtype = kFloat64});
        t.copy_(in[0] * in[0]);
        return t;
      },
      {y}, {.second_order = true}));
  // Of the old values nothing is left.
  const Tensor t = x * 2;
  t.copy_(y);
  sum(t).backward();
  CHECK_FALSE(x.grad().defined());
  check_close(y.grad(), {2, 2, 2});
  CHECK(autograd::gradcheck(
      [](const auto& in) {
        const Tensor t = in[0] * in[0];
        t.select(0, 1).copy_(in[1] * in[1]);
        return t;
      },
      {x, y}));
  CHECK(autograd::gradcheck(
      [](const auto& in) {
        const Tensor t = zeros({2, 3}, {.dtype = kFloat64, .device = "cpu:0"});
        t.copy_(in[0] * in[0]);
        return t.cpu();
      },
      {x}));
}
