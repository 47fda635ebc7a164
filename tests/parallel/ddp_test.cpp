#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <sstream>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/warning.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/nn/summary.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/complex.h"
#include "ferrite/parallel/ddp/distributed_data_parallel.h"
#include "ferrite/parallel/ddp/sync_batch_norm.h"
#include "ferrite/tests/parallel/ddp_training.h"
#include "ferrite/tests/support/sanitizers.h"

using namespace ferrite;
using namespace ferrite::parallel;
using test::check_close;
using test::check_equal;
using test::DdpTraining;

namespace {

constexpr LocalGroupOptions kSoon{.timeout = std::chrono::seconds(30)};

/// y = x w + b in two layers, with a buffer that counts calls.
struct Net : nn::Cloneable<Net> {
  Net() {
    register_buffer("calls", calls);
    register_module("first", first);
    register_module("second", second);
  }
  Tensor forward(const Tensor& x) override {
    {
      const NoGradGuard guard;
      calls.add_(1);
    }
    return second(first(x));
  }
  Tensor calls = zeros({}, {.dtype = kInt64});
  nn::Linear first{3, 4}, second{4, 2};
};

/// Rank r's rows of a batch.
Tensor rows(int rank, std::int64_t n = 2) { return full({n, 3}, rank + 1.0); }

/// One process's gradients of loss(net(all ranks' rows)), averaged over ranks.
std::vector<Tensor> expected_gradients(const nn::Module& like, int ranks, int passes = 1) {
  const auto copy = like.clone();
  Net& net = dynamic_cast<Net&>(*copy);
  for (int p = 0; p < passes; ++p)
    for (int r = 0; r < ranks; ++r) (net(rows(r)).mean() / ranks).backward();
  std::vector<Tensor> out;
  for (const Tensor& t : net.parameters()) out.push_back(t.grad());
  return out;
}

void check_gradients(const nn::Module& module, const std::vector<Tensor>& expected,
                     double factor = 1, double tolerance = 1e-6) {
  const std::vector<Tensor> parameters = module.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    check_close(parameters[i].grad(), expected[i] * factor, tolerance, tolerance);
}

bool share_memory(const nn::Module& module) {
  const std::vector<Tensor> p = module.parameters();
  return std::ranges::all_of(p,
                             [&](const Tensor& t) { return t.grad().shares_storage(p[0].grad()); });
}

DdpTraining lenet() {
  return {.make = [] { return std::make_unique<nn::LeNet5>(); }};
}

/// In float64: with synchronised norms and few pixels, float32 rounding errors grow a hundredfold
/// every few steps, however the batch is split.
DdpTraining resnet(bool synchronised) {
  return {.make =
              [synchronised] {
                auto net = std::make_unique<nn::ResNet18>(
                    nn::ResNetOptions{.classes = 4, .stem = nn::ResNetStem::small, .width = 4});
                if (synchronised) {
                  convert_sync_batchnorm(*net);
                  net->to(kFloat64);
                } else {
                  net->eval();
                }
                return net;
              },
          .batch = {12, 3, 8, 8},
          .classes = 4,
          .dtype = synchronised ? kFloat64 : kFloat32,
          .lr = synchronised ? 0.02 : 0.002};
}

/// Numbers of ranks. ThreadSanitizer takes 20 times as long, and one number shows the same races.
std::vector<int> sizes() {
  return test::has_thread_sanitizer() ? std::vector<int>{3} : std::vector<int>{2, 3, 4};
}

}  // namespace

TEST_CASE("LeNet on halves, thirds and quarters of a batch is LeNet on the whole") {
  check_ddp_training(lenet(), sizes());
}

TEST_CASE("ResNet-18 with synchronised norms on parts of a batch is ResNet-18 on the whole") {
  check_ddp_training(resnet(true), sizes(), 1e-9);
}

TEST_CASE("ResNet-18 with fixed norms, in float32") { check_ddp_training(resnet(false), sizes()); }

TEST_CASE("every way of communicating trains alike") {
  DdpTraining c = lenet();
  c.steps = 6;
  const auto check = [&](const DDPOptions& options) {
    c.options = options;
    check_ddp_training(c, {2});
  };
  check({.bucket_cap_mb = 0.01, .first_bucket_mb = 0.001});
  check({.delay_allreduce = true});
  check({.bucket_cap_mb = 0.01, .gradient_predivide_factor = 2});
  check({.all_reduce = AllReduceAlgorithm::ring});
  check({.static_graph = true});
  check({.find_unused_parameters = true});
  c.format = kChannelsLast;
  check({.bucket_cap_mb = 0.01});
}

TEST_CASE("models agree after construction, and the wrapper is the model") {
  std::vector<Net> nets(3);
  for (int r = 0; r < 3; ++r) nets[static_cast<std::size_t>(r)].calls.fill_(r + 5);
  run_ranks(
      3,
      [&](ProcessGroup& group) {
        Net& net = nets[static_cast<std::size_t>(group.rank())];
        DistributedDataParallel ddp(net);
        static_assert(std::is_same_v<decltype(ddp), DistributedDataParallel<Net>>);
        CHECK(&ddp.module() == &net);
        CHECK(&ddp.process_group() == &group);
        CHECK(ddp.parameters()[0].is_same(net.first.weight));
        CHECK(ddp.named_parameters()[0].first == "first.weight");
        CHECK(ddp.str().starts_with("DistributedDataParallel(\n  (module): Net("));
        CHECK(ddp.load_state_dict(net.state_dict("module.")).complete());
        ddp.eval();
        CHECK_FALSE(net.first.is_training());
      },
      kSoon);
  for (int r = 1; r < 3; ++r)
    test::check_same_bits(test::state_of(nets[0]),
                          test::state_of(nets[static_cast<std::size_t>(r)]));
  CHECK(nets[2].calls.item<int>() == 5);
}

TEST_CASE("gradients are averages, views of buckets, and stay so") {
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    std::vector<Net> nets(static_cast<std::size_t>(ranks));
    run_ranks(
        ranks,
        [&](ProcessGroup& group) {
          Net& net = nets[static_cast<std::size_t>(group.rank())];
          DistributedDataParallel ddp(net);
          const std::vector<Tensor> once = expected_gradients(net, ranks);
          const auto run = [&] { ddp(rows(group.rank())).mean().backward(); };
          run();
          check_gradients(net, once);
          CHECK(share_memory(net));
          // Twice without no_sync accumulates; three times; starting from zeros, from none, and
          // from a foreign gradient.
          run();
          check_gradients(net, once, 2);
          run();
          check_gradients(net, once, 3);
          const Tensor view = net.first.weight.grad();
          ddp.zero_grad();
          run();
          check_gradients(net, once);
          CHECK(net.first.weight.grad().is_same(view));
          ddp.zero_grad(true);
          run();
          check_gradients(net, once);
          CHECK(share_memory(net));
          net.second.weight.set_grad(zeros({2, 4}));
          for (const Tensor& p : net.parameters())
            if (!p.is_same(net.second.weight)) p.grad().zero_();
          run();
          check_gradients(net, once);
          CHECK(share_memory(net));
          // Without a tape nothing happens, and the module itself stays local to the rank.
          ddp.zero_grad();
          {
            const NoGradGuard guard;
            ddp(rows(0));
          }
          if (group.rank() == 0) net(rows(0)).mean().backward();
          ddp.zero_grad();
          run();
          check_gradients(net, once);
        },
        kSoon);
  }
}

TEST_CASE("several forwards, retained tapes, and passes that are not for the model") {
  std::vector<Net> nets(2);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        Net& net = nets[static_cast<std::size_t>(group.rank())];
        DistributedDataParallel ddp(net);
        const std::vector<Tensor> once = expected_gradients(net, 2);
        const Tensor x = rows(group.rank());
        (ddp(x).mean() + ddp(x).mean()).backward();
        check_gradients(net, once, 2);
        ddp.zero_grad();
        const Tensor loss = ddp(x).mean();
        loss.backward({}, true);
        loss.backward();
        check_gradients(net, once, 2);
        // grad() does not communicate, and neither does another tape.
        ddp.zero_grad();
        const Tensor again = ddp(x).mean();
        if (group.rank() == 1) {
          const Tensor w = net.first.weight;
          check_close(autograd::grad({{again}}, {{w}}, {}, true)[0] * 0, zeros({4, 3}));
          (w * 2).sum().backward();
        }
        ddp.zero_grad();
        // A penalty that does not depend on the outputs is added on each rank.
        (again + net.first.weight.sum()).backward();
        std::vector<Tensor> with = once;
        with[0] = once[0] + 1;
        check_gradients(net, with);
        // Recomputed in backward.
        ddp.zero_grad();
        autograd::checkpoint([&](const Tensor& t) { return ddp(t); }, x).mean().backward();
        check_gradients(net, once);
        CHECK_THROWS_WITH_AS(ddp(x).mean().backward({}, true, true),
                             doctest::Contains("create_graph is not supported"), AutogradError);
      },
      kSoon);
}

TEST_CASE("no_sync adds up on each rank until a pass outside") {
  std::vector<Net> nets(2);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        Net& net = nets[static_cast<std::size_t>(group.rank())];
        DistributedDataParallel ddp(net);
        const std::vector<Tensor> once = expected_gradients(net, 2);
        const auto run = [&] { ddp(rows(group.rank())).mean().backward(); };
        for (int round = 0; round < 3; ++round) {
          ddp.zero_grad(round == 1);
          {
            const auto guard = ddp.no_sync();
            run();
            const auto inner = ddp.no_sync();
            run();
          }
          CHECK(net.second.bias.grad().shares_storage(net.second.weight.grad()));  // the bucket
          const double own = net.second.bias.grad().sum().item<double>();
          CHECK(own == doctest::Approx(2));
          CHECK(net.first.weight.grad()[0][0].item<double>() !=
                doctest::Approx(2 * once[0][0][0].item<double>()));
          run();
          check_gradients(net, once, 3);
        }
        // A tape recorded outside that runs inside stays local; the next pass averages everything.
        ddp.zero_grad();
        const Tensor loss = ddp(rows(group.rank())).mean();
        {
          const auto guard = ddp.no_sync();
          loss.backward({}, true);
        }
        loss.backward();
        check_gradients(net, once, 2);
        // Gradients of parts of the model may arrive one after the other.
        ddp.zero_grad();
        {
          const auto guard = ddp.no_sync();
          net.second(ones({1, 4})).sum().backward();
        }
        (net.second.bias.grad()).zero_();
        run();
      },
      kSoon);
}

TEST_CASE("sums instead of averages, divided before") {
  std::vector<Net> nets(3);
  const auto check = [&](const DDPOptions& options, double factor) {
    run_ranks(
        3,
        [&](ProcessGroup& group) {
          Net& net = nets[static_cast<std::size_t>(group.rank())];
          DistributedDataParallel ddp(net, options);
          const std::vector<Tensor> once = expected_gradients(net, 3);
          ddp.zero_grad(true);
          ddp(rows(group.rank())).mean().backward();
          check_gradients(net, once, factor);
        },
        kSoon);
  };
  check({.gradient_average = false}, 3);
  check({.gradient_predivide_factor = 4}, 1);
  check({.gradient_average = false, .gradient_predivide_factor = 4}, 0.75);
}

TEST_CASE("buffers are those of rank 0, where that is asked for") {
  std::vector<Net> nets(2);
  for (const bool broadcast : {true, false})
    run_ranks(
        2,
        [&](ProcessGroup& group) {
          Net& net = nets[static_cast<std::size_t>(group.rank())];
          DistributedDataParallel ddp(net, {.broadcast_buffers = broadcast});
          const auto run = [&] { ddp(rows(group.rank())).mean().backward(); };
          run();
          net.calls.fill_(10 * (group.rank() + 1));
          run();
          CHECK(net.calls.item<int>() == (broadcast ? 11 : 10 * (group.rank() + 1) + 1));
          net.calls.fill_(10 * (group.rank() + 1));
          const NoGradGuard guard;
          ddp(rows(0));  // the first one after any backward pass
          CHECK(net.calls.item<int>() == (broadcast ? 11 : 10 * (group.rank() + 1) + 1));
          if (group.rank() == 1) ddp(rows(0));  // and no other
        },
        kSoon);
}

namespace {

/// Uses its layers in a different order than registered, one of them twice, and shares a weight;
/// has two dtypes; returns a struct and takes more than tensors.
struct Odd : nn::Cloneable<Odd> {
  Odd() {
    register_module("last", last);
    register_module("twice", twice);
    register_module("tied", tied);
    register_module("wide", wide);
    add_parameter("scalar", full({}, 2.0));
    tied.weight = twice.weight;
  }
  struct Result {
    Tensor logits, extra;
  };
  using nn::Module::forward;
  Result forward(const Tensor& x, int times) {
    Tensor h = x;
    for (int i = 0; i < times; ++i) h = twice(h);
    const Tensor w = wide(h.to(kFloat64)).to(kFloat32);
    return {last(tied(w)) * parameters().front(), h};
  }
  nn::Linear last{3, 2}, twice{3, 3}, tied{3, 3};
  nn::Linear wide = [] {
    nn::Linear l(3, 3);
    l.to(kFloat64);
    return l;
  }();
};

}  // namespace

TEST_CASE("tied weights, layers used twice, mixed dtypes, any inputs and outputs") {
  std::vector<Odd> nets(2);
  std::vector<std::vector<std::string>> orders(2);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        const auto r = static_cast<std::size_t>(group.rank());
        Odd& net = nets[r];
        DistributedDataParallel ddp(net, {.bucket_cap_mb = 1e-6, .first_bucket_mb = 1e-6});
        CHECK(ddp.report().buckets.size() == ddp.parameters().size());
        CHECK_FALSE(ddp.report().rebuilt);
        const auto copy = net.clone();
        for (int step = 0; step < 3; ++step) {
          ddp.zero_grad();
          ddp(rows(group.rank()), 2).logits.sum().backward();
        }
        for (int i = 0; i < 2; ++i) copy->forward(rows(i), 2).logits.sum().backward();
        const auto expected = copy->parameters(), got = net.parameters();
        for (std::size_t i = 0; i < got.size(); ++i)
          check_close(got[i].grad(), expected[i].grad() / 2, 1e-5, 1e-5);
        const DDPReport report = ddp.report();
        CHECK(report.rebuilt);
        for (const auto& b : report.buckets) orders[r].push_back(b.parameters.at(0));
      },
      kSoon);
  CHECK(orders[0] == orders[1]);
  CHECK(orders[0].back().starts_with("twice"));  // whatever the order of registration
}

TEST_CASE("complex parameters and buffers") {
  struct Phases : nn::Cloneable<Phases> {
    Phases() {
      register_parameter("w", w);
      register_buffer("b", b);
    }
    Tensor forward(const Tensor& x) override { return x * (w * b).abs().pow(2).sum(); }
    Tensor w = ones({3}, kComplexFloat), b = ones({3}, kComplexFloat);
  };
  std::deque<Phases> nets(2);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        Phases& net = nets[static_cast<std::size_t>(group.rank())];
        no_grad([&] { net.b.mul_(complex(tensor({0.0}), tensor({group.rank() + 1.0}))); });
        DistributedDataParallel ddp(net);
        check_equal(view_as_real(net.b), tensor({0.0, 1.0}).expand({3, 2}));  // rank 0's
        ddp(full({}, group.rank() + 1.0)).backward();
        check_close(view_as_real(net.w.grad()), tensor({3.0, 0.0}).expand({3, 2}), 1e-6);
      },
      kSoon);
}

TEST_CASE("hooks on the wrapper run without a warning, and a summary counts its model") {
  std::vector<std::string> warnings;
  const WarningHandler before =
      set_warning_handler([&](std::string_view text) { warnings.emplace_back(text); });
  nn::Sequential net{nn::Linear(3, 4), nn::Linear(4, 2)};
  run_ranks(
      1,
      [&](ProcessGroup&) {
        DistributedDataParallel ddp(net);
        const Tensor expected = net(rows(0)) * 3;
        nn::ModuleHook hook = ddp.register_forward_hook(
            [](nn::Module&, const Tensor&, const Tensor& out) -> Tensor { return out * 3; });
        check_close(ddp(rows(0)), expected, 1e-6);
        hook.remove();
        const nn::Summary wrapped = nn::summary(ddp, {2, 3}), own = nn::summary(net, {2, 3});
        CHECK(wrapped.multiply_adds == own.multiply_adds);
        CHECK(wrapped.input_bytes == own.input_bytes);
      },
      kSoon);
  set_warning_handler(before);
  CHECK(warnings.empty());
}

TEST_CASE("buckets that are not made anew stay in reverse order of registration") {
  std::vector<Odd> nets(2);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        Odd& net = nets[static_cast<std::size_t>(group.rank())];
        DistributedDataParallel ddp(
            net, {.bucket_cap_mb = 1e-6, .first_bucket_mb = 1e-6, .rebuild_buckets = false});
        for (int step = 0; step < 3; ++step) ddp(rows(group.rank()), 2).logits.sum().backward();
        const DDPReport report = ddp.report();
        CHECK_FALSE(report.rebuilt);
        const auto names = net.named_parameters();
        REQUIRE(report.buckets.size() == names.size());
        for (std::size_t i = 0; i < names.size(); ++i)
          CHECK(report.buckets[i].parameters.at(0) == names[names.size() - 1 - i].first);
      },
      kSoon);
}

TEST_CASE("communication hooks") {
  std::vector<Net> nets(2);
  const auto check = [&](const CommHook& hook, const auto& look) {
    run_ranks(
        2,
        [&](ProcessGroup& group) {
          Net& net = nets[static_cast<std::size_t>(group.rank())];
          DistributedDataParallel ddp(net);
          ddp.register_comm_hook(hook, "mine");
          CHECK_THROWS_WITH_AS(ddp.register_comm_hook(hook), doctest::Contains("already: 'mine'"),
                               ValueError);
          const std::vector<Tensor> once = expected_gradients(net, 2);
          for (int step = 0; step < 3; ++step) {
            ddp.zero_grad(true);
            ddp(rows(group.rank())).mean().backward();
            look(group, net, once);
          }
        },
        kSoon);
  };
  const auto averages = [](double tolerance) {
    return [tolerance](ProcessGroup&, Net& net, const std::vector<Tensor>& once) {
      check_gradients(net, once, 1, tolerance);
    };
  };
  check(comm_hooks::allreduce, averages(1e-6));
  check(comm_hooks::fp16_compress, averages(2e-3));
  check(comm_hooks::bf16_compress, averages(2e-2));
  check(comm_hooks::noop, [](ProcessGroup& group, Net& net, const std::vector<Tensor>&) {
    const auto copy = net.clone();
    (*copy)(rows(group.rank())).mean().backward();
    check_equal(net.first.weight.grad(), copy->first.weight.grad());
  });
  check(
      [](GradBucket& bucket) {
        CHECK(bucket.gradients().size() == bucket.parameters().size());
        CHECK(bucket.is_last() == (bucket.index() == 0));
        CHECK(bucket.buffer().dim() == 1);
        const Tensor t = bucket.buffer();
        return CommWork{.work = bucket.group().all_reduce(t, ReduceOp::max),
                        .finish = [t] { t.mul_(0).add_(7); }};
      },
      [](ProcessGroup&, Net& net, const std::vector<Tensor>&) {
        check_equal(net.second.bias.grad(), full({2}, 7.0));
      });
}

TEST_CASE("the report") {
  std::vector<Net> nets(2);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        Net& net = nets[static_cast<std::size_t>(group.rank())];
        DistributedDataParallel ddp(net, {.bucket_cap_mb = 1e-6, .first_bucket_mb = 1e-6});
        CHECK(ddp.report().str().find("0 steps, none with timed") != std::string::npos);
        const auto run = [&] {
          for (int i = 0; i < 3; ++i) ddp(rows(group.rank())).mean().backward();
        };
        run();
        ddp.reset_report();
        run();
        const DDPReport r = ddp.report();
        CHECK(r.group == fmt::format("local, 2 ranks, this is rank {}", group.rank()));
        CHECK(r.parameters == 4);
        CHECK(r.buckets.size() == 4);
        CHECK(r.bytes == 4 * 64);  // each padded to 64 bytes
        CHECK(r.steps == 3);
        CHECK(r.timed == 3);
        CHECK(r.backward_ms > 0);
        CHECK(r.communication_ms > 0);
        CHECK(r.overlap() >= 0);
        CHECK(r.overlap() <= 1);
        for (const auto& b : r.buckets) {
          CHECK(b.ended_ms >= b.begun_ms);
          CHECK(b.ready_ms >= 0);
        }
        std::ostringstream text;
        text << r;
        CHECK(text.str().find("second.bias") != std::string::npos);
        CHECK(text.str().find("3 steps: backward") != std::string::npos);
      },
      kSoon);
}
