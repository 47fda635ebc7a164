// DataParallel as a module: arguments and results, names, hooks, modes, errors, its report.
#include "ferrite/parallel/data_parallel/data_parallel.h"

#include <doctest/doctest.h>

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/parallel/data_parallel/data_parallel_criterion.h"
#include "ferrite/parallel/ddp/sync_batch_norm.h"
#include "ferrite/tests/parallel/data_parallel_training.h"

using namespace ferrite;
using parallel::DataParallel;
using test::check_close;
using test::check_equal;
using test::four;
using test::linear;
using test::PartsNet;
using test::rows;
using test::two;

namespace {

struct Sample {
  Tensor x, offset;
  std::string name;
};

struct Answer {
  std::map<std::string, Tensor> by_name;
  std::vector<std::pair<Tensor, int>> list;
  std::optional<Tensor> absent;
};

/// Takes and returns more than a tensor.
struct Rich : nn::Cloneable<Rich> {
  Rich() { register_module("fc", fc); }
  using nn::Module::forward;
  Answer forward(const std::map<std::string, Tensor>& inputs, const Sample& sample, int factor) {
    Answer answer;
    const Tensor h = fc(inputs.at("x")) * static_cast<double>(factor);
    answer.by_name = {{"h", h}, {sample.name, sample.x + sample.offset}};
    answer.list = {{h.sum(), factor}, {inputs.at("y"), 7}};
    return answer;
  }
  nn::Linear fc{3, 2};
};

/// No inputs, numbers as results, no results.
struct Odd : nn::Cloneable<Odd> {
  Odd() { register_parameter("w", w); }
  auto operator()(const auto&... inputs) { return forward(inputs...); }
  using nn::Module::forward;
  Tensor forward() { return w * 2.0; }
  Tensor forward(const Tensor& x) override { return (x * w).sum(); }
  void forward(const Tensor& x, std::atomic<std::int64_t>* count) { *count += x.size(0); }
  Tensor w = ones({3});
};

/// Throws if the batch tells it to.
struct Picky : nn::Cloneable<Picky> {
  Picky() { register_module("fc", fc); }
  Tensor forward(const Tensor& x) override {
    FERRITE_CHECK(x.size(0) != 2, ValueError, "picky", "two rows are not enough");
    return fc(x);
  }
  nn::Linear fc{3, 2};
};

}  // namespace

template <>
struct ferrite::parallel::FieldsOf<Sample> {
  static auto of(auto& s) { return std::tie(s.x, s.offset, s.name); }
};
template <>
struct ferrite::parallel::FieldsOf<Answer> {
  static auto of(auto& a) { return std::tie(a.by_name, a.list, a.absent); }
};

TEST_CASE("outputs are gathered where asked, along the dimension asked for") {
  nn::Linear net = linear();
  const Tensor x = rows(7);
  const Tensor expected = no_grad([&] { return net(x.to("cpu:0")).cpu(); });
  for (const std::optional<Device>& output :
       {std::optional<Device>(), std::optional<Device>("cpu:1"), std::optional<Device>(Device())}) {
    DataParallel dp(net, two(), {.output_device = output});
    for (const Tensor& input : {x, x.to("cpu:1")}) {
      const Tensor y = dp(input);
      CHECK(y.device() == output.value_or("cpu:0"));
      CHECK(y.requires_grad());
      check_close(y.cpu(), expected, 1e-6, 1e-6);
    }
  }
  // Batches in the second dimension, as for sequences.
  nn::Linear steps = linear();
  DataParallel dp(steps, four(), {.dim = 1});
  const Tensor long_x = rows(10).reshape({2, 5, 3});
  check_close(dp(long_x).cpu(), no_grad([&] { return steps(long_x.to("cpu:0")).cpu(); }), 1e-6,
              1e-6);
  CHECK(dp.parallel_forward(long_x).size() == 3);
}

TEST_CASE("parts as torch makes them, on their devices") {
  nn::Linear net = linear();
  DataParallel dp(net, four());
  const auto sizes = [&](std::int64_t n) {
    std::vector<std::int64_t> sizes;
    const std::vector<Tensor> parts = dp.parallel_forward(rows(n));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CHECK(parts[i].device() == dp.devices()[i]);
      sizes.push_back(parts[i].size(0));
    }
    CHECK(dp(rows(n)).size(0) == n);
    return sizes;
  };
  CHECK(sizes(30) == std::vector<std::int64_t>{8, 8, 8, 6});
  CHECK(sizes(10) == std::vector<std::int64_t>{3, 3, 3, 1});
  CHECK(sizes(5) == std::vector<std::int64_t>{2, 2, 1});
  CHECK(sizes(2) == std::vector<std::int64_t>{1, 1});
  CHECK(sizes(1) == std::vector<std::int64_t>{1});
  CHECK(sizes(0) == std::vector<std::int64_t>{0});
}

TEST_CASE("nested inputs and outputs") {
  manual_seed(2);
  Rich net;
  net.to("cpu:0");
  DataParallel dp(net, two());
  const Sample sample{rows(5), tensor(2.0), "sum"};
  const Answer answer =
      dp(std::map<std::string, Tensor>{{"x", rows(5)}, {"y", rows(5, 1)}}, sample, 3);
  CHECK(answer.by_name.size() == 2);
  const Tensor h = net.fc(rows(5).to("cpu:0")) * 3.0;
  check_close(answer.by_name.at("h").cpu(), h.cpu(), 1e-6, 1e-6);
  check_close(answer.by_name.at("sum").cpu(), rows(5) + 2.0);
  REQUIRE(answer.list.size() == 2);
  CHECK(answer.list[0].first.shape() == Shape{2});
  CHECK(answer.list[0].second == 3);
  check_close(answer.list[0].first.sum().cpu(), h.sum().cpu(), 1e-5, 1e-5);
  check_close(answer.list[1].first.cpu(), rows(5, 1));
  CHECK_FALSE(answer.absent.has_value());
  answer.by_name.at("h").sum().backward();
  check_close(net.fc.bias.grad(), {15, 15});
}

TEST_CASE("no inputs, numbers as results, and no results") {
  Odd net;
  net.to("cpu:0");
  DataParallel dp(net, two());
  check_close(dp(), {2, 2, 2});
  CHECK(dp.parallel_forward().size() == 1);
  const Tensor sums = dp(rows(3));
  check_close(sums, {1.5, 2.1});
  sums.sum().backward();
  check_close(net.w.grad(), {0.9, 1.2, 1.5});
  std::atomic<std::int64_t> count = 0;
  dp(rows(3), &count);
  dp.parallel_forward(rows(4), &count);
  CHECK(count == 7);
}

TEST_CASE("one device takes the module as it is") {
  manual_seed(3);
  Odd net;
  DataParallel dp(net, {"cpu:1"});
  CHECK(net.w.device() == Device("cpu:1"));
  const Tensor y = dp(rows(3));
  CHECK(y.dim() == 0);
  CHECK(y.device() == Device("cpu:1"));
  CHECK(dp.report().backend.empty());
  DataParallel home(net, {"cpu:1"}, {.output_device = Device()});
  const Tensor z = home(rows(3));
  CHECK(z.dim() == 0);
  CHECK(z.device().is_host());
  z.backward();
  check_close(net.w.grad(), {0.9, 1.2, 1.5});
}

TEST_CASE("names, modes and dicts are the module's") {
  PartsNet net(false, true);
  net.to("cpu:0");
  DataParallel dp(net, two());
  CHECK(&dp.module() == &net);
  CHECK(dp.name() == "DataParallel");
  CHECK(dp.named_parameters()[0].first == "conv.weight");
  CHECK(dp.parameters()[0].is_same(net.conv.weight));
  PartsNet other(false, true);
  for (const char* prefix : {"", "module."}) {
    net.fc.bias.detach().fill_(0);
    CHECK(dp.load_state_dict(other.state_dict(prefix)).complete());
    check_equal(net.fc.bias.cpu(), other.fc.bias);
  }
  CHECK(other.load_state_dict(dp.state_dict()).complete());

  nn::Sequential dropping(nn::Dropout(0.5));
  DataParallel dropped(dropping, two());
  const Tensor x = ones({40, 8});
  CHECK(eq(dropped(x).cpu(), 0.0).to(kInt64).sum().item<std::int64_t>() > 40);
  dropped.eval();
  CHECK_FALSE(dropping.is_training());
  check_equal(dropped(x).cpu(), x);
}

TEST_CASE("hooks of the wrapper see the batch, those below it its parts") {
  nn::Sequential net(nn::Linear(3, 2));
  net.to("cpu:0");
  DataParallel dp(net, four());
  std::mutex mutex;
  std::multiset<std::int64_t> below;
  std::set<std::thread::id> threads;
  net[0].register_forward_hook([&](nn::Module&, const Tensor& in, const Tensor& out) {
    const std::lock_guard lock(mutex);
    CHECK(in.device() == out.device());
    below.insert(in.size(0));
    threads.insert(std::this_thread::get_id());
  });
  std::vector<std::int64_t> above;
  dp.register_forward_pre_hook([&](nn::Module& module, const Tensor& in) {
    CHECK(&module == &dp);
    above.push_back(in.size(0));
    return in * 0.0;
  });
  nn::ModuleHook after = dp.register_forward_hook(
      [&](nn::Module&, const Tensor&, const Tensor& out) { return out + 1.0; });
  const Tensor bias = net.parameters()[1].detach();
  check_close(dp(rows(10)), (bias + 1.0).expand({10, 2}), 1e-6);
  CHECK(above == std::vector<std::int64_t>{10});
  CHECK(below == std::multiset<std::int64_t>{1, 3, 3, 3});
  CHECK(threads.size() == 4);
  // One output of each replica is seen.
  after.remove();
  dp.register_forward_hook(
      nn::ForwardHook([&](nn::Module&, std::span<const Tensor>, std::span<Tensor> out) {
        above.push_back(static_cast<std::int64_t>(out.size()));
      }));
  dp.parallel_forward(rows(10));
  CHECK(above.back() == 4);
}

TEST_CASE("backward hooks run in the replicas") {
  nn::Sequential net(nn::Linear(3, 3), nn::ReLU(), nn::Linear(3, 2));
  net.to("cpu:0");
  const auto alone = net.clone();
  std::mutex mutex;
  std::multiset<std::int64_t> whole, part;
  const auto note = [&](std::multiset<std::int64_t>& sizes) {
    return [&](nn::Module&, std::span<Tensor>, std::span<const Tensor> out) {
      const std::lock_guard lock(mutex);
      sizes.insert(out[0].size(0));
    };
  };
  net.register_full_backward_hook(note(whole));
  net[0].register_full_backward_hook(note(part));
  net[2].register_full_backward_hook(
      [](nn::Module& module, std::span<Tensor> in, std::span<const Tensor>) {
        CHECK(module.parameters()[0].device() == in[0].device());
        in[0] = in[0] * 2.0;
      });
  DataParallel dp(net, two());
  const Tensor x = rows(5).set_requires_grad();
  const Tensor loss = dp(x).sum();
  loss.backward({}, true);
  net.zero_grad(true);
  loss.backward();
  CHECK(whole == std::multiset<std::int64_t>{2, 2, 3, 3});
  CHECK(part == whole);
  (*alone)(rows(5).to("cpu:0")).sum().backward();
  const auto expected = alone->parameters(), got = net.parameters();
  check_close(got[0].grad(), expected[0].grad() * 2.0, 1e-5);
  check_close(got[2].grad(), expected[2].grad(), 1e-5);
}

TEST_CASE("mistakes of construction and of the first call") {
  nn::Sequential synchronized(nn::Linear(3, 2), parallel::SyncBatchNorm(2));
  CHECK_THROWS_WITH_AS(DataParallel(synchronized, {"cpu:0", "cpu:1"}),
                       doctest::Contains("revert_sync_batchnorm"), ValueError);
  nn::Linear net = linear();
  CHECK_THROWS_WITH_AS(DataParallel(net, {"cpu:0", "cpu:1", "cpu:0"}), doctest::Contains("cpu:0"),
                       ValueError);
  CHECK_THROWS_WITH_AS(DataParallel(net, {"cpu:0", "cuda:63"}), doctest::Contains("cuda"),
                       DeviceError);
  CHECK_THROWS_WITH_AS(DataParallel(net, {"cuda:63"}), doctest::Contains("cuda"), DeviceError);
  CHECK_THROWS_WITH_AS(DataParallel(net, two(), {.output_device = "cuda:63"}),
                       doctest::Contains("cuda"), DeviceError);
  CHECK_THROWS_WITH_AS(DataParallel(net, two(), {.bucket_cap_mb = 0}),
                       doctest::Contains("bucket_cap_mb is 0"), ValueError);
  CHECK_THROWS_AS(DataParallel(net, two(), {.backend = "pigeons"}), ValueError);
  if (!cuda::is_available())
    CHECK_THROWS_WITH_AS(DataParallel{net}, doctest::Contains("\"cpu:0\", \"cpu:1\""), ValueError);
  net.to("cpu:1");
  DataParallel dp(net, two());
  for (const std::int64_t n : {1, 4})
    CHECK_THROWS_WITH_AS(dp(rows(n)),
                         doctest::Contains("must have its parameters and buffers on device cpu:0 "
                                           "(devices[0]), but 'weight' is on device cpu:1"),
                         DeviceError);
  net.to("cpu:0");
  CHECK_THROWS_AS(DataParallel(net, two(), {.dim = 2})(rows(4)), IndexError);
  nn::Module& as_module = dp;
  check_close(as_module(rows(4)).sum().cpu(), net(rows(4).to("cpu:0")).sum().cpu(), 1e-5);
}

TEST_CASE("a replica that throws, and the calls after it") {
  Picky net;
  net.to("cpu:0");
  DataParallel dp(net, four());
  // 11 rows are 3, 3, 3, 2; 8 are 2 for each.
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(dp(rows(11)),
                         doctest::Contains("replica 3 on cpu:3: [picky] two rows are not enough"),
                         ValueError);
    CHECK_THROWS_WITH_AS(dp(rows(8)), doctest::Contains("replica 0 on cpu:0"), ValueError);
    const Tensor y = dp(rows(12));
    net.zero_grad(true);
    y.sum().backward();
    check_close(net.fc.bias.grad(), {12, 12});
  }
  // Failed steps are not counted.
  CHECK(dp.report().steps == 2);
}

TEST_CASE("the report counts bytes moved") {
  nn::Sequential net(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Linear(4, 2));
  net.to("cpu:0");
  DataParallel dp(net, test::devices_of(DeviceType::cpu, 3));
  for (int step = 0; step < 4; ++step) {
    dp.zero_grad();
    dp(rows(9)).sum().backward();
    synchronize("cpu:0");
  }
  parallel::DataParallelReport report = dp.report();
  CAPTURE(report.str());
  CHECK(report.steps == 4);
  CHECK(report.timed == 4);
  CHECK(report.reduced == 4);
  CHECK(report.backend == "copies");
  CHECK(report.bytes_scattered == 9 * 3 * 4);            // from the host
  CHECK(report.bytes_gathered == 6 * 2 * 4);             // of two of three
  CHECK(report.bytes_reduced == 2 * 4 * (16 + 8 + 10));  // two times the parameters
  CHECK(report.bytes_broadcast >= 2 * (4 * (16 + 8 + 10 + 8)));
  CHECK(report.device_forward_ms.size() == 3);
  CHECK(report.forward_ms > 0);
  for (const double ms : report.device_forward_ms) CHECK(ms <= report.forward_ms * 1.0001);
  CHECK(report.reduction_ms > 0);
  CHECK(report.exposed_reduction_ms <= report.reduction_ms * 1.0001);
  CHECK(report.str().find("3 steps") == std::string::npos);
  CHECK(report.str().find("DataParallel on cpu:0, cpu:1, cpu:2 (copies): 4 steps, 4 timed, 4 with "
                          "gradients\n") == 0);
  dp.reset_report();
  no_grad([&] { return dp(rows(4)); });
  report = dp.report();
  CHECK(report.steps == 1);
  CHECK(report.reduced == 0);
  CHECK(report.bytes_reduced == 0);
  CHECK(report.overlap() == 1);
  parallel::DataParallelReport nothing;
  nothing.devices = two();
  CHECK(nothing.str().find("parallel forward") != std::string::npos);
}

TEST_CASE("memory does not grow with the steps") {
  manual_seed(1);
  PartsNet net(true, true);
  net.to("cpu:0");
  DataParallel dp(net, four());
  parallel::DataParallelCriterion criterion(
      dp, [](const Tensor& out, const Tensor& y) { return cross_entropy(out, y); });
  optim::SGD sgd(dp.parameters(), {.lr = 0.1, .momentum = 0.9});
  const Tensor x = randn({11, 2, 4, 4}).to("cpu:0");
  const Tensor y = randint(0, 3, {11}, {.dtype = kInt64});
  struct Held {
    std::size_t allocated, reserved;
    std::uint64_t requests;
  };
  const auto step = [&](int i) {
    sgd.zero_grad();
    if (i % 2)
      criterion(dp.parallel_forward(x), y).backward();
    else
      cross_entropy(dp(x), y.to("cpu:0")).backward();
    sgd.step();
    for (const Device& device : dp.devices()) synchronize(device);
  };
  const auto held = [&] {
    std::vector<Held> held;
    for (const Device& device : dp.devices()) {
      const MemoryStats stats = allocator(device).stats();
      held.push_back({stats.allocated, stats.reserved, stats.system_requests});
    }
    return held;
  };
  for (int i = 0; i < 5; ++i) step(i);
  const std::vector<Held> after_5 = held();
  for (int i = 5; i < 45; ++i) step(i);
  const std::vector<Held> after_45 = held();
  for (std::size_t d = 0; d < after_5.size(); ++d) {
    CAPTURE(d);
    CHECK(after_45[d].allocated == after_5[d].allocated);
    // Whether a block can be reused within a step depends on which streams are late.
    CHECK(after_45[d].requests <= after_5[d].requests + 4);
    CHECK(after_45[d].reserved <= after_5[d].reserved + 4 * 1024);
  }
}

TEST_CASE("the loss inside the module") {
  struct WithLoss : nn::Cloneable<WithLoss> {
    WithLoss() { register_module("fc", fc); }
    using nn::Module::forward;
    Tensor forward(const Tensor& x, const Tensor& y) { return cross_entropy(fc(x), y); }
    nn::Linear fc{3, 2};
  };
  manual_seed(4);
  WithLoss net;
  net.to("cpu:0");
  DataParallel dp(net, two());
  const Tensor y = tensor({0, 1, 1, 0}).to(kInt64);
  const Tensor losses = dp(rows(4), y);
  CHECK(losses.shape() == Shape{2});
  losses.mean().backward();
  const Tensor gradient = net.fc.weight.grad().clone();
  net.zero_grad(true);
  net(rows(4).to("cpu:0"), y.to("cpu:0")).backward();
  check_close(gradient, net.fc.weight.grad(), 1e-5, 1e-6);
}
