// What predictions are made of, and predictions of what was measured on this machine.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"
#include "examples/compare_parallel/measure.h"
#include "examples/compare_parallel/ranks.h"
#include "examples/compare_parallel/simulate.h"

namespace examples::compare {

using namespace ferrite;
namespace planning = parallel::planning;
using planning::ModelProfile;

namespace {

constexpr const char* kOp = "--simulate";

std::vector<ModelProfile> profiles_of(const Options& o, const std::vector<std::string>& arguments,
                                      const Case& what) {
  const Outcome outcome = run_processes(o, arguments, {"profile", what});
  FERRITE_CHECK(outcome.error.empty(), Error, kOp,
                "the step of one device could not be measured: {}", outcome.error);
  std::vector<ModelProfile> profiles;
  for (const auto& json : outcome.ranks)
    profiles.push_back(planning::profile_from_json(json.dump()));
  return profiles;
}

double step_s(const ModelProfile& profile) { return profile.step.median; }

/// Of several measurements of links, the best: what else the machine does only takes away.
void merge(std::vector<Link>& links, const Link& link) {
  const auto same = std::ranges::find_if(links, [&](const Link& l) {
    return l.operation == link.operation && l.devices == link.devices;
  });
  if (same == links.end()) return links.push_back(link);
  same->latency_us = std::min(same->latency_us, link.latency_us);
  same->bandwidth = std::max(same->bandwidth, link.bandwidth);
}

/// How much of the time of communication is taken from devices that are cores of a host: as many
/// of its threads as have no core of their own.
double compute_share(const Machine& machine, int devices) {
  if (machine.kind == "gpus") return 0;
  const double threads = devices * (machine.threads + 1.0);
  return std::clamp((threads - machine.cores) / devices, 0.0, 1.0);
}

const Link* find(const Calibration& calibration, const std::string& operation, int devices) {
  const auto found = std::ranges::find_if(calibration.links, [&](const Link& l) {
    return l.operation == operation && l.devices == devices && l.bandwidth > 0;
  });
  return found == calibration.links.end() ? nullptr : &*found;
}

/// A node of the devices that were measured, on which a ring's closed form gives back what was
/// measured: 2 (n - 1) steps of a latency and an n-th of the bytes.
planning::Cluster node_of(const Link& all_reduce, double share) {
  const double n = all_reduce.devices, steps = 2 * (n - 1);
  const planning::LinkSpeed link{all_reduce.operation, all_reduce.bandwidth * steps / n,
                                 all_reduce.latency_us * 1e-6 / steps, share};
  return {.devices_per_node = all_reduce.devices, .inside = link, .between = link, .launch_s = 0};
}

/// What was measured is the time until all peers have their bytes.
planning::LinkSpeed to_peers(const Link& link, double share) {
  return {link.operation, link.bandwidth * (link.devices - 1), link.latency_us * 1e-6, share};
}

std::optional<double> predicted_s(const Measurement& m, const Calibration& calibration,
                                  const Case& what) {
  const ModelProfile profile = profile_of(calibration, to_dtype(what.amp), what.batch_per_device());
  planning::StepOptions options{.overlap = what.overlap, .contention = calibration.contention};
  const double share = compute_share(m.machine, what.devices);
  if (what.strategy.starts_with("ddp")) {
    const Link* link =
        find(calibration, what.strategy == "ddp" ? "all_reduce" : "ring_all_reduce", what.devices);
    if (link == nullptr) return {};
    options.bucket_cap_mb = what.bucket_mb;
    options.first_bucket_mb = std::min(1.0, what.bucket_mb);
    options.all_reduce.algorithm = planning::AllReduceAlgorithm::ring;
    return simulate_step(planning::Strategy::ddp, profile, what.devices, node_of(*link, share),
                         options)
        .step_s;
  }
  const Link* broadcast = find(calibration, "broadcast", what.devices);
  const Link* sum = find(calibration, "reduce_add", what.devices);
  if (broadcast == nullptr || sum == nullptr) return {};
  options.measured_broadcast = to_peers(*broadcast, share);
  options.measured_reduce_add = to_peers(*sum, share);
  planning::Cluster cluster = planning::perfect_cluster(what.devices);
  const auto strategy =
      what.strategy == "dp" ? planning::Strategy::dp : planning::Strategy::dp_balanced;
  return simulate_step(strategy, profile, what.devices, cluster, options).step_s;
}

}  // namespace

std::string to_dtype(const std::string& amp) { return amp == "O0" ? "float32" : "amp " + amp; }

ModelProfile profile_of(const Calibration& calibration, const std::string& dtype,
                        std::int64_t batch) {
  std::vector<ModelProfile> same;
  for (const auto& profile : calibration.profiles) {
    if (profile.dtype != dtype) continue;
    if (profile.batch == batch) return profile;
    same.push_back(profile);
  }
  FERRITE_CHECK(!same.empty(), ValueError, kOp, "no step of one device was measured with {}",
                dtype);
  std::ranges::sort(same, {}, [&](const ModelProfile& p) { return std::abs(p.batch - batch); });
  return same.size() == 1 ? with_batch(same[0], batch) : with_batch(same[0], same[1], batch);
}

std::vector<Prediction> predict(const Measurement& measurement, const Calibration& calibration) {
  std::vector<Prediction> predictions;
  for (const Row& row : measurement.rows) {
    if (row.what.devices < 2 || row.step_ms.empty()) continue;
    if (const auto seconds = predicted_s(measurement, calibration, row.what))
      predictions.push_back({.what = row.what,
                             .measured_ms = row.step_ms.low(),
                             .spread_ms = row.step_ms.spread(),
                             .predicted_ms = 1e3 * *seconds});
  }
  return predictions;
}

Calibration calibrate(const Options& o, const std::vector<std::string>& arguments) {
  Calibration calibration;
  const int most = std::ranges::max(o.devices);
  std::set<std::int64_t> batches{o.batch, (o.batch + 1) / 2};
  for (const int n : o.devices) batches.insert((o.batch + n - 1) / n);
  std::vector<Case> cases;
  for (const std::string& amp : o.amp)
    for (const std::int64_t batch : batches)
      cases.push_back({.strategy = "single", .amp = amp, .batch = batch, .threads = o.threads});
  std::vector<std::vector<ModelProfile>> alone(cases.size());
  std::vector<double> beside(cases.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < std::max(1, o.repetitions); ++round) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      alone[i].push_back(profiles_of(o, arguments, cases[i]).at(0));
      if (most < 2) continue;
      Case all = cases[i];
      all.strategy = "ddp";
      all.devices = most;
      const auto others = profiles_of(o, arguments, all);
      if (others.size() > 1)
        beside[i] = std::min(beside[i], step_s(std::ranges::max(others, {}, step_s)));
    }
    for (const int n : o.devices) {
      if (n == 1) continue;
      for (const char* strategy : {"ddp", "dp"}) {
        const Case what{.strategy = strategy, .devices = n, .threads = o.threads};
        const Outcome outcome = run_processes(o, arguments, {"links", what});
        FERRITE_CHECK(outcome.error.empty(), Error, kOp, "links could not be measured: {}",
                      outcome.error);
        for (const auto& link : outcome.ranks.at(0)) merge(calibration.links, link.get<Link>());
      }
    }
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    calibration.profiles.push_back(std::ranges::min(alone[i], {}, step_s));
    if (std::isfinite(beside[i])) ratios.push_back(beside[i] / step_s(calibration.profiles.back()));
  }
  if (!ratios.empty()) {
    std::ranges::sort(ratios);
    calibration.contention = std::max(1.0, ratios[(ratios.size() - 1) / 2]);
  }
  return calibration;
}

}  // namespace examples::compare
