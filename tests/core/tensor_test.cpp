#include "ferrite/core/tensor.h"

#include <chrono>
#include <cmath>
#include <thread>

#include "ferrite/core/stream.h"
#include "ferrite/core/views.h"
#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using ferrite::test::iota;
using ferrite::test::message_of;

TEST_CASE("an undefined tensor") {
  const Tensor t;
  CHECK_FALSE(t.defined());
  CHECK(t.describe() == "an undefined tensor");
  CHECK(message_of<ShapeError>([&] { t.item<float>(); }) ==
        "[item] needs a tensor of exactly one element, got an undefined tensor");
  CHECK(message_of<ValueError>([&] { t.to_vector<float>(); }) ==
        "[to_vector] the tensor is undefined");
}

TEST_CASE("a new tensor has the requested properties") {
  const Tensor t = empty({2, 3}, {.dtype = kFloat64, .device = "cpu:1"});
  CHECK(t.defined());
  CHECK(t.shape() == Shape{2, 3});
  CHECK(t.strides() == Strides{3, 1});
  CHECK(t.dim() == 2);
  CHECK(t.size(1) == 3);
  CHECK(t.size(-2) == 2);
  CHECK(t.stride(0) == 3);
  CHECK(t.numel() == 6);
  CHECK(t.dtype() == kFloat64);
  CHECK(t.device() == Device("cpu:1"));
  CHECK(t.itemsize() == 8);
  CHECK(t.nbytes() == 48);
  CHECK(t.storage_offset() == 0);
  CHECK(t.is_contiguous());
  CHECK(t.describe() == "float64[2, 3] on cpu:1");
  CHECK(message_of<IndexError>([&] { t.size(2); }) ==
        "[size] dimension 2 is out of range: expected -2 to 1");
  CHECK_THROWS_AS(t.stride(-3), IndexError);
  CHECK(empty({}).numel() == 1);
  CHECK(empty({}).dtype() == kFloat32);
  CHECK(empty({0, 3}).data_ptr() == nullptr);
}

TEST_CASE("handles share, and copies of handles are the same tensor") {
  const Tensor a = iota({2, 2}), b = a;
  CHECK(a.is_same(b));
  CHECK(a.impl()->use_count() == 2);
  const Tensor v = geometry::apply(a, geometry::select(a, 0, 1));
  CHECK_FALSE(v.is_same(a));
  CHECK(v.shares_storage(a));
  v.data<float>()[0] = 9;
  CHECK(a.to_vector<float>() == std::vector<float>{0, 1, 9, 3});
  a.storage()->bump_version("test");
  CHECK(v.version() == 1);
}

TEST_CASE("bad sizes are refused") {
  CHECK(message_of<ShapeError>([] {
          empty({2, -1});
        }) == "[empty] sizes must be 0 or more, got [2, -1]");
  const std::int64_t big = std::int64_t{1} << 40;
  CHECK(message_of<ShapeError>([&] {
          empty({big, big});
        }) == "[shape] [1099511627776, 1099511627776] has more elements than 64 bits can count");
  CHECK(message_of<ShapeError>([&] {
          empty({big, 1 << 22});
        }) ==
        "[empty] a [1099511627776, 4194304] tensor of float32 has more bytes than 64 bits can "
        "count");
  CHECK_THROWS_AS(empty({big, 1 << 15}, {.dtype = kUInt8}), OutOfMemoryError);
  CHECK_THROWS_AS(empty({0, big, big}), ShapeError);  // no elements, but strides overflow
  CHECK_THROWS_AS(empty({0, big, big, 4}, {.memory_format = kChannelsLast}), ShapeError);
}

TEST_CASE("memory formats") {
  const Tensor t = empty({2, 3, 4, 5}, {.memory_format = kChannelsLast});
  CHECK(t.strides() == Strides{60, 1, 15, 3});
  CHECK(t.is_contiguous(kChannelsLast));
  CHECK_FALSE(t.is_contiguous());
  CHECK(t.suggest_memory_format() == kChannelsLast);
  CHECK(empty_like(t).strides() == t.strides());
  CHECK(empty_like(t, kContiguous).is_contiguous());

  const Tensor plain = empty({2, 3, 4, 5});
  CHECK(plain.suggest_memory_format() == kContiguous);
  CHECK_FALSE(plain.is_contiguous(kChannelsLast));
  CHECK(empty_like(plain, kChannelsLast).is_contiguous(kChannelsLast));

  const Tensor both = empty({2, 3, 1, 1});
  CHECK(both.is_contiguous());
  CHECK(both.is_contiguous(kChannelsLast));
  CHECK(both.suggest_memory_format() == kContiguous);
  for (const Shape& shape : {Shape{2, 3, 1, 1}, Shape{2, 1, 4, 5}, Shape{1, 1, 4, 5}}) {
    const Tensor named = empty(shape, {.memory_format = kChannelsLast});
    CHECK(named.is_contiguous());
    CHECK(named.suggest_memory_format() == kChannelsLast);
    CHECK(empty_like(named).strides() == named.strides());
  }
  CHECK(empty({2, 1, 1, 1}, {.memory_format = kChannelsLast}).suggest_memory_format() ==
        kContiguous);
  CHECK(message_of<ShapeError>([] {
          empty({2, 3}, {.memory_format = kChannelsLast});
        }) == "[memory_format] channels_last needs 4 dimensions (N, C, H, W), got [2, 3]");
  CHECK(empty({2, 3}, {.memory_format = MemoryFormat::preserve}).is_contiguous());

  const Tensor like = empty_like(empty({3}, {.dtype = kInt32, .device = "cpu:2"}));
  CHECK(like.describe() == "int32[3] on cpu:2");
}

TEST_CASE("no elements leave no gaps") {
  const Tensor base = empty({4, 4, 4, 4});
  CHECK(geometry::as_strided(base, {0, 3}, {1, 5}, 0).is_contiguous());
  CHECK(geometry::as_strided(base, {3, 0}, {1, 5}, 0).is_contiguous());
  CHECK(geometry::as_strided(base, {2, 0, 3, 3}, {1, 1, 7, 7}, 0).is_contiguous(kChannelsLast));
  CHECK_FALSE(geometry::as_strided(base, {2, 3}, {1, 5}, 0).is_contiguous());
  CHECK(
      geometry::as_strided(base, {1, 3}, {77, 1}, 0).is_contiguous());  // strides of size-1
                                                                        // dimensions are never used
}

TEST_CASE("elements by type") {
  const Tensor t = iota<std::int64_t>({3});
  CHECK(t.data<std::int64_t>()[2] == 2);
  CHECK(message_of<DTypeError>([&] { t.data<float>(); }) ==
        "[data] tensor holds int64, asked for float32");
  CHECK(t.to_vector<double>() == std::vector<double>{0, 1, 2});
  CHECK(t.to_vector<bool>() == std::vector<bool>{false, true, true});
  const Tensor h = from_vector(std::vector<Half>{1.5f, -2.0f}, {2});
  CHECK(h.to_vector<float>() == std::vector<float>{1.5f, -2.0f});
  CHECK(h.to_vector<std::int32_t>() == std::vector<std::int32_t>{1, -2});
  // Outside the range, too.
  const std::vector<double> huge{1e300, -1e300, 1e10, NAN, -1.9};
  std::vector<std::int64_t> wide;
  std::vector<std::int32_t> narrow;
  for (const double v : huge)
    wide.push_back(Scalar(v).cast<std::int64_t>()),
        narrow.push_back(Scalar(v).cast<std::int32_t>());
  CHECK(from_vector(huge, {5}).to_vector<std::int64_t>() == wide);
  CHECK(from_vector(huge, {5}).to_vector<std::int32_t>() == narrow);
  const Tensor b = from_vector(std::vector<bool>{true, false}, {2});
  CHECK(b.dtype() == kBool);
  CHECK(b.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{1, 0});
  CHECK(from_vector(std::vector<BFloat16>{3.0f}, {1}).to_vector<float>() == std::vector<float>{3});
  CHECK(message_of<ShapeError>([] {
          from_vector(std::vector<float>{1, 2, 3}, {2, 2});
        }) == "[from_vector] 3 values do not fill shape [2, 2]");
}

TEST_CASE("the only element") {
  CHECK(from_vector(std::vector<float>{2.5f}, {}).item<float>() == 2.5f);
  CHECK(from_vector(std::vector<float>{2.5f}, {1, 1}).item<int>() == 2);
  const std::int64_t big = (std::int64_t{1} << 60) + 1;
  CHECK(from_vector(std::vector<std::int64_t>{big}, {1}).item<std::int64_t>() == big);
  CHECK(from_vector(std::vector<Half>{0.5f}, {1}).item_scalar().is_floating());
  CHECK(from_vector(std::vector<std::uint8_t>{7}, {1}).item_scalar().kind() ==
        Scalar::Kind::integer);
  CHECK(from_vector(std::vector<bool>{true}, {1}).item_scalar().kind() == Scalar::Kind::boolean);
  const Tensor t = iota({3});
  CHECK(geometry::apply(t, geometry::select(t, 0, 2)).item<double>() == 2);
  CHECK(message_of<ShapeError>([&] { t.item<float>(); }) ==
        "[item] needs a tensor of exactly one element, got float32[3] on cpu");
  CHECK_THROWS_AS(empty({0}).item<float>(), ShapeError);
}

TEST_CASE("reading waits for the device and rethrows exceptions of its work") {
  const Device device("cpu:1");
  const Tensor t = empty({1}, {.device = device});
  current_stream(device).enqueue([t] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    t.data<float>()[0] = 4;
  });
  CHECK(t.item<float>() == 4);
  current_stream(device).enqueue([] { fail<ValueError>("work", "went wrong"); });
  CHECK(message_of<ValueError>([&] { t.to_vector<float>(); }) == "[work] went wrong");
  CHECK(t.to_vector<float>() == std::vector<float>{4});
}

TEST_CASE("tensors over memory of others") {
  int deleted = 0;
  std::vector<float> data = {1, 2, 3, 4};
  Tensor t = from_blob(data.data(), {2, 2}, kFloat32, [&] { ++deleted; });
  Tensor v = geometry::apply(t, geometry::select(t, 1, 1));
  CHECK(v.to_vector<float>() == std::vector<float>{2, 4});
  t = {};
  CHECK(deleted == 0);
  data[3] = 7;
  CHECK(v.to_vector<float>() == std::vector<float>{2, 7});
  v = {};
  CHECK(deleted == 1);
  CHECK_THROWS_AS(from_blob(data.data(), {-1}, kFloat32), ShapeError);
}

TEST_CASE("strides of one's own") {
  const Tensor t = empty_strided({2, 3}, {1, 2});
  CHECK(t.strides() == Strides{1, 2});
  CHECK(t.storage()->nbytes() == 6 * 4);
  CHECK(empty_strided({2, 3}, {10, 2}).storage()->nbytes() == 15 * 4);
  CHECK(empty_strided({5, 5}, {0, 0}).storage()->nbytes() == 4);
  CHECK(empty_strided({0, 5}, {9, 9}).storage()->nbytes() == 0);
  CHECK(empty_strided({}, {}).storage()->nbytes() == 4);
  CHECK(message_of<ShapeError>([] {
          empty_strided({2, 3}, {1});
        }) == "[empty_strided] [2, 3] has 2 sizes, [1] has 1 strides");
  CHECK(message_of<ValueError>([] { empty_strided({2}, {-1}); }) ==
        "[empty_strided] strides must be 0 or more, got [-1]");
  CHECK_THROWS_AS(empty_strided({-2}, {1}), ShapeError);
  const std::int64_t big = std::int64_t{1} << 62;
  CHECK_THROWS_AS(empty_strided({5}, {big}), ShapeError);
  CHECK_THROWS_AS(empty_strided({3, 3}, {big, big}), ShapeError);
}

TEST_CASE("views of a storage stay inside it") {
  const Tensor t = iota({10});
  CHECK(geometry::as_strided(t, {2, 2}, {5, 2}, 1).to_vector<float>() ==
        std::vector<float>{1, 3, 6, 8});
  CHECK(geometry::as_strided(t, {3}, {0}, 9).to_vector<float>() == std::vector<float>{9, 9, 9});
  CHECK(geometry::as_strided(t, {}, {}, 9).item<float>() == 9);
  CHECK_NOTHROW(geometry::as_strided(t, {2, 2}, {5, 4}, 0));  // up to the last element
  CHECK(message_of<ShapeError>([&] {
          geometry::as_strided(t, {2, 2}, {5, 4}, 1);
        }) ==
        "[as_strided] shape [2, 2], strides [5, 4], offset 1 reach outside a storage of 40 bytes");
  CHECK_THROWS_AS(geometry::as_strided(t, {}, {}, 10), ShapeError);
  CHECK(geometry::as_strided(t, {0}, {1}, 10).numel() == 0);
  CHECK(geometry::as_strided(t, {0}, {1}, 50).numel() == 0);  // touches nothing
  CHECK(message_of<ShapeError>([&] {
          geometry::as_strided(t, {2}, {1, 1}, 0);
        }) == "[as_strided] [2] has 1 sizes, [1, 1] has 2 strides");
  CHECK(message_of<ShapeError>([&] { geometry::as_strided(t, {2}, {-1}, 0); }) ==
        "[as_strided] shape [2], strides [-1] and offset 0 must all be 0 or more");
  CHECK_THROWS_AS(geometry::as_strided(t, {2}, {1}, -1), ShapeError);
  CHECK_THROWS_AS(geometry::as_strided(t, {-2}, {1}, 0), ShapeError);
  const std::int64_t big = std::int64_t{1} << 62;
  CHECK_THROWS_AS(geometry::as_strided(t, {5}, {big}, 0), ShapeError);  // would wrap to 0
  CHECK_THROWS_AS(geometry::as_strided(t, {1}, {1}, INT64_MAX), ShapeError);
  CHECK_THROWS_AS(geometry::as_strided(t, {big, big}, {0, 0}, 0), ShapeError);
}

TEST_CASE("host memory is poisoned in the tests") {
  for (DType dtype : {kFloat32, kFloat16, kBFloat16, kFloat64}) {
    const Tensor t = empty({5}, {.dtype = dtype});
    for (double v : t.to_vector<double>()) CHECK(std::isnan(v));
  }
}

TEST_CASE("from_blob requires memory unless the tensor is empty") {
  CHECK_THROWS_WITH_AS(from_blob(nullptr, {2, 2}, kFloat32),
                       doctest::Contains("16 bytes, got a null pointer"), ValueError);
  CHECK(from_blob(nullptr, {0, 2}, kFloat32).numel() == 0);
}

TEST_CASE("exceptions of a deleter are not propagated") {
  float value = 1;
  int calls = 0;
  from_blob(&value, {1}, kFloat32, [&] {
    ++calls;
    throw ValueError("thrown by a deleter");
  });
  from_blob(&value, {1}, kFloat32, [&] {
    ++calls;
    throw 3;
  });
  CHECK(calls == 2);
}
