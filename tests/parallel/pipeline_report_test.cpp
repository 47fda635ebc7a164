// Reports of pipelines about time and memory, and balancing.
#include <doctest/doctest.h>

#include "ferrite/core/allocator.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/tests/parallel/pipelines.h"

using namespace ferrite;
using namespace ferrite::parallel;
using namespace ferrite::test;
using enum PipelineCheckpoint;

namespace {

const Spy kNobody{{}, {}};

}  // namespace

TEST_CASE("checkpointing lowers the memory peak, and recomputes what it must") {
  const Device device("cpu:0");
  std::vector<std::size_t> peaks;
  std::vector<std::int64_t> reported;
  for (const auto checkpoint : {never, except_last, always}) {
    nn::Sequential net;
    for (int i = 0; i < 6; ++i) {
      net.push_back(nn::Linear(64, 64));
      net.push_back(nn::Tanh());
    }
    net.push_back(Spy(kNobody.on_forward, kNobody.on_backward));
    net.push_back(nn::Linear(64, 1));
    auto& spy = dynamic_cast<Spy&>(net[12]);
    Pipeline pipe(net, {device, "cpu:1"},
                  {.chunks = 8, .checkpoint = checkpoint, .balance = {13, 1}});
    const Tensor x = ones({256, 64}, {.device = device});
    pipe(x).sum().backward();  // gradients exist from now on
    synchronize_all(2);
    CHECK(spy.calls == (checkpoint == never ? 8 : checkpoint == always ? 16 : 15));
    pipe.reset_report();
    reset_peak_memory_stats(device);
    const std::size_t before = memory_allocated(device);
    pipe(x).sum().backward();
    peaks.push_back(max_memory_allocated(device) - before);
    synchronize_all(2);
    const PipelineReport report = pipe.report();
    REQUIRE(report.memory.size() == 2);
    reported.push_back(report.memory[0].peak_activations);
    CHECK(reported.back() <= static_cast<std::int64_t>(peaks.back()));
  }
  CHECK(peaks[1] * 2 < peaks[0]);
  CHECK(peaks[2] * 2 < peaks[0]);  // a block or two more or fewer than peaks[1], depending on
                                   // thread timing
  CHECK(reported[1] * 3 < reported[0] * 2);  // includes gradients that are being accumulated
}

TEST_CASE("the report") {
  nn::Sequential net = small_network();
  Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = 3, .balance = {5, 5}});
  CHECK(pipe.report().str().find("0 steps, none timed yet") != std::string::npos);
  const Tensor x = randn({6, 2, 6, 6}, {.dtype = kFloat64});
  for (int step = 0; step < 3; ++step) {
    pipe(x).sum().backward();
    synchronize_all(2);
  }
  pipe(x);  // without a backward
  no_grad([&] { pipe(x); });
  PipelineReport report = pipe.report();
  CHECK(report.steps == 4);
  CHECK(report.timed == 3);
  CHECK(report.micro_batches == 3);
  REQUIRE(report.stages.size() == 2);
  CHECK(report.stages[1].first_layer == 5);
  CHECK(report.stages[0].parameters == 2 * 4 * 9 + 4 + 4 * 4 * 9 + 4);
  CHECK(report.stages[0].bytes == 8 * report.stages[0].parameters);
  // The input; the activations of five layers, there and back.
  CHECK(report.bytes_moved == 8 * (6 * 2 * 36 + 2 * 6 * 16));
  CHECK(report.expected_bubble == doctest::Approx(1.0 / 4));
  for (const auto& stage : report.stages) {
    CHECK(stage.forward_ms > 0);
    CHECK(stage.recompute_ms > 0);
    CHECK(stage.backward_ms > 0);
  }
  CHECK(report.step_ms > 0);
  CHECK(report.measured_bubble >= 0);
  CHECK(report.measured_bubble < 1);
  CHECK(report.memory[0].peak_activations > 0);
  CHECK(report.str().find("cpu:1") != std::string::npos);
  pipe.reset_report();
  CHECK(pipe.report().steps == 0);
  CHECK(pipe.report().stages[0].parameters == report.stages[0].parameters);
}

TEST_CASE("two forwards before either's backward are both in the report") {
  nn::Sequential net = small_network();
  Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = 3, .balance = {5, 5}});
  const Tensor x = randn({6, 2, 6, 6}, {.dtype = kFloat64});
  pipe(x).sum().backward();
  synchronize_all(2);
  const std::int64_t bytes = pipe.report().bytes_moved;
  pipe.reset_report();
  (pipe(x).sum() + pipe(x).sum()).backward();
  synchronize_all(2);
  CHECK(pipe.report().steps == 2);
  CHECK(pipe.report().timed == 2);
  CHECK(pipe.report().bytes_moved == bytes);
  for (int i = 0; i < 40; ++i) pipe(x);  // without waiting
  pipe(x).sum().backward();
  synchronize_all(2);
  CHECK(pipe.report().timed == 3);
}

TEST_CASE("where to cut") {
  using Balance = std::vector<std::int64_t>;
  const auto balance = [](int stages, std::vector<double> costs) {
    return balance_by_cost(stages, costs);
  };
  CHECK(balance(1, {1, 2, 3}) == Balance{3});
  CHECK(balance(2, {1, 2, 3, 4, 5, 6}) == Balance{4, 2});
  CHECK(balance(2, {9, 1, 1, 1}) == Balance{1, 3});
  CHECK(balance(3, {1, 1, 1, 1, 1, 1}) == Balance{2, 2, 2});
  CHECK(balance(3, {9, 1, 1, 1, 1}) == Balance{1, 2, 2});
  CHECK(balance(3, {0, 0, 0}) == Balance{1, 1, 1});
  CHECK_THROWS_AS(balance(3, {1, 1}), ValueError);
  CHECK_THROWS_AS(balance(0, {1, 1}), ValueError);
  CHECK_THROWS_AS(balance(1, {1, -1}), ValueError);

  nn::Sequential net = small_network(kFloat32);
  const auto before = net.state_dict();
  const Tensor x = ones({4, 2, 6, 6});
  const auto sizes = layer_sizes(net, x, {.device = "cpu:0", .chunks = 2, .param_scale = 10});
  REQUIRE(sizes.size() == net.size());
  CHECK(sizes[5] >= 10 * 4 * (16 * 8 + 8) + 2 * 8 * 4);
  CHECK(sizes[5] > sizes[6]);
  const auto times = layer_times(net, x, {.seconds = 0});
  REQUIRE(times.size() == net.size());
  for (const double ms : times) CHECK(ms >= 0);
  for (const auto& cut : {balance_by_time(3, net, x, {.device = "cpu:0", .seconds = 0}),
                          balance_by_size(3, net, x)}) {
    CHECK(cut.size() == 3);
    CHECK(cut[0] + cut[1] + cut[2] == 10);
  }
  CHECK_FALSE(net.parameters()[0].grad().defined());
}
