// Meters on a CUDA device, emulated or real: they give the same counts as on the host, wait only
// when they are read, and can be part of a graph.
#include <doctest/doctest.h>

#include <vector>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/generator.h"
#include "ferrite/metrics/accuracy.h"
#include "ferrite/metrics/average_meter.h"
#include "ferrite/metrics/confusion_matrix.h"
#include "ferrite/metrics/timer.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/metrics/reference.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::metrics;

namespace {

struct SyncErrors {
  SyncErrors() { cuda::set_sync_debug_mode(cuda::SyncDebugMode::error); }
  ~SyncErrors() { cuda::set_sync_debug_mode(cuda::SyncDebugMode::off); }
};

constexpr std::int64_t kClasses = 7, kIgnored = 3;

/// A batch with ties among its scores, on the host.
struct Step {
  Tensor loss, scores, labels;
  explicit Step(std::uint64_t seed, std::int64_t n = 33) {
    Generator g(seed);
    loss = rand({}, {}, &g);
    scores = randint(0, 9, {n, kClasses}, {.dtype = kFloat32}, &g);
    labels = randint(0, kClasses, {n}, {.dtype = kInt64}, &g);
  }
  Step to(const Device& device) const {
    Step copy = *this;
    copy.loss = loss.to(device);
    copy.scores = scores.to(device);
    copy.labels = labels.to(device);
    return copy;
  }
};

struct Meters {
  explicit Meters(const Device& device)
      : loss(device, "Loss", ":.4f", 0.5),
        accuracy(device, {1, 5}, kIgnored),
        confusion(kClasses, device, kIgnored) {}
  void update(const Step& step) {
    loss.update(step.loss, step.labels.size(0));
    accuracy.update(step.scores, step.labels);
    confusion.update(step.scores, step.labels);
  }
  DeviceAverageMeter loss;
  Accuracy accuracy;
  ConfusionMatrix confusion;
};

void check_same(const Meters& a, const Meters& b) {
  CHECK(a.loss.value().sum() == doctest::Approx(b.loss.value().sum()));
  CHECK(a.loss.value().val() == b.loss.value().val());
  CHECK(a.loss.value().ema() == doctest::Approx(b.loss.value().ema()));
  CHECK(a.loss.value().count() == b.loss.value().count());
  CHECK(a.accuracy.values() == b.accuracy.values());
  CHECK(a.accuracy.total() == b.accuracy.total());
  CHECK(a.confusion.value().csv() == b.confusion.value().csv());
}

}  // namespace

TEST_CASE("meters on a device do not wait, and agree with those on the host") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  Meters host{Device()}, meters(device);
  std::vector<Step> steps;
  for (std::uint64_t i = 0; i < 4; ++i) steps.push_back(Step(i, i == 3 ? 5 : 33).to(device));
  meters.update(steps[0]);
  host.update(Step(0));
  synchronize(device);
  const auto waits = cuda::synchronizations();
  const test::HostWaits calls = test::host_waits();
  {
    const SyncErrors forbidden;
    for (int i = 1; i < 3; ++i) meters.update(steps[static_cast<std::size_t>(i)]);
    static_cast<void>(accuracy(steps[1].scores, steps[1].labels, {1, 5}));
  }
  CHECK(cuda::synchronizations() == waits);
  if (test::is_emulated()) {
    CHECK(test::host_waits().synchronizations == calls.synchronizations);
    CHECK(test::host_waits().copies == calls.copies);
  }
  meters.update(steps[3]);
  for (std::uint64_t i = 1; i < 4; ++i) host.update(Step(i, i == 3 ? 5 : 33));
  check_same(meters, host);
  const Step step(1);
  CHECK(accuracy(steps[1].scores, steps[1].labels, {5})[0].item<double>() ==
        doctest::Approx(100 * test::places(step.scores, step.labels, -100).top(5)));

  Meters resumed(device);
  resumed.loss.load_state_dict(host.loss.state_dict());
  resumed.accuracy.load_state_dict(host.accuracy.state_dict());
  resumed.confusion.load_state_dict(host.confusion.state_dict());
  check_same(resumed, meters);
  meters.loss.reset();
  meters.accuracy.reset();
  meters.confusion.reset();
  CHECK(meters.loss.value().count() == 0);
  CHECK(meters.accuracy.total() == 0);
  CHECK(meters.confusion.value().total() == 0);
}

TEST_CASE("meters in a graph count at every replay") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  Meters host{Device()}, meters(device);
  const Step input = Step(0).to(device);
  meters.update(input);
  host.update(Step(0));
  cuda::Graph graph(device);
  graph.capture([&] { meters.update(input); });
  for (std::uint64_t i = 1; i < 4; ++i) {
    const Step step(i);
    input.loss.copy_(step.loss);
    input.scores.copy_(step.scores);
    input.labels.copy_(step.labels);
    graph.replay();
    host.update(step);
  }
  check_same(meters, host);
}

TEST_CASE("a class that does not exist is reported where the host waits") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  ConfusionMatrix matrix(3, device);
  matrix.update(zeros({2}, {.dtype = kInt64, .device = device}),
                tensor({1, 3}, {.dtype = kInt64, .device = device}));
  CHECK_THROWS_AS(matrix.value(), IndexError);
  matrix.reset();
  CHECK(matrix.value().total() == 0);
}

TEST_CASE("DeviceTimer takes events of the device's stream") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  DeviceTimer timer(device);
  const Tensor x = ones({1000}, {.device = device});
  {
    const SyncErrors forbidden;
    for (int i = 0; i < 3; ++i) {
      timer.start();
      x.add_(1);
      timer.stop();
    }
  }
  CHECK(timer.count() == 3);
  CHECK(timer.seconds() >= 0);
  CHECK(timer.seconds() < 100);
}
