#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/error.h"
#include "ferrite/ops/compare.h"
#include "ferrite/optim/adam.h"
#include "ferrite/optim/clip.h"
#include "ferrite/optim/grad_scaler.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/parallel/ddp/distributed_data_parallel.h"
#include "ferrite/tests/parallel/tensor_parallel_layers.h"

using namespace ferrite;
using namespace ferrite::test;
using parallel::ColumnParallelLinear;
using parallel::ColumnSplitLinear;
using parallel::ParallelMLP;
using parallel::ProcessGroup;
using parallel::RowParallelLinear;
using parallel::RowSplitLinear;
using parallel::run_ranks;
using parallel::SplitMLP;

namespace {

constexpr std::uint64_t kSeed = 7;
const TensorOptions kDouble{.dtype = kFloat64};

std::vector<Device> virtual_devices(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.emplace_back(DeviceType::cpu, i);
  return devices;
}

/// `make` draws from the default generator, like the unsplit layer would.
template <class Make>
auto seeded(const Make& make) {
  manual_seed(kSeed);
  auto network = make();
  network.to(kFloat64);
  return network;
}

std::function<Tensor(const Tensor&)> calling(nn::Module& module) {
  return [&module](const Tensor& x) { return module(x); };
}

}  // namespace

// ---- Ranks

TEST_CASE("layers split over ranks compute the same as the whole layer, and its gradients") {
  const Tensor x = randn({2, 3, 6}, kDouble), dy = randn({2, 3, 12}, kDouble);
  for (const bool bias : {true, false}) {
    auto linear = seeded([&] { return nn::Linear(6, 12, {.bias = bias}); });
    const TwoUses whole = use_twice(calling(linear), linear, x, dy);
    for (const int ranks : {1, 2, 3}) {
      CAPTURE(bias);
      CAPTURE(ranks);
      manual_seed(kSeed);
      run_ranks(
          ranks,
          [&](ProcessGroup& group) {
            const auto check = [&](auto& layer) {
              layer.to(kFloat64);
              check_equal(parallel::full_state_dict(layer), linear.state_dict());
              check_same(use_twice(calling(layer), layer, x, dy), layer, whole, 1e-12);
            };
            ColumnParallelLinear column(6, 12, {.bias = bias});
            check(column);
            // Each with its own generator, but only rank 0's counts.
            Generator own(group.rank() == 0 ? kSeed : 99);
            RowParallelLinear row(6, 12, {.bias = bias, .generator = &own});
            check(row);
            CHECK(own.seed() == kSeed);
          },
          kShortGroup);
      // Ranks that share the default generator leave it in the state that one unsplit layer would.
      const PhiloxState after = default_generator(Device()).state();
      manual_seed(kSeed);
      nn::Linear(6, 12, {.bias = bias});
      CHECK(default_generator(Device()).state().offset == after.offset);
    }
  }
}

TEST_CASE("an MLP split over ranks is the whole one, with one exchange each way") {
  const Sizes sizes;
  const Tensor x = randn({4, 6}, kDouble), dy = randn({4, 6}, kDouble);
  auto mlp = seeded([&] { return WholeMLP(sizes); });
  const TwoUses whole = use_twice(calling(mlp), mlp, x, dy);
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    manual_seed(kSeed);
    run_ranks(
        ranks,
        [&](ProcessGroup& group) {
          ParallelMLP split(sizes.in, sizes.hidden);
          split.to(kFloat64);
          check_equal(parallel::full_state_dict(split), mlp.state_dict());
          CHECK(split.fc1.weight.size(0) == sizes.hidden / group.size());
          CHECK(split.fc2.weight.size(1) == sizes.hidden / group.size());
          check_same(use_twice(calling(split), split, x, dy), split, whole, 1e-12);
          {
            const NoGradGuard guard;
            CHECK_FALSE(split(x).requires_grad());
          }
          Generator numbers(3);
          const Tensor input = randn({2, 6}, kDouble, &numbers).set_requires_grad();
          CHECK(autograd::gradcheck([&](const std::vector<Tensor>& in) { return split(in[0]); },
                                    {input}, {.second_order = true}));
        },
        kShortGroup);
  }
}

TEST_CASE("regions of ranks are each other's gradients, of any order") {
  Generator numbers(5);
  const Tensor values = randn({2, 3, 6}, kDouble, &numbers);
  run_ranks(
      3,
      [&](ProcessGroup& group) {
        const double factor = group.rank() + 1;
        const auto shared = group.shared_from_this();
        const auto check = [&](const auto& f) {
          const Tensor x = values.clone().set_requires_grad();
          CHECK(autograd::gradcheck([&](const std::vector<Tensor>& in) { return f(in[0]); }, {x},
                                    {.second_order = true}));
        };
        // A different computation on each rank: the square, times its number.
        check([&](const Tensor& x) {
          const Tensor in = parallel::copy_to_tensor_model_parallel_region(x);
          return parallel::reduce_from_tensor_model_parallel_region(in * in * factor, shared);
        });
        check([&](const Tensor& x) {
          const Tensor in = parallel::scatter_to_tensor_model_parallel_region(x, shared);
          return parallel::gather_from_tensor_model_parallel_region(in * in * factor);
        });
        const Tensor part = parallel::scatter_to_tensor_model_parallel_region(values);
        check_close(part, values.narrow(-1, 2 * group.rank(), 2), 0, 0);
        check_close(parallel::gather_from_tensor_model_parallel_region(part), values, 0, 0);
        check_close(parallel::reduce_from_tensor_model_parallel_region(values.transpose(0, 2)),
                    values.transpose(0, 2) * 3, 1e-12);
        const Tensor none = zeros({0, 6});
        CHECK(parallel::gather_from_tensor_model_parallel_region(none).shape() == Shape{0, 18});
        CHECK(parallel::scatter_to_tensor_model_parallel_region(none).shape() == Shape{0, 2});
        for (const DType dtype : {kFloat16, kBFloat16, kFloat32})
          check_close(
              parallel::reduce_from_tensor_model_parallel_region(ones({5}, {.dtype = dtype})),
              full({5}, 3), 0, 0);
        CHECK_THROWS_AS(parallel::scatter_to_tensor_model_parallel_region(zeros({2, 4})),
                        ValueError);
        CHECK_THROWS_AS(parallel::scatter_to_tensor_model_parallel_region(zeros({})), ShapeError);
        CHECK_THROWS_AS(
            parallel::reduce_from_tensor_model_parallel_region(zeros({2}, {.dtype = kInt64})),
            DTypeError);
      },
      kShortGroup);
  // A single process, without a group.
  CHECK(parallel::copy_to_tensor_model_parallel_region(values).is_same(values));
  CHECK(parallel::reduce_from_tensor_model_parallel_region(values).is_same(values));
}

TEST_CASE("layers of ranks: parts of inputs and outputs, indivisible sizes, other groups") {
  run_ranks(
      4,
      [](ProcessGroup& group) {
        CHECK_THROWS_WITH_AS(ColumnParallelLinear(4, 6),
                             "[ColumnParallelLinear] out_features, of 6, does not divide by the 4 "
                             "ranks of group 'local'",
                             ValueError);
        CHECK_THROWS_AS(RowParallelLinear(6, 4), ValueError);
        const auto first = group.new_group({0, 1}), second = group.new_group({2, 3});
        const auto pair = first ? first : second;
        const auto none = group.new_group({0});
        ColumnParallelLinear column(4, 6, {.gather_output = false, .group = pair});
        CHECK(column(zeros({5, 4})).shape() == Shape{5, 3});
        CHECK(column.str() ==
              "ColumnParallelLinear(in_features=4, out_features=6, bias=True, "
              "gather_output=False, rank=" +
                  std::to_string(pair->rank()) + " of 2)");
        RowParallelLinear row(6, 4, {.input_is_parallel = true, .group = pair});
        CHECK(row(zeros({5, 3})).shape() == Shape{5, 4});
        CHECK_THROWS_AS(row(zeros({5, 6})), ShapeError);
        // A group of one rank is ignored, although there is a default group.
        if (!none) return;
        ColumnParallelLinear alone(4, 6, {.group = none});
        CHECK(alone(zeros({5, 4})).shape() == Shape{5, 6});
        CHECK(alone.group() == nullptr);
      },
      kShortGroup);
}

TEST_CASE("networks that are split load and save checkpoints of whole ones") {
  manual_seed(1);
  const Sizes sizes;
  WholeMLP mlp(sizes);
  const StateDict checkpoint = mlp.state_dict();
  run_ranks(
      2,
      [&](ProcessGroup&) {
        ParallelMLP split(sizes.in, sizes.hidden);
        const auto copy = split.clone();
        CHECK(parallel::load_full_state_dict(*copy, checkpoint).complete());
        check_equal(parallel::full_state_dict(*copy), checkpoint);
        // Saved and loaded in its own parts too.
        split.load_state_dict(copy->state_dict());
        check_equal(parallel::full_state_dict(split), checkpoint);
      },
      kShortGroup);

  for (const int devices : {1, 2, 4}) {
    SplitMLP split(sizes.in, sizes.hidden, virtual_devices(devices));
    const auto copy = split.clone();
    CHECK(copy->fc1.devices() == virtual_devices(devices));
    CHECK(parallel::load_full_state_dict(*copy, checkpoint).complete());
    check_equal(parallel::full_state_dict(*copy), checkpoint);
    split.load_state_dict(copy->state_dict());
    check_equal(parallel::full_state_dict(split), checkpoint);

    // A network in which one layer has two names.
    nn::Sequential twice(SplitMLP(sizes.in, sizes.hidden, virtual_devices(devices)), nn::ReLU());
    const StateDict full = parallel::full_state_dict(twice);
    CHECK(full.size() == 4);
    CHECK(full.at("0.fc1.weight").shape() == Shape{12, 6});

    StateDict wrong = checkpoint;
    wrong.insert_or_assign("fc1.weight", zeros({11, 6}));
    CHECK_THROWS_AS(parallel::load_full_state_dict(split, wrong), ShapeError);
    wrong.erase("fc1.weight");
    CHECK_THROWS_AS(parallel::load_full_state_dict(split, wrong), ValueError);
    const nn::LoadReport report = parallel::load_full_state_dict(split, wrong, false);
    CHECK(report.missing.size() == static_cast<std::size_t>(devices));
    CHECK(report.unexpected.empty());
    check_equal(parallel::full_state_dict(split), checkpoint);
  }
}

TEST_CASE("tensor and data parallelism together train as one process") {
  const Sizes sizes;
  const Tensor x = randn({8, 6}, kDouble), target = randn({8, 6}, kDouble);
  const auto step = [&](nn::Module& run, optim::SGD& sgd, std::int64_t begin, std::int64_t count,
                        const std::function<void()>& clip) {
    sgd.zero_grad();
    const Tensor error = run(x.narrow(0, begin, count)) - target.narrow(0, begin, count);
    (error * error).mean().backward();
    clip();
    sgd.step();
  };
  auto mlp = seeded([&] { return WholeMLP(sizes); });
  optim::SGD whole(mlp.parameters(), {.lr = 0.1, .momentum = 0.9});
  const auto clip_whole = [&] { optim::clip_grad_norm_(mlp.parameters(), 0.05); };
  for (int i = 0; i < 3; ++i) step(mlp, whole, 0, 8, clip_whole);
  manual_seed(kSeed);
  run_ranks(
      4,
      [&](ProcessGroup& group) {
        // Ranks {0, 1} and {2, 3} split the network; {0, 2} and {1, 3} have the same parts of it.
        std::shared_ptr<ProcessGroup> tensor, data;
        for (const int i : {0, 1}) {
          if (const auto g = group.new_group({2 * i, 2 * i + 1})) tensor = g;
          if (const auto g = group.new_group({i, i + 2})) data = g;
        }
        Generator generator(kSeed);
        ParallelMLP split(sizes.in, sizes.hidden, {.group = tensor, .generator = &generator});
        split.to(kFloat64);
        parallel::DistributedDataParallel ddp(split, {.process_group = data});
        optim::SGD sgd(split.parameters(), {.lr = 0.1, .momentum = 0.9});
        // The norm of all gradients, each counted once.
        const auto [parts, same] = parallel::parameters_by_split(split);
        CHECK(parts.size() == 3);
        CHECK(same.size() == 1);
        const auto squares_of = [](const std::vector<Tensor>& parameters) {
          std::vector<Tensor> gradients;
          for (const Tensor& p : parameters) gradients.push_back(p.grad());
          return optim::get_total_norm(gradients).pow(2);
        };
        const auto clip = [&, &parts = parts, &same = same] {
          const Tensor squares = squares_of(parts);
          tensor->all_reduce(squares).wait();
          optim::clip_grads_with_norm_(split.parameters(), 0.05,
                                       (squares + squares_of(same)).sqrt());
        };
        for (int i = 0; i < 3; ++i) step(ddp, sgd, 4 * data->rank(), 4, clip);
        const StateDict full = parallel::full_state_dict(split);
        for (const auto& [name, t] : mlp.state_dict()) check_close(full.at(name), t, 1e-11);
      },
      kShortGroup);
}

// ---- Devices

TEST_CASE("layers split over devices of one process count as whole to the ranks") {
  const parallel::SplitMLP mlp(4, 6, virtual_devices(2));
  const auto [split, whole] = parallel::parameters_by_split(mlp);
  CHECK(split.empty());
  CHECK(whole.size() == mlp.parameters().size());
}

TEST_CASE("layers split over devices compute the same as the whole layer, evenly or not") {
  for (const bool bias : {true, false})
    for (const Sizes& sizes : {Sizes{.in = 6, .out = 5, .bias = bias}, {4, 12, 7, bias}}) {
      const Tensor x = randn({2, 3, sizes.in}, kDouble), dy = randn({2, 3, sizes.out}, kDouble);
      auto linear = seeded([&] { return nn::Linear(sizes.in, sizes.out, {.bias = bias}); });
      const PhiloxState after = default_generator(Device()).state();
      const TwoUses whole = use_twice(calling(linear), linear, x, dy);
      for (const int n : {1, 2, 3, 4}) {
        CAPTURE(n);
        const auto devices = virtual_devices(n);
        auto column =
            seeded([&] { return ColumnSplitLinear(sizes.in, sizes.out, devices, {.bias = bias}); });
        CHECK(default_generator(Device()).state().offset == after.offset);
        auto row =
            seeded([&] { return RowSplitLinear(sizes.in, sizes.out, devices, {.bias = bias}); });
        check_equal(parallel::full_state_dict(column), linear.state_dict());
        check_equal(parallel::full_state_dict(row), linear.state_dict());
        const Tensor there = x.to(devices[0]);
        check_same(use_twice(calling(column), column, there, dy), column, whole, 1e-12);
        check_same(use_twice(calling(row), row, there, dy), row, whole, 1e-12);
      }
    }
}

TEST_CASE("an MLP split over devices is the whole one, wherever its input is") {
  const Sizes sizes{.hidden = 10};
  const Tensor x = randn({4, 6}, kDouble), dy = randn({4, 6}, kDouble);
  auto mlp = seeded([&] { return WholeMLP(sizes); });
  const TwoUses whole = use_twice(calling(mlp), mlp, x, dy);
  const std::vector<std::vector<Device>> all = {{Device()},
                                                virtual_devices(2),
                                                {"cpu:2", "cpu:0", "cpu:2"},
                                                {Device(), "cpu:1", "cpu:3", "cpu:0"}};
  for (const auto& devices : all) {
    CAPTURE(devices.size());
    auto split = seeded([&] { return SplitMLP(sizes.in, sizes.hidden, devices); });
    check_equal(parallel::full_state_dict(split), mlp.state_dict());
    check_same(use_twice(calling(split), split, x, dy), split, whole, 1e-12);
    check_same(
        use_twice(calling(split), split, x.to("cpu:5"), dy), split,
        [&] {
          TwoUses doubled = whole;  // gradients of parameters were accumulated
          doubled.gradients = {};
          for (const auto& [name, g] : whole.gradients) doubled.gradients.insert(name, g * 2);
          return doubled;
        }(),
        1e-12);
    {
      const NoGradGuard guard;
      CHECK_FALSE(split(x).requires_grad());
    }
    // All on one device, where it still works.
    const auto moved = split.clone();
    moved->to(Device("cpu:4"));
    check_close((*moved)(x), mlp(x), 1e-12);
    CHECK(autograd::gradcheck([&](const std::vector<Tensor>& in) { return split(in[0]); },
                              {randn({2, 6}, kDouble).set_requires_grad()},
                              {.second_order = true}));
  }
}

TEST_CASE("an MLP split over devices trains as the whole one, clipped and with any optimizer") {
  const Sizes sizes{.hidden = 10};
  const Tensor x = randn({8, 6}, kDouble), target = randn({8, 6}, kDouble);
  const auto train = [&](nn::Module& network, optim::Optimizer& optimizer) {
    for (int i = 0; i < 4; ++i) {
      optimizer.zero_grad();
      const Tensor error = network(x).cpu() - target;
      (error * error).mean().backward();
      optim::clip_grad_norm_(network.parameters(), 0.05);
      optimizer.step();
    }
    return parallel::full_state_dict(network);
  };
  const auto compare = [&](const auto& make_optimizer) {
    auto mlp = seeded([&] { return WholeMLP(sizes); });
    auto split = seeded([&] { return SplitMLP(sizes.in, sizes.hidden, virtual_devices(3)); });
    auto of_whole = make_optimizer(mlp.parameters());
    auto of_split = make_optimizer(split.parameters());
    const StateDict whole = train(mlp, of_whole), parts = train(split, of_split);
    for (const auto& [name, t] : whole) check_close(parts.at(name), t, 1e-10, 1e-12);
  };
  compare([](const std::vector<Tensor>& p) {
    return optim::SGD(p, {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
  });
  compare([](const std::vector<Tensor>& p) { return optim::AdamW(p, {.lr = 0.01}); });
}

TEST_CASE("regions of devices are each other's gradients, of any order") {
  const auto devices = virtual_devices(3);
  const auto check = [](const auto& f, const Device& device) {
    const Tensor x = randn({2, 7}, kDouble).to(device).detach().set_requires_grad();
    CHECK(autograd::gradcheck([&](const std::vector<Tensor>& in) { return f(in[0]); }, {x},
                              {.second_order = true}));
  };
  for (const Device& device : {Device(), Device("cpu:1"), Device("cpu:4")}) {
    check(
        [&](const Tensor& x) {
          auto parts = parallel::copy_to_devices(x, devices);
          for (std::size_t i = 0; i < 3; ++i) parts[i] = parts[i] * parts[i] * (i + 1.0);
          return parallel::reduce_from_devices(parts, "cpu:2");
        },
        device);
    check(
        [&](const Tensor& x) {
          auto parts = parallel::scatter_to_devices(x, devices);
          parts[1] = parts[1] * parts[1] * 2.0 + parts[1];
          return parallel::gather_from_devices(parts, "cpu:0");
        },
        device);
    // Unused parts.
    check(
        [&](const Tensor& x) {
          return parallel::copy_to_devices(x, devices)[1].to(Device()) *
                 parallel::gather_from_devices(
                     std::vector{parallel::scatter_to_devices(x, devices)[2],
                                 parallel::copy_to_devices(x, devices)[0].narrow(-1, 0, 5)},
                     Device());
        },
        device);
  }
  for (const DType dtype : {kFloat16, kBFloat16}) {
    // 2048 + 1 + 1 is 2048 where each sum is rounded to float16, and 256 + 1 + 1 to bfloat16.
    const double large = dtype == kFloat16 ? 2048 : 256;
    const std::vector<Tensor> parts = {full({3}, large, {.dtype = dtype, .device = devices[0]}),
                                       ones({3}, {.dtype = dtype, .device = devices[1]}),
                                       ones({3}, {.dtype = dtype, .device = devices[2]})};
    const Tensor sum = parallel::reduce_from_devices(parts, Device());
    CHECK(sum.dtype() == dtype);
    check_close(sum, full({3}, large + 2), 0, 0);
  }
  CHECK(parallel::split_sizes(10, 4) == std::vector<std::int64_t>{3, 3, 2, 2});
  CHECK(parallel::split_sizes(2, 3) == std::vector<std::int64_t>{1, 1, 0});
}

TEST_CASE("layers of devices reject sizes that do not match") {
  CHECK_THROWS_AS(ColumnSplitLinear(4, 6, {}), ValueError);
  CHECK_THROWS_WITH_AS(ColumnSplitLinear(4, 2, virtual_devices(3)),
                       "[ColumnSplitLinear] 2 output features are too few for 3 devices",
                       ValueError);
  CHECK_THROWS_AS(RowSplitLinear(2, 4, virtual_devices(3)), ValueError);
  RowSplitLinear row(5, 4, virtual_devices(2));
  CHECK_THROWS_AS(row(zeros({3, 4})), ShapeError);
  CHECK_THROWS_AS(row(std::vector<Tensor>{zeros({3, 3})}), ValueError);
  CHECK_THROWS_AS(row(std::vector<Tensor>{zeros({3, 3}), zeros({3, 2})}), DeviceError);
  CHECK(row(zeros({0, 5}, {.device = "cpu:0"})).shape() == Shape{0, 4});
  CHECK(row.extra_repr() == "in_features=5, out_features=4, devices=[cpu:0, cpu:1]");
  CHECK_THROWS_AS(parallel::reduce_from_devices({}, Device()), ValueError);
  CHECK_THROWS_AS(
      parallel::reduce_from_devices(std::vector<Tensor>{zeros({3}), zeros({2})}, Device()),
      ShapeError);
  CHECK_THROWS_AS(parallel::copy_to_devices(zeros({3}), {}), ValueError);
}

TEST_CASE("an overflow in one rank's part holds back the step of all") {
  run_ranks(
      2,
      [](ProcessGroup& group) {
        manual_seed(1);
        ParallelMLP mlp(4, 8);
        optim::SGD sgd(mlp.parameters(), {.lr = 0.1});
        optim::GradScaler scaler({.init_scale = 65536.0});
        parallel::share_overflows(scaler);
        const Tensor before = mlp.fc2.bias.detach().clone();
        for (const bool unscale : {false, true}) {
          sgd.zero_grad();
          scaler.scale(mlp(ones({2, 4})).pow(2).mean()).backward();
          if (group.rank() == 1) mlp.fc1.weight.grad().fill_(INFINITY);
          if (unscale) scaler.unscale_(sgd);
          scaler.step(sgd);
          scaler.update();
        }
        CHECK(scaler.get_scale() == 16384);
        check_close(mlp.fc2.bias, before, 0, 0);
        sgd.zero_grad();
        scaler.scale(mlp(ones({2, 4})).pow(2).mean()).backward();
        scaler.step(sgd);
        scaler.update();
        CHECK(scaler.get_scale() == 16384);
        CHECK_FALSE(allclose(mlp.fc2.bias, before));
      },
      kShortGroup);
}
