#include "ferrite/examples/compare_parallel/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/core/terminal.h"
#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/compare_parallel/measure.h"
#include "ferrite/examples/compare_parallel/report.h"
#include "ferrite/metrics/curves.h"

namespace examples::compare {

using namespace ferrite;

namespace {

constexpr const char* kSimulate = "--simulate";

/// The fastest link from any device to any other, among those measured here between two devices.
planning::LinkSpeed measured_link(const Calibration& calibration) {
  planning::LinkSpeed link{.name = "measured here"};
  for (const Link& l : calibration.links) {
    if (l.devices != 2 || l.bandwidth <= link.bandwidth) continue;
    if (l.operation != "all_reduce" && l.operation != "ring_all_reduce") continue;
    // Two ranks: half of the bytes there and half of them back, in two steps.
    link.bandwidth = l.bandwidth;
    link.latency_s = l.latency_us * 1e-6 / 2;
  }
  if (link.bandwidth == 0) link = planning::link_speed("loopback-shm");
  return link;
}

planning::Cluster cluster_of(const SimulateOptions& s, const Calibration& calibration) {
  const auto link = [&](const std::string& name) {
    return name == "measured" ? measured_link(calibration) : planning::link_speed(name);
  };
  planning::Cluster cluster{.devices_per_node = s.per_node,
                            .inside = link(s.inside),
                            .between = link(s.between),
                            .adapters = s.adapters};
  cluster.name = fmt::format("nodes of {} ({}), between them {} ({})", s.per_node,
                             cluster.inside.name, s.adapters, cluster.between.name);
  return cluster;
}

/// Both of DistributedDataParallel's are one: --all-reduce says how it sums.
std::vector<planning::Strategy> strategies_of(const Options& o) {
  std::vector<planning::Strategy> strategies;
  for (const auto strategy : planning::kAllStrategies)
    if (std::ranges::any_of(o.strategies, [&](const std::string& name) {
          return name == planning::to_string(strategy) ||
                 (name == "ddp-ring" && strategy == planning::Strategy::ddp);
        }))
      strategies.push_back(strategy);
  FERRITE_CHECK(!strategies.empty(), ValueError, kSimulate,
                "there is nothing to plan: --strategies names no strategy for several devices");
  return strategies;
}

planning::PlanOptions plan_options(const Options& o, const SimulateOptions& s,
                                   const planning::ModelProfile& profile) {
  planning::PlanOptions plan;
  plan.devices = s.devices.size() == 1 ? planning::powers_of_two(s.devices[0]) : s.devices;
  plan.strategies = strategies_of(o);
  plan.worthwhile = s.worthwhile;
  plan.step.seed = o.seed;
  if (!o.bucket_mb.empty()) {
    plan.step.bucket_cap_mb = o.bucket_mb[0];
    plan.step.first_bucket_mb = std::min(1.0, o.bucket_mb[0]);
  }
  plan.step.overlap = o.overlap.empty() || o.overlap[0] == "on";
  plan.step.fetch_by_layer = s.fetch_by_layer;
  plan.step.all_reduce.algorithm = planning::all_reduce_algorithm(s.all_reduce);
  if (s.stragglers != "measured")
    plan.step.stragglers = planning::Stragglers::parse(s.stragglers);
  else if (profile.step.median > 0)
    plan.step.stragglers = planning::stragglers_of(profile.step.median, profile.step.spread);
  if (s.failures)
    plan.failures = {.device_mtbf_s = 3600 * s.mtbf_hours,
                     .restart_s = s.restart,
                     .checkpoint_s = s.checkpoint,
                     .checkpoint_interval_s = s.checkpoint_interval};
  return plan;
}

/// What --from names: everything that compare_parallel measured, or a profile alone.
Calibration load(const std::string& file) {
  const nlohmann::json report = load_report(file);
  if (!is_measurement(report)) return {.profiles = {planning::profile_from_json(report.dump())}};
  Measurement found = measurement_from(report);
  FERRITE_CHECK(!found.profiles.empty(), ValueError, kSimulate,
                "'{}' was measured with --no-profile and has no times of layers", file);
  return {.profiles = found.profiles, .links = found.links};
}

std::string chart_of(const std::vector<planning::Plan>& plans) {
  metrics::Curves curves(plans[0].model + " on " + plans[0].device,
                         {.x_label = "devices, powers of two (10: 1024)"});
  auto& throughput = curves.panel("samples a second", metrics::Scale::log);
  auto& efficiency = curves.panel("efficiency, %");
  auto& exposed = curves.panel("exposed communication, ms", metrics::Scale::log);
  for (const auto& plan : plans)
    for (const auto strategy : planning::kAllStrategies) {
      std::vector<double> x, samples, percent, ms;
      for (const auto& row : plan.of(strategy)) {
        x.push_back(std::log2(row.devices));
        samples.push_back(row.net_throughput());
        percent.push_back(100 * row.efficiency * row.goodput);
        ms.push_back(1e3 * row.step.exposed_s);
      }
      const std::string name =
          fmt::format("{}{}", planning::to_string(strategy),
                      plans.size() == 1                         ? ""
                      : plan.scaling == planning::Scaling::weak ? ", batch a device"
                                                                : ", batch of all");
      if (x.empty()) continue;
      throughput.add(name, x, samples);
      efficiency.add(name, x, percent);
      exposed.add(name, x, ms);
    }
  return curves.svg();
}

void write(const Options& o, const std::vector<planning::Plan>& plans) {
  if (!o.json.empty()) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const auto& plan : plans) all.push_back(nlohmann::ordered_json::parse(plan.json()));
    write_file(o.json, all.dump(1) + "\n");
  }
  if (!o.csv.empty()) {
    std::string all;
    for (const auto& plan : plans) {
      const std::string csv = plan.csv();
      all += all.empty() ? csv : csv.substr(csv.find('\n') + 1);
    }
    write_file(o.csv, all);
  }
  if (!o.svg.empty()) write_file(o.svg, chart_of(plans));
}

Calibration calibrate(const Options& o, const std::vector<std::string>& arguments) {
  Calibrator calibrator(o, arguments, false);
  for (int round = 0; round < std::max(1, o.repetitions); ++round) calibrator.round();
  return calibrator.result();
}

/// In turns, so that what else the machine does meets both.
std::pair<Calibration, Measurement> calibrate_and_measure(
    const Options& o, const std::vector<std::string>& arguments) {
  Calibrator calibrator(o, arguments, true);
  Options once = o;
  once.repetitions = 1;
  Measurement all;
  for (int round = 0; round < std::max(1, o.repetitions); ++round) {
    calibrator.round();
    Measurement found = measure_all(once, arguments);
    if (round == 0) {
      all = std::move(found);
      continue;
    }
    for (std::size_t i = 0; i < all.rows.size(); ++i) {
      const auto& values = found.rows[i].step_ms.values;
      all.rows[i].step_ms.values.insert(all.rows[i].step_ms.values.end(), values.begin(),
                                        values.end());
      if (all.rows[i].error.empty()) all.rows[i].error = found.rows[i].error;
    }
  }
  return {calibrator.result(), std::move(all)};
}

int plan(const Options& o, const SimulateOptions& s, const std::vector<std::string>& arguments) {
  const Calibration calibration = s.from.empty() ? calibrate(o, arguments) : load(s.from);
  const std::string dtype = to_dtype(o.amp.empty() ? "O0" : o.amp[0]);
  // The batch that was asked for, measured or not; else the greatest that was measured.
  std::vector<planning::ModelProfile> measured;
  std::ranges::copy_if(calibration.profiles, std::back_inserter(measured),
                       [&](const auto& profile) {
                         return profile.dtype == dtype || calibration.profiles.size() == 1;
                       });
  FERRITE_CHECK(!measured.empty(), ValueError, kSimulate,
                "no step of one device was measured with {}", dtype);
  std::ranges::sort(measured, std::greater<>(), &planning::ModelProfile::batch);
  const std::int64_t batch = o.batch_given ? o.batch : measured.front().batch;
  const auto profile =
      planning::faster(profile_of({.profiles = measured}, measured.front().dtype, batch), s.faster);
  planning::PlanOptions options = plan_options(o, s, profile);
  options.global_batch = batch;
  for (const auto& other : measured)
    if (other.model == profile.model && other.batch != profile.batch &&
        other.parameters.size() == profile.parameters.size())
      options.other_batch = planning::faster(other, s.faster);

  std::vector<planning::Plan> plans;
  for (const auto scaling : {planning::Scaling::weak, planning::Scaling::strong}) {
    if (o.scaling == (scaling == planning::Scaling::weak ? "strong" : "weak")) continue;
    options.scaling = scaling;
    plans.push_back(planning::plan(profile, cluster_of(s, calibration), options));
    fmt::print("{}\n", plans.back().table());
  }
  fmt::print(
      "stragglers: {}; mean time between failures of a device: {}; {:g} s per checkpoint, {:g} s "
      "per restart\n",
      options.step.stragglers.str(),
      s.failures ? fmt::format("{:g} hours", s.mtbf_hours) : "infinite", s.checkpoint, s.restart);
  write(o, plans);
  return 0;
}

/// Why a row has no prediction beside it; "" where it has one, or needs none.
std::string why_unchecked(const Row& row, const std::vector<Prediction>& predictions) {
  if (!row.error.empty()) return "failed: " + row.error;
  if (row.what.devices < 2 ||
      std::ranges::find(predictions, row.what, &Prediction::what) != predictions.end())
    return "";
  return row.step_ms.empty() ? "was not measured" : "not predicted: its links were not measured";
}

int check(const Options& o, const SimulateOptions& s, const std::vector<std::string>& arguments) {
  Calibration calibration;
  Measurement measured;
  if (s.from.empty()) {
    std::tie(calibration, measured) = calibrate_and_measure(o, arguments);
  } else {
    measured = measurement_from(load_report(s.from));
    calibration = load(s.from);
  }
  for (const auto& profile : calibration.profiles)
    fmt::print("one device: {:.2f} ms per step of {} images ({})\n", 1e3 * profile.step.median,
               profile.batch, profile.dtype);
  for (const SideBySide& s : calibration.side_by_side)
    fmt::print("{} devices side by side in {}, {} images each: {:.3f} times as long\n",
               s.what.devices, s.what.strategy == "dp" ? "one process" : "processes",
               s.what.batch_per_device(), s.slowdown);
  for (const auto& [n, seconds] : calibration.host_s)
    fmt::print("DataParallel on {} devices: {:.2f} ms on the host\n", n, 1e3 * seconds);
  for (const Link& link : calibration.links)
    fmt::print("{} on {} devices: {:.1f} us + bytes / {:.2f} GB/s\n", link.operation, link.devices,
               link.latency_us, link.bandwidth / 1e9);
  terminal::Table table({{"case", terminal::Align::left},
                         {"devices"},
                         {"scaling"},
                         {"batch"},
                         {"measured ms"},
                         {"+-"},
                         {"predicted ms"},
                         {"error"}});
  const auto cells = [](const Case& c) {
    return std::vector<std::string>{c.label(), std::to_string(c.devices), c.scaling,
                                    std::to_string(c.batch)};
  };
  double worst = 0;
  bool complete = true;
  nlohmann::json all = nlohmann::json::array();
  const std::vector<Prediction> predictions = predict(measured, calibration);
  for (const Prediction& p : predictions) {
    worst = std::max(worst, std::abs(p.error()));
    std::vector<std::string> row = cells(p.what);
    for (const double ms : {p.measured_ms, p.spread_ms, p.predicted_ms})
      row.push_back(fmt::format("{:.2f}", ms));
    row.push_back(fmt::format("{:+.1f}%", 100 * p.error()));
    table.add(std::move(row));
    all.push_back({{"case", p.what},
                   {"measured_ms", p.measured_ms},
                   {"predicted_ms", p.predicted_ms},
                   {"error", p.error()}});
  }
  for (const Row& row : measured.rows) {
    const std::string why = why_unchecked(row, predictions);
    if (why.empty()) continue;
    complete = false;
    std::vector<std::string> line = cells(row.what);
    line.push_back(why);
    table.add(std::move(line));
    all.push_back({{"case", row.what}, {"unchecked", why}});
  }
  std::fputs("\n", stdout);
  table.print();
  FERRITE_CHECK(!all.empty(), ValueError, "--check-simulation",
                "there is nothing to check: no case with 2 devices or more was measured");
  const bool good = worst <= kTolerance;
  if (!predictions.empty())
    fmt::print("\nthe largest error is {:.1f} %, {} than {:.0f} %\n", 100 * worst,
               good ? "not more" : "more", 100 * kTolerance);
  if (!complete) fmt::print("\nsome of the requested cases could not be checked\n");
  if (!o.json.empty()) write_file(o.json, to_text(all));
  return good && complete ? 0 : 1;
}

}  // namespace

void add_simulate_options(CommandLine& app, SimulateOptions& s) {
  constexpr const char* kGroup = "Simulation of other machines";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help).group(kGroup);
  };
  const auto add_flag = [&](const char* name, bool& value, const char* help) {
    app.add_flag(name, value, help).group(kGroup);
  };
  add("--simulate", s.devices,
      "predict steps on these numbers of devices with a discrete-event model; a single number N "
      "stands for powers of two up to N. --json, --csv and --svg then get the predictions")
      .delimiter(',')
      .check(whole(1, 1 << 24));
  add_flag("--check-simulation", s.check,
           "measure, predict the same steps from one device and from links, and print the errors");
  add("--from", s.from,
      "measurements to start from: a file that --json wrote, or a profile of a model");
  add("--inside", s.inside,
      "link of a device within its node: measured, nvlink1..4, pcie3..5, or GB/s and microseconds, "
      "such as 120,3.4")
      .capture_default_str();
  add("--between", s.between,
      "link of a network adapter: ethernet-10g..100g, roce-25g..100g, infiniband-fdr..ndr, or GB/s "
      "and microseconds, such as 11.5,14")
      .capture_default_str();
  add("--per-node", s.per_node, "devices per node").check(whole(1)).capture_default_str();
  add("--adapters", s.adapters, "network adapters per node").check(whole(1)).capture_default_str();
  add("--faster", s.faster, "speed of a device relative to the measured one")
      .check(above_zero())
      .capture_default_str();
  add("--all-reduce", s.all_reduce, "all-reduce algorithm for DistributedDataParallel's buckets")
      .check(one_of({"ring", "tree", "hierarchical", "fastest"}))
      .capture_default_str();
  add_flag("--fetch-by-layer", s.fetch_by_layer,
           "send DataParallel's parameters layer by layer during forward, like TensorFlow's "
           "parameter server");
  add("--stragglers", s.stragglers,
      "none, lognormal:SIGMA, exponential:MEAN, occasional:PROBABILITY:FACTOR, or measured "
      "(log-normal, with the measured spread of the steps)")
      .capture_default_str();
  add("--mtbf-hours", s.mtbf_hours, "mean time between failures of a device")
      .check(above_zero())
      .capture_default_str();
  add("--restart", s.restart, "seconds from a failure to the next step")
      .check(at_least(0))
      .capture_default_str();
  add("--checkpoint", s.checkpoint, "seconds to write a checkpoint")
      .check(at_least(0))
      .capture_default_str();
  add("--checkpoint-interval", s.checkpoint_interval,
      "seconds between checkpoints (default the optimum)")
      .check(at_least(0));
  add_flag("!--no-failures", s.failures, "simulate no failures and no checkpoints");
  add("--worthwhile", s.worthwhile,
      "more devices are worthwhile while doubling them adds at least this share of the throughput")
      .check(between(0.01, 1))
      .capture_default_str();
}

int simulate(const Options& options, const SimulateOptions& simulation,
             const std::vector<std::string>& arguments) {
  return simulation.check ? check(options, simulation, arguments)
                          : plan(options, simulation, arguments);
}

}  // namespace examples::compare
