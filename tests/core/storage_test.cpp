#include "ferrite/core/storage.h"

#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "ferrite/core/storage_part.h"
#include "ferrite/core/stream.h"
#include "ferrite/tests/core/test_util.h"

using namespace ferrite;

namespace {

struct Counted : RefCounted {
  explicit Counted(int& alive) : alive(alive) { ++alive; }
  virtual ~Counted() { --alive; }
  int& alive;
};
struct Derived final : Counted {
  using Counted::Counted;
};

}  // namespace

TEST_CASE("intrusive pointers count their object's owners") {
  int alive = 0;
  {
    auto a = make_intrusive<Derived>(alive);
    CHECK(alive == 1);
    CHECK(a->use_count() == 1);
    IntrusivePtr<Counted> b = a;  // to a base
    CHECK(a->use_count() == 2);
    CHECK(b.get() == a.get());
    auto c = b;
    auto d = std::move(c);
    CHECK_FALSE(static_cast<bool>(c));
    CHECK(a->use_count() == 3);
    CHECK(b == d);
    d = nullptr;
    CHECK(a->use_count() == 2);
    const auto& same = b;
    b = same;  // to itself
    CHECK(a->use_count() == 2);
    a.reset();
    CHECK(alive == 1);
    CHECK(b->use_count() == 1);
    Counted* raw = b.detach();
    CHECK_FALSE(static_cast<bool>(b));
    CHECK(raw->release());
    delete raw;
    CHECK(alive == 0);
  }
  CHECK(IntrusivePtr<Derived>() == IntrusivePtr<Derived>(nullptr));
}

TEST_CASE("the last of many threads destroys the object") {
  for (int round = 0; round < 50; ++round) {
    int alive = 0;
    auto object = make_intrusive<Derived>(alive);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([copy = object]() mutable {
        for (int i = 0; i < 50; ++i) auto another = copy;
        copy.reset();
      });
    object.reset();
    for (std::thread& t : threads) t.join();
    CHECK(alive == 0);
  }
}

TEST_CASE("storage comes from its device's allocator and goes back") {
  const Device device("cpu:10");
  const std::size_t before = memory_allocated(device);
  auto s = Storage::allocate(1000, device);
  CHECK(s->nbytes() == 1000);
  CHECK(s->device() == device);
  CHECK(s->data() != nullptr);
  CHECK(memory_allocated(device) > before);
  s.reset();
  CHECK(memory_allocated(device) == before);

  auto none = Storage::allocate(0, device);
  CHECK(none->data() == nullptr);
  CHECK(none->nbytes() == 0);
  CHECK(memory_allocated(device) == before);
}

TEST_CASE("a failed allocation leaves nothing behind") {
  const Device device("cpu:11");
  allocator(device).set_limit(1024);
  CHECK_THROWS_AS(Storage::allocate(4096, device), OutOfMemoryError);
  CHECK(memory_allocated(device) == 0);
  CHECK(memory_reserved(device) == 0);
  allocator(device).set_limit(SIZE_MAX);
}

TEST_CASE("parts share memory and have separate versions") {
  CachingAllocator& unused = static_cast<CachingAllocator&>(allocator(Device("cpu:3")));
  const std::size_t before = unused.stats().allocated;
  const Stream other = Stream::create(Device("cpu:3"));
  auto whole = Storage::allocate(64, Device("cpu:3"));
  auto part = detail::part_of(whole), second = detail::part_of(whole);
  CHECK(part->data() == whole->data());
  CHECK(part->nbytes() == 64);
  CHECK(part->device() == whole->device());
  CHECK(whole->use_count() == 3);
  part->bump_version("test");
  CHECK(part->version() == 1);
  CHECK(second->version() == 0);
  CHECK(whole->version() == 0);
  // Releasing the memory waits for the users of a part.
  std::mutex gate;
  gate.lock();
  other.enqueue([&] { std::lock_guard lock(gate); });
  part->record_stream(other);
  part = nullptr;
  CHECK(whole->use_count() == 2);
  second = nullptr;
  CHECK(unused.stats().allocated == before + 64);
  whole = nullptr;
  CHECK(unused.stats().pending == 64);
  gate.unlock();
  other.synchronize();
  Storage::allocate(64, Device("cpu:3"));  // reclaims memory whose streams have passed
  CHECK(unused.stats().pending == 0);
  CHECK(unused.stats().allocated == before);
}

TEST_CASE("wrapped memory is released once, by its deleter") {
  int deleted = 0;
  float data[2] = {1, 2};
  auto s = Storage::wrap(data, sizeof data, Device(), [&] { ++deleted; });
  auto t = s;
  CHECK(s->data() == data);
  CHECK(s->nbytes() == 8);
  s->record_stream(current_stream(Device("cpu:0")));  // no effect here
  s.reset();
  CHECK(deleted == 0);
  t.reset();
  CHECK(deleted == 1);
  Storage::wrap(data, sizeof data, Device(), {});  // a deleter is optional
}

TEST_CASE("in-place changes are counted and their author named") {
  auto s = Storage::allocate(4, Device());
  CHECK(s->version() == 0);
  CHECK(std::string(s->last_writer()).empty());
  s->bump_version("add_");
  s->bump_version("mul_");
  CHECK(s->version() == 2);
  CHECK(std::string(s->last_writer()) == "mul_");
}

TEST_CASE("memory that another stream uses is not reused under its hands") {
  const Device device("cpu:0");
  const Stream main = current_stream(device), side = Stream::create(device);
  int wrong = 0;
  for (int round = 0; round < 50; ++round) {
    auto s = Storage::allocate(4096, device);
    auto* data = static_cast<unsigned char*>(s->data());
    main.enqueue([data] { std::memset(data, 1, 4096); });
    side.wait(main);
    side.enqueue([data, &wrong] {
      std::this_thread::yield();
      for (int i = 0; i < 4096; ++i) wrong += data[i] != 1;
    });
    s->record_stream(side);
    s->record_stream(side);
    s->record_stream(main);
    s.reset();
    auto next = Storage::allocate(4096, device);
    main.enqueue([data = next->data()] { std::memset(data, 2, 4096); });
  }
  synchronize(device);
  CHECK(wrong == 0);
}

TEST_CASE("streams may be recorded from several threads") {
  const Device device("cpu:0");
  for (int round = 0; round < 20; ++round) {
    auto s = Storage::allocate(64, device);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([s, device] {
        for (int i = 0; i < 8; ++i) s->record_stream(Stream::create(device));
      });
    for (std::thread& t : threads) t.join();
  }
  synchronize(device);
  CHECK(memory_allocated(device) == 0);
}
