#include <optional>
#include <set>
#include <thread>

#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda/memory_pool.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/tensor.h"
#include "ferrite/tests/core/test_util.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Fixture {
  Fixture() { memory.empty_cache(); }
  ~Fixture() {
    memory.set_limit(SIZE_MAX);
    memory.empty_cache();
  }
  cuda::StreamFilter only(const Stream& which) const {
    return [id = which.id()](const Stream& s) { return s.id() == id; };
  }
  Tensor bytes(std::int64_t count) const {
    return empty({count}, {.dtype = kUInt8, .device = device});
  }
  std::size_t reserved() const { return memory.stats().reserved - before.reserved; }

  const Device device{"cuda:0"};
  Allocator& memory = allocator(device);
  const Stream stream = Stream::create(device), other = Stream::create(device);
  const MemoryStats before = (memory.empty_cache(), memory.stats());
};

}  // namespace

TEST_CASE("only the streams that the filter names allocate from the pool, on any thread") {
  REQUIRE_CUDA(1);
  Fixture f;
  const StreamGuard guard(f.stream);
  std::optional<cuda::MemoryPool> pool(f.device);
  CHECK(pool->reserved() == 0);
  Tensor inside, outside, threaded;
  {
    const cuda::PoolGuard use(*pool, f.only(f.stream));
    inside = f.bytes(100);
    CHECK(pool->reserved() == 2 * kMiB);
    {
      const StreamGuard aside(f.other);
      outside = f.bytes(100);
    }
    std::thread([&] {
      const StreamGuard here(f.stream);
      threaded = f.bytes(3 << 20);
    }).join();
    CHECK(pool->reserved() == 22 * kMiB);
    CHECK_THROWS_AS(cuda::begin_pool(f.device, pool->id(), f.only(f.stream)), ValueError);
  }
  CHECK(f.bytes(100).data_ptr() != inside.data_ptr());
  CHECK(pool->reserved() == 22 * kMiB);
  CHECK(memory_summary(f.device).find("22.00 MiB  (reserved by 1 private pools)") !=
        std::string::npos);
  CHECK_THROWS_AS(cuda::end_pool(f.device, pool->id()), ValueError);

  // Freed blocks stay in the pool, whatever else is allocated.
  const std::set<void*> its = {inside.data_ptr(), threaded.data_ptr()};
  inside = threaded = {};
  f.memory.empty_cache();
  CHECK(pool->reserved() == 22 * kMiB);
  CHECK_FALSE(its.contains(f.bytes(100).data_ptr()));
  CHECK_FALSE(its.contains(f.bytes(3 << 20).data_ptr()));
  {
    const cuda::PoolGuard use(*pool, f.only(f.stream));
    CHECK(its.contains(f.bytes(100).data_ptr()));
    inside = f.bytes(50);
  }
  const cuda::PoolId id = pool->id();
  pool.reset();
  CHECK_THROWS_AS(cuda::begin_pool(f.device, id, f.only(f.stream)), ValueError);
  // Memory still in use is released when it is freed and the cache is released.
  CHECK(f.reserved() >= 2 * kMiB);
  fill_bytes(f.stream, inside.data_ptr(), 7, 50);
  CHECK(inside.to_vector<int>() == std::vector<int>(50, 7));
  inside = outside = {};
  f.memory.empty_cache();
  CHECK(f.reserved() == 0);
}

TEST_CASE("a graph keeps its memory while others allocate") {
  REQUIRE_CUDA(1);
  Fixture f;
  const StreamGuard guard(f.stream);
  const Tensor result = f.bytes(1 << 20);
  std::optional<cuda::MemoryPool> pool(f.device);
  std::optional<Graph> graph;
  void* scratch_data = nullptr;
  {
    const cuda::PoolGuard use(*pool, f.only(f.stream));
    graph.emplace(f.stream, [&] {
      Tensor scratch = f.bytes(1 << 20);  // a new segment, under capture
      scratch_data = scratch.data_ptr();
      fill_bytes(f.stream, scratch.data_ptr(), 5, scratch.nbytes());
      detail::cuda::copy_bytes(f.stream, result.data_ptr(), f.device, scratch.data_ptr(), f.device,
                               scratch.nbytes());
    });
  }
  std::vector<Tensor> others;
  for (int i = 0; i < 30; ++i) {
    others.push_back(f.bytes(1 << 20));
    CHECK(others.back().data_ptr() != scratch_data);
    fill_bytes(f.stream, others.back().data_ptr(), 9, others.back().nbytes());
    f.memory.empty_cache();
  }
  graph->replay(f.stream);
  CHECK(result.to_vector<int>() == std::vector<int>(1 << 20, 5));
  for (const Tensor& t : others) CHECK(t.to_vector<int>()[12345] == 9);
  graph.reset();
  pool.reset();
}

TEST_CASE(
    "within a capture blocks are reused in stream order, and not where other streams use them") {
  REQUIRE_CUDA(1);
  Fixture f;
  const StreamGuard guard(f.stream);
  const cuda::MemoryPool pool(f.device);
  const Tensor result = f.bytes(64);
  std::optional<Graph> graph;
  void *first = nullptr, *shared = nullptr;
  {
    const cuda::PoolGuard use(pool, f.only(f.stream));
    graph.emplace(f.stream, [&] {
      first = f.bytes(64).data_ptr();
      Tensor again = f.bytes(64);
      CHECK(again.data_ptr() == first);
      shared = again.data_ptr();
      f.other.wait(f.stream);
      fill_bytes(f.other, again.data_ptr(), 3, 64);
      again.storage()->record_stream(f.other);
      again = {};
      CHECK(f.bytes(64).data_ptr() != shared);  // the side branch may still write there
      f.stream.wait(f.other);
      detail::cuda::copy_bytes(f.stream, result.data_ptr(), f.device, shared, f.device, 64);
    });
    CHECK(f.memory.stats().pending == 0);  // events of a capture are not queried
  }
  graph->replay(f.stream);
  CHECK(result.to_vector<int>() == std::vector<int>(64, 3));
  // After the capture it belongs to the pool again.
  std::set<void*> found;
  {
    const cuda::PoolGuard use(pool, f.only(f.stream));
    const Tensor a = f.bytes(64), b = f.bytes(64);
    found = {a.data_ptr(), b.data_ptr()};
  }
  CHECK(found.contains(shared));
}

TEST_CASE("running out of memory during a capture is an error that explains the cause") {
  REQUIRE_EMULATOR();
  Fixture f;
  const SmallDevice small(0, 64 * kMiB);
  {
    const StreamGuard aside(f.other);
    f.bytes(40 << 20);  // in the cache
  }
  const StreamGuard guard(f.stream);
  const cuda::MemoryPool pool(f.device);
  {
    const cuda::PoolGuard use(pool, f.only(f.stream));
    const Graph graph(f.stream, [&] {
      const std::string text = message_of<OutOfMemoryError>([&] { f.bytes(40 << 20); });
      CHECK(text.find("the cache cannot be given back while a graph is being captured") !=
            std::string::npos);
      f.bytes(10 << 20);  // the capture goes on
    });
    graph.replay(f.stream);
    f.stream.synchronize();
  }
  f.bytes(50 << 20);  // now it can
}

TEST_CASE("pools are for CUDA devices") {
  CHECK_THROWS_AS(cuda::create_pool(Device()), DeviceError);
  REQUIRE_CUDA(1);
  CHECK_THROWS_AS(cuda::begin_pool("cuda:0", 0xffffffff, [](const Stream&) { return true; }),
                  ValueError);
  CHECK_THROWS_AS(cuda::end_pool("cuda:0", 0xffffffff), ValueError);
  cuda::release_pool("cuda:0", 0xffffffff);  // no such pool: fine
}
