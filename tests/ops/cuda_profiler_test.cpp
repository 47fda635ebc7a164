// The profiler on CUDA devices, emulated or real: times between events of streams.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/profiler/profile.h"
#include "ferrite/core/stream.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using profiler::DeviceEvent;
using profiler::HostEvent;
using profiler::Kind;
using profiler::Profile;
using profiler::Recording;

namespace {

const HostEvent* owner(const Recording& r, const DeviceEvent& e) {
  return e.host < 0 ? nullptr : &r.host[static_cast<std::size_t>(e.host)];
}

std::vector<DeviceEvent> of(const Recording& r, std::string_view op) {
  std::vector<DeviceEvent> found;
  for (const DeviceEvent& e : r.device)
    if (const HostEvent* host = owner(r, e); host && host->name == op) found.push_back(e);
  return found;
}

}  // namespace

TEST_CASE("kernels have times of the device, and belong to their ops") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  const Tensor a = ones({64, 64}, {.device = device}).set_requires_grad();
  sum(matmul(a, a)).backward();  // warm
  synchronize(device);
  Profile profile({.memory = true});
  const std::uint64_t waits = cuda::synchronizations();
  const Tensor out = matmul(a, a);
  sum(out).backward();
  CHECK(cuda::synchronizations() == waits);  // recording waits for nothing
  profile.stop();
  CHECK(cuda::synchronizations() == waits);  // nor is its own waiting the training's

  const Recording& r = profile.recording();
  CHECK(r.unresolved == 0);
  CHECK(r.unfinished == 0);
  REQUIRE(!r.device.empty());
  const Stream stream = current_stream(device);
  std::int64_t sum = 0, end = 0;
  for (const DeviceEvent& e : r.device) {
    const std::string name = e.name;
    CAPTURE(name);
    CHECK(e.device == device);
    CHECK(e.stream == stream.id());
    CHECK(e.time >= 0);
    REQUIRE(owner(r, e));
    CHECK(e.asked >= 0);
    // In the stream's order, none in another, to the resolution of events.
    constexpr std::int64_t kResolution = 2'000;
    CHECK(e.begin >= end - kResolution);
    end = e.begin + e.time;
    sum += e.time;
    // On the host's clock: not before it was asked for, but for the error of where clocks meet.
    constexpr std::int64_t kSkew = 1'000'000;
    CHECK(e.begin + e.time >= owner(r, e)->begin - kSkew);
    CHECK(end <= r.time + kSkew);
  }
  std::int64_t self = 0;
  for (const HostEvent& e : r.host) self += e.self_device_time;
  CHECK(self == sum);
  CHECK(!of(r, "matmul").empty());
  CHECK(r.peak_memory(device) > 0);
  const std::string table = profile.table();
  CHECK(table.find("Self device") != std::string::npos);
  CHECK(table.find("matmul backward") != std::string::npos);
}

TEST_CASE("copies, and streams of their own, are seen") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  const Tensor host = ones({1024});
  const Stream side = Stream::create(device);
  Profile profile;
  const Tensor there = host.to(device);
  {
    const StreamGuard guard(side);
    side.wait(default_stream(device));
    const Tensor out = mul(there, 2);
    side.synchronize();
  }
  const Tensor back = there.to("cpu");
  profile.stop();
  const Recording& r = profile.recording();
  const auto named = [&](std::string_view name) {
    return std::ranges::count_if(r.device, [&](const DeviceEvent& e) { return e.name == name; });
  };
  CHECK(named("memcpy HtoD") >= 1);
  CHECK(named("memcpy DtoH") >= 1);
  REQUIRE(of(r, "mul").size() == 1);
  CHECK(of(r, "mul")[0].stream == side.id());
}

TEST_CASE("a captured step is timed as the launch of its graph") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  const Tensor x = ones({256}, {.device = device});
  const Tensor warm = mul(x, 2);
  cuda::Graph graph(device);
  Profile profile({.memory = true});
  Tensor out;
  graph.capture([&] { out = mul(x, 3); });
  graph.replay();
  graph.replay();
  profile.stop();
  const Recording& r = profile.recording();
  CHECK(r.unresolved == 0);
  CHECK(of(r, "mul").empty());  // its kernel did not run then
  CHECK(of(r, "graph_replay").size() == 2);
  CHECK(out.sum().item<float>() == 768);

  // A profile that begins or ends in the middle of a capture leaves it whole.
  cuda::Graph other(device);
  Profile outer({.start = false});
  other.capture([&] {
    outer.start();
    out = mul(x, 4);
    outer.stop();
  });
  other.replay();
  CHECK(out.sum().item<float>() == 1024);
}

TEST_CASE("without cuda in a profile no events are taken") {
  REQUIRE_CUDA(1);
  const Tensor x = ones({16}, {.device = "cuda:0"});
  Profile profile({.cuda = false});
  const Tensor y = mul(x, 2);
  profile.stop();
  CHECK(profile.recording().device.empty());
  CHECK(!profile.recording().host.empty());
}
