// Copies that cross from device to device; copy_test.cpp has the layouts and dtypes on one device.
#include "ferrite/ops/transfer.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/stream.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

std::vector<Device> devices() {
  std::vector<Device> all = {"cpu", "cpu:0", "cpu:1"};
  for (int i = 0; i < std::min(2, cuda::device_count()); ++i) all.emplace_back(DeviceType::cuda, i);
  return all;
}

Tensor pinned_full(const Shape& shape, double value) { return full(shape, value).pin_memory(); }

/// Every element of `t`, read at once.
bool all_equal(const Tensor& t, double value) {
  const std::vector<double> values = t.to_vector<double>();
  return std::ranges::all_of(values, [=](double v) { return v == value; });
}

}  // namespace

TEST_CASE("values reach every device from every other, whatever the layout and dtype") {
  const Tensor base = arange(2 * 3 * 4 * 5).reshape({2, 3, 4, 5});
  const std::pair<DType, DType> dtypes[] = {
      {kFloat32, kFloat32}, {kUInt8, kFloat32}, {kFloat32, kFloat16}, {kFloat64, kFloat32},
      {kInt64, kInt32},     {kInt32, kFloat32}, {kFloat32, kInt32},   {kBFloat16, kFloat64}};
  for (const Device& from : devices())
    for (const Device& to : devices())
      for (const auto& [in, out] : dtypes) {
        const Tensor there = base.to(from, in);
        for (const Tensor& x :
             {there, there.transpose(0, 3), there.slice(2, 1, 4, 2), there.select(1, 1),
              there.slice(0, 0, 1).expand({4, 3, 4, 5}), there.slice(0, 0, 0),
              there.contiguous(kChannelsLast), there.select(0, 0).select(0, 0).select(0, 0)[3]})
          for (const bool wait : {true, false}) {
            CAPTURE(from);
            CAPTURE(to);
            CAPTURE(in);
            CAPTURE(out);
            CAPTURE(x.shape());
            const Tensor y = x.to(to, out, !wait);
            CHECK(y.device() == to);
            CHECK(y.dtype() == out);
            if (to != from || in != out) {
              CHECK(y.suggest_memory_format() == x.suggest_memory_format());
            }
            synchronize(from);
            CHECK(y.to_vector<double>() == x.to_vector<double>());
          }
      }
}

TEST_CASE("copy_ into strided memory of another device, broadcasting and converting") {
  for (const Device& from : devices())
    for (const Device& to : devices())
      for (const bool wait : {true, false}) {
        CAPTURE(from);
        CAPTURE(to);
        const Tensor target = zeros({4, 6}, {.device = to});
        const Tensor source = arange(3).to(from, kUInt8);
        target.slice(1, 0, 6, 2).copy_(source, !wait);
        target.transpose(0, 1).slice(0, 5, 6).copy_(full({1, 4}, 7, {.device = from}), !wait);
        synchronize(from);
        std::vector<double> expected;
        for (int row = 0; row < 4; ++row)
          for (double v : {0, 0, 1, 0, 2, 7}) expected.push_back(v);
        CHECK(target.to_vector<double>() == expected);
      }
}

TEST_CASE("gradients cross devices") {
  for (const Device& device : devices()) {
    CAPTURE(device);
    const Tensor x = randn({2, 3}, {.dtype = kFloat64}).set_requires_grad();
    CHECK(autograd::gradcheck([&](const auto& in) { return in[0].to(device).to("cpu") * in[0]; },
                              {x}, {}));
    const Tensor half = ones({3}).set_requires_grad();
    sum(half.to(device, kFloat16)).backward();
    CHECK(half.grad().device() == Device());
    check_equal(half.grad(), ones({3}));
  }
}

TEST_CASE("pinned memory") {
  if (!cuda::is_available()) CHECK_THROWS_AS(ones({2}).pin_memory(), DeviceError);
  REQUIRE_CUDA(1);
  const Tensor x = arange(24).reshape({2, 3, 4}).transpose(0, 2);
  CHECK_FALSE(x.is_pinned());
  const Tensor p = x.pin_memory();
  CHECK(p.is_pinned());
  CHECK(p.device() == Device());
  check_equal(p, x);
  CHECK(p.select(0, 1).is_pinned());
  CHECK(p.pin_memory().is_same(p));
  CHECK_FALSE((p + p).is_pinned());
  check_equal(p + p, x + x);
  CHECK(empty({0}, {.pinned = true}).is_pinned());
  check_equal(x.to("cpu:0").pin_memory(), x);
  CHECK_THROWS_AS(x.to("cuda:0").pin_memory(), DeviceError);
  CHECK_THROWS_AS(empty({2}, {.device = "cuda:0", .pinned = true}), ValueError);
  CHECK_THROWS_AS(empty({2}, {.device = "cpu:0", .pinned = true}), ValueError);
  const Tensor leaf = ones({3}).set_requires_grad();
  sum(leaf.pin_memory()).backward();
  check_equal(leaf.grad(), ones({3}));

  Allocator& memory = pinned_allocator();
  const std::size_t before = memory.stats().allocated;
  Tensor t = empty({1000}, {.pinned = true});
  CHECK(memory.stats().allocated >= before + 4000);
  const void* data = t.data_ptr();
  t = {};
  CHECK(memory.stats().allocated == before);
  CHECK(empty({1000}, {.pinned = true}).data_ptr() == data);
  CHECK(memory.summary().find("memory of pinned host memory\n") == 0);
}

TEST_CASE("a blocking copy leaves its source free to change, and has its result ready") {
  REQUIRE_CUDA(1);
  // Small ones go through pinned memory, large ones do not; the pinned source is read in place.
  for (const std::int64_t n : {1000, 9 << 20})
    for (const bool pinned : {false, true}) {
      CAPTURE(n);
      CAPTURE(pinned);
      if (n > 1000 && !is_emulated()) continue;
      const DeferredStreams deferred;
      const Tensor source = pinned ? pinned_full({n}, 1) : full({n}, 1);
      const Tensor there = source.to("cuda:0");
      source.fill_(2);
      const Tensor back = there.to("cpu");
      CHECK_FALSE(back.is_pinned());
      CHECK(all_equal(back, 1));
    }
}

TEST_CASE("a copy that does not block returns before the device has begun") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  const Stream stream = Stream::create(device);
  const StreamGuard guard(stream);
  const Tensor pinned = pinned_full({1000}, 3), pageable = full({1000}, 4);
  const Tensor resident = full({1000}, 5, {.device = device});
  stream.synchronize();
  Tensor a, b, c, back;
  {
    CudaGate gate(stream);
    a = pinned.to(device, non_blocking);
    b = pageable.to(device, non_blocking);
    c = pageable.to(device);  // staged: nothing to wait for either
    back = resident.to("cpu", non_blocking);
    CHECK_FALSE(stream.query());
    CHECK(back.is_pinned());
    pageable.fill_(0);  // c has it already
  }
  stream.synchronize();
  CHECK(all_equal(a, 3));
  CHECK(all_equal(c, 4));
  CHECK(all_equal(back, 5));
}

TEST_CASE("a gradient is on the host before the host reads it") {
  REQUIRE_CUDA(1);
  std::optional<DeferredStreams> deferred;
  if (is_emulated()) deferred.emplace();
  const Tensor x = pinned_full({1000}, 2).set_requires_grad();
  sum((x * 3.0).to(Device("cuda:0"), non_blocking)).backward();
  CHECK(all_equal(x.grad(), 3));
}

TEST_CASE("memory that a copy under way reads or writes is not given to others") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  const Stream stream = Stream::create(device);
  const StreamGuard guard(stream);
  Tensor source = pinned_full({1000}, 3);
  Tensor resident = full({1000}, 5, {.device = device});
  stream.synchronize();
  const void* data = source.data_ptr();
  Tensor there;
  {
    CudaGate gate(stream);
    there = source.to(device, non_blocking);
    source = {};
    const Tensor other = pinned_full({1000}, 9);
    CHECK(other.data_ptr() != data);
    // The result of a copy to the host that nobody wanted.
    Tensor back = resident.to("cpu", non_blocking);
    const void* written = back.data_ptr();
    back = {};
    CHECK(pinned_full({1000}, 8).data_ptr() != written);
    // Somebody's own memory, wrapped.
    std::vector<float> own(1000, 6.0f);
    bool freed = false;
    Tensor wrapped = from_blob(own.data(), {1000}, kFloat32, [&] { freed = true; });
    const Tensor theirs = wrapped.to(device, non_blocking);
    wrapped = {};
    gate.open();
    stream.synchronize();
    CHECK(freed);
    CHECK(all_equal(theirs, 6));
  }
  CHECK(all_equal(there, 3));
}

TEST_CASE("between devices each side's later work comes after the copy") {
  REQUIRE_EMULATOR();
  REQUIRE_CUDA(2);
  const DeferredStreams deferred;
  for (const char* to : {"cuda:1", "cpu:0"})
    for (const char* from : {"cuda:0", "cpu:1"}) {
      CAPTURE(from);
      CAPTURE(to);
      Tensor source = full({500}, 1, {.device = from});
      const Tensor there = source.to(to, non_blocking);
      source.fill_(2);
      source = {};
      const Tensor reused = full({500}, 3, {.device = from});
      CHECK(all_equal(there, 1));
      CHECK(all_equal(reused, 3));
      const Tensor strided = full({20, 25}, 4, {.device = from});
      const Tensor moved = strided.transpose(0, 1).to(to, kFloat64, non_blocking);
      strided.fill_(5);
      CHECK(all_equal(moved, 4));
      CHECK(all_equal(strided, 5));
    }
}

TEST_CASE("devices that cannot reach each other copy all the same") {
  REQUIRE_EMULATOR();
  REQUIRE_CUDA(4);  // a pair that no other test has copied between
  const NoPeerAccess none;
  CHECK_FALSE(cuda::can_access_peer(2, 3));
  const Tensor x = arange(1000);
  check_equal(x.to("cuda:2").to("cuda:3").to("cuda:2").cpu(), x);
}

TEST_CASE("what a captured copy may read") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  const Stream stream = Stream::create(device);
  const StreamGuard guard(stream);
  const Tensor pinned = pinned_full({100}, 1), pageable = full({100}, 1);
  const Tensor there = zeros({100}, {.device = device});
  const Tensor result = empty({100}, {.pinned = true});
  stream.synchronize();
  const Graph graph(stream, [&] {
    there.copy_(pinned, non_blocking);
    CHECK(message_of<CudaError>([&] {
            there.copy_(pageable, non_blocking);
          }).find("[copy_] a copy from memory that is not pinned") == 0);
    CHECK_THROWS_AS(there.select(0, 0).item<float>(), CudaError);
    CHECK_THROWS_AS(there.to_vector<float>(), CudaError);
    CHECK(message_of<CudaError>([&] {
            pageable.copy_(there);
          }).find("[copy_] a copy to the host that waits") == 0);
    result.copy_(there, non_blocking);
  });
  for (const int value : {2, 3}) {
    pinned.fill_(value);
    graph.replay(stream);
    stream.synchronize();
    CHECK(all_equal(result, value));
  }
}

TEST_CASE("pinned memory that a graph reads is never given to others") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  const Stream stream = Stream::create(device);
  const StreamGuard guard(stream);
  const Tensor there = zeros({100}, {.device = device});
  Tensor pinned = pinned_full({100}, 7);
  const void* data = pinned.data_ptr();
  stream.synchronize();
  const Graph graph(stream, [&] {
    there.copy_(pinned, non_blocking);
    pinned = {};
  });
  std::vector<Tensor> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(pinned_full({100}, 9));
    CHECK(others.back().data_ptr() != data);
  }
  graph.replay(stream);
  CHECK(all_equal(there, 7));
}
