#include "ferrite/core/stream.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "ferrite/tests/core/test_util.h"
#include "ferrite/tests/support/gate.h"

using namespace ferrite;
using ferrite::test::Gate;
using ferrite::test::message_of;
using namespace std::chrono_literals;

namespace {

const Device kDevices[] = {Device("cpu:0"), Device("cpu:1"), Device("cpu:2"), Device("cpu:3")};

}  // namespace

TEST_CASE("the host's stream runs work at once, in the calling thread") {
  const Stream host;
  CHECK(host == current_stream(Device()));
  CHECK(host == default_stream(Device()));
  CHECK(host.id() == 0);
  CHECK(host.device() == Device());
  std::thread::id ran_in;
  host.enqueue([&] { ran_in = std::this_thread::get_id(); });
  CHECK(ran_in == std::this_thread::get_id());
  CHECK(host.query());
  host.synchronize();
  CHECK_THROWS_AS(host.enqueue([] { throw 1; }), int);
}

TEST_CASE("each virtual device runs its work in order in a thread of its own") {
  std::set<std::thread::id> threads;
  std::set<std::uint32_t> ids;
  for (const Device& device : kDevices) {
    const Stream stream = current_stream(device);
    CHECK(stream.device() == device);
    CHECK(stream == default_stream(device));
    std::vector<int> order;
    std::thread::id thread;
    Gate gate(stream);
    for (int i = 0; i < 100; ++i) stream.enqueue([&, i] { order.push_back(i); });
    stream.enqueue([&] { thread = std::this_thread::get_id(); });
    CHECK_FALSE(stream.query());
    gate.open();
    stream.synchronize();
    CHECK(stream.query());
    REQUIRE(order.size() == 100);
    for (int i = 0; i < 100; ++i) REQUIRE(order[static_cast<std::size_t>(i)] == i);
    CHECK(thread != std::this_thread::get_id());
    threads.insert(thread);
    ids.insert(stream.id());
  }
  CHECK(threads.size() == 4);
  CHECK(ids.size() == 4);
}

TEST_CASE("devices work at the same time") {
  std::atomic<int> arrived{0};
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  for (const Device& device : kDevices)
    current_stream(device).enqueue([&] {
      ++arrived;
      while (arrived < 4 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    });
  for (const Device& device : kDevices) synchronize(device);
  CHECK(std::chrono::steady_clock::now() < deadline);
}

TEST_CASE("synchronize rethrows the first exception of queued work, once") {
  const Stream stream = current_stream(kDevices[0]);
  bool later = false;
  stream.enqueue([] { fail<ValueError>("first", "one"); });
  stream.enqueue([] { fail<ShapeError>("second", "two"); });
  stream.enqueue([&] { later = true; });
  CHECK(message_of<ValueError>([&] { stream.synchronize(); }) == "[first] one");
  CHECK(later);
  CHECK_NOTHROW(stream.synchronize());

  stream.enqueue([] { throw 1; });
  CHECK_THROWS_AS(synchronize(kDevices[0]), int);
  CHECK_NOTHROW(synchronize(kDevices[0]));
}

TEST_CASE("synchronising a device waits for all of its streams even when one has failed") {
  const Device device = kDevices[1];
  const Stream first = default_stream(device), second = Stream::create(device);
  CHECK_FALSE(first == second);
  std::atomic<bool> done{false};
  first.enqueue([] { fail<ValueError>("first", "failed"); });
  second.enqueue([&] {
    std::this_thread::sleep_for(50ms);
    done = true;
  });
  CHECK(message_of<ValueError>([&] { synchronize(device); }) == "[first] failed");
  CHECK(done);

  // drain() waits as well and leaves the exception to its owner.
  first.enqueue([] { fail<ValueError>("first", "again"); });
  detail::drain(device);
  CHECK(message_of<ValueError>([&] { first.synchronize(); }) == "[first] again");
}

TEST_CASE("streams are handed out from a pool of eight a device") {
  const Device device("cpu:9");
  std::set<std::uint32_t> ids;
  for (int i = 0; i < 24; ++i) {
    const Stream s = Stream::create(device);
    CHECK(s.device() == device);
    ids.insert(s.id());
  }
  CHECK(ids.size() == 8);
  CHECK_FALSE(ids.contains(0));
  // The host can have such streams too, with one thread each.
  const Stream s = Stream::create(Device());
  CHECK(s.device() == Device());
  CHECK_FALSE(s == Stream());
  std::thread::id thread;
  s.enqueue([&] { thread = std::this_thread::get_id(); });
  synchronize(Device());
  CHECK(thread != std::thread::id());
  CHECK(thread != std::this_thread::get_id());
}

TEST_CASE("a guard changes this thread's stream for one device") {
  const Device device = kDevices[0];
  const Stream before = current_stream(device), other = Stream::create(device),
               third = Stream::create(device);
  {
    StreamGuard guard(other);
    CHECK(current_stream(device) == other);
    CHECK(current_stream(kDevices[1]) == default_stream(kDevices[1]));
    CHECK(default_stream(device) == before);
    std::thread([&] { CHECK(current_stream(device) == before); }).join();
    {
      StreamGuard inner(third);
      CHECK(current_stream(device) == third);
    }
    CHECK(current_stream(device) == other);
  }
  CHECK(current_stream(device) == before);
  {
    StreamGuard guard(Stream::create(Device()));
    CHECK_FALSE(current_stream(Device()) == Stream());
  }
  CHECK(current_stream(Device()) == Stream());
}

TEST_CASE("a stream waits only for the present work of another") {
  const Stream a = current_stream(kDevices[0]), b = current_stream(kDevices[1]);
  std::atomic<int> a_done{0};
  int seen = -1;
  Gate gate(a);
  a.enqueue([&] { a_done = 1; });
  b.wait(a);
  Gate later(a);
  a.enqueue([&] { a_done = 2; });
  b.enqueue([&] { seen = a_done; });
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(b.query());
  gate.open();
  b.synchronize();  // although `a` is blocked at the later gate
  CHECK(seen == 1);
  later.open();
  a.synchronize();
  CHECK(a_done == 2);

  a.wait(a);  // no deadlock
  a.synchronize();
}

TEST_CASE("the host's stream waits in the calling thread") {
  const Stream a = current_stream(kDevices[0]);
  bool done = false;
  a.enqueue([&] {
    std::this_thread::sleep_for(20ms);
    done = true;
  });
  Stream().wait(a);
  CHECK(done);
}

TEST_CASE("chains of waits across devices keep their order") {
  int value = 0;  // a race if the order breaks: the thread sanitizer sees it
  for (int round = 0; round < 200; ++round) {
    const Stream from = current_stream(kDevices[round % 4]);
    const Stream to = current_stream(kDevices[(round + 1) % 4]);
    from.enqueue([&] { ++value; });
    to.wait(from);
  }
  for (const Device& device : kDevices) synchronize(device);
  CHECK(value == 200);
}

TEST_CASE("events mark points") {
  const Stream a = current_stream(kDevices[0]);
  Event event;
  CHECK(event.query());  // nothing recorded
  event.synchronize();
  {
    Gate gate(a);
    event.record(a);
    CHECK_FALSE(event.query());
    const Event copy = event;
    CHECK_FALSE(copy.query());
    gate.open();
    copy.synchronize();
  }
  CHECK(event.query());
  event.record(Stream());
  CHECK(event.query());
}

TEST_CASE("recording an event again leaves earlier waiters waiting for the earlier mark") {
  const Stream a = current_stream(kDevices[0]), b = current_stream(kDevices[1]),
               c = current_stream(kDevices[2]);
  Event event;
  Gate gate(a);
  std::atomic<bool> a_done{false};
  bool seen = false;
  a.enqueue([&] { a_done = true; });
  event.record(a);
  c.wait(event);
  c.enqueue([&] { seen = a_done; });
  event.record(b);  // passes at once
  event.synchronize();
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(c.query());
  gate.open();
  c.synchronize();
  CHECK(seen);
}

TEST_CASE("events measure time") {
  const Stream a = current_stream(kDevices[0]);
  Event start, end, never;
  start.record(a);
  a.enqueue([] { std::this_thread::sleep_for(10ms); });
  end.record(a);
  end.synchronize();
  CHECK(end.elapsed_ms(start) >= 9.0);
  CHECK(start.elapsed_ms(end) <= -9.0);
  const std::string expected =
      "[elapsed_ms] both events must be recorded and done; call synchronize() first";
  CHECK(message_of<ValueError>([&] { end.elapsed_ms(never); }) == expected);
  CHECK(message_of<ValueError>([&] { never.elapsed_ms(start); }) == expected);
  Gate gate(a);
  end.record(a);
  CHECK(message_of<ValueError>([&] { end.elapsed_ms(start); }) == expected);
}

TEST_CASE("work may queue more work and synchronise its own stream") {
  const Stream a = current_stream(kDevices[0]);
  std::vector<int> order;
  CHECK_FALSE(detail::on_worker_thread());
  a.enqueue([&] {
    order.push_back(1);
    a.enqueue([&] { order.push_back(3); });
    a.synchronize();
    order.push_back(detail::on_worker_thread() ? 2 : -2);
  });
  a.synchronize();
  CHECK(order == std::vector<int>{1, 2, 3});
}

TEST_CASE("captures of work are destroyed before synchronize returns") {
  const Stream a = current_stream(kDevices[0]);
  auto held = std::make_shared<int>(1);
  a.enqueue([held] {});
  a.enqueue([held]() -> void { throw 1; });
  CHECK_THROWS_AS(a.synchronize(), int);
  CHECK(held.use_count() == 1);
}

TEST_CASE("destructors of captures may use the stream") {
  const Stream a = current_stream(kDevices[0]);
  std::atomic<bool> ran{false};
  a.enqueue([last = std::shared_ptr<void>(nullptr,
                                          [&, a](void*) { a.enqueue([&] { ran = true; }); })] {});
  a.synchronize();
  CHECK(ran);
}

TEST_CASE("many threads submit to one stream") {
  const Stream a = current_stream(kDevices[3]);
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) a.enqueue([&] { ++count; });
      a.synchronize();
    });
  for (std::thread& t : threads) t.join();
  CHECK(count == 2000);
}
