// Profiles, stragglers, failures, steps and plans.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/planning/plan.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/parallel/ddp/bucket.h"
#include "ferrite/tests/examples/planning_references.h"

using namespace ferrite;
using namespace ferrite::planning;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// 100 MB of gradients in 100 parts; 0.1 s of forward, 0.2 s of backward.
ModelProfile model() {
  ModelProfile profile = uniform_profile({.model = "test",
                                          .device = "none",
                                          .batch = 32,
                                          .gradient_bytes = 100'000'000,
                                          .forward_s = 0.1,
                                          .backward_s = 0.2,
                                          .optimizer_s = 0.01,
                                          .parameters = 100});
  profile.input_bytes = 20'000'000;
  profile.output_bytes = 128'000;
  profile.buffer_bytes = 100'000;
  profile.other = {0.005};
  return profile;
}

Cluster some_cluster() { return cluster("nvlink2", "infiniband-edr", 8); }

TEST_CASE("profiles add up, survive JSON, and describe their errors") {
  ModelProfile profile = model();
  CHECK(profile.parameter_bytes() == 100'000'000);
  CHECK(profile.backward_s() == doctest::Approx(0.2));
  CHECK(profile.step_s() == doctest::Approx(0.315));
  profile.forward.spread = 0.002;
  profile.parameters[3].name = "layer1.\"conv\"";
  const std::string text = to_json(profile);
  const ModelProfile read = profile_from_json(text);
  CHECK(to_json(read) == text);
  CHECK(read.parameters[3].name == profile.parameters[3].name);
  CHECK(read.forward.spread == 0.002);

  for (const char* bad :
       {"", "[]", "{", "{\"batch\": \"8\"}", "{\"batch\": 1.5}", "{\"parameters\": 1}",
        "{\"speed\": 1}", "{\"forward\": 1}", "{\"forward\": {\"mean\": 1}}", "{\"model\": 1}"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(profile_from_json(bad), IoError);
  }
  CHECK_THROWS_AS(profile_from_json("{\"batch\": 8}"), ValueError);  // no parameters
  constexpr int kDeep = 300'000;
  const std::string deep = std::string(kDeep, '[') + std::string(kDeep, ']');
  CHECK_THROWS_AS(profile_from_json("{\"model\": " + deep + "}"), IoError);
  // Quadratic time in the number of members would exceed the time limit of the test.
  std::string many = "{";
  for (int i = 0; i < 400'000; ++i) many += fmt::format("\"{}\": 1, ", i);
  CHECK_THROWS_AS(profile_from_json(many + "\"batch\": 8}"), IoError);
  for (auto spoil :
       {+[](ModelProfile& p) { p.batch = 0; }, +[](ModelProfile& p) { p.input_bytes = -1; },
        +[](ModelProfile& p) { p.forward.median = -1; },
        +[](ModelProfile& p) { p.optimizer.median = kInfinite; },
        +[](ModelProfile& p) { p.parameters[5].backward.median = std::nan(""); },
        +[](ModelProfile& p) { p.parameters[5].bytes = -4; },
        +[](ModelProfile& p) { p.parameters.clear(); }}) {
    ModelProfile spoiled = model();
    spoil(spoiled);
    CHECK_THROWS_AS(spoiled.check(), ValueError);
    CHECK_THROWS_AS(simulate_step(Strategy::ddp, spoiled, 2, some_cluster()), ValueError);
  }
}

TEST_CASE("profiles with other batches and devices") {
  const ModelProfile profile = model();
  const ModelProfile half = with_batch(profile, 16);
  CHECK(half.input_bytes == 10'000'000);
  CHECK(half.parameter_bytes() == 100'000'000);
  CHECK(half.step_s() == doctest::Approx(0.15 + 0.015));
  // With two measurements, a constant 0.05 s of forward is found.
  ModelProfile small = half;
  small.forward.median = 0.075;
  CHECK(with_batch(profile, small, 8).forward.median == doctest::Approx(0.0625));
  CHECK(with_batch(profile, small, 32).step_s() == doctest::Approx(profile.step_s()));
  CHECK(faster(profile, 2).step_s() == doctest::Approx(profile.step_s() / 2));
  CHECK_THROWS_AS(with_batch(profile, 0), ValueError);
  CHECK_THROWS_AS(with_batch(profile, profile, 8), ValueError);
  small.model = "other";
  CHECK_THROWS_AS(with_batch(profile, small, 8), ValueError);
  CHECK_THROWS_AS(faster(profile, 0), ValueError);
}

TEST_CASE("the slowest of n: expectation against draws, both ways of drawing") {
  const Stragglers kinds[] = {{},
                              Stragglers::parse("lognormal:0.1"),
                              Stragglers::parse("exponential:0.05"),
                              Stragglers::parse("occasional:0.01:2.5")};
  for (const Stragglers& s : kinds) {
    CAPTURE(s.str());
    CHECK(Stragglers::parse(s.str()).str() == s.str());
    std::mt19937_64 generator(1);
    for (const std::int64_t n : {1, 8, 100}) {
      CAPTURE(n);
      double by_draws = 0, by_roots = 0;
      constexpr int kTrials = 4000;
      for (int trial = 0; trial < kTrials; ++trial) {
        double greatest = 0;
        for (std::int64_t i = 0; i < n; ++i) greatest = std::max(greatest, s.draw(generator));
        by_draws += greatest / kTrials;
        by_roots += s.draw_max(generator, n) / kTrials;
      }
      CHECK(by_draws == doctest::Approx(expected_max(s, n)).epsilon(0.03));
      CHECK(by_roots == doctest::Approx(expected_max(s, n)).epsilon(0.03));
    }
    double last = 0;
    for (const std::int64_t n : {1, 2, 64, 4096, 65536, 1 << 20}) {
      CHECK(expected_max(s, n) >= last);
      last = expected_max(s, n);
    }
  }
  CHECK(expected_max(kinds[0], 1000) == 1);
  // exp(sigma z) to first order: the mean of the greatest of 1000 normal draws is 3.2414.
  CHECK(expected_max(Stragglers::parse("lognormal:0.0001"), 1000) ==
        doctest::Approx(1.00032414).epsilon(1e-7));
  CHECK(expected_max(kinds[2], 65536) == doctest::Approx(1 + 0.05 * (std::log(65536) + 0.5772233)));
  CHECK(normal_quantile(0.975) == doctest::Approx(1.959963984540054).epsilon(1e-9));
  CHECK(normal_quantile(1e-10) == doctest::Approx(-6.361340902404056).epsilon(1e-9));
  CHECK(stragglers_of(2, 0.06745).sigma == doctest::Approx(0.05));
  for (const char* bad : {"", "gamma:1", "lognormal", "lognormal:x", "lognormal:-1", "lognormal:4",
                          "exponential:0.1:2", "occasional:2:3", "occasional:0.1:0.5", "none:1"})
    CHECK_THROWS_AS(Stragglers::parse(bad), ValueError);
}

TEST_CASE("failures: goodput against draws, and the best interval") {
  const Failures failures{.device_mtbf_s = 1e6, .restart_s = 120, .checkpoint_s = 20};
  CHECK(goodput({.checkpoint_s = 20}, 1000) == 1);
  CHECK(goodput({.checkpoint_s = 20, .checkpoint_interval_s = 180}, 1000) == doctest::Approx(0.9));
  double last = 1;
  for (const int n : {1, 10, 100, 1000}) {
    CAPTURE(n);
    const double analytic = goodput(failures, n);
    CHECK(analytic < last);
    last = analytic;
    const double work = 3000 * failures.mtbf_s(n);
    CHECK(sampled_goodput(failures, n, work, 7) == doctest::Approx(analytic).epsilon(0.03));
    // No other interval is better by more than the terms that Daly neglects.
    const double best = checkpoint_interval_s(failures, n);
    for (const double factor : {0.5, 0.9, 1.1, 2.0}) {
      Failures other = failures;
      other.checkpoint_interval_s = factor * best;
      CHECK(goodput(other, n) <= analytic * 1.0005);
    }
  }
  CHECK(young_interval_s(20, 1000) == doctest::Approx(200));
  CHECK(daly_interval_s(20, 1000) == doctest::Approx(200 * (1 + 0.1 / 3 + 0.01 / 9) - 20));
  CHECK(daly_interval_s(20, 9) == 9);
  CHECK(sampled_goodput(failures, 100, 1e6, 3) == sampled_goodput(failures, 100, 1e6, 3));
  CHECK(sampled_goodput(failures, 100, 1e6, 3) != sampled_goodput(failures, 100, 1e6, 4));
  CHECK_THROWS_AS(goodput({.device_mtbf_s = 0}, 1), ValueError);
  CHECK_THROWS_AS(goodput({.restart_s = -1}, 1), ValueError);
  CHECK_THROWS_AS(goodput(failures, 0), ValueError);
}

TEST_CASE("buckets are those of DistributedDataParallel") {
  ModelProfile profile = model();  // 100 parameters of 1 MB (10^6 bytes)
  const auto buckets = plan_buckets(profile, 25, 1);
  // 2 MB reach the first limit of 1.05 MB; 27 MB reach 26.2 MB; 1 MB stays for the end.
  REQUIRE(buckets.size() == 6);
  CHECK(buckets[0].bytes == 2e6);
  CHECK(buckets[1].bytes == 27e6);
  CHECK(buckets[4].bytes == 16e6);
  CHECK(buckets[5].bytes == 1e6);
  std::size_t next = 0;
  for (const auto& bucket : buckets) {
    CHECK(bucket.begin == next);
    next = bucket.end;
  }
  CHECK(next == profile.parameters.size());
  CHECK(plan_buckets(profile, 1e6, 1e6).size() == 1);
}

TEST_CASE("buckets of real models are those that they train with") {
  const nn::LeNet5 lenet;
  const nn::ResNet18 resnet({.classes = 10, .stem = nn::ResNetStem::small, .width = 32});
  for (const nn::Module* network : std::initializer_list<const nn::Module*>{&lenet, &resnet}) {
    const std::vector<Tensor> parameters = network->parameters();
    std::vector<std::size_t> order;
    ModelProfile profile = model();
    profile.parameters.clear();
    for (std::size_t i = parameters.size(); i-- > 0;) {
      order.push_back(i);
      profile.parameters.push_back({.name = std::to_string(i),
                                    .bytes = static_cast<std::int64_t>(parameters[i].nbytes()),
                                    .backward = {}});
    }
    for (const Strategy s : {Strategy::dp, Strategy::dp_balanced, Strategy::ddp})
      for (const double cap : {25.0, 5.0, 0.5, 0.1}) {
        CAPTURE(to_string(s));
        CAPTURE(cap);
        constexpr double kMegabyte = 1 << 20;
        const double first = s == Strategy::ddp ? 1 : std::min(1.0, cap);
        const auto real =
            parallel::ddp::plan_buckets(parameters, order,
                                        {.first_bytes = static_cast<std::size_t>(first * kMegabyte),
                                         .bytes = static_cast<std::size_t>(cap * kMegabyte)});
        const auto planned = plan_buckets(s, profile, {.bucket_cap_mb = cap});
        REQUIRE(planned.size() == real.size());
        for (std::size_t b = 0; b < real.size(); ++b)
          CHECK(std::vector(order.begin() + static_cast<std::ptrdiff_t>(planned[b].begin),
                            order.begin() + static_cast<std::ptrdiff_t>(planned[b].end)) ==
                real[b]);
      }
  }
}

TEST_CASE("one device takes the measured time, perfect links cost nothing") {
  const ModelProfile profile = model();
  for (const Strategy s : {Strategy::dp, Strategy::dp_balanced, Strategy::ddp}) {
    CAPTURE(to_string(s));
    CHECK(strategy(to_string(s)) == s);
    CHECK(simulate_step(s, profile, 1, some_cluster()).step_s ==
          doctest::Approx(profile.step_s()).epsilon(1e-12));
    for (const int n : {2, 16, 65536}) {
      const StepTimes times = simulate_step(s, profile, n, perfect_cluster());
      CHECK(times.step_s == doctest::Approx(profile.step_s()).epsilon(1e-12));
      CHECK(times.exposed_s == doctest::Approx(0));
    }
    double last = 0;
    for (const int n : {1, 2, 4, 8, 16, 64, 1024, 65536}) {  // more devices take longer
      const double seconds = simulate_step(s, profile, n, some_cluster()).step_s;
      CHECK(seconds >= last);
      last = seconds;
    }
    // Slower links, buckets without overlap, and contention take longer too.
    const double base = simulate_step(s, profile, 16, some_cluster()).step_s;
    CHECK(simulate_step(s, profile, 16, cluster("nvlink2", "ethernet-10g", 8)).step_s > base);
    CHECK(simulate_step(s, profile, 16, some_cluster(), {.overlap = false}).step_s > base);
    CHECK(simulate_step(s, profile, 16, some_cluster(), {.contention = 1.1}).step_s > base);
    CHECK_THROWS_AS(simulate_step(s, profile, 0, some_cluster()), ValueError);
    CHECK_THROWS_AS(simulate_step(s, profile, 2, some_cluster(), {.bucket_cap_mb = 0}), ValueError);
    CHECK_THROWS_AS(simulate_step(s, profile, 2, some_cluster(), {.steps = 0}), ValueError);
  }
  CHECK_THROWS_AS(strategy("zero"), ValueError);
}

TEST_CASE("DataParallel: a step calculated by hand") {
  const ModelProfile profile = model();
  // A node of four, 10 GB/s, no latency, free additions, one bucket: everything is sequential.
  Cluster cluster = perfect_cluster(4);
  cluster.inside.bandwidth = 10e9;
  const double sent = 3 * (100e6 + 20e6 + 0.1e6) / 10e9, outputs = 2 * 3 * 128e3 / 10e9;
  const double gradients = 3 * 100e6 / 10e9;
  const StepOptions one_bucket{.bucket_cap_mb = 1000, .first_bucket_mb = 1000};
  const StepTimes times = simulate_step(Strategy::dp, profile, 4, cluster, one_bucket);
  CHECK(times.step_s == doctest::Approx(profile.step_s() + sent + outputs + gradients));
  CHECK(times.exposed_s == doctest::Approx(sent + outputs + gradients));
  CHECK(times.bytes_busiest == doctest::Approx(3 * (100e6 + 20e6 + 0.1e6 + 0.128e6)));
  // Losses in the replicas avoid moving the outputs; all gradients sent before backward ends are
  // hidden: of the buckets of 2, 26, 26, 26, 19 and 1 MB, the last but one is ready 2 ms before.
  CHECK(simulate_step(Strategy::dp_balanced, profile, 4, cluster, one_bucket).step_s ==
        doctest::Approx(times.step_s - outputs).epsilon(1e-6));
  const StepTimes overlapped =
      simulate_step(Strategy::dp, profile, 4, cluster, {.bucket_cap_mb = 24});
  CHECK(overlapped.exposed_s ==
        doctest::Approx(sent + outputs + 3 * (19e6 + 1e6) / 10e9 - 0.002).epsilon(1e-6));
  CHECK(overlapped.hidden_s() > 0.015);
  // Additions, launches and host threads add to it.
  Cluster slower = cluster;
  slower.add_bandwidth = 3 * 100e6 / 0.5;
  slower.host_s = 0.01;
  CHECK(simulate_step(Strategy::dp, profile, 4, slower, one_bucket).step_s ==
        doctest::Approx(times.step_s + 0.5 + 0.04));
  // Two nodes: the network carries the data of three of six devices.
  Cluster two = perfect_cluster(3);
  two.between.bandwidth = 1e9;
  CHECK(simulate_step(Strategy::dp, profile, 6, two, one_bucket).step_s ==
        doctest::Approx(profile.step_s() + 10 * (sent + outputs + gradients)));
  // More adapters do not help: the first device has one.
  Cluster more = two;
  more.adapters = 3;
  CHECK(simulate_step(Strategy::dp, profile, 6, more, one_bucket).step_s ==
        simulate_step(Strategy::dp, profile, 6, two, one_bucket).step_s);
}

TEST_CASE("DataParallel: parameters fetched layer by layer, calculated by hand") {
  // Parameters are listed in the order of backward: the first layer is the second entry. All links
  // carry 10 GB/s.
  const ModelProfile profile{.model = "two layers",
                             .batch = 8,
                             .input_bytes = 20'000'000,
                             .forward = {0.010},
                             .parameters = {{.bytes = 300'000'000, .backward = {0.003}},
                                            {.bytes = 100'000'000, .backward = {0.012}}}};
  Cluster cluster = perfect_cluster(4);
  cluster.inside.bandwidth = 10e9;
  const auto step = [&](int devices, bool by_layer) {
    return simulate_step(Strategy::dp_balanced, profile, devices, cluster,
                         {.fetch_by_layer = by_layer})
        .step_s;
  };
  for (const int n : {2, 3}) {
    CAPTURE(n);
    const double peers = n - 1, inputs = peers * 0.002, first = peers * 0.010, last = peers * 0.030;
    const double at_once = inputs + first + last + 0.010;
    // The first layer has 8 ms of forward, during which the last layer's parameters arrive.
    const double by_layer = inputs + first + std::max(0.008, last) + 0.002;
    CHECK(step(n, false) - step(n, true) == doctest::Approx(at_once - by_layer));
  }
  CHECK(step(1, true) == doctest::Approx(profile.step_s()));
}

TEST_CASE("DistributedDataParallel: a step calculated by hand") {
  ModelProfile profile = model();
  profile.buffer_bytes = 0;
  Cluster cluster = perfect_cluster(4);
  cluster.inside.bandwidth = 10e9;
  const AllReduceOptions ring{AllReduceAlgorithm::ring};
  const double all = 2 * 3.0 / 4 * 100e6 / 10e9;
  const StepTimes late =
      simulate_step(Strategy::ddp, profile, 4, cluster, {.overlap = false, .all_reduce = ring});
  CHECK(late.step_s == doctest::Approx(profile.step_s() + all));
  CHECK(late.communication_s == doctest::Approx(all));
  CHECK(late.hidden_s() == doctest::Approx(0));
  CHECK(late.bytes_busiest == doctest::Approx(1.5 * 100e6));
  // Overlapping backward (2 ms per MB, sent in 0.15): all but the last bucket, of 1 MB, is hidden.
  const StepTimes beside = simulate_step(Strategy::ddp, profile, 4, cluster, {.all_reduce = ring});
  CHECK(beside.exposed_s == doctest::Approx(0.15e-3 + 16 * 0.15e-3 - 2e-3).epsilon(0.01));
  CHECK(beside.hidden_s() == doctest::Approx(all - beside.exposed_s));
  // Links so slow that everything waits for them, from the second bucket on, ready after 58 ms.
  cluster.inside.bandwidth = 0.1e9;
  const StepTimes slow = simulate_step(Strategy::ddp, profile, 4, cluster, {.all_reduce = ring});
  CHECK(slow.step_s == doctest::Approx(0.005 + 0.1 + 0.058 + 98 * all + 0.01));
  // Communication on the computing cores hides nothing.
  cluster.inside = {"host", 10e9, 0, 1};
  const StepTimes host = simulate_step(Strategy::ddp, profile, 4, cluster, {.all_reduce = ring});
  CHECK(host.step_s == doctest::Approx(profile.step_s() + all));
  // Buffers cost half of their all-reduce.
  profile.buffer_bytes = 1'000'000;
  CHECK(simulate_step(Strategy::ddp, profile, 4, cluster, {.all_reduce = ring}).step_s ==
        doctest::Approx(host.step_s + 0.75 * 1e6 / 10e9));
}

TEST_CASE("stragglers: all wait for the slowest; draws depend on the seed") {
  const ModelProfile profile = model();
  const Stragglers slow = Stragglers::parse("lognormal:0.05");
  const auto run = [&](Strategy s, int n, std::uint64_t seed) {
    return simulate_step(s, profile, n, perfect_cluster(),
                         {.stragglers = slow, .steps = 2000, .seed = seed});
  };
  for (const Strategy s : {Strategy::dp, Strategy::ddp})
    for (const int n : {2, 64, 4096}) {
      CAPTURE(n);
      const StepTimes times = run(s, n, 1);
      // Work that not all devices do (DP: only the first runs the optimizer) is left out.
      CHECK(times.step_s ==
            doctest::Approx(profile.step_s() * expected_max(slow, n)).epsilon(0.012));
      CHECK(times.step_s == run(s, n, 1).step_s);
      CHECK(times.step_s != run(s, n, 2).step_s);
      CHECK(times.step_s <= times.compute_s + times.straggler_s + times.exposed_s + 1e-9);
    }
}

TEST_CASE("plans: throughput, crossover, where devices stop paying") {
  const ModelProfile profile = model();
  const PlanOptions options{.devices = powers_of_two(65536)};
  CHECK(options.devices.size() == 16);
  CHECK(powers_of_two(6) == std::vector<int>{2, 4, 6});
  CHECK(powers_of_two(1) == std::vector<int>{1});
  const Plan weak = plan(profile, some_cluster(), options);
  REQUIRE(weak.rows.size() == 48);
  for (const PlanRow& row : weak.rows) {
    CHECK(row.batch == 32 * row.devices);
    CHECK(row.efficiency == doctest::Approx(profile.step_s() / row.step.step_s));
    CHECK(row.throughput == doctest::Approx(row.batch / row.step.step_s));
    CHECK(row.efficiency <= 1);
  }
  REQUIRE(weak.crossover());
  CHECK(*weak.crossover() <= 8);
  // A parameter server stops scaling where its links are full, rings continue.
  CHECK(*weak.pays_until(Strategy::dp) < 64);
  CHECK(*weak.pays_until(Strategy::ddp) >= 4096);
  CHECK(weak.find(Strategy::dp, 65536)->efficiency < 0.01);
  CHECK(weak.find(Strategy::ddp, 65536)->efficiency > 0.3);
  CHECK(weak.find(Strategy::ddp, 3) == nullptr);

  // A fixed batch runs out of work, and failures consume the gain of many machines.
  PlanOptions strong = options;
  strong.scaling = Scaling::strong;
  strong.global_batch = 1024;
  const Plan fixed = plan(profile, some_cluster(), strong);
  CHECK(fixed.rows.back().devices == 1024);
  CHECK(fixed.find(Strategy::ddp, 1024)->batch == 1024);
  CHECK(*fixed.best(Strategy::dp) < 64);
  CHECK(*fixed.pays_until(Strategy::ddp) < 1024);
  PlanOptions failing = options;
  failing.failures = {.device_mtbf_s = 1e8};
  const Plan lossy = plan(profile, some_cluster(), failing);
  CHECK(lossy.find(Strategy::ddp, 65536)->goodput < lossy.find(Strategy::ddp, 1024)->goodput);
  CHECK(lossy.find(Strategy::ddp, 65536)->goodput == goodput(failing.failures, 65536));

  for (const std::string& text : {weak.table(), weak.csv(), weak.json()}) {
    CHECK(text.find("65536") != std::string::npos);
    CHECK(text.find("dp-balanced") != std::string::npos);
  }
  PlanOptions bad = options;
  bad.devices = {};
  CHECK_THROWS_AS(plan(profile, some_cluster(), bad), ValueError);
  bad.devices = {0};
  CHECK_THROWS_AS(plan(profile, some_cluster(), bad), ValueError);
  bad = options;
  bad.worthwhile = 1;
  CHECK_THROWS_AS(plan(profile, some_cluster(), bad), ValueError);
  CHECK_THROWS_AS(powers_of_two(0), ValueError);
}

}  // namespace
