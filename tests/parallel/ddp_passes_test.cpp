// DistributedDataParallel with backward passes that reach parameters other than straight through
// the result of the model.
#include <doctest/doctest.h>

#include <deque>
#include <string>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/record.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/local/local_group.h"
#include "ferrite/parallel/ddp/distributed_data_parallel.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::parallel;
using test::check_close;
using test::check_equal;

namespace {

constexpr LocalGroupOptions kSoon{.timeout = std::chrono::seconds(30)};

/// Rank r's rows of a batch.
Tensor rows(int rank) { return full({2, 3}, rank + 1.0); }

void check_gradients(const nn::Module& module, const std::vector<Tensor>& expected,
                     double factor = 1) {
  const std::vector<Tensor> parameters = module.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    check_close(parameters[i].grad(), expected[i] * factor, 1e-5, 1e-5);
}

/// Computes its first layer's gradients in a backward pass of its own, once per use.
struct Nested : nn::Cloneable<Nested> {
  /// With a layer before it, whose gradients come last, its bucket is not communicated meanwhile.
  explicit Nested(bool has_first = false) : has_first(has_first) {
    if (has_first) register_module("first", first);
    register_module("inner", inner);
    register_module("outer", outer);
  }
  Tensor apart(const Tensor& x) {
    Tensor out;
    {
      const NoGradGuard guard;
      out = inner(x);
    }
    autograd::record(out, "apart", {x}, [this, x](const Tensor& grad, autograd::Needs) -> Tensor {
      const EnableGradGuard guard;
      const Tensor again = x.detach().clone().set_requires_grad();
      autograd::backward(std::vector{inner(again)}, std::vector{grad});
      return again.grad();
    });
    return out;
  }
  using nn::Module::forward;
  Tensor forward(const Tensor& x, int times) {
    Tensor h = has_first ? first(x) : x;
    for (int i = 0; i < times; ++i) h = apart(h);
    return outer(h);
  }
  bool has_first;
  nn::Linear first{3, 3}, inner{3, 3}, outer{3, 2};
};

}  // namespace

TEST_CASE("backward passes within backward passes") {
  std::deque<Nested> nets(2);
  const auto check = [&](int times, const DDPOptions& options) {
    std::vector<std::string> errors(2);
    run_ranks(
        2,
        [&](ProcessGroup& group) {
          try {
            Nested& net = nets[static_cast<std::size_t>(group.rank())];
            DistributedDataParallel ddp(net, options);
            const auto alone = net.clone();
            for (int r = 0; r < 2; ++r)
              alone->forward(rows(r).set_requires_grad(), times).sum().backward();
            for (int step = 0; step < 3; ++step) {
              ddp.zero_grad();
              ddp(rows(group.rank()).set_requires_grad(), times).sum().backward();
              for (std::size_t i = 0; i < 4; ++i)
                check_close(net.parameters()[i].grad(), alone->parameters()[i].grad() / 2, 1e-5,
                            1e-5);
            }
            CHECK(ddp.report().parameters == 4);
          } catch (const DistributedError& e) {
            errors[static_cast<std::size_t>(group.rank())] = e.what();
          }
        },
        kSoon);
    return errors;
  };
  const std::vector<std::string> none(2);
  CHECK(check(1, {.bucket_cap_mb = 1e-6, .first_bucket_mb = 1e-6}) == none);
  CHECK(check(2, {.delay_allreduce = true}) == none);
  CHECK(check(2, {.find_unused_parameters = true, .delay_allreduce = true}) == none);
  const auto check_says = [](const std::vector<std::string>& errors, const char* text) {
    for (const std::string& error : errors) {
      CHECK_MESSAGE(error.find(text) != std::string::npos, error);
      CHECK_MESSAGE(error.find("parameter 'inner.") != std::string::npos, error);
      CHECK_MESSAGE(error.find("Pass delay_allreduce = true, or") != std::string::npos, error);
    }
  };
  check_says(check(1, {.find_unused_parameters = true}), "was communicated as unused in this");
  nets.clear();
  for (int r = 0; r < 2; ++r) nets.emplace_back(true);
  check_says(check(2, {}), "got a second gradient in this backward pass");
}

namespace {

/// Its result is a parameter.
struct Table : nn::Cloneable<Table> {
  Table() { register_parameter("w", w); }
  Tensor forward(const Tensor&) override { return w; }
  Tensor w = zeros({2});
};

}  // namespace

TEST_CASE("two wrappers of the same parameters") {
  // Large enough for a bucket to be on its way when another wrapper sees the gradient.
  constexpr std::int64_t kWide = 400;
  std::vector<nn::Linear> nets;
  for (int rank = 0; rank < 2; ++rank) nets.emplace_back(kWide, kWide);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        nn::Linear& net = nets[static_cast<std::size_t>(group.rank())];
        DistributedDataParallel first(net), second(net);
        const Tensor x = full({1, kWide}, group.rank() + 1.0);
        for (int step = 0; step < 6; ++step) {
          net.zero_grad(step % 2 == 0);
          (step < 4 ? first : second)(x).sum().backward();
          check_equal(net.weight.grad(), full({kWide, kWide}, 1.5));
          check_equal(net.bias.grad(), ones({kWide}));
        }
      },
      kSoon);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        nn::Linear& net = nets[static_cast<std::size_t>(group.rank())];
        const Tensor x = ones({1, kWide});
        std::string error;
        try {
          DistributedDataParallel first(net), second(net);
          (first(x) + second(x)).sum().backward();
        } catch (const DistributedError& e) {
          error = e.what();
        }
        CHECK_MESSAGE(
            error.find("averaged by another DistributedDataParallel") != std::string::npos, error);
      },
      kSoon);
}

namespace {

struct Counter : nn::Cloneable<Counter> {
  Counter() {
    register_parameter("w", w);
    register_buffer("steps", steps);
  }
  Tensor forward(const Tensor& x) override {
    steps = steps + 1;
    return x * w;
  }
  Tensor w = ones({}), steps = zeros({});
};

}  // namespace

TEST_CASE("a buffer that forward() assigns") {
  std::vector<Counter> nets(2);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        Counter& net = nets[static_cast<std::size_t>(group.rank())];
        DistributedDataParallel ddp(net);
        for (int step = 0; step < 3; ++step) {
          ddp(ones({2})).sum().backward();
          if (group.rank() == 1) net.steps = net.steps + 5;
        }
        CHECK(net.steps.item<float>() == (group.rank() == 0 ? 3 : 8));
        {
          const auto join = ddp.join();
          if (group.rank() == 0) ddp(ones({2})).sum().backward();
        }
        CHECK(net.steps.item<float>() == 4);
      },
      kSoon);
}

namespace {

/// Uses its second layer where that is asked for.
struct Optional : nn::Cloneable<Optional> {
  Optional() {
    register_module("first", first);
    register_module("second", second);
  }
  using nn::Module::forward;
  Tensor forward(const Tensor& x, bool both) {
    const Tensor h = first(x);
    return both ? second(h).sum() : h.sum();
  }
  nn::Linear first{3, 3}, second{3, 2};
};

}  // namespace

TEST_CASE("gradients that are dropped after no_sync were not used") {
  std::deque<Optional> nets(2);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        Optional& net = nets[static_cast<std::size_t>(group.rank())];
        std::string error;
        try {
          DistributedDataParallel ddp(net);
          {
            const auto guard = ddp.no_sync();
            ddp(rows(0), true).backward();
          }
          ddp.zero_grad();
          ddp(rows(0), false).backward();
        } catch (const DistributedError& e) {
          error = e.what();
        }
        CHECK_MESSAGE(error.find("second.weight") != std::string::npos, error);
        CHECK_FALSE(net.second.weight.grad().defined());
      },
      kSoon);
}

TEST_CASE("a result that is a parameter") {
  std::vector<Table> nets(2);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        const Tensor w = nets[static_cast<std::size_t>(group.rank())].w;
        DistributedDataParallel ddp(nets[static_cast<std::size_t>(group.rank())]);
        const auto loss = [&] { return (ddp(rows(0)) * (group.rank() + 1.0)).sum(); };
        loss().backward();
        check_equal(w.grad(), full({2}, 1.5));
        loss().backward();
        check_equal(w.grad(), full({2}, 3.0));
        const auto guard = ddp.no_sync();
        loss().backward();
        check_equal(w.grad(), full({2}, 4.0 + group.rank()));
      },
      kSoon);
}

TEST_CASE("a gradient penalty alone") {
  std::vector<nn::Sequential> nets;
  for (int r = 0; r < 2; ++r)
    nets.emplace_back(nn::Linear(3, 4, {.bias = false}), nn::Tanh(),
                      nn::Linear(4, 1, {.bias = false}));
  const auto penalty = [](auto& model, int rank) {
    const Tensor x = rows(rank).set_requires_grad();
    const Tensor g = autograd::grad(std::vector{model(x).sum()}, std::vector{x}, {}, true, true)[0];
    return (g * g).sum();
  };
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        nn::Sequential& net = nets[static_cast<std::size_t>(group.rank())];
        DistributedDataParallel ddp(net);
        std::vector<Tensor> once;
        {
          const auto alone = net.clone();
          for (int r = 0; r < 2; ++r) (penalty(*alone, r) / 2).backward();
          for (const Tensor& t : alone->parameters()) once.push_back(t.grad());
        }
        penalty(ddp, group.rank()).backward();
        check_gradients(net, once);
        // Another pass, or one that stays local, may come between.
        ddp.zero_grad();
        const Tensor later = penalty(ddp, group.rank());
        ddp(rows(group.rank())).sum().backward();
        if (group.rank() == 0) net(rows(0)).sum().backward();
        ddp.zero_grad();
        later.backward();
        check_gradients(net, once);
        // Under no_sync it is local, and added to the next.
        ddp.zero_grad();
        {
          const auto guard = ddp.no_sync();
          penalty(ddp, group.rank()).backward();
        }
        penalty(ddp, group.rank()).backward();
        check_gradients(net, once, 2);
      },
      kSoon);
}

namespace {

struct Levels {
  Tensor mask;
  std::vector<Tensor> others;
};

/// Its result has tensors that the wrapper does not find.
struct Hidden : nn::Cloneable<Hidden> {
  Hidden() {
    register_module("seen", seen);
    register_module("hidden", hidden);
  }
  using nn::Module::forward;
  std::pair<Tensor, Levels> forward(const Tensor& x, int scale) {
    return {seen(x), {hidden(x) * scale, {}}};
  }
  nn::Linear seen{3, 2}, hidden{3, 2};
};

}  // namespace

TEST_CASE("a loss of a tensor inside a class of the user's, beside one that is found") {
  std::deque<Hidden> nets(2);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        Hidden& net = nets[static_cast<std::size_t>(group.rank())];
        DistributedDataParallel ddp(net, {.find_unused_parameters = true});
        for (int step = 1; step < 4; ++step) {
          ddp(rows(group.rank()), 1).second.mask.sum().backward();
          check_equal(net.hidden.weight.grad(), full({2, 3}, 3.0 * step));
        }
      },
      kSoon);
}
