#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/storage.h"
#include "ferrite/tests/core/test_util.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// The allocator of cuda:0 with an empty cache, and its statistics since then.
struct Fixture {
  Fixture() { memory.empty_cache(); }
  ~Fixture() {
    memory.set_limit(SIZE_MAX);
    memory.empty_cache();
  }

  Allocator::Block get(std::size_t bytes) { return memory.allocate(bytes, stream); }
  Allocator::Block get(std::size_t bytes, const Stream& on) { return memory.allocate(bytes, on); }
  std::size_t reserved() const { return memory.stats().reserved - before.reserved; }
  std::size_t requests() const { return memory.stats().system_requests; }

  const Device device{"cuda:0"};
  Allocator& memory = allocator(device);
  const Stream stream = Stream::create(device), other = Stream::create(device);
  const MemoryStats before = (memory.empty_cache(), memory.stats());
};

}  // namespace

TEST_CASE("segments: 2 MiB for small requests, 20 MiB for medium ones, then the requested size") {
  REQUIRE_CUDA(1);
  Fixture f;
  const auto a = f.get(1), b = f.get(1000), c = f.get(1024 * 1024 - 512);
  CHECK(f.reserved() == 2 * kMiB);
  for (const auto& block : {a, b, c}) {
    CHECK(reinterpret_cast<std::uintptr_t>(block.data) % 512 == 0);
    CHECK(block.bytes % 512 == 0);
    CHECK(block.stream == f.stream.id());
  }
  CHECK(static_cast<char*>(b.data) >= static_cast<char*>(a.data) + a.bytes);
  const auto d = f.get(3 * kMiB), e = f.get(4 * kMiB);
  CHECK(f.reserved() == 22 * kMiB);
  const auto g = f.get(21 * kMiB);
  CHECK(f.reserved() >= 43 * kMiB);
  CHECK(f.reserved() <= 46 * kMiB);
  CHECK(f.memory.stats().allocated - f.before.allocated ==
        a.bytes + b.bytes + c.bytes + d.bytes + e.bytes + g.bytes);
  for (const auto& block : {a, b, c, d, e, g}) f.memory.free(block);
  CHECK(f.memory.stats().allocated == f.before.allocated);
  CHECK(f.reserved() >= 43 * kMiB);
  f.memory.empty_cache();
  CHECK(f.reserved() == 0);
}

TEST_CASE("a freed block goes to the next request of its stream, and of no other") {
  REQUIRE_CUDA(1);
  Fixture f;
  for (const std::size_t bytes : {std::size_t{100}, 3 * kMiB, 24 * kMiB}) {
    const auto a = f.get(bytes);
    f.memory.free(a);
    const auto b = f.get(bytes, f.other), c = f.get(bytes);
    CHECK(c.data == a.data);
    CHECK(b.data != a.data);
    f.memory.free(b);
    f.memory.free(c);
  }
}

TEST_CASE("blocks are split, and merge again") {
  REQUIRE_CUDA(1);
  Fixture f;
  std::vector<Allocator::Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(f.get(4 * kMiB));
  CHECK(f.reserved() == 20 * kMiB);
  const std::size_t requests = f.requests();
  f.memory.free(blocks[1]);
  f.memory.free(blocks[2]);
  const auto both = f.get(7 * kMiB);
  CHECK(both.data == blocks[1].data);
  f.memory.free(both);
  f.memory.free(blocks[0]);
  f.memory.free(blocks[3]);
  const auto all = f.get(19 * kMiB);
  CHECK(all.data == blocks[0].data);
  CHECK(f.requests() == requests);
  f.memory.free(all);
}

TEST_CASE("the best fit is taken") {
  REQUIRE_CUDA(1);
  Fixture f;
  const auto large = f.get(40 * kMiB), small = f.get(24 * kMiB);
  f.memory.free(large);
  f.memory.free(small);
  const auto again = f.get(23 * kMiB);
  CHECK(again.data == small.data);
  f.memory.free(again);
}

TEST_CASE("a block that other streams use returns once they have passed") {
  REQUIRE_CUDA(2);
  Fixture f;
  const Stream peer = Stream::create("cuda:1"), worker = current_stream("cpu:0");
  for (const Stream& user : {f.other, peer, worker}) {
    CAPTURE(user.device());
    const auto a = f.get(5000);
    {
      CudaGate gate(user);
      const Stream users[] = {user};
      f.memory.free(a, users);
      CHECK(f.memory.stats().pending == a.bytes);
      CHECK(f.memory.stats().allocated == f.before.allocated);
      const auto b = f.get(5000);
      CHECK(b.data != a.data);
      f.memory.free(b);
    }
    user.synchronize();
    const auto c = f.get(5000);  // notices that `user` has passed
    CHECK(f.memory.stats().pending == 0);
    f.memory.free(c);
    f.memory.empty_cache();
  }
}

TEST_CASE("reuse across streams is safe when the streams run late") {
  REQUIRE_EMULATOR();
  Fixture f;
  const DeferredStreams deferred;
  // `other` reads memory that is freed, and requested again for `stream`, before the read has run.
  const auto source = f.get(4096), copy = f.get(4096, f.other);
  fill_bytes(f.stream, source.data, 1, 4096);
  f.other.wait(f.stream);
  f.other.enqueue([&] { std::memcpy(copy.data, source.data, 4096); });
  const Stream users[] = {f.other};
  f.memory.free(source, users);
  const auto reused = f.get(4096);
  CHECK(reused.data != source.data);
  fill_bytes(f.stream, reused.data, 2, 4096);
  f.stream.synchronize();
  f.other.synchronize();
  CHECK(read_bytes(copy.data, 4096) == std::vector<unsigned char>(4096, 1));
  // Its own stream may reuse it at once: stream order keeps the uses apart.
  f.memory.free(reused);
  const auto own = f.get(4096);
  CHECK((own.data == reused.data || own.data == source.data));
  f.memory.free(own);
  f.memory.free(copy);
  f.stream.synchronize();
}

TEST_CASE("empty_cache waits for work that uses the released memory") {
  REQUIRE_EMULATOR();
  Fixture f;
  const DeferredStreams deferred;
  const auto a = f.get(3 * kMiB);
  fill_bytes(f.stream, a.data, 1, 3 * kMiB);
  f.memory.free(a);
  f.memory.empty_cache();  // the emulator would report a write to freed memory
  CHECK(f.reserved() == 0);
  CHECK(f.stream.query());
}

TEST_CASE("when memory runs out the cache of all streams is given back, and then it is an error") {
  REQUIRE_EMULATOR();
  Fixture f;
  const SmallDevice small(0, 64 * kMiB);
  const auto kept = f.get(12 * kMiB - 512);
  f.memory.free(f.get(30 * kMiB, f.other));
  const std::uint64_t retries = f.memory.stats().retries;
  const auto fits = f.get(40 * kMiB - 512);  // only without the other stream's cache
  CHECK(f.memory.stats().retries == retries + 1);
  CHECK(f.reserved() == 52 * kMiB);
  const std::string text = message_of<OutOfMemoryError>([&] { f.get(30 * kMiB); });
  CHECK(
      contains(text, "[allocate] out of memory on cuda:0: 30.00 MiB asked for, 52.00 MiB in use"));
  CHECK(contains(text, "52.00 MiB reserved"));
  CHECK(contains(text, "the device has 12.00 MiB free of 64.00 MiB"));
  CHECK(f.memory.stats().retries == retries + 2);
  // The process continues; smaller requests fit, in a smaller segment than usual.
  const auto more = f.get(8 * kMiB);
  CHECK(f.reserved() == 62 * kMiB);
  for (const auto& block : {kept, fits, more}) f.memory.free(block);
  const auto whole = f.get(60 * kMiB);
  f.memory.free(whole);
}

TEST_CASE("memory that other streams still use is waited for before it is an error") {
  REQUIRE_EMULATOR();
  Fixture f;
  const SmallDevice small(0, 64 * kMiB);
  const auto a = f.get(40 * kMiB);
  std::thread opener;
  {
    auto gate = std::make_unique<CudaGate>(f.other);
    const Stream users[] = {f.other};
    f.memory.free(a, users);
    opener = std::thread([gate = std::move(gate)] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate->open();
    });
  }
  const auto b = f.get(41 * kMiB);
  opener.join();
  CHECK(f.memory.stats().pending == 0);
  f.memory.free(b);
}

TEST_CASE("a limit counts as the end of memory") {
  REQUIRE_CUDA(1);
  Fixture f;
  const std::size_t limit = f.memory.stats().reserved + 8 * kMiB;
  f.memory.set_limit(limit);
  const auto a = f.get(5 * kMiB);  // not in a segment of 20 MiB, which does not fit
  CHECK(f.reserved() == 6 * kMiB);
  const std::string text = message_of<OutOfMemoryError>([&] { f.get(3 * kMiB); });
  CHECK(contains(text, ", limit "));
  f.memory.free(a);
  const auto b = f.get(7 * kMiB);
  f.memory.free(b);
  CHECK_THROWS_AS(f.get(SIZE_MAX), OutOfMemoryError);
  CHECK_THROWS_AS(f.get(std::size_t{1} << 50), OutOfMemoryError);
}

TEST_CASE("a driver error other than out of memory is thrown as itself") {
  REQUIRE_EMULATOR();
  Fixture f;
  fail_next_call("cudaMalloc", Failure::illegal_address);
  CHECK_THROWS_AS(f.get(100), CudaError);
  CHECK(f.reserved() == 0);
  const auto a = f.get(100);
  fail_next_call("cudaEventRecord", Failure::illegal_address);
  const Stream users[] = {f.other};
  f.memory.free(a, users);  // does not throw
  CHECK(f.memory.stats().allocated == f.before.allocated);
}

TEST_CASE("blocks are poisoned where tests ask for it, in the order of their stream") {
  REQUIRE_CUDA(1);
  Fixture f;
  f.memory.set_poison(true);
  const auto a = f.get(1000);
  fill_bytes(f.stream, a.data, 0, 1000);
  f.memory.free(a);
  const auto b = f.get(1000);
  CHECK(b.data == a.data);
  CHECK(read_bytes(b.data, 1000) == std::vector<unsigned char>(1000, 0xff));
  f.memory.free(b);
}

TEST_CASE("sanitizers know that cached blocks are free") {
  REQUIRE_EMULATOR();
  if (!sees_forbidden_memory()) return;
  Fixture f;
  const auto a = f.get(1000), b = f.get(512);
  const char *first = static_cast<const char*>(a.data), *second = static_cast<const char*>(b.data);
  CHECK_FALSE(is_forbidden(first));
  CHECK_FALSE(is_forbidden(first + 999));
  CHECK(is_forbidden(first + 1000));  // past the block, in memory that the cache holds
  CHECK_FALSE(is_forbidden(second + 511));
  CHECK(is_forbidden(second + 512));
  f.memory.free(a);
  CHECK(is_forbidden(first));
  CHECK_FALSE(is_forbidden(second));
  const auto again = f.get(500);
  CHECK(again.data == a.data);
  CHECK_FALSE(is_forbidden(first + 499));
  CHECK(is_forbidden(first + 500));
  {
    // Queued work may use the block up to the point of the free.
    const DeferredStreams deferred;
    fill_bytes(f.stream, again.data, 1, 500);
    f.memory.free(again);
    CHECK_FALSE(is_forbidden(first));
    f.stream.synchronize();
    CHECK(is_forbidden(first));
  }
  f.memory.free(b);
}

TEST_CASE("random requests neither overlap nor leak, and fragmentation ends with them") {
  REQUIRE_CUDA(1);
  Fixture f;
  std::mt19937 random(7);
  const Stream streams[] = {f.stream, f.other, Stream::create(f.device)};
  std::map<char*, Allocator::Block> live;
  std::size_t in_use = 0, peak = 0;
  for (int step = 0; step < 3000; ++step) {
    if (in_use > 48 * kMiB || (!live.empty() && random() % 2)) {
      const auto chosen = std::next(live.begin(), static_cast<long>(random() % live.size()));
      const Stream users[] = {streams[random() % 3]};
      in_use -= chosen->second.bytes;
      if (random() % 4)
        f.memory.free(chosen->second);
      else
        f.memory.free(chosen->second, users);
      live.erase(chosen);
      continue;
    }
    const std::size_t bytes = random() % 3 ? 1 + random() % 5000 : 1 + random() % (6 * kMiB);
    const auto block = f.get(bytes, streams[random() % 3]);
    REQUIRE(block.bytes >= bytes);
    in_use += block.bytes;
    peak = std::max(peak, in_use);
    const auto [place, fresh] = live.emplace(static_cast<char*>(block.data), block);
    REQUIRE(fresh);
    if (place != live.begin()) {
      const auto& [data, before] = *std::prev(place);
      REQUIRE(data + before.bytes <= block.data);
    }
    if (const auto next = std::next(place); next != live.end())
      REQUIRE(static_cast<char*>(block.data) + block.bytes <= next->first);
    REQUIRE(f.memory.stats().allocated - f.before.allocated == in_use);
  }
  CHECK(f.reserved() <= 4 * peak);
  for (const auto& [data, block] : live) f.memory.free(block);
  CHECK(f.memory.stats().allocated == f.before.allocated);
  f.memory.empty_cache();
  CHECK(f.reserved() == 0);
}

TEST_CASE("threads allocate, write and free on separate streams") {
  REQUIRE_CUDA(1);
  Fixture f;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t, stream = Stream::create(f.device)] {
      std::mt19937 random(static_cast<unsigned>(t));
      const StreamGuard guard(stream);
      for (int i = 0; i < 60; ++i) {
        const auto bytes = static_cast<std::int64_t>(1 + random() % 20000);
        const Tensor a = empty({bytes}, {.dtype = kUInt8, .device = f.device});
        fill_bytes(stream, a.data_ptr(), t + 1, a.nbytes());
        if (i % 7 == 0) a.storage()->record_stream(f.other);
        if (i % 20 == 0) f.memory.empty_cache();
        const std::vector<std::uint8_t> values = a.to_vector<std::uint8_t>();
        wrong += static_cast<int>(values.size() - static_cast<std::size_t>(std::ranges::count(
                                                      values, static_cast<std::uint8_t>(t + 1))));
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(f.memory.stats().allocated == f.before.allocated);
}

TEST_CASE("tensors tell the allocator which streams use them") {
  REQUIRE_CUDA(1);
  Fixture f;
  const StreamGuard guard(f.stream);
  Tensor t = empty({1000}, {.device = f.device});
  const void* data = t.data_ptr();
  t.storage()->record_stream(f.stream);  // its own stream: no effect
  t.storage()->record_stream(f.other);
  t.storage()->record_stream(f.other);
  {
    CudaGate gate(f.other);
    t = {};
    CHECK(f.memory.stats().pending > 0);
    CHECK(empty({1000}, {.device = f.device}).data_ptr() != data);
  }
  synchronize(f.device);
  CHECK(empty({1000}, {.device = f.device}).data_ptr() == data);
  CHECK(f.memory.stats().pending == 0);
}

TEST_CASE("wrapped device memory goes when its users are done") {
  REQUIRE_CUDA(1);
  Fixture f;
  const auto block = f.get(64);
  const StreamGuard guard(f.stream);
  for (const bool recorded : {false, true}) {
    int deleted = 0;
    Tensor t = from_blob(block.data, {16}, kFloat32, f.device, [&] { ++deleted; });
    CHECK(t.device() == f.device);
    if (recorded) t.storage()->record_stream(f.other);
    {
      CudaGate gate(recorded ? f.other : f.stream);
      t = {};
      CHECK(deleted == 0);
    }
    synchronize(f.device);
    CHECK(deleted == 1);
  }
  int deleted = 0;
  from_blob(block.data, {16}, kFloat32, f.device, [&] { ++deleted; });
  CHECK(deleted == 1);  // no stream is behind
  f.memory.free(block);
}

TEST_CASE("each device has an allocator of its own, and a summary for people") {
  REQUIRE_CUDA(2);
  Fixture f;
  const std::size_t elsewhere = memory_allocated("cuda:1");
  const auto a = f.get(2 * kMiB);
  CHECK(memory_allocated("cuda:1") == elsewhere);
  CHECK(memory_allocated("cuda:0") >= 2 * kMiB);
  CHECK(memory_reserved("cuda:0") >= memory_allocated("cuda:0"));
  CHECK(max_memory_allocated("cuda:0") >= memory_allocated("cuda:0"));
  f.memory.free(a);
  reset_peak_memory_stats("cuda:0");
  CHECK(max_memory_allocated("cuda:0") == memory_allocated("cuda:0"));
  const std::string text = memory_summary("cuda:0");
  CHECK(contains(text, "memory of cuda:0\n"));
  CHECK(contains(text, " 0 B  (reserved by 0 private pools)"));
  CHECK(contains(text, " free of "));
}
