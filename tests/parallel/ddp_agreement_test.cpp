// DistributedDataParallel with ranks that differ: errors, which appear on all ranks, and unused
// parameters and uneven inputs, which are handled on request.
#include <doctest/doctest.h>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/parallel/comm/local/local_group.h"
#include "ferrite/parallel/ddp/distributed_data_parallel.h"
#include "ferrite/parallel/ddp/sync_batch_norm.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::parallel;
using test::check_close;
using test::check_equal;

namespace {

/// The error of each rank, "" if none.
std::vector<std::string> errors_of(int ranks, const std::function<void(ProcessGroup&)>& f,
                                   std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  run_ranks(ranks,
            [&](ProcessGroup& group) {
              try {
                f(group);
              } catch (const Error& e) {
                errors[static_cast<std::size_t>(group.rank())] = e.what();
              }
            },
            {.timeout = timeout});
  return errors;
}

/// Checks that all ranks failed, with these texts.
void check_all_say(const std::vector<std::string>& errors, const std::vector<std::string>& texts) {
  for (std::size_t r = 0; r < errors.size(); ++r)
    for (const std::string& text : texts) {
      CAPTURE(r);
      CAPTURE(text);
      CHECK_MESSAGE(errors[r].find(text) != std::string::npos, errors[r]);
    }
}

struct Branches : nn::Cloneable<Branches> {
  Branches() {
    register_module("always", always);
    register_module("left", left);
    register_module("right", right);
    register_module("never", never);
  }
  using nn::Module::forward;
  Tensor forward(const Tensor& x, bool use_left, bool use_right) {
    Tensor h = always(x);
    if (use_left) h = h + left(x);
    if (use_right) h = h + right(x);
    return h;
  }
  nn::Linear always{3, 2}, left{3, 2}, right{3, 2}, never{3, 2};
};

std::vector<Branches> branches(int ranks) {
  return std::vector<Branches>(static_cast<std::size_t>(ranks));
}
Branches& of(std::vector<Branches>& nets, ProcessGroup& group) {
  return nets[static_cast<std::size_t>(group.rank())];
}

const Tensor kRow = ones({1, 3});

}  // namespace

TEST_CASE("models and options that differ are told apart on all ranks") {
  const auto check = [](int ranks, const std::function<void(nn::Sequential&, int)>& change,
                        const std::vector<std::string>& texts,
                        const std::function<DDPOptions(int)>& options = {}) {
    std::vector<nn::Sequential> nets;
    for (int r = 0; r < ranks; ++r) {
      nets.emplace_back(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Linear(4, 2));
      change(nets.back(), r);
    }
    check_all_say(errors_of(ranks,
                            [&](ProcessGroup& group) {
                              DistributedDataParallel ddp(
                                  nets[static_cast<std::size_t>(group.rank())],
                                  options ? options(group.rank()) : DDPOptions{});
                            }),
                  texts);
  };
  check(3,
        [](nn::Sequential& net, int rank) {
          if (rank == 1) net.push_back(nn::Linear(2, 2));
        },
        {"rank 1", "parameter 6, '3.weight' (float32[2, 2], requires a gradient)"});
  check(3,
        [](nn::Sequential& net, int rank) {
          if (rank > 0) net.parameters()[4].set_data(zeros({2, 5}));
        },
        {"parameter 4 is '2.weight' (float32[2, 4], requires a gradient) on rank 0 and '2.weight' "
         "(float32[2, 5], requires a gradient) on rank 1",
         "(ranks 1, 2 differ from rank 0)"});
  check(2,
        [](nn::Sequential& net, int rank) {
          net.push_back(nn::Conv2d(2, 3, 2));
          if (rank == 1) net.to(kChannelsLast);
        },
        {"'3.weight' (float32[3, 2, 2, 2] channels-last, requires a gradient) on rank 1"});
  check(2,
        [](nn::Sequential& net, int) {
          parallel::convert_sync_batchnorm(net);
          net[2].to("cpu:1");
        },
        {"give the norms a group of their own, convert_sync_batchnorm(model, group->new_group({0, "
         "1, ...}))"});
  check(2,
        [](nn::Sequential& net, int rank) {
          if (rank == 0) net.to(kFloat64);
        },
        {"parameter 0 is '0.weight' (float64[4, 3], requires a gradient) on rank 0", "on rank 1"});
  check(2,
        [](nn::Sequential& net, int rank) {
          if (rank == 1) net.requires_grad_(false, "0");
        },
        {"parameter 0", "'0.weight' (float32[4, 3], frozen) on rank 1"});
  check(2,
        [](nn::Sequential& net, int rank) {
          if (rank == 1) net.buffers()[1].set_data(zeros({9}));
        },
        {"buffer 1 is '1.running_var' (float32[4]) on rank 0", "(float32[9]) on rank 1"});
  const auto same = [](nn::Sequential&, int) {};
  check(2, same, {"the option find_unused_parameters is false on rank 0 and true on rank 1"},
        [](int rank) { return DDPOptions{.find_unused_parameters = rank == 1}; });
  check(2, same, {"bucket_cap_mb is -1, expected more than 0"},
        [](int) { return DDPOptions{.bucket_cap_mb = -1}; });
  check(2, [](nn::Sequential& net, int) { net.requires_grad_(false); },
        {"no parameter of Sequential requires a gradient"});
}

TEST_CASE("communication hooks must be the same") {
  std::vector<Branches> nets = branches(2);
  check_all_say(errors_of(2,
                          [&](ProcessGroup& group) {
                            DistributedDataParallel ddp(of(nets, group));
                            ddp.register_comm_hook(comm_hooks::noop,
                                                   group.rank() == 0 ? "noop" : "other");
                          }),
                {"the communication hook is noop on rank 0 and other on rank 1"});
}

TEST_CASE("unused parameters are an error on all ranks that names the rank and them") {
  std::vector<Branches> nets = branches(3);
  for (auto& net : nets) net.never.requires_grad_(false);
  for (const bool on_all : {true, false}) {
    CAPTURE(on_all);
    std::vector<int> last(3);
    const auto errors = errors_of(3, [&](ProcessGroup& group) {
      DistributedDataParallel ddp(of(nets, group),
                                  {.bucket_cap_mb = 1e-6, .first_bucket_mb = 1e-6});
      for (int step = 0; step < 3; ++step) {
        last[static_cast<std::size_t>(group.rank())] = step;
        ddp(kRow, true, step < 1 || (!on_all && group.rank() != 2)).sum().backward();
      }
    });
    check_all_say(errors, {"2 of 6 parameters got no gradient in this backward pass: right.weight, "
                           "right.bias",
                           "find_unused_parameters = true"});
    if (!on_all) check_all_say(errors, {"rank 2:"});
    CHECK(last == std::vector<int>{1, 1, 1});
  }
}

TEST_CASE("parameters that ranks do not use, where they are looked for") {
  std::vector<Branches> nets = branches(2);
  for (const bool tiny : {true, false})
    run_ranks(2,
              [&](ProcessGroup& group) {
                Branches& net = of(nets, group);
                DDPOptions options{.find_unused_parameters = true};
                if (tiny) options.bucket_cap_mb = options.first_bucket_mb = 1e-6;
                DistributedDataParallel ddp(net, options);
                const bool first = group.rank() == 0;
                const auto check = [&](double always, double left, double right) {
                  const auto grad = [](const nn::Linear& l) {
                    return l.bias.grad().defined() ? l.bias.grad()[0].item<double>() : -1;
                  };
                  CHECK(grad(net.always) == doctest::Approx(always));
                  CHECK(grad(net.left) == doctest::Approx(left));
                  CHECK(grad(net.right) == doctest::Approx(right));
                };
                ddp.zero_grad(true);
                net.never.bias.set_grad({});
                // Rank 0 goes left, rank 1 right; -1: there is no gradient.
                ddp(kRow, first, !first).sum().backward();
                check(1, 0.5, 0.5);
                CHECK_FALSE(net.never.bias.grad().defined());
                // Parameters that no rank uses are unchanged.
                ddp(kRow, first, false).sum().backward();
                check(2, 1, 0.5);
                ddp.zero_grad(true);
                ddp(kRow, false, !first).sum().backward();
                check(1, -1, 0.5);
                ddp.zero_grad(false);
                ddp(kRow, false, false).sum().backward();
                check(1, -1, 0);
                // Outputs that the loss does not use count as unused.
                ddp.zero_grad(true);
                const Tensor unused = ddp(kRow, true, true);
                ddp(kRow, first, false).sum().backward();
                check(1, 0.5, -1);
              },
              {.timeout = std::chrono::seconds(30)});
}

TEST_CASE("a static graph ignores unused parameters, and must not change") {
  std::vector<Branches> nets = branches(2);
  const auto errors = errors_of(2, [&](ProcessGroup& group) {
    Branches& net = of(nets, group);
    DistributedDataParallel ddp(net, {.static_graph = true});
    const auto run = [&](bool left, bool right) {
      ddp.zero_grad(true);
      ddp(kRow, left, right).sum().backward();
    };
    for (int step = 0; step < 3; ++step) {
      run(group.rank() == 0, false);
      CHECK(net.left.bias.grad()[0].item<double>() == doctest::Approx(0.5));
      CHECK_FALSE(net.right.bias.grad().defined());
      CHECK_FALSE(net.never.bias.grad().defined());
    }
    CHECK(ddp.report().parameters == 4);
    run(group.rank() == 0, group.rank() == 1);
    run(group.rank() == 0, false);  // where rank 0 notices it
  });
  check_all_say(errors, {"rank 1: static_graph was given, but right.weight, right.bias got a "
                         "gradient in this backward pass and not in the first"});
  nets = branches(2);
  check_all_say(errors_of(2,
                          [&](ProcessGroup& group) {
                            DistributedDataParallel ddp(of(nets, group), {.static_graph = true});
                            ddp(kRow, true, true).sum().backward();
                            ddp(kRow, group.rank() == 1, true).sum().backward();
                          }),
                {"rank 0: static_graph was given, but left.weight, left.bias got no gradient"});
}

TEST_CASE("a rank that does not come to the end of backward") {
  std::vector<Branches> nets = branches(2);
  const auto errors = errors_of(2, [&](ProcessGroup& group) {
    DistributedDataParallel ddp(of(nets, group), {.find_unused_parameters = true});
    if (group.rank() == 1)
      of(nets, group).always.weight.register_hook([](const Tensor&) -> Tensor {
        fail<ValueError>("test", "something went wrong");
      });
    ddp(kRow, true, true).sum().backward();
  });
  CHECK(errors[0].find("rank 1 did not come to the end of its backward pass") != std::string::npos);
  CHECK(errors[1].find("something went wrong") != std::string::npos);
}

TEST_CASE("a rank whose communication hook throws") {
  std::vector<nn::Linear> nets;
  for (int r = 0; r < 2; ++r) nets.emplace_back(3, 2);
  const auto check = [&](bool finish, bool delay, const auto& run) {
    CAPTURE(finish);
    CAPTURE(delay);
    const auto errors = errors_of(2, [&](ProcessGroup& group) {
      const bool throws = group.rank() == 1;
      DistributedDataParallel ddp(nets[static_cast<std::size_t>(group.rank())],
                                  {.delay_allreduce = delay});
      const auto wrong = [] { fail<ValueError>("test", "something went wrong"); };
      ddp.register_comm_hook([&](GradBucket& bucket) {
        if (throws && !finish) wrong();
        CommWork work = comm_hooks::allreduce(bucket);
        if (throws) work.finish = wrong;
        return work;
      });
      run(ddp, group);
      group.barrier().wait();
    });
    check_all_say(errors, {"something went wrong"});
    CHECK_MESSAGE(errors[0].find("rank 1") != std::string::npos, errors[0]);
  };
  const auto backward = [](auto& ddp, ProcessGroup&) { ddp(kRow).sum().backward(); };
  check(true, false, backward);
  check(true, true, backward);
  check(false, true, backward);
  check(false, false, [](auto& ddp, ProcessGroup& group) {
    auto join = ddp.join();
    if (group.rank() == 0) ddp(kRow).sum().backward();
    join.finish();
  });
}

TEST_CASE("changes after wrapping are detected") {
  std::vector<Branches> nets = branches(2);
  for (Branches& net : nets) net.never.requires_grad_(false);
  check_all_say(errors_of(2,
                          [&](ProcessGroup& group) {
                            Branches& net = of(nets, group);
                            DistributedDataParallel ddp(net);
                            net.never.requires_grad_(true);
                            ddp(kRow, true, true);
                          }),
                {"parameter 'never.weight' was frozen when its model was wrapped"});
  for (Branches& net : nets) net.never.requires_grad_(false);
  check_all_say(errors_of(2,
                          [&](ProcessGroup& group) {
                            Branches& net = of(nets, group);
                            DistributedDataParallel ddp(net);
                            if (group.rank() == 1) net.never.requires_grad_(true);
                            ddp(kRow, true, true).sum().backward();
                          }),
                {"rank 1: parameter 'never.weight' was frozen when its model was wrapped"});
  nets = branches(2);
  for (Branches& net : nets) net.never.requires_grad_(false);
  const auto errors = errors_of(2, [&](ProcessGroup& group) {
    Branches& net = of(nets, group);
    DistributedDataParallel ddp(net);
    net.to(kFloat64);
    ddp(kRow.to(kFloat64), true, true).sum().backward();
  });
  for (const std::string& error : errors) CHECK_FALSE(error.empty());
  CHECK((errors[0] + errors[1]).find("on cpu when its model was wrapped and is float64[2") !=
        std::string::npos);
  for (Branches& net : nets) net.to(kFloat32);
  run_ranks(2,
            [&](ProcessGroup& group) {
              Branches& net = of(nets, group);
              DistributedDataParallel ddp(net);
              net.right.requires_grad_(false);  // on all ranks: nothing left to communicate
              ddp(kRow, true, true).sum().backward();
              CHECK_FALSE(net.right.bias.grad().defined());
              CHECK(net.left.bias.grad()[0].item<double>() == doctest::Approx(1));
            },
            {.timeout = std::chrono::seconds(30)});
}

TEST_CASE("uneven inputs without a join end in an error on those that wait") {
  std::vector<Branches> nets = branches(2);
  for (Branches& net : nets) net.never.requires_grad_(false);
  std::vector<int> steps(2);
  const auto errors = errors_of(
      2,
      [&](ProcessGroup& group) {
        DistributedDataParallel ddp(of(nets, group));
        for (int step = 0; step < 3 + group.rank(); ++step) {
          ddp(kRow, true, true).sum().backward();
          ++steps[static_cast<std::size_t>(group.rank())];
        }
      },
      std::chrono::seconds(2));
  CHECK(errors[0].empty());
  CHECK_MESSAGE(errors[1].find("rank 0") != std::string::npos, errors[1]);
  CHECK(steps == std::vector<int>{3, 3});
}

namespace {

struct Uneven {
  std::vector<int> batches;  // of ranks
  DDPOptions options = {};
  JoinOptions join = {};
  bool hook = false;
};

/// Ranks that run out of batches one by one, against one process that knows this.
void check_join(const Uneven& c) {
  const int ranks = static_cast<int>(c.batches.size());
  const auto batch = [](int rank, int step) { return full({2, 3}, 0.1 * (rank + 1) + 0.2 * step); };
  std::vector<nn::Linear> nets;
  for (int r = 0; r < ranks; ++r) nets.emplace_back(3, 2);
  const auto alone = nets[0].clone();
  optim::SGD sgd(alone->parameters(), {.lr = 0.1});
  for (int step = 0;; ++step) {
    int active = 0;
    for (const int n : c.batches) active += n > step;
    if (active == 0) break;
    sgd.zero_grad();
    for (int r = 0; r < ranks; ++r)
      if (c.batches[static_cast<std::size_t>(r)] > step) {
        const Tensor y = (*alone)(batch(r, step));
        ((y * y).mean() / (c.join.divide_by_initial_world_size ? ranks : active)).backward();
      }
    sgd.step();
  }
  run_ranks(ranks,
            [&](ProcessGroup& group) {
              nn::Linear& net = nets[static_cast<std::size_t>(group.rank())];
              DistributedDataParallel ddp(net, c.options);
              if (c.hook) ddp.register_comm_hook(comm_hooks::allreduce);
              optim::SGD sgd(ddp.parameters(), {.lr = 0.1});
              auto join = ddp.join(c.join);
              for (int step = 0; step < c.batches[static_cast<std::size_t>(group.rank())]; ++step) {
                const Tensor y = ddp(batch(group.rank(), step));
                sgd.zero_grad();
                (y * y).mean().backward();
                sgd.step();
              }
            },
            {.timeout = std::chrono::seconds(30)});
  for (const nn::Linear& net : nets) {
    check_close(net.weight, alone->weight, 1e-5, 1e-6);
    check_equal(net.weight, nets[0].weight);
    check_equal(net.bias, nets[0].bias);
  }
}

}  // namespace

TEST_CASE("an output that is a view may be changed in place") {
  std::vector<nn::Linear> nets;
  for (int r = 0; r < 2; ++r) nets.emplace_back(3, 2);
  run_ranks(2, [&](ProcessGroup& group) {
    nn::Linear& net = nets[static_cast<std::size_t>(group.rank())];
    DistributedDataParallel ddp(net);
    const Tensor x = full({2, 4, 3}, group.rank() + 1);  // linear gives a view of rows
    for (int way = 0; way < 2; ++way) {
      ddp.zero_grad();
      const Tensor out = ddp(x);
      way == 0 ? out.mul_(tensor({2.0f})) : out.flatten(0, 1).mul_(tensor({2.0f}));
      out.sum().backward();
      // 8 rows, times 2, of 1 and of 2.
      check_close(net.weight.grad(), full({2, 3}, 24), 1e-6, 1e-6);
    }
  });
}

TEST_CASE("ranks with different numbers of batches join") {
  check_join({.batches = {3, 3}});
  check_join({.batches = {2, 5, 3}});
  check_join({.batches = {0, 3}});
  check_join({.batches = {0, 3}, .options = {.rebuild_buckets = false}});
  check_join({.batches = {4, 1}, .join = {.divide_by_initial_world_size = false}});
  check_join({.batches = {1, 3, 2},
              .options = {
                  .bucket_cap_mb = 1e-6, .first_bucket_mb = 1e-6, .find_unused_parameters = true}});
  check_join({.batches = {1, 3}, .options = {.static_graph = true}});
  check_join({.batches = {0, 3}, .options = {.static_graph = true, .delay_allreduce = true}});
  check_join({.batches = {3, 1}, .options = {.gradient_predivide_factor = 2}, .hook = true});
}

TEST_CASE("after a join that ended within no_sync() ranks agree on what they send") {
  std::vector<nn::BatchNorm1d> nets;
  for (int r = 0; r < 2; ++r) nets.emplace_back(3);
  run_ranks(2,
            [&](ProcessGroup& group) {
              DistributedDataParallel ddp(nets[static_cast<std::size_t>(group.rank())]);
              const auto pass = [&](int step) {
                ddp(full({4, 3}, group.rank() + step) * arange(4).view({4, 1})).sum().backward();
              };
              for (int epoch = 0; epoch < 2; ++epoch) {
                auto join = ddp.join();
                for (int step = 0; step < 2 + group.rank(); ++step) {
                  if (step == 1) {
                    pass(step);
                    continue;
                  }
                  const auto no_sync = ddp.no_sync();
                  pass(step);
                }
                join.finish();
              }
              const NoGradGuard no_grad;
              ddp(ones({2, 3}));
            },
            {.timeout = std::chrono::seconds(30)});
  check_equal(nets[0].running_mean, nets[1].running_mean);
}

TEST_CASE("a join that ends early, by choice or by an exception") {
  std::vector<nn::Linear> nets;
  for (int r = 0; r < 3; ++r) nets.emplace_back(3, 2);
  std::vector<int> steps(3);
  const auto run = [&](ProcessGroup& group, const JoinOptions& options, auto each) {
    DistributedDataParallel ddp(nets[static_cast<std::size_t>(group.rank())]);
    auto join = ddp.join(options);
    for (int step = 0; step < 2 + group.rank(); ++step) {
      ddp(ones({1, 3})).sum().backward();
      steps[static_cast<std::size_t>(group.rank())] = step + 1;
      each(step);
    }
    join.finish();
  };
  check_all_say(errors_of(3,
                          [&](ProcessGroup& group) {
                            run(group, {.throw_on_early_termination = true}, [](int) {});
                          }),
                {"rank 0 has no more inputs, while 2 of 3 ranks have"});
  CHECK(steps == std::vector<int>{2, 2, 2});
  const auto errors = errors_of(3, [&](ProcessGroup& group) {
    run(group, {}, [&](int step) {
      if (group.rank() == 1 && step == 1) fail<ValueError>("test", "no more");
    });
  });
  CHECK(errors[1].find("no more") != std::string::npos);
  for (const std::size_t r : {0u, 2u})
    CHECK_MESSAGE(errors[r].find("rank 1 left a join by an exception") != std::string::npos,
                  errors[r]);
}
