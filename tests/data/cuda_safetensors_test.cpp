// Saving CUDA tensors, and loading onto CUDA devices.
#include <cstring>

#include "ferrite/core/cuda.h"
#include "ferrite/core/views.h"
#include "ferrite/data/host_transfer.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

std::vector<float> counting(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1'000'003);
  return values;
}

}  // namespace

TEST_CASE("safetensors on CUDA: from any device to any other") {
  REQUIRE_CUDA(2);
  const TempDir dir;
  const Device zero("cuda:0"), one("cuda:1");
  const std::vector<float> values = counting(15);
  const Tensor matrix = on_device(values, {3, 5}, zero);
  save({{"zero", matrix},
        {"t", geometry::apply(matrix, geometry::transpose(matrix, 0, 1))},
        {"one", on_device<std::int64_t>({-7}, {}, one)},
        {"empty", empty({0, 2}, {.device = zero})},
        {"host", from_vector<float>({5}, {1})}},
       dir / "m");
  const data::SafetensorsFile file(dir / "m");
  CHECK(file.info("zero").device == "cuda:0");
  CHECK(file.info("one").device == "cuda:1");
  CHECK(file.info("host").device == "cpu");

  const auto devices = [&](const data::SafetensorsOptions& options) {
    const StateDict dict = load(dir / "m", options);
    CHECK(dict.at("zero").to_vector<float>() == values);
    CHECK(dict.at("t").shape() == Shape{5, 3});
    CHECK(dict.at("t").to_vector<float>()[1] == 5);
    CHECK(dict.at("one").item<int>() == -7);
    CHECK(dict.at("empty").shape() == Shape{0, 2});
    CHECK(dict.at("host").item<float>() == 5);
    CHECK(dict.at("t").device() == dict.at("zero").device());
    return fmt::format("{} {} {}", dict.at("zero").device(), dict.at("one").device(),
                       dict.at("host").device());
  };
  CHECK(devices({}) == "cpu cpu cpu");
  CHECK(devices({.mmap = true}) == "cpu cpu cpu");
  CHECK(devices({.map_location = "cuda:1"}) == "cuda:1 cuda:1 cuda:1");
  CHECK(devices({.map_location = data::MapLocation::as_saved()}) == "cuda:0 cuda:1 cpu");
  CHECK(devices({.map_location = {{"cuda:0", "cuda:1"}, {"cuda:1", "cuda:0"}}}) ==
        "cuda:1 cuda:0 cpu");
  CHECK(devices({.map_location = {{"cpu", "cuda:0"}, {"cuda:1", "cpu"}}, .mmap = true}) ==
        "cuda:0 cpu cuda:0");
  CHECK(contains(message_of<DeviceError>([&] {
                   load(dir / "m", {.map_location = {{"cuda:1", "cuda:63"}}});
                 }),
                 "tensor 'one' was saved on cuda:1"));
}

TEST_CASE("safetensors on CUDA: large tensors go through small page-locked buffers") {
  REQUIRE_CUDA(1);
  const TempDir dir;
  const Device device("cuda:0");
  const auto n = static_cast<std::int64_t>(2 * data::HostTransfer::kPiece / 4 + 12345);
  const std::vector<float> values = counting(n);
  const Tensor large = on_device(values, {n}, device),
               small = on_device<float>({1, 2}, {2}, device);
  Allocator& pinned = pinned_allocator();
  pinned.empty_cache();
  pinned.reset_peak_stats();
  const std::size_t before = pinned.stats().allocated;
  save({{"large", large}, {"small", small}}, dir / "m");
  CHECK(pinned.stats().max_allocated - before <= 2 * data::HostTransfer::kPiece);
  {
    const StateDict dict = load(dir / "m", {.map_location = device});
    CHECK(dict.at("large").to_vector<float>() == values);
    CHECK(dict.at("small").to_vector<float>() == std::vector<float>{1, 2});
  }
  CHECK(load(dir / "m").at("large").to_vector<float>() == values);
  CHECK(pinned.stats().allocated == before);
}

TEST_CASE("safetensors on CUDA: values that are still being computed, and streams of one's own") {
  REQUIRE_EMULATOR();
  const TempDir dir;
  const DeferredStreams deferred;
  const Device device("cuda:0");
  const Stream own = Stream::create(device);
  const StreamGuard guard(own);
  const Tensor bytes = empty({4}, {.dtype = kUInt8, .device = device});
  fill_bytes(own, bytes.data_ptr(), 7, 4);
  save({{"bytes", bytes}}, dir / "m");
  const Tensor back = load(dir / "m", {.map_location = device}).at("bytes");
  CHECK(back.to_vector<int>() == std::vector<int>{7, 7, 7, 7});
}

TEST_CASE("safetensors on CUDA: not while a graph is captured") {
  REQUIRE_CUDA(1);
  const TempDir dir;
  const Device device("cuda:0");
  const Tensor t = on_device<float>({1}, {1}, device);
  save({{"t", t}}, dir / "m");
  const Stream stream = Stream::create(device);
  const StreamGuard guard(stream);
  std::string saving, loading;
  CHECK_THROWS_AS(
      Graph(stream,
            [&] {
              saving = message_of<CudaError>([&] { save({{"t", t}}, dir / "n"); });
              loading = message_of<CudaError>([&] { load(dir / "m", {.map_location = device}); });
              throw Error("stop");
            }),
      Error);
  CHECK(contains(saving, "captured"));
  CHECK(contains(loading, "captured"));
  CHECK(dir.count() == 1);
}
