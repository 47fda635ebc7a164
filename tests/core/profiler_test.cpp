#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/allocator.h"
#include "ferrite/core/profiler/clock.h"
#include "ferrite/core/profiler/profile.h"
#include "ferrite/core/stream.h"
#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using namespace ferrite::profiler;
using ferrite::test::message_of;

namespace {

std::atomic<std::uint64_t> fake_now{0};

/// A clock that advances on request.
class FakeTime {
 public:
  FakeTime() {
    fake_now = 1'000'000;
    profiler::detail::fake_clock = [] { return fake_now.load(); };
  }
  ~FakeTime() { profiler::detail::fake_clock = nullptr; }
  FakeTime(const FakeTime&) = delete;
  FakeTime& operator=(const FakeTime&) = delete;
};
void pass(std::uint64_t nanoseconds) { fake_now += nanoseconds; }

const HostEvent& event(const Recording& r, std::string_view name) {
  const auto found = std::ranges::find_if(r.host, [&](auto& e) { return e.name == name; });
  REQUIRE_MESSAGE(found != r.host.end(), "no event ", std::string(name));
  return *found;
}
const Average& average(const std::vector<Average>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Average::name);
  REQUIRE_MESSAGE(found != all.end(), "no row ", std::string(name));
  return *found;
}
const HostEvent* parent(const Recording& r, const HostEvent& e) {
  return e.parent < 0 ? nullptr : &r.host[static_cast<std::size_t>(e.parent)];
}

/// Each call does what its name says.
void level(int depth) {
  const Range range("level");
  pass(10);
  if (depth > 0) level(depth - 1);
}

}  // namespace

TEST_CASE("ranges nest; nested ranges count for the total, not for the self time") {
  const FakeTime time;
  Profile profile;
  pass(5);
  {
    const Range outer("outer");
    pass(10);
    {
      const OpRange inner("inner");
      pass(20);
      const profiler::detail::LibraryRange kernel(Kind::kernel, "work");
      pass(3);
    }
    { const OpRange inner("inner"), second("second"); }
    pass(30);
  }
  profile.stop();
  const Recording& r = profile.recording();
  REQUIRE(r.host.size() == 5);
  const HostEvent &outer = event(r, "outer"), &inner = event(r, "inner"), &work = event(r, "work");
  CHECK(r.time == 68);
  CHECK(outer.begin == 5);
  CHECK(outer.time == 63);
  CHECK(outer.self_time == 40);
  CHECK(outer.kind == Kind::user);
  CHECK(outer.parent == -1);
  CHECK(inner.begin == 15);
  CHECK(inner.time == 23);
  CHECK(inner.self_time == 20);
  CHECK(inner.kind == Kind::op);
  CHECK(parent(r, inner) == &outer);
  CHECK(parent(r, work) == &inner);
  CHECK(work.self_time == 3);
  CHECK(parent(r, *parent(r, event(r, "second"))) == &outer);
  CHECK(r.steps.empty());
  CHECK(r.dropped + r.unfinished + r.unresolved == 0);

  const std::vector<Average> rows = profile.key_averages();
  CHECK(rows.size() == 3);  // the kernel's time belongs to its op
  CHECK(average(rows, "inner").count == 2);
  CHECK(average(rows, "inner").cpu_time == 23);
  CHECK(average(rows, "inner").self_cpu_time == 23);
  CHECK(average(rows, "outer").self_cpu_time == 40);
  const std::vector<Average> all = key_averages(r, false, true);
  CHECK(all.size() == 4);
  CHECK(average(all, "inner").self_cpu_time == 20);
  CHECK(average(all, "kernel::work").self_cpu_time == 3);
}

TEST_CASE("the time of a function that calls itself counts once") {
  const FakeTime time;
  Profile profile;
  level(3);
  profile.stop();
  const Average row = average(profile.key_averages(), "level");
  CHECK(row.count == 4);
  CHECK(row.cpu_time == 40);
  CHECK(row.self_cpu_time == 40);
}

TEST_CASE("without a profile nothing is recorded, and ranges may outlive one") {
  CHECK_FALSE(profiler::detail::on());
  { const Range range("before"); }
  std::optional<Range> open_before(std::in_place, "open before");
  Profile profile;
  CHECK(profiler::detail::on());
  CHECK(profile.is_recording());
  { const Range range("inside"); }
  open_before.reset();
  std::optional<Range> open_after(std::in_place, "open after");
  profile.stop();
  CHECK_FALSE(profiler::detail::on());
  { const Range range("after"); }
  CHECK(profile.recording().host.size() == 1);
  CHECK(profile.recording().unfinished == 1);
  CHECK(profile.table().find("1 ranges are missing") != std::string::npos);

  profile.start();  // and ends ranges still open in the first profile during the second
  open_after.reset();
  { const Range range("again"); }
  profile.stop();
  CHECK(profile.recording().host.size() == 1);
  CHECK(event(profile.recording(), "again").parent == -1);
  CHECK(profile.recording().unfinished == 0);
}

TEST_CASE("names of ranges are kept, and exceptions close ranges") {
  Profile profile;
  try {
    const Range range(std::string("a name ") + "made up");
    throw 1;
  } catch (int) {
  }
  { const Range top("top"); }
  profile.stop();
  CHECK(event(profile.recording(), "a name made up").parent == -1);
  CHECK(event(profile.recording(), "top").parent == -1);
}

TEST_CASE("all threads record, each for itself") {
  constexpr int kThreads = 4, kRanges = 2000;
  Profile profile;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < kRanges; ++i) {
        const Range outer("outer");
        const OpRange inner("inner");
      }
    });
  const Range here("here");
  for (std::thread& thread : threads) thread.join();
  profile.stop();
  const Recording& r = profile.recording();
  CHECK(r.host.size() == 2 * kThreads * kRanges);
  CHECK(r.unfinished == 1);
  CHECK(r.threads.size() == kThreads + 1);
  std::set<std::int64_t> ids;
  for (const ThreadInfo& thread : r.threads) ids.insert(thread.id);
  CHECK(ids.size() == r.threads.size());
  for (const HostEvent& e : r.host) {
    const HostEvent* around = parent(r, e);
    REQUIRE((around != nullptr) == (std::string_view(e.name) == "inner"));
    if (around) {
      REQUIRE(around->thread == e.thread);
      REQUIRE(around->begin <= e.begin);
      REQUIRE(around->begin + around->time >= e.begin + e.time);
    }
  }
  CHECK(average(profile.key_averages(), "inner").count == kThreads * kRanges);
}

TEST_CASE("a profile may end while threads go on") {
  std::atomic<bool> stop{false};
  const Stream stream = current_stream(Device("cpu:3"));
  std::thread busy([&] {
    while (!stop) {
      const Range range("busy");
      const OpRange op("op");
      const Tensor t = empty({4});
      stream.enqueue([] {});
      stream.synchronize();
    }
  });
  for (int i = 0; i < 20; ++i) {
    Profile profile({.memory = true, .shapes = true});
    if (i % 2 == 0) const Range range("here");
    profile.stop();
    for (const HostEvent& e : profile.recording().host) REQUIRE(e.time >= 0);
    CHECK(profile.recording().unfinished <= 2);
  }
  stop = true;
  busy.join();
}

TEST_CASE("memory counts for the range that asks, and has a peak") {
  const std::size_t before = memory_allocated(Device());
  Profile profile({.memory = true});
  {
    const Range outer("outer");
    Tensor kept;
    {
      const OpRange op("op");
      kept = empty({256});  // 1024 bytes
      const Tensor passing = empty({1024});
    }
    const OpRange drop("drop");
    kept = Tensor();
  }
  profile.stop();
  const Recording& r = profile.recording();
  CHECK(event(r, "op").self_host_bytes == 1024);
  CHECK(event(r, "drop").self_host_bytes == -1024);
  CHECK(event(r, "outer").self_host_bytes == 0);
  CHECK(event(r, "outer").host_bytes == 0);
  CHECK(event(r, "outer").device_bytes == 0);
  CHECK(r.memory.size() == 4);
  CHECK(r.memory.front().bytes == 1024);
  CHECK(r.memory.front().allocated == before + 1024);
  CHECK(r.memory.back().allocated == before);
  CHECK(r.peak_memory(Device()) == before + 1024 + 4096);
  CHECK(r.peak_memory(Device("cpu:3")) == 0);
  CHECK(profile.table().find("Peak memory of cpu") != std::string::npos);

  Profile without;
  { const Tensor t = empty({256}); }
  without.stop();
  CHECK(without.recording().memory.empty());
  CHECK(without.table().find("Mem") == std::string::npos);
}

TEST_CASE("virtual devices: the worker's own time, and the range that queued it") {
  const FakeTime time;
  const Device device("cpu:1");
  const Stream stream = current_stream(device);
  Profile profile({.memory = true});
  {
    const OpRange op("op");
    const profiler::detail::KernelRange kernel(stream, "kernel");
    stream.enqueue([] { pass(50); });
  }
  stream.synchronize();
  stream.enqueue([] { pass(7); });
  Event event_of_stream;
  event_of_stream.record(stream);  // no work
  {
    const OpRange op("allocates");
    const Tensor t = empty({16}, {.device = device});
  }
  profile.stop();
  const Recording& r = profile.recording();
  REQUIRE(r.device.size() == 2);
  CHECK(std::string_view(r.device[0].name) == "kernel");
  CHECK(r.device[0].device == device);
  CHECK(r.device[0].stream == stream.id());
  CHECK(r.device[0].time == 50);
  CHECK(&r.host[static_cast<std::size_t>(r.device[0].host)] == &event(r, "op"));
  CHECK(event(r, "op").self_device_time == 50);
  CHECK(r.device[1].time == 7);
  CHECK(r.device[1].host == -1);
  CHECK(r.unfinished == 0);
  CHECK(r.memory.size() == 2);
  CHECK(event(r, "allocates").device_bytes == 0);
  CHECK(r.peak_memory(device) > 0);
  const std::vector<Average> rows = profile.key_averages();
  CHECK(average(rows, "op").self_device_time == 50);
  CHECK(average(rows, "work").self_device_time == 7);
}

TEST_CASE("shapes of inputs tell calls apart") {
  const Tensor a = empty({2, 3}), b = empty({4}), none, scalar = empty({});
  Profile profile({.shapes = true});
  { const OpRange op("op", a, none, scalar); }
  { const OpRange op("op", a, none, scalar); }
  { const OpRange op("op", b); }
  const std::vector<Tensor> many(10, a);
  { const OpRange op("many", std::span<const Tensor>(many)); }
  const std::vector<Tensor> deep(7, empty({1, 1, 1, 1}));
  { const OpRange op("deep", std::span<const Tensor>(deep)); }
  profile.stop();
  const Recording& r = profile.recording();
  const auto inputs = [&](const HostEvent& e) {
    return r.inputs[static_cast<std::size_t>(e.inputs)];
  };
  CHECK(inputs(r.host[0]) == "[2, 3], [], []");
  CHECK(r.dtypes[static_cast<std::size_t>(r.host[0].inputs)] == "float32, , float32");
  CHECK(inputs(r.host[2]) == "[4]");
  CHECK(inputs(r.host[3]).ends_with("[2, 3], ..."));
  CHECK(inputs(r.host[4]) ==
        "[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], ...");
  CHECK(profile.key_averages().size() == 3);
  CHECK(profile.key_averages(true).size() == 4);
  CHECK(profile.table({.group_by_shape = true}).find("[[2, 3], [], []]") != std::string::npos);
}

TEST_CASE("events beyond the limit are counted") {
  Profile profile({.max_events = 100});
  for (int i = 0; i < 1000; ++i) const Range range("range");
  profile.stop();
  CHECK(profile.recording().host.size() == 100);
  CHECK(profile.recording().dropped == 900);
  CHECK(profile.recording().unfinished == 0);
  CHECK(profile.table().find("900 events are missing") != std::string::npos);
  // The next profile has room again.
  profile.start();
  { const Range range("range"); }
  profile.stop();
  CHECK(profile.recording().dropped == 0);
}

TEST_CASE("schedules: which steps are recorded, and when they are handed over") {
  struct Turn {
    std::vector<std::int64_t> numbers;
    std::vector<std::string> names;
  };
  std::vector<Turn> turns;
  Profile profile(
      {.schedule = {{.wait = 1, .warmup = 1, .active = 2, .repeat = 2, .skip_first = 1}},
       .on_trace_ready = [&](Profile& p) {
         Turn turn;
         for (const StepEvent& s : p.recording().steps) turn.numbers.push_back(s.number);
         for (const HostEvent& e : p.recording().host) turn.names.push_back(e.name);
         turns.push_back(turn);
       }});
  std::vector<bool> recorded;
  for (int i = 0; i < 12; ++i) {
    recorded.push_back(profile.is_recording());
    { const Range range("step " + std::to_string(i)); }
    profile.step();
  }
  profile.stop();
  CHECK(profile.step_number() == 12);
  REQUIRE(turns.size() == 2);
  CHECK(turns[0].numbers == std::vector<std::int64_t>{3, 4});
  CHECK(turns[0].names == std::vector<std::string>{"step 3", "step 4"});
  CHECK(turns[1].numbers == std::vector<std::int64_t>{7, 8});
  for (int i = 0; i < 12; ++i)
    CHECK(recorded[static_cast<std::size_t>(i)] == (i == 3 || i == 4 || i == 7 || i == 8));

  // Cycles follow each other without a pause, and stop() delivers a partial one.
  turns.clear();
  {
    Profile on({.schedule = {{.active = 2}}, .on_trace_ready = [&](Profile& p) {
                  turns.push_back({});
                  for (const StepEvent& s : p.recording().steps)
                    turns.back().numbers.push_back(s.number);
                }});
    for (int i = 0; i < 5; ++i) on.step();
  }
  REQUIRE(turns.size() == 3);
  CHECK(turns[0].numbers == std::vector<std::int64_t>{0, 1});
  CHECK(turns[1].numbers == std::vector<std::int64_t>{2, 3});
  CHECK(turns[2].numbers == std::vector<std::int64_t>{4});
}

TEST_CASE("steps without a schedule, and their times") {
  const FakeTime time;
  Profile profile;
  for (int i = 0; i < 3; ++i) {
    pass(100);
    profile.step();
  }
  pass(1);
  profile.stop();
  const std::vector<StepEvent>& steps = profile.recording().steps;
  REQUIRE(steps.size() == 3);  // the fourth did not end
  CHECK(steps[2].begin == 200);
  CHECK(steps[2].time == 100);
}

TEST_CASE("one profile at a time, and options that make sense") {
  Profile profile;
  CHECK(message_of<ValueError>([] { Profile second; }).find("runs already") != std::string::npos);
  CHECK_THROWS_AS(profile.start(), ValueError);
  profile.stop();
  profile.stop();
  CHECK_THROWS_AS(profile.step(), ValueError);
  CHECK_THROWS_AS(Profile({.cpu = false, .cuda = false}), ValueError);
  CHECK_THROWS_AS(Profile({.max_events = 0}), ValueError);
  CHECK_THROWS_AS(Profile({.schedule = {{.active = 0}}}), ValueError);
  CHECK_THROWS_AS(Profile({.schedule = {{.wait = -1}}}), ValueError);
  CHECK_FALSE(profiler::detail::on());
  Profile later({.start = false});
  CHECK_FALSE(profiler::detail::on());
  Profile now;
  now.stop();
  later.start();
  CHECK(later.is_recording());
}

TEST_CASE("devices alone: their work has rows, the host has none") {
  const Stream stream = current_stream(Device("cpu:2"));
  Profile profile({.cpu = false});
  {
    const OpRange op("op");
    const profiler::detail::KernelRange kernel(stream, "kernel");
    stream.enqueue([] {});
  }
  profile.stop();
  CHECK(profile.recording().host.empty());
  REQUIRE(profile.recording().device.size() == 1);
  CHECK(average(profile.key_averages(), "kernel").is_device_work);
  CHECK(profile.table().find("CPU") == std::string::npos);

  Profile host({.cuda = false});
  {
    const profiler::detail::KernelRange kernel(stream, "kernel");
    stream.enqueue([] {});
  }
  host.stop();
  CHECK(host.recording().device.empty());
}

TEST_CASE("NVTX ranges alone record nothing") {
  const EmitNvtx nvtx;
  CHECK(profiler::detail::on());
  { const Range range("range"); }
  Profile profile;
  { const Range range("range"); }
  profile.stop();
  CHECK(profile.recording().host.size() == 1);
  CHECK(profiler::detail::on());
}

TEST_CASE("the clock agrees with the steady clock") {
  const profiler::detail::Moment first = profiler::detail::Moment::now();
  const auto pass = [](std::uint64_t nanoseconds) {
    const std::uint64_t begin = profiler::detail::steady_nanoseconds();
    while (profiler::detail::steady_nanoseconds() - begin < nanoseconds) {
    }
  };
  pass(10'000'000);
  const profiler::detail::Moment middle = profiler::detail::Moment::now();
  pass(20'000'000);
  const profiler::detail::Moment last = profiler::detail::Moment::now();
  const profiler::detail::Calibration clock(first, last);
  CHECK(clock.nanoseconds(first.ticks) == 0);
  const auto span = static_cast<double>(last.nanoseconds - first.nanoseconds);
  CHECK(static_cast<double>(clock.nanoseconds(last.ticks)) == doctest::Approx(span).epsilon(1e-6));
  // A moment uses the best of several readings, but all of them may have been disturbed.
  const auto until_middle = static_cast<double>(middle.nanoseconds - first.nanoseconds);
  CHECK(std::abs(static_cast<double>(clock.nanoseconds(middle.ticks)) - until_middle) < 1e6);
  CHECK(clock.nanoseconds(first.ticks - (last.ticks - first.ticks)) ==
        -clock.nanoseconds(last.ticks));
}
