// Batches on a device: CUDA devices and the host's virtual ones, with the same tests.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>

#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::data;
using namespace ferrite::test;

namespace {

using Indices = std::vector<std::int64_t>;

constexpr std::int64_t kWidth = 5;

std::vector<Device> devices() {
  std::vector<Device> all = {"cpu:1"};
  allocator(all[0]).set_poison(true);  // as for all CUDA devices in tests
  if (has_cuda()) all.emplace_back("cuda:0");
  return all;
}

/// Sample i is kWidth times i, with label i. Can throw at one index, or block from one index on.
struct Numbers : Dataset {
  explicit Numbers(std::int64_t n) : n(n) {}
  std::int64_t size() const override { return n; }
  Sample get(std::int64_t i) const override {
    ++fetched;
    while (i >= held_from) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (i == bad) fail<IoError>("numbers", "sample {} is unreadable", i);
    return {from_vector(std::vector<float>(kWidth, static_cast<float>(i)), {kWidth}),
            from_vector<std::int64_t>({i}, {})};
  }
  std::int64_t n, bad = -1;
  std::atomic<std::int64_t> held_from{INT64_MAX};
  mutable std::atomic<int> fetched{0};
};

std::shared_ptr<Numbers> numbers(std::int64_t n) { return std::make_shared<Numbers>(n); }

/// The labels, after checking that the inputs match them.
Indices read(const Batch& batch) {
  const auto labels = batch.labels.to_vector<std::int64_t>();
  std::vector<float> expected;
  for (const std::int64_t label : labels)
    expected.insert(expected.end(), kWidth, static_cast<float>(label));
  CHECK(batch.inputs.shape() == Shape{static_cast<std::int64_t>(labels.size()), kWidth});
  CHECK(batch.inputs.to_vector<float>() == expected);
  return labels;
}

/// The labels of one epoch, with -1 after each batch.
Indices run_epoch(DataLoader<>& loader) {
  Indices all;
  for (const Batch& batch : loader) {
    CHECK(batch.inputs.device() == loader.options().device);
    CHECK(batch.labels.device() == loader.options().device);
    const Indices labels = read(batch);
    all.insert(all.end(), labels.begin(), labels.end());
    all.push_back(-1);
  }
  return all;
}

/// Bytes in use on the device and in page-locked memory.
std::size_t in_use(const Device& device) {
  synchronize(device);
  return memory_allocated(device) +
         (cuda::is_available() ? pinned_allocator().stats().allocated : 0);
}

/// Work on the current stream: copies the first label to `results[i]`, on the device.
void keep_first_label(const Batch& batch, const Tensor& results, std::int64_t i) {
  auto* to = static_cast<std::int64_t*>(results.data_ptr()) + i;
  const auto* from = static_cast<const std::int64_t*>(batch.labels.data_ptr());
  const Device& device = results.device();
  const Stream stream = current_stream(device);
  if (device.is_cuda())
    detail::cuda::copy_bytes(stream, to, device, from, device, sizeof *to);
  else
    stream.enqueue([to, from] { *to = *from; });
}

/// A stream that is ordered after everything put on the device's stream pool so far.
Stream behind_copies(const Device& device) {
  const Stream stream = Stream::create(device, StreamPriority::high);
  for (int i = 0; i < 8; ++i) stream.wait(Stream::create(device));
  return stream;
}

}  // namespace

TEST_CASE("batches on a device are those on the host, whatever the number of workers") {
  for (const Device& device : devices())
    for (const int workers : {0, 1, 3})
      for (const bool drop_last : {false, true}) {
        CAPTURE(device.str());
        CAPTURE(workers);
        DataLoaderOptions options{.batch_size = 4, .shuffle = true, .drop_last = drop_last};
        options.seed = 3;
        DataLoader on_host(numbers(23), options);
        options.num_workers = workers;
        options.device = device;
        DataLoader loader(numbers(23), options);
        for (int epoch = 0; epoch < 3; ++epoch) CHECK(run_epoch(loader) == run_epoch(on_host));
        DataLoader nothing(numbers(0), options);
        CHECK(run_epoch(nothing).empty());
        DataLoader one(numbers(4), options);
        CHECK(run_epoch(one).size() == 5);
      }
}

TEST_CASE("the stream that gets a batch waits for its copy") {
  REQUIRE_EMULATOR();
  const DeferredStreams deferred;
  for (const int workers : {0, 2}) {
    DataLoader loader(numbers(11), {.batch_size = 2, .num_workers = workers, .device = "cuda:0"});
    CHECK(run_epoch(loader) == Indices{0, 1, -1, 2, 3, -1, 4, 5, -1, 6, 7, -1, 8, 9, -1, 10, -1});
    // A different current stream for each batch.
    std::vector<Batch> kept;
    std::vector<Stream> streams;
    std::optional<DataLoader<>::Iterator> it;
    for (std::int64_t i = 0; i < loader.size(); ++i) {
      const Stream stream = Stream::create("cuda:0", StreamPriority::high);
      const StreamGuard guard(stream);
      if (i == 0)
        it.emplace(loader.begin());
      else
        ++*it;
      CHECK(read(**it).front() == 2 * i);
      kept.push_back(**it);
      streams.push_back(stream);
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const StreamGuard guard(streams[i]);
      CHECK(read(kept[i]).front() == 2 * static_cast<std::int64_t>(i));
    }
  }
}

TEST_CASE("an epoch passes while the device has not begun, in the memory of two batches") {
  for (const Device& device : devices())
    for (const int workers : {0, 2})
      for (const bool keep : {false, true}) {
        CAPTURE(device.str());
        CAPTURE(workers);
        DataLoader loader(numbers(80), {.batch_size = 4, .num_workers = workers, .device = device});
        run_epoch(loader);  // host memory, allocated only once
        const Stream stream = current_stream(device);
        const Tensor firsts = empty({20}, {.dtype = kInt64, .device = device});
        synchronize(device);
        const std::size_t before = memory_allocated(device);
        reset_peak_memory_stats(device);
        const std::uint64_t waits = cuda::synchronizations();
        std::vector<Batch> kept;
        std::size_t two = 0;  // batches: the current one and the next
        {
          CudaGate gate(stream);
          std::int64_t i = 0;
          for (const Batch& batch : loader) {
            keep_first_label(batch, firsts, i++);
            if (two == 0) two = memory_allocated(device) - before;
            if (keep) kept.push_back(batch);
          }
          CHECK_FALSE(stream.query());
          CHECK(cuda::synchronizations() == waits);
        }
        CHECK(two > 0);
        if (!keep) CHECK(max_memory_allocated(device) == before + two);
        // The memory was reused many times, but never before the work on it was done.
        const auto labels = firsts.to_vector<std::int64_t>();
        for (std::size_t i = 0; i < 20; ++i) CHECK(labels[i] == 4 * static_cast<std::int64_t>(i));
        for (std::size_t i = 0; i < kept.size(); ++i)
          CHECK(read(kept[i]).front() == 4 * static_cast<std::int64_t>(i));
        kept.clear();
        CHECK(memory_allocated(device) == before);
      }
}

TEST_CASE("the next batch lands while the device works on this one") {
  for (const Device& device : devices())
    for (const int workers : {0, 1}) {
      CAPTURE(device.str());
      CAPTURE(workers);
      auto samples = numbers(8);
      if (workers > 0) samples->held_from = 4;  // not ready when the first batch is handed out
      DataLoader loader(samples, {.batch_size = 4, .num_workers = workers, .device = device});
      auto it = loader.begin();
      CHECK(read(*it) == Indices{0, 1, 2, 3});
      const Stream stream = current_stream(device);
      CudaGate gate(stream);  // the work on the first batch
      samples->held_from = INT64_MAX;
      ++it;
      {
        const StreamGuard guard(behind_copies(device));
        CHECK(read(*it) == Indices{4, 5, 6, 7});
      }
      CHECK_FALSE(stream.query());
      gate.open();
      CHECK(read(*it) == Indices{4, 5, 6, 7});
      ++it;
      CHECK(it == loader.end());
    }
}

TEST_CASE("without workers one batch is prepared ahead, and the one in hand counts") {
  for (const Device& device : devices()) {
    CAPTURE(device.str());
    auto samples = numbers(10);
    const DataLoaderOptions options{.batch_size = 3, .shuffle = true, .seed = 1, .device = device};
    DataLoader loader(samples, options);
    DataLoader whole(numbers(10), options);
    const Indices expected = run_epoch(whole);
    for (std::int64_t stop = 1; stop <= 4; ++stop) {
      samples->fetched = 0;
      loader.set_epoch(0);
      Indices got;
      StateDict state;
      for (const Batch& batch : loader) {
        const Indices labels = read(batch);
        got.insert(got.end(), labels.begin(), labels.end());
        got.push_back(-1);
        state = loader.state_dict();
        if (std::ranges::count(got, -1) == stop) break;
      }
      CHECK(samples->fetched == std::min<std::int64_t>(3 * (stop + 1), 10));
      CHECK(state.at("position").item<std::int64_t>() == std::min<std::int64_t>(3 * stop, 10));
      DataLoader resumed(numbers(10), options);
      resumed.load_state_dict(state);
      const Indices rest = run_epoch(resumed);
      got.insert(got.end(), rest.begin(), rest.end());
      CHECK(got == expected);
    }
  }
}

TEST_CASE("errors come in the batch's place, and loops that end early leave nothing behind") {
  for (const Device& device : devices())
    for (const int workers : {0, 2}) {
      CAPTURE(device.str());
      CAPTURE(workers);
      const std::size_t before = in_use(device);
      {
        auto samples = numbers(40);
        samples->bad = 17;
        DataLoader loader(samples, {.batch_size = 4, .num_workers = workers, .device = device});
        for (int attempt = 0; attempt < 2; ++attempt) {
          Indices seen;
          CHECK(message_of<IoError>([&] {
                  for (const Batch& batch : loader) seen.push_back(read(batch).front());
                }) == "[numbers] sample 17 is unreadable");
          CHECK(seen == Indices{0, 4, 8, 12});
        }
        samples->bad = 1;
        CHECK_THROWS_AS(loader.begin(), IoError);
        samples->bad = -1;
        for (int stop = 1; stop < 4; ++stop) {
          int seen = 0;
          for (const Batch& batch : loader) {
            CHECK(read(batch).front() == 4 * seen);
            if (++seen == stop) break;
          }
        }
        auto it = loader.begin();
        CudaGate gate(current_stream(device));
        ++it;
        { const auto dropped = std::move(it); }
        // The copy of the third batch is still pending: its memory must not be reused.
        std::vector<Tensor> fresh;
        for (int i = 0; i < 4; ++i) fresh.push_back(empty({4, kWidth}, {.device = device}));
        gate.open();
        synchronize(device);
        for (const Tensor& t : fresh)  // uninitialized memory is NaN in tests
          for (const float v : t.to_vector<float>()) CHECK(std::isnan(v));
      }
      CHECK(in_use(device) == before);
    }
}

TEST_CASE("epoch after epoch in the same memory") {
  for (const Device& device : devices()) {
    CAPTURE(device.str());
    DataLoader loader(numbers(50), {.batch_size = 8, .shuffle = true, .device = device});
    run_epoch(loader);
    const std::size_t before = in_use(device), reserved = memory_reserved(device);
    for (int epoch = 0; epoch < 20; ++epoch) run_epoch(loader);
    CHECK(in_use(device) == before);
    CHECK(memory_reserved(device) == reserved);
  }
}

TEST_CASE("where memory is for one batch only, the next is copied when that one is gone") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  constexpr std::int64_t kFloats = 3 << 20;  // more than half of a segment: each gets its own
  const Tensor inputs = empty({4, kFloats}), labels = from_vector<std::int64_t>({0, 1, 2, 3}, {4});
  for (std::int64_t i = 0; i < 4; ++i)
    std::fill_n(inputs.data<float>() + i * kFloats, kFloats, static_cast<float>(i));
  empty_cache(device);
  const std::size_t before = in_use(device);
  DataLoader loader(TensorDataset(inputs, labels), {.device = device});
  allocator(device).set_limit(memory_reserved(device) + (20 << 20));
  Indices seen;
  for (const Batch& batch : loader) {
    seen.push_back(batch.labels.item<std::int64_t>());
    const auto values = batch.inputs.to_vector<float>();
    CHECK(
        std::ranges::all_of(values, [&](float v) { return v == static_cast<float>(seen.back()); }));
  }
  CHECK(seen == Indices{0, 1, 2, 3});
  CHECK(allocator(device).stats().retries > 0);
  // Nor if a single batch fails.
  empty_cache(device);
  allocator(device).set_limit(memory_reserved(device));
  CHECK_THROWS_AS(loader.begin(), OutOfMemoryError);
  allocator(device).set_limit(SIZE_MAX);
  CHECK(loader.begin()->labels.item<std::int64_t>() == 0);
  CHECK(in_use(device) == before);
}

TEST_CASE("results of a data set: nothing, no rows, views, tensors on the device") {
  struct Mixed : Dataset {
    std::int64_t size() const override { return 4; }
    Sample get(std::int64_t) const override { return {}; }
    Batch get_batch(std::span<const std::int64_t> indices, const Epoch&) const override {
      switch (indices[0]) {
        case 0:
          return {on_device<float>({1, 2}, {2}, device), {}};
        case 1:
          return {as_strided(from_vector<float>({1, 2, 3, 4}, {2, 2}), {2, 2}, {1, 2}, 0),
                  empty({0}, {.dtype = kInt64})};
        case 2:
          return {from_vector<float>({5, 6}, {2}), on_device<std::int64_t>({7}, {1}, device)};
        default:
          return {from_vector<std::int64_t>({8, 9}, {2}), from_vector<float>({7}, {1})};
      }
    }
    Device device;
  };
  for (const Device& device : devices()) {
    CAPTURE(device.str());
    auto mixed = std::make_shared<Mixed>();
    mixed->device = device;
    for (const int workers : {0, 1}) {
      DataLoader loader(mixed, {.num_workers = workers, .device = device});
      std::vector<Batch> all;
      for (const Batch& batch : loader) all.push_back(batch);
      REQUIRE(all.size() == 4);
      for (const Batch& batch : all) CHECK(batch.inputs.device() == device);
      CHECK(all[0].inputs.to_vector<int>() == std::vector<int>{1, 2});
      CHECK_FALSE(all[0].labels.defined());
      CHECK(all[1].inputs.to_vector<int>() == std::vector<int>{1, 3, 2, 4});
      CHECK(all[1].labels.shape() == Shape{0});
      CHECK(all[2].inputs.to_vector<int>() == std::vector<int>{5, 6});
      CHECK(all[2].labels.to_vector<int>() == std::vector<int>{7});
      CHECK(all[3].inputs.to_vector<int>() == std::vector<int>{8, 9});
      CHECK(all[3].labels.dtype() == kFloat32);
    }
  }
}

TEST_CASE("several loaders and devices at once") {
  std::vector<Device> all = {"cpu:0", "cpu:1"};
  if (has_cuda(2)) all.insert(all.end(), {"cuda:0", "cuda:1"});
  std::vector<DataLoader<>> loaders;
  std::vector<DataLoader<>::Iterator> iterators;
  for (int round = 0; round < 5; ++round)  // more than the streams in a pool
    for (const Device& device : all)
      loaders.emplace_back(numbers(6), DataLoaderOptions{.batch_size = 2, .device = device});
  for (DataLoader<>& loader : loaders) iterators.push_back(loader.begin());
  for (std::int64_t i = 0; i < 3; ++i)
    for (auto& it : iterators) {
      CHECK(read(*it) == Indices{2 * i, 2 * i + 1});
      ++it;
    }
  for (auto& it : iterators) CHECK(it == std::default_sentinel);
}

TEST_CASE("a batch cannot be fetched into a graph") {
  REQUIRE_CUDA(1);
  DataLoader loader(numbers(6), {.batch_size = 2, .device = "cuda:0"});
  auto it = loader.begin();
  const Stream stream = Stream::create("cuda:0");
  const StreamGuard guard(stream);
  const std::string text = message_of<CudaError>([&] { Graph(stream, [&] { ++it; }); });
  CHECK(text.find("a batch cannot be fetched while") != std::string::npos);
}
