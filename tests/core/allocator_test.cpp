#include "ferrite/core/allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <future>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "ferrite/core/storage.h"
#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using ferrite::test::message_of;

namespace {

struct Ledger {
  std::set<void*> held;
  std::size_t bytes = 0;
  std::size_t capacity = SIZE_MAX;
  int acquired = 0, refused = 0;
};

/// System memory with a capacity, which records its allocations.
class CountedMemory final : public MemorySource {
 public:
  explicit CountedMemory(Ledger& ledger) : ledger_(ledger) {}
  void* acquire(std::size_t bytes) noexcept override {
    if (bytes > ledger_.capacity - ledger_.bytes) return ++ledger_.refused, nullptr;
    void* data = std::aligned_alloc(64, bytes);
    ++ledger_.acquired;
    ledger_.bytes += bytes;
    ledger_.held.insert(data);
    return data;
  }
  void release(void* data, std::size_t bytes) noexcept override {
    ledger_.bytes -= bytes;
    ledger_.held.erase(data);
    std::free(data);
  }

 private:
  Ledger& ledger_;
};

struct Fixture {
  explicit Fixture(Device device = {})
      : allocator(device, std::make_unique<CountedMemory>(ledger)),
        stream(current_stream(device)) {}

  CachingAllocator::Block get(std::size_t bytes) { return allocator.allocate(bytes, stream); }

  Ledger ledger;
  CachingAllocator allocator;
  Stream stream;
};

/// Blocks a stream until it is opened.
struct Gate {
  explicit Gate(const Stream& stream) {
    stream.enqueue([opened = promise.get_future().share()] { opened.wait(); });
  }
  ~Gate() { open(); }
  void open() {
    if (!std::exchange(is_open, true)) promise.set_value();
  }
  std::promise<void> promise;
  bool is_open = false;
};

}  // namespace

TEST_CASE("blocks are aligned, large enough and at most an eighth too large") {
  Fixture f;
  std::vector<std::size_t> sizes = {0, 1, 63, 64, 65, 511, 512, 513, 576, 577, 1000, 1024, 1025};
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) sizes.push_back(random() >> (40 + random() % 20));
  for (std::size_t bytes : sizes) {
    CAPTURE(bytes);
    const auto block = f.get(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(block.data) % 64 == 0);
    CHECK(block.bytes >= bytes);
    CHECK(block.bytes <= std::max<std::size_t>(64, bytes + std::max<std::size_t>(63, bytes / 8)));
    CHECK(f.allocator.stats().allocated == block.bytes);
    std::memset(block.data, 1, bytes);
    f.allocator.free(block);
  }
  CHECK(f.allocator.stats().allocated == 0);
  // A request of exactly a class's size stays in that class.
  for (std::size_t bytes = 64; bytes < std::size_t{1} << 24; bytes *= 2) {
    const auto block = f.get(bytes);
    CHECK(block.bytes == bytes);
    f.allocator.free(block);
  }
}

TEST_CASE("freed blocks are handed out again") {
  Fixture f;
  const auto a = f.get(1000);
  f.allocator.free(a);
  const auto b = f.get(1010);
  CHECK(b.data == a.data);
  const auto c = f.get(1000);  // the cache is empty
  CHECK(c.data != a.data);
  CHECK(f.ledger.acquired == 2);
  f.allocator.free(b);
  const auto d = f.get(5000);  // of another class
  CHECK(d.data != b.data);
  f.allocator.free(c), f.allocator.free(d);
}

TEST_CASE("statistics") {
  Fixture f;
  const auto a = f.get(64), b = f.get(128);
  f.allocator.free(a);
  MemoryStats s = f.allocator.stats();
  CHECK(s.allocated == 128);
  CHECK(s.max_allocated == 192);
  CHECK(s.reserved == 192);
  CHECK(s.max_reserved == 192);
  CHECK(s.allocations == 2);
  CHECK(s.system_requests == 2);
  CHECK(s.retries == 0);
  f.allocator.free(f.get(64));
  CHECK(f.allocator.stats().allocations == 3);
  CHECK(f.allocator.stats().system_requests == 2);
  f.allocator.reset_peak_stats();
  CHECK(f.allocator.stats().max_allocated == 128);
  f.allocator.empty_cache();
  s = f.allocator.stats();
  CHECK(s.reserved == 128);
  CHECK(s.max_reserved == 192);
  CHECK(f.ledger.bytes == 128);
  f.allocator.reset_peak_stats();
  CHECK(f.allocator.stats().max_reserved == 128);
  f.allocator.free(b);
  CHECK(f.allocator.summary() ==
        "memory of cpu\n"
        "  allocated           0 B  (peak 128 B)\n"
        "  reserved          128 B  (peak 128 B)\n"
        "  requests              3  (2 from the system, 0 retried after giving back the cache)\n");
}

TEST_CASE("everything goes back to the system when the allocator ends") {
  Ledger ledger;
  {
    CachingAllocator allocator(Device(), std::make_unique<CountedMemory>(ledger));
    for (std::size_t n : {1u, 100u, 5000u, 70000u}) allocator.free(allocator.allocate(n, Stream()));
    CHECK(ledger.held.size() == 4);
  }
  CHECK(ledger.held.empty());
  CHECK(ledger.bytes == 0);
}

TEST_CASE("out of memory: the cache is given back and the request tried again") {
  Fixture f;
  f.ledger.capacity = 4096;
  const auto a = f.get(2048);
  f.allocator.free(a);
  const auto b = f.get(4096);  // fits only without the cached block
  CHECK(f.ledger.refused == 1);
  CHECK(f.allocator.stats().retries == 1);
  CHECK(f.allocator.stats().reserved == 4096);
  CHECK(message_of<OutOfMemoryError>([&] { f.get(100); }) ==
        "[allocate] out of memory on cpu: 100 B asked for, 4.00 KiB in use, 4.00 KiB reserved");
  const MemoryStats s = f.allocator.stats();
  CHECK(s.allocations == 2);  // only successful ones
  CHECK(s.system_requests == 2);
  CHECK(s.allocated == 4096);
  f.allocator.free(b);
  f.allocator.free(f.get(100));  // and it works again
}

TEST_CASE("the limit counts as the end of memory") {
  Fixture f(Device("cpu:5"));
  f.allocator.set_limit(std::size_t{3} << 20);
  const auto a = f.get(std::size_t{2} << 20);
  CHECK(message_of<OutOfMemoryError>([&] { f.get(std::size_t{3} << 19); }) ==
        "[allocate] out of memory on cpu:5: 1.50 MiB asked for, 2.00 MiB in use, 2.00 MiB "
        "reserved, limit 3.00 MiB");
  const auto b = f.get(std::size_t{1} << 20);
  f.allocator.set_limit(0);  // below the reserved size: nothing wraps around
  CHECK_THROWS_AS(f.get(64), OutOfMemoryError);
  f.allocator.free(a), f.allocator.free(b);
  f.allocator.set_limit(SIZE_MAX);
  f.allocator.free(f.get(64));
}

TEST_CASE("absurd requests do not reach the system") {
  Fixture f;
  CHECK(message_of<OutOfMemoryError>([&] { f.get(SIZE_MAX); }) ==
        "[allocate] 16777216.00 TiB asked for on cpu: more than any machine has");
  CHECK_THROWS_AS(f.get((std::size_t{1} << 50) + 1), OutOfMemoryError);
  CHECK(f.ledger.refused == 0);
}

TEST_CASE("a block goes back to the stream it was allocated on") {
  Fixture f(Device("cpu:0"));
  const Stream other = Stream::create(Device("cpu:0"));
  const auto a = f.get(256);
  f.allocator.free(a);
  const auto b = f.allocator.allocate(256, other);
  CHECK(b.data != a.data);
  const auto c = f.get(256);
  CHECK(c.data == a.data);
  f.allocator.free(b), f.allocator.free(c);
}

TEST_CASE("a block that another stream uses is not handed out before that has passed") {
  Fixture f;  // host memory, as in a copy to a device
  const Stream worker = current_stream(Device("cpu:1"));
  const std::array<Stream, 1> users = {worker};
  const auto a = f.get(256);
  Gate gate(worker);
  f.allocator.free(a, users);
  CHECK(f.allocator.stats().allocated == 0);
  const auto b = f.get(256);
  CHECK(b.data != a.data);
  gate.open();
  worker.synchronize();
  const auto c = f.get(256);
  CHECK(c.data == a.data);
  f.allocator.free(c, users);  // the stream is idle: at once
  const auto d = f.get(256);
  CHECK(d.data == a.data);
  f.allocator.free(b), f.allocator.free(d);
}

TEST_CASE("emptying the cache waits for other streams that use a block") {
  Fixture f;
  const Stream worker = current_stream(Device("cpu:1"));
  const std::array<Stream, 1> users = {worker};
  const auto a = f.get(256);
  std::atomic<bool> done{false};
  worker.enqueue([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    std::memset(a.data, 1, 256);
    done = true;
  });
  f.allocator.free(a, users);
  f.allocator.empty_cache();
  CHECK(done);
  CHECK(f.ledger.held.empty());
  CHECK(f.allocator.stats().reserved == 0);
}

TEST_CASE("emptying the cache waits for the queue that may still write a block") {
  Fixture f(Device("cpu:0"));
  const auto a = f.get(256);
  std::atomic<bool> done{false};
  f.stream.enqueue([&, data = a.data] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    std::memset(data, 1, 256);
    done = true;
  });
  f.allocator.free(a);  // before the work ran, which is legal
  f.allocator.empty_cache();
  CHECK(done);
  CHECK(f.ledger.held.empty());
}

TEST_CASE("queued work may allocate and free while the cache is being emptied") {
  Fixture f(Device("cpu:0"));
  Gate gate(f.stream);
  std::atomic<bool> refused{false};
  f.stream.enqueue([&] {
    const auto inner = f.get(512);
    f.allocator.free(inner);
    // Waiting for the queue is not possible here, so memory that it may still use is kept.
    f.allocator.empty_cache();
    f.allocator.set_limit(0);
    try {
      f.get(1 << 20);
    } catch (const OutOfMemoryError&) {
      refused = true;
    }
    f.allocator.set_limit(SIZE_MAX);
  });
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open();
  });
  f.allocator.empty_cache();
  opener.join();
  f.stream.synchronize();
  CHECK(refused);
  CHECK(f.allocator.stats().allocated == 0);
  f.allocator.empty_cache();
  CHECK(f.ledger.held.empty());
}

TEST_CASE("poison fills allocated blocks, in stream order") {
  Fixture host;
  host.allocator.set_poison(true);
  auto block = host.get(100);
  const auto is_poisoned = [](const void* data, std::size_t n) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    return std::all_of(bytes, bytes + n, [](unsigned char b) { return b == 0xff; });
  };
  CHECK(is_poisoned(block.data, 100));
  std::memset(block.data, 0, 100);
  host.allocator.free(block);
  block = host.get(90);
  CHECK(is_poisoned(block.data, 90));
  host.allocator.free(block);
  host.allocator.set_poison(false);
  block = host.get(100);
  std::memset(block.data, 0, 100);
  host.allocator.free(block);
  block = host.get(100);
  CHECK_FALSE(is_poisoned(block.data, 100));
  host.allocator.free(block);

  Fixture device(Device("cpu:0"));
  device.allocator.set_poison(true);
  bool intact = false, poisoned = false;
  {
    Gate gate(device.stream);
    const auto first = device.get(65);
    device.stream.enqueue([&, first] {
      std::memset(first.data, 0, 65);
      intact = static_cast<const char*>(first.data)[64] == 0;
    });
    device.allocator.free(first);
    const auto second = device.get(128);  // the same memory, used to its end
    CHECK(second.data == first.data);
    device.stream.enqueue([&, second] { poisoned = is_poisoned(second.data, 128); });
    device.allocator.free(second);
  }
  device.stream.synchronize();
  CHECK(intact);
  CHECK(poisoned);
}

TEST_CASE("threads share an allocator") {
  Fixture f;
  std::atomic<bool> overlap{false};
  std::vector<std::thread> threads;
  for (unsigned char t = 1; t <= 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 500; ++i) {
        const std::size_t bytes = 1 + random() % 2000;
        const auto block = f.get(bytes);
        std::memset(block.data, t, bytes);
        std::this_thread::yield();
        const auto* data = static_cast<const unsigned char*>(block.data);
        if (!std::all_of(data, data + bytes, [t](unsigned char b) { return b == t; }))
          overlap = true;
        f.allocator.free(block);
        if (i % 100 == 50) f.allocator.empty_cache();
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK_FALSE(overlap);
  CHECK(f.allocator.stats().allocated == 0);
  CHECK(f.allocator.stats().allocations == 2000);
  CHECK(f.allocator.stats().reserved == f.ledger.bytes);
}

TEST_CASE("one allocator per device, with separate statistics") {
  const Device a("cpu:6"), b("cpu:7");
  CHECK(&allocator(a) == &allocator(a));
  CHECK(&allocator(a) != &allocator(b));
  CHECK(&allocator(Device()) != &allocator(Device("cpu:0")));
  auto storage = Storage::allocate(1 << 20, a);
  CHECK(memory_allocated(a) == 1 << 20);
  CHECK(memory_allocated(b) == 0);
  storage.reset();
  CHECK(memory_allocated(a) == 0);
  CHECK(max_memory_allocated(a) == 1 << 20);
  CHECK(memory_reserved(a) == 1 << 20);
  reset_peak_memory_stats(a);
  CHECK(max_memory_allocated(a) == 0);
  CHECK(memory_summary(a).starts_with("memory of cpu:6\n"));
  empty_cache(a);
  CHECK(memory_reserved(a) == 0);
}
