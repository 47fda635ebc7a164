#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "ferrite/autograd/engine.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/optim/grad_scaler.h"
#include "ferrite/tests/parallel/pipelines.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::parallel;
using namespace ferrite::test;
using enum PipelineCheckpoint;

namespace {

constexpr auto kDeadline = std::chrono::seconds(30);

/// A flag that work on streams sets and waits for; returns whether it was set.
class Flag {
 public:
  void raise() {
    {
      std::lock_guard lock(mutex_);
      up_ = true;
    }
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kDeadline, [this] { return up_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool up_ = false;
};

struct Throws : nn::Cloneable<Throws> {
  explicit Throws(int at) : at(at) {}
  Tensor forward(const Tensor& x) override {
    if (calls++ == at) throw IndexError("[layer] out of luck");
    return x;
  }
  int at, calls = 0;
};

std::vector<std::pair<int, int>> cells(const std::vector<ScheduledRun>& schedule, int tick) {
  std::vector<std::pair<int, int>> found;
  for (const ScheduledRun& run : schedule)
    if (run.tick == tick) found.emplace_back(run.stage, run.micro_batch);
  return found;
}

}  // namespace

TEST_CASE("the schedule: stage, micro-batch and tick") {
  using Cells = std::vector<std::pair<int, int>>;
  const auto forward = gpipe_schedule(2, 3);
  CHECK(forward.size() == 6);
  CHECK(cells(forward, 0) == Cells{{0, 0}});
  CHECK(cells(forward, 1) == Cells{{1, 0}, {0, 1}});
  CHECK(cells(forward, 2) == Cells{{1, 1}, {0, 2}});
  CHECK(cells(forward, 3) == Cells{{1, 2}});
  CHECK(schedule_chart(forward) == "stage 0 | 0 1 2 .\nstage 1 | . 0 1 2\n");
  CHECK(schedule_chart(gpipe_schedule(2, 3, PipelinePhase::backward)) ==
        "stage 0 | . 2 1 0\nstage 1 | 2 1 0 .\n");
  CHECK(schedule_chart(gpipe_schedule(3, 1)) ==
        "stage 0 | 0 . .\nstage 1 | . 0 .\nstage 2 | . . 0\n");
  for (int stages = 1; stages <= 5; ++stages)
    for (int micro_batches = 1; micro_batches <= 9; ++micro_batches)
      for (const auto phase : {PipelinePhase::forward, PipelinePhase::backward}) {
        const auto schedule = gpipe_schedule(stages, micro_batches, phase);
        std::vector<std::vector<int>> ticks(static_cast<std::size_t>(stages),
                                            std::vector<int>(9, -1));
        int last = 0;
        for (const auto& [tick, stage, micro_batch] : schedule) {
          int& when = ticks[static_cast<std::size_t>(stage)][static_cast<std::size_t>(micro_batch)];
          CHECK(when == -1);
          when = tick;
          CHECK(tick >= last);
          last = tick;
        }
        CHECK(schedule.size() == static_cast<std::size_t>(stages * micro_batches));
        CHECK(last == stages + micro_batches - 2);
        const double idle = 1 - static_cast<double>(schedule.size()) / (stages * (last + 1.0));
        CHECK(bubble_fraction(stages, micro_batches) == doctest::Approx(idle));
      }
  CHECK(bubble_fraction(1, 4) == 0);
  CHECK(bubble_fraction(4, 4) == doctest::Approx(3.0 / 7));
  CHECK_THROWS_AS(gpipe_schedule(0, 1), ValueError);
  CHECK_THROWS_AS(bubble_fraction(1, 0), ValueError);
}

TEST_CASE("stages and micro-batches train as the whole model does") {
  check_training(virtual_devices(4), 1, 1e-11);
  check_training({"cpu:0", "cpu:1"}, 5, 1e-11, {.rows = 8});  // stages that share devices
  check_training({"cpu", "cpu:0"}, 5, 1e-11);
  check_training({"cpu"}, 11, 1e-11, {.rows = 3});
  check_training(virtual_devices(2), 13, 1e-6, {.dtype = kFloat32});
}

TEST_CASE("frozen parts") {
  for (const char* frozen : {"0, 2", "5", "7, 9", "0, 2, 5, 7, 9.weight"})
    for (const auto checkpoint : kCheckpoints) {
      CAPTURE(frozen);
      nn::Sequential whole = small_network(), net = small_network();
      whole.requires_grad_(false, frozen);
      net.requires_grad_(false, frozen);
      Pipeline pipe(net, virtual_devices(3), {.chunks = 3, .checkpoint = checkpoint});
      check_same(train(pipe, "cpu:2"), train(whole, Device()), 1e-11);
      synchronize_all();
      if (std::string_view(frozen) != "0, 2") CHECK(pipe.report().timed > 0);
    }
}

TEST_CASE("the same bits at every run") {
  std::vector<PipelineRun> runs;
  for (int run = 0; run < 3; ++run) {
    nn::Sequential net = small_network(kFloat32);
    Pipeline pipe(net, virtual_devices(3), {.chunks = 5});
    runs.push_back(train(pipe, "cpu:2", {.rows = 11, .steps = 4, .dtype = kFloat32}));
  }
  for (int run = 1; run < 3; ++run) check_same(runs[static_cast<std::size_t>(run)], runs[0], 0);
}

TEST_CASE("inputs that learn, wherever they are; second derivatives") {
  const auto gradient_at = [](nn::Module& model, const Tensor& x) {
    const Tensor input = x.detach();
    input.set_requires_grad();
    model(input).pow(2).sum().backward();
    return input.grad().cpu();
  };
  manual_seed(1);
  const Tensor x = randn({5, 2, 6, 6}, {.dtype = kFloat64});
  nn::Sequential whole = small_network();
  const Tensor expected = gradient_at(whole, x);
  for (const char* device : {"cpu", "cpu:0", "cpu:1", "cpu:3"})
    for (const auto checkpoint : kCheckpoints) {
      CAPTURE(device);
      nn::Sequential net = small_network();
      Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = 2, .checkpoint = checkpoint});
      check_close(gradient_at(pipe, x.to(Device(device))), expected, 1e-11, 1e-12);
    }
  // d/dx of |d/dx sum(f^2)|^2, of layers that are twice differentiable.
  const auto second = [](nn::Module& model, const Tensor& x) {
    const Tensor input = x.detach();
    input.set_requires_grad();
    const Tensor y = model(input).pow(2).sum();
    const Tensor g = autograd::grad({&y, 1}, {&input, 1}, {}, true, true)[0];
    const Tensor z = g.pow(2).sum();
    return autograd::grad({&z, 1}, {&input, 1})[0].cpu();
  };
  const auto tower = [] {
    manual_seed(5);
    nn::Sequential net(nn::Linear(4, 5), nn::Tanh(), nn::Linear(5, 2));
    net.to(kFloat64);
    return net;
  };
  const Tensor small = randn({3, 4}, {.dtype = kFloat64});
  nn::Sequential one = tower(), two = tower();
  Pipeline pipe(two, {"cpu:0", "cpu:1"}, {.chunks = 3});
  check_close(second(pipe, small), second(one, small), 1e-10, 1e-12);
}

TEST_CASE("modes: eval, no_grad, names, state dicts, moving back") {
  nn::Sequential net = small_network(), same = small_network();
  Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = 4, .balance = {6, 4}});
  CHECK(net[5].parameters()[0].device() == Device("cpu:0"));
  CHECK(net[7].parameters()[0].device() == Device("cpu:1"));
  CHECK(pipe.stages().size() == 2);
  CHECK(pipe.stages()[1].first_layer == 6);
  CHECK(pipe.input_device() == Device("cpu:0"));
  CHECK(pipe.named_parameters()[0].first == "0.weight");
  CHECK(pipe.extra_repr() ==
        "devices=[cpu:0, cpu:1], balance=[6, 4], chunks=4, checkpoint=except_last");
  CHECK(&pipe.module() == &net);
  manual_seed(8);
  for (const auto& [name, p] : same.named_parameters())
    no_grad([&, p = p] { p.copy_(randn(p.shape(), {.dtype = p.dtype()})); });
  CHECK(pipe.load_state_dict(same.state_dict()).complete());

  const Tensor x = randn({6, 2, 6, 6}, {.dtype = kFloat64});
  const Tensor expected = same(x);
  pipe.eval();
  CHECK_FALSE(net[0].is_training());
  const Tensor out = no_grad([&] { return pipe(x); });
  CHECK_FALSE(out.requires_grad());
  check_close(out.cpu(), expected, 1e-12, 1e-13);
  check_close(pipe(x).cpu(), expected, 1e-12, 1e-13);
  CHECK(pipe(randn({0, 2, 6, 6}, {.dtype = kFloat64})).shape() == Shape{0, 3});
  net.to(Device());
  check_close(net(x), expected, 1e-12, 1e-13);
}

TEST_CASE("layers that are placed already") {
  nn::Sequential net(nn::ReLU(), nn::Linear(4, 4), nn::ReLU(), nn::Linear(4, 4), nn::Linear(4, 2),
                     nn::Tanh());
  net[3].to(Device("cpu:1"));
  net[4].to(Device("cpu:1"));
  Pipeline pipe(net, {}, {.chunks = 2});
  CHECK(pipe.stages().size() == 2);
  CHECK(pipe.stages()[0].layers == 3);
  CHECK(pipe.output_device() == Device("cpu:1"));
  CHECK(pipe(ones({3, 4})).shape() == Shape{3, 2});
  CHECK_THROWS_AS(Pipeline(net, {}, {.balance = {1, 5}}), ValueError);
  nn::Sequential inner(nn::Linear(4, 4), nn::Linear(4, 4)), outer;
  inner[1].to(Device("cpu:2"));
  outer.push_back(std::move(inner));
  CHECK(message_of<ValueError>([&] { Pipeline bad(outer); }).find("layer 0 (Sequential)") !=
        std::string::npos);
}

TEST_CASE("invalid pipelines") {
  nn::Sequential net = small_network(), empty;
  const auto message = [&](std::vector<Device> devices, const PipelineOptions& options) {
    return message_of<ValueError>([&] { Pipeline pipe(net, std::move(devices), options); });
  };
  CHECK(message({"cpu:0"}, {.chunks = 0}) == "[pipeline] expected one chunk or more, got 0");
  CHECK(message({"cpu:0", "cpu:1"}, {.balance = {9, 2}}) ==
        "[pipeline] the balance is of 11 layers, the model has 10");
  CHECK(message({"cpu:0", "cpu:1"}, {.balance = {10, 0}}) ==
        "[pipeline] every stage of a balance must have a layer, got 0");
  CHECK(message({"cpu:0"}, {.balance = {5, 5}}) ==
        "[pipeline] the balance has 2 stages, for which there are 1 devices");
  CHECK_THROWS_AS(Pipeline(empty, {"cpu:0"}), ValueError);
  CHECK_THROWS_AS(Pipeline(net, in_turn(virtual_devices(2), 11)), ValueError);
  CHECK(net.parameters()[0].device().is_host());  // nothing was moved

  nn::Sequential tied(nn::Linear(3, 3), nn::ReLU(), nn::Linear(3, 3));
  auto& first = dynamic_cast<nn::Linear&>(tied[0]);
  dynamic_cast<nn::Linear&>(tied[2]).weight = first.weight;
  CHECK(message_of<ValueError>([&] {
          Pipeline pipe(tied, {"cpu:0", "cpu:1"});
        }).find("0.weight (stage 0 on cpu:0) and 2.weight (stage 1 on cpu:1) are one tensor") !=
        std::string::npos);
  Pipeline pipe(tied, in_turn({"cpu:0"}, 2), {.chunks = 2});  // both on one device: fine
  pipe(ones({4, 3})).sum().backward();
  CHECK(first.weight.grad().defined());
  CHECK_THROWS_AS(pipe(Tensor()), ShapeError);
  CHECK_THROWS_AS(pipe(full({}, 1)), ShapeError);
}

TEST_CASE("errors of a stage name the place, and the next batch succeeds") {
  nn::Sequential net(nn::Linear(4, 4), nn::Tanh(), Throws(1), nn::Linear(4, 2));
  Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = 3});
  const Tensor x = ones({6, 4});
  CHECK(message_of<IndexError>([&] { pipe(x); }) ==
        "[pipeline] stage 1 on cpu:1 (layers 2 to 3), micro-batch 1: in 2: [layer] out of luck");
  pipe(x).sum().backward();
  CHECK(net.parameters()[0].grad().defined());
  CHECK(
      message_of<ShapeError>([&] {
        pipe(ones({6, 5}));
      }).starts_with("[pipeline] stage 0 on cpu:0 (layers 0 to 1), micro-batch 0: in 0: [linear"));
  // During the recomputation: after five calls in forward, this is the first in backward.
  auto& layer = dynamic_cast<Throws&>(net[2]);
  const Tensor y = pipe(x).sum();
  layer.at = layer.calls;
  CHECK(message_of<IndexError>([&] {
          y.backward();
        }).starts_with("[pipeline] stage 1 on cpu:1 (layers 2 to 3), micro-batch 1: "));
  pipe.zero_grad();
  pipe(x).sum().backward();
  synchronize_all();
}

namespace {

/// Linear, `first` | `second`, Linear.
nn::Sequential spied(Spy first, Spy second) {
  return nn::Sequential(nn::Linear(4, 4), std::move(first), std::move(second), nn::Linear(4, 2));
}

}  // namespace

TEST_CASE("both devices work at the same time, forward and backward") {
  // While the second stage has micro-batch m the first has m + 1: neither continues before it has
  // seen the other there.
  constexpr int kChunks = 5;
  Flag first[2][kChunks], second[2][kChunks];
  std::atomic<int> met = 0;
  const auto meet = [&](Flag(&mine)[kChunks], Flag(&other)[kChunks], int distance) {
    return [&mine, &other, &met, distance](int m) {
      mine[m].raise();
      if (m + distance >= 0 && m + distance < kChunks) met += other[m + distance].wait();
    };
  };
  nn::Sequential net = spied({meet(first[0], second[0], -1), meet(first[1], second[1], -1)},
                             {meet(second[0], first[0], 1), meet(second[1], first[1], 1)});
  Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = kChunks, .checkpoint = never});
  const Tensor loss = pipe(ones({10, 4})).sum();
  synchronize_all(2);
  CHECK(met == 2 * (kChunks - 1));
  loss.backward();
  synchronize_all(2);
  CHECK(met == 4 * (kChunks - 1));
}

TEST_CASE("micro-batches come in order, and in reverse; no stage waits for one behind it") {
  constexpr int kChunks = 4;
  for (const auto checkpoint : kCheckpoints) {
    Flag forward_done, backward_done, go[2];
    std::vector<int> order[2];  // each written by one device
    nn::Sequential net = spied({[&](int m) {
                                  if (m == kChunks - 1) forward_done.raise();
                                },
                                [&](int m) { order[0].push_back(m); }},
                               {{}, [&](int m) {
                                  order[1].push_back(m);
                                  if (m == 0) backward_done.raise();
                                }});
    Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = kChunks, .checkpoint = checkpoint});
    current_stream("cpu:1").enqueue([&] { go[0].wait(); });
    const Tensor loss = pipe(ones({8, 4})).sum();
    CHECK(forward_done.wait());  // all of the first stage's, before the second has begun
    go[0].raise();
    synchronize_all(2);
    current_stream("cpu:0").enqueue([&] { go[1].wait(); });
    loss.backward();
    CHECK(backward_done.wait());
    go[1].raise();
    synchronize_all(2);
    CHECK(order[0] == std::vector{3, 2, 1, 0});
    CHECK(order[1] == std::vector{3, 2, 1, 0});
  }
}

TEST_CASE("recomputation runs before the gradient arrives") {
  constexpr int kChunks = 4;
  Flag again[kChunks];
  std::atomic<int> in_time = 0;
  nn::Sequential net = spied({[&](int call) {
                                if (call >= kChunks) again[2 * kChunks - 1 - call].raise();
                              },
                              {}},
                             {{}, [&](int m) { in_time += again[m].wait(); }});
  Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = kChunks, .checkpoint = always});
  pipe(ones({8, 4})).sum().backward();
  synchronize_all(2);
  CHECK(in_time == kChunks);
}

TEST_CASE("dropout draws the same when it is computed again, in any mode") {
  std::vector<PipelineRun> runs;
  for (const auto checkpoint : kCheckpoints) {
    manual_seed(3);
    nn::Sequential net(nn::Conv2d(2, 4, 3), nn::Dropout(0.4), nn::Flatten(), nn::Linear(64, 8),
                       nn::Dropout(0.2), nn::Linear(8, 3));
    net.to(kFloat64);
    Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = 4, .checkpoint = checkpoint});
    runs.push_back(train(pipe, "cpu:1"));
    runs.back().outputs.push_back(randn({4}));  // the host's generator is unchanged
  }
  check_same(runs[1], runs[0], 0);
  check_same(runs[2], runs[0], 0);
}

TEST_CASE("mixed precision") {
  for (const auto checkpoint : kCheckpoints) {
    nn::Sequential whole = small_network(kFloat32), net = small_network(kFloat32);
    Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = 3, .checkpoint = checkpoint});
    const auto step = [](nn::Module& model, const Device& device) {
      optim::SGD sgd(model.parameters(), {.lr = 0.1});
      optim::GradScaler scaler;
      manual_seed(6);
      const Tensor x = randn({6, 2, 6, 6});
      Tensor loss;
      {
        const AutocastGuard autocast({.dtype = kBFloat16});
        const Tensor y = model(x);
        CHECK(y.dtype() == kBFloat16);
        loss = cross_entropy(y, from_vector<std::int64_t>({0, 1, 2, 0, 1, 2}, {6}).to(device));
      }
      scaler.scale(loss).backward();
      scaler.step(sgd);
      scaler.update();
      return loss.cpu().to_vector<double>()[0];
    };
    const double expected = step(whole, Device());
    CHECK(step(pipe, "cpu:1") == doctest::Approx(expected).epsilon(0.02));
    for (std::size_t i = 0; i < net.parameters().size(); ++i)
      check_close(net.parameters()[i].cpu(), whole.parameters()[i], 0.02, 0.01);
  }
}

TEST_CASE("the caller may overwrite its batch as soon as forward() has returned") {
  for (const char* device : {"cpu", "cpu:0", "cpu:3"}) {
    CAPTURE(device);
    Flag go;
    nn::Sequential net(nn::Tanh(), nn::Linear(4, 2));
    const Tensor expected = net(ones({6, 4}));
    Pipeline pipe(net, {"cpu:1", "cpu:2"}, {.chunks = 3, .checkpoint = never});
    const Tensor x = ones({6, 4}, {.device = device});
    synchronize_all();
    // The first stage is late, and transfers to it must not be.
    current_stream("cpu:1").enqueue([&] { go.wait(); });
    const Tensor y = pipe(x);
    x.fill_(7);
    go.raise();
    check_close(y.cpu(), expected, 1e-6);
  }
}

TEST_CASE("hooks of layers run once a micro-batch, those of the list not at all") {
  for (const auto checkpoint : kCheckpoints) {
    nn::Sequential net(nn::Linear(4, 4), nn::Tanh(), nn::Linear(4, 2));
    int of_list = 0, of_layer = 0;
    net.register_forward_hook([&](nn::Module&, const Tensor&, const Tensor&) { ++of_list; });
    net[2].register_forward_hook([&](nn::Module&, const Tensor& x, const Tensor&) {
      CHECK(x.size(0) == 2);
      ++of_layer;
    });
    Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = 3, .checkpoint = checkpoint});
    const Tensor loss = pipe(ones({6, 4})).sum();
    CHECK(of_layer == 3);
    loss.backward();  // which computes some of it again
    CHECK(of_layer == (checkpoint == never ? 3 : checkpoint == always ? 6 : 5));
    CHECK(of_list == 0);
  }
}
