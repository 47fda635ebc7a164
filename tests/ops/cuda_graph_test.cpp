// Every op of the table as a CUDA graph on cuda:0, emulated or real: captured forward and backward,
// replayed with other inputs, beside the eager op; and what refuses to be captured.
#include "ferrite/core/cuda_graph.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <sstream>
#include <string>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/generator.h"
#include "ferrite/data/npy.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/augment.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/mixup.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/ops/op_run.h"
#include "ferrite/tests/ops/op_table.h"
#include "ferrite/tests/ops/outcome.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

const char* const kCuda = "cuda:0";

/// What backward starts from; an eager run makes besides what is made once.
std::vector<Tensor> make_weights(const Op& op, DType dtype, const Device& device) {
  std::vector<Tensor> weights;
  for (const Tensor& out : run_op(op, make_leaves(op, dtype, device), device).outputs)
    weights.push_back(make_weight(out, device));
  return weights;
}

/// `run` where later work does not change it.
OpRun kept(const OpRun& run) {
  const auto copies = [](const std::vector<Tensor>& from) {
    std::vector<Tensor> to;
    for (const Tensor& t : from) to.push_back(t.defined() ? t.detach().clone() : t);
    return to;
  };
  return {copies(run.outputs), copies(run.grads)};
}

void check_replays(const Op& op, DType dtype) {
  const Device device(kCuda);
  const std::vector<Tensor> weights = make_weights(op, dtype, device);
  const std::vector<Tensor> leaves = make_leaves(op, dtype, device);
  cuda::Graph graph(device);
  OpRun captured;
  graph.capture([&] { captured = run_unseeded(op, leaves, device, weights); });
  for (int turn = 1; turn <= 2; ++turn) {
    const std::vector<Tensor> values = make_inputs(op, dtype, device, turn);
    no_grad([&] {
      for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].copy_(values[i]);
    });
    manual_seed(40 + static_cast<std::uint64_t>(turn));
    graph.replay();
    const OpRun replayed = kept(captured);
    const double next = rand({}, {.device = device}).item<double>();
    manual_seed(40 + static_cast<std::uint64_t>(turn));
    const OpRun eager = run_unseeded(op, as_leaves(op, values), device, weights);
    const std::string text = compare(replayed, kept(eager), 0);
    CHECK_MESSAGE(text.empty(), op.name << " of " << name(dtype) << ", replay " << turn << text);
    // Both drew as many random numbers.
    CHECK_MESSAGE(rand({}, {.device = device}).item<double>() == next, op.name);
  }
}

void check_all(DType dtype) {
  REQUIRE_CUDA(1);
  const Deterministic deterministic;
  for (const Op& op : op_table()) {
    if (op.on_host || !takes(op.takes, dtype)) continue;
    const std::string result = outcome([&] { check_replays(op, dtype); });
    CHECK_MESSAGE(result.empty(), op.name << " of " << name(dtype) << ": " << result);
  }
}

/// Within a capture `refused` throws CudaError tagged `tag`; the capture goes on as if nothing had
/// been, and ends well where the error is passed on.
void check_refused(const std::string& tag, const std::function<void()>& refused) {
  CAPTURE(tag);
  const Device device(kCuda);
  const Tensor x = full({3}, 2, {.device = device});
  const std::uint64_t waits = cuda::synchronizations();
  cuda::Graph caught(device), passed_on(device);
  Tensor y;
  std::string error;
  caught.capture([&] {
    const Tensor half = x + 1;
    error = outcome(refused);
    y = half * 2;
  });
  CHECK_MESSAGE(is_error(error, "CudaError", tag), error);
  const std::string same = outcome([&] { passed_on.capture(refused); });
  CHECK_MESSAGE(same == error, same);
  CHECK_FALSE(passed_on.is_captured());
  CHECK(cuda::synchronizations() == waits);
  x.fill_(5);
  caught.replay();
  CHECK(y.to_vector<double>() == std::vector<double>(3, 12));
  CHECK(outcome([&] { synchronize(device); }).empty());
}

}  // namespace

TEST_CASE("every op is captured, and replayed gives the bits of the eager op: float32") {
  check_all(kFloat32);
}
TEST_CASE("every op is captured, and replayed gives the bits of the eager op: float16") {
  check_all(kFloat16);
}
TEST_CASE("every op is captured, and replayed gives the bits of the eager op: int64") {
  check_all(kInt64);
}

TEST_CASE(
    "ops that work on the host refuse to be captured, by name, and nothing else comes of it") {
  REQUIRE_CUDA(1);
  const Device device(kCuda);
  for (const Op& op : op_table()) {
    if (!op.on_host) continue;
    const std::vector<Tensor> inputs = make_inputs(op, kFloat32, device);
    op.call(inputs, device);
    check_refused(op.name, [&] { op.call(inputs, device); });
    CHECK(outcome([&] { op.call(inputs, device); }).empty());
  }
}

TEST_CASE("whatever reads or waits refuses to be captured, by name") {
  REQUIRE_CUDA(1);
  const Device device(kCuda);
  const Tensor x = ones({4}, {.device = device}), one = ones({}, {.device = device}),
               classes = zeros({4}, {.dtype = kInt64, .device = device}), host = ones({4}),
               host_pinned = empty({4}, {.pinned = true});
  const Tensor learns = full({4}, 1, {.pinned = true}).set_requires_grad(),
               moved = sum(learns.to(device, non_blocking));
  const auto file = std::filesystem::temp_directory_path() / "ferrite_cuda_graph_test";
  Generator random(1);
  Event event;
  event.record(current_stream(device));
  const std::vector<std::pair<const char*, std::function<void()>>> all{
      {"item", [&] { one.item<float>(); }},
      {"to_vector", [&] { x.to_vector<float>(); }},
      {"print", [&] { x.str(); }},
      {"print", [&] { std::ostringstream() << x; }},
      {"one_hot", [&] { one_hot(classes); }},
      {"allclose", [&] { allclose(x, x); }},
      {"equal", [&] { equal(x, x); }},
      {"tensor",
       [&] {
         tensor({1.5, 2.0}, {.device = device});
       }},
      {"to", [&] { host.to(device); }},
      {"to", [&] { host.to(device, non_blocking); }},
      {"to", [&] { host_pinned.to(device); }},
      {"to", [&] { ones({4}, {.device = "cpu:1"}).to(device); }},
      {"to", [&] { x.cpu(); }},
      {"to",
       [&] {
         autograd::grad({&moved, 1}, {&learns, 1}, {}, true);
       }},
      {"to", [&] { x.to(Device("cpu:1"), non_blocking); }},
      {"copy_", [&] { x.copy_(host); }},
      {"copy_", [&] { host.copy_(x); }},
      {"copy_", [&] { host.copy_(x, non_blocking); }},
      {"copy_", [&] { host_pinned.copy_(x); }},
      {"save_safetensors",
       [&] {
         save({{"x", x}}, file);
       }},
      {"synchronize", [&] { synchronize(device); }},
      {"synchronize", [&] { current_stream(device).synchronize(); }},
      {"mixup", [&] { MixUp({.num_classes = 2})(x, classes, random); }},
      {"cutmix",
       [&] {
         CutMix({.num_classes = 2})(x.view({4, 1, 1, 1}), classes, random);
       }},
      {"enqueue", [&] { current_stream(device).enqueue([] {}); }},
      {"wait", [&] { current_stream(device).wait(event); }},
  };
  for (const auto& [tag, refused] : all) check_refused(tag, refused);
  CHECK_FALSE(std::filesystem::exists(file));
  if (cuda::device_count() > 1) {
    const Tensor other = ones({4}, {.device = "cuda:1"});
    check_refused("to", [&] { x.to(Device("cuda:1")); });
    check_refused("copy_", [&] { x.copy_(other); });
  }
}

TEST_CASE("copies between pinned memory and the device are part of a graph") {
  REQUIRE_CUDA(1);
  const Device device(kCuda);
  const Tensor in = full({4}, 1, {.pinned = true}), out = empty({4}, {.pinned = true});
  Tensor made;
  cuda::Graph graph(device);
  graph.capture([&] {
    const Tensor there = in.to(device, non_blocking) * 3;
    out.copy_(there, non_blocking);
    made = there.to(Device(), non_blocking);
  });
  CHECK(made.is_pinned());
  for (const int value : {2, 5}) {
    in.fill_(value);
    graph.replay();
    synchronize(device);
    CHECK(out.to_vector<double>() == std::vector<double>(4, 3 * value));
    CHECK(made.to_vector<double>() == std::vector<double>(4, 3 * value));
  }
}

TEST_CASE(
    "bad indices that a replay meets are the eager op's errors, and the next replay is well") {
  REQUIRE_CUDA(1);
  const Device device(kCuda);
  for (const Op& op : op_table()) {
    if (op.on_host) continue;
    for (std::size_t i = 0; i < op.args.size(); ++i) {
      if (op.args[i].fill != Fill::index) continue;
      const std::vector<Tensor> inputs = make_inputs(op, kFloat32, device);
      const Tensor good = inputs[i].clone();
      op.call(inputs, device);
      cuda::Graph graph(device);
      std::vector<Tensor> results;
      graph.capture([&] { results = op.call(inputs, device); });
      inputs[i].select(0, 1).fill_(op.args[i].limit);
      graph.replay();
      const std::string late = outcome([&] { synchronize(device); });
      CHECK_MESSAGE(is_error(late, "IndexError", op.name), op.name << ": " << late);
      inputs[i].copy_(good);
      graph.replay();
      CHECK(outcome([&] { synchronize(device); }).empty());
    }
  }
}

TEST_CASE("a graph that draws: several generators, augmented images, checkpoints") {
  REQUIRE_CUDA(1);
  const Device device(kCuda);
  const Tensor images = make_input({{2, 3, 5, 5}}, kFloat32, device);
  const Tensor weight = make_input({{3, 5}}, kFloat32, device);
  weight.set_requires_grad();
  Generator own(7);
  const auto work = [&] {
    const auto forward = [&](const Tensor& w) {
      const Tensor once = dropout(w, 0.5), twice = dropout(once * w, 0.3);
      return twice * once;
    };
    const Tensor plain = dropout(weight, 0.5), y = autograd::checkpoint(forward, weight);
    weight.set_grad({});
    (sum(y * y) + sum(plain)).backward();
    return std::vector<Tensor>{
        y.detach(), weight.grad(), augment(images, {.padding = 1, .flip = 0.5}),
        randn({6}, {.device = device}, &own), randperm(9, {.dtype = kInt64, .device = device})};
  };
  const auto seed = [&](std::uint64_t value) {
    manual_seed(value);
    own.manual_seed(value + 1);
  };
  seed(1);
  work();
  std::vector<Tensor> captured;
  cuda::Graph graph(device);
  graph.capture([&] { captured = work(); });
  for (const std::uint64_t value : {3, 4}) {
    seed(value);
    std::vector<Tensor> replayed;
    for (int step = 0; step < 2; ++step) {
      graph.replay();
      for (const Tensor& t : captured) replayed.push_back(t.clone());
    }
    seed(value);
    std::vector<Tensor> eager;
    for (int step = 0; step < 2; ++step)
      for (const Tensor& t : work()) eager.push_back(t.clone());
    REQUIRE(replayed.size() == eager.size());
    for (std::size_t i = 0; i < eager.size(); ++i) {
      const std::string text = compare(replayed[i], eager[i], 0);
      CHECK_MESSAGE(text.empty(), i << ": " << text);
    }
  }
}

TEST_CASE("replays on several streams, and the end of a graph, leave running ones their numbers") {
  REQUIRE_CUDA(1);
  const Device device(kCuda);
  const Stream streams[] = {Stream::create(device), Stream::create(device)};
  const Tensor numbers = zeros({1000}, {.device = device});
  std::vector<Tensor> drawn, expected;
  {
    cuda::Graph graph(device), keeps_pool(device, &graph);
    const Tensor more = zeros({1000}, {.device = device});
    graph.capture([&] { numbers.uniform_(); });
    keeps_pool.capture([&] { more.add_(1); });
    synchronize(device);
    manual_seed(5);
    for (int step = 0; step < 4; ++step) {
      const StreamGuard use(streams[step % 2]);
      if (step > 0) streams[step % 2].wait(streams[(step + 1) % 2]);  // for `numbers`
      graph.replay();
      drawn.push_back(numbers.clone());
    }
    streams[0].wait(streams[1]);
    // At once, where nothing but the graph orders them.
    for (const Stream& stream : streams) {
      const StreamGuard use(stream);
      graph.replay();
    }
    for (const Stream& stream : streams) current_stream(device).wait(stream);
    drawn.push_back(numbers.clone());
    streams[0].wait(current_stream(device));
    {
      const StreamGuard use(streams[0]);
      graph.replay();
    }
    graph = std::move(keeps_pool);
    // Where the state was, if that were free.
    const Tensor other = zeros({8}, {.dtype = kUInt8, .device = device});
  }
  synchronize(device);
  manual_seed(5);
  for (int step = 0; step < 6; ++step) {
    numbers.uniform_();
    if (step != 4) expected.push_back(numbers.clone());
  }
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const std::string text = compare(drawn[i], expected[i], 0);
    CHECK_MESSAGE(text.empty(), i << ": " << text);
  }
}

TEST_CASE("backward of what ran before the capture, but for random numbers that are drawn again") {
  REQUIRE_CUDA(1);
  const Device device(kCuda);
  const Tensor x = ones({3}, {.device = device});
  x.set_requires_grad();
  const Tensor y = sum(x * x);
  cuda::Graph graph(device);
  graph.capture([&] { y.backward({}, true); });
  no_grad([&] { x.fill_(4); });
  graph.replay();
  CHECK(x.grad().to_vector<double>() == std::vector<double>(3, 8));

  const auto drop = [](const Tensor& t) {
    const Tensor kept = dropout(t, 0.5);
    return sum(kept * kept);
  };
  const Tensor z = autograd::checkpoint(drop, x);
  const auto backward = [&] { z.backward({}, true); };
  cuda::Graph refused(device);
  const std::string error = outcome([&] { refused.capture(backward); });
  CHECK_MESSAGE(is_error(error, "CudaError", "random"), error);
  backward();  // as ever
  CHECK(outcome([&] { synchronize(device); }).empty());
}
