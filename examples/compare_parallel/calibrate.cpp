// What predictions are made of, and predictions of what was measured on this machine.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/measure.h"
#include "ferrite/examples/compare_parallel/simulate.h"

namespace examples::compare {

using namespace ferrite;
using planning::ModelProfile;

namespace {

constexpr const char* kOp = "--simulate";
constexpr double kNever = std::numeric_limits<double>::infinity();

/// What the ranks of a job have found; Error where it fails.
std::vector<nlohmann::json> results_of(const Options& o, const std::vector<std::string>& arguments,
                                       const Job& job, std::string_view what) {
  Outcome outcome = run_processes(o, arguments, job);
  FERRITE_CHECK(outcome.error.empty(), Error, kOp, "{} could not be measured: {}", what,
                outcome.error);
  return std::move(outcome.ranks);
}

ModelProfile profile_alone(const Options& o, const std::vector<std::string>& arguments,
                           const Case& what) {
  return planning::profile_from_json(
      results_of(o, arguments, {"profile", what}, "the step of one device").at(0).dump());
}

/// Seconds a step: the mean over steps, each as long as its slowest rank's.
double step_side_by_side(const Options& o, const std::vector<std::string>& arguments,
                         const Case& what) {
  std::vector<double> slowest;
  for (const auto& rank :
       results_of(o, arguments, {"side by side", what},
                  fmt::format("steps of {} devices side by side", what.devices))) {
    const auto seconds = rank.get<std::vector<double>>();
    slowest.resize(seconds.size());
    std::ranges::transform(slowest, seconds, slowest.begin(), std::ranges::max);
  }
  return std::accumulate(slowest.begin(), slowest.end(), 0.0) / static_cast<double>(slowest.size());
}

double step_s(const ModelProfile& profile) { return profile.step.median; }

/// Keeps the best of several measurements of a link: other work on the machine only slows it down.
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

/// How devices live side by side: ranks, each in a process of its own, or all in one.
constexpr std::array<const char*, 2> kKinds{"ddp", "dp"};
std::string_view kind_of(const Case& what) {
  return what.strategy.starts_with("ddp") ? "ddp" : "dp";
}
bool is_asked_for(const Options& o, std::string_view kind) {
  return std::ranges::any_of(o.strategies, [&](const std::string& name) {
    return name != "single" && kind_of({.strategy = name}) == kind;
  });
}

void measure_links(const Options& o, const std::vector<std::string>& arguments, const Case& base,
                   std::vector<Link>& links) {
  for (const int n : o.devices)
    for (const char* kind : kKinds) {
      if (n == 1) continue;
      Case what = base;
      what.strategy = kind, what.devices = n;
      const auto ranks = results_of(o, arguments, {"links", what}, "links");
      for (const auto& link : ranks.at(0)) merge(links, link.get<Link>());
    }
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

std::optional<planning::StepTimes> predicted(const Machine& machine, const Calibration& calibration,
                                             const Case& what) {
  const ModelProfile profile = profile_of(calibration, to_dtype(what.amp), what.batch_per_device());
  planning::StepOptions options{.overlap = what.overlap, .contention = calibration.slowdown(what)};
  const double share = compute_share(machine, what.devices);
  if (what.strategy.starts_with("ddp")) {
    const Link* link =
        find(calibration, what.strategy == "ddp" ? "all_reduce" : "ring_all_reduce", what.devices);
    if (link == nullptr) return {};
    options.bucket_cap_mb = what.bucket_mb;
    options.first_bucket_mb = std::min(1.0, what.bucket_mb);
    options.all_reduce.algorithm = planning::AllReduceAlgorithm::ring;
    return simulate_step(planning::Strategy::ddp, profile, what.devices, node_of(*link, share),
                         options);
  }
  const Link* broadcast = find(calibration, "broadcast", what.devices);
  const Link* sum = find(calibration, "reduce_add", what.devices);
  if (broadcast == nullptr || sum == nullptr) return {};
  options.measured_broadcast = to_peers(*broadcast, share);
  options.measured_reduce_add = to_peers(*sum, share);
  planning::Cluster cluster = planning::perfect_cluster(what.devices);
  if (const auto host = calibration.host_s.find(what.devices); host != calibration.host_s.end())
    cluster.host_s = host->second / what.devices;
  const auto strategy =
      what.strategy == "dp" ? planning::Strategy::dp : planning::Strategy::dp_balanced;
  return simulate_step(strategy, profile, what.devices, cluster, options);
}

Case an_image_a_device(Case what, int devices) {
  what.strategy = "dp", what.devices = devices, what.batch = devices, what.bucket_mb = 25;
  return what;
}

/// What DataParallel adds to a step, in seconds, measured.
double exposed_s(const Options& o, const std::vector<std::string>& arguments, const Case& what) {
  const auto result = results_of(o, arguments, {"case", what},
                                 fmt::format("DataParallel on {} devices", what.devices))
                          .at(0)
                          .get<RankResult>();
  return 1e-3 * (result.step_ms - result.alone_ms);
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
    if (const auto times = predicted(measurement.machine, calibration, row.what))
      predictions.push_back({.what = row.what,
                             .measured_ms = row.step_ms.low(),
                             .spread_ms = row.step_ms.spread(),
                             .predicted_ms = 1e3 * times->step_s});
  }
  return predictions;
}

double Calibration::slowdown(const Case& what) const {
  const std::string_view kind = kind_of(what);
  const SideBySide* nearest = nullptr;
  const auto distance = [&](const SideBySide& s) { return std::abs(s.what.batch - what.batch); };
  for (const SideBySide& s : side_by_side)
    if (s.what.strategy == kind && s.what.amp == what.amp && s.what.devices == what.devices &&
        (nearest == nullptr || distance(s) < distance(*nearest)))
      nearest = &s;
  return nearest == nullptr ? 1 : std::max(1.0, nearest->slowdown);  // noise takes it below
}

Calibrator::Calibrator(const Options& o, const std::vector<std::string>& arguments,
                       bool side_by_side)
    : options_(o), arguments_(arguments), base_{.threads = o.threads} {
  batches_ = {o.batch, (o.batch + 1) / 2};
  for (const int n : o.devices) batches_.insert((o.batch + n - 1) / n);
  if (!side_by_side) return;
  for (const int n : o.devices) {
    if (n == 1) continue;
    for (const std::string& amp : o.amp)
      for (const char* kind : kKinds)
        for (const std::int64_t batch : {o.batch, (o.batch + n - 1) / n}) {
          if (!is_asked_for(o, kind)) continue;
          Case what = base_;
          what.strategy = kind, what.amp = amp, what.devices = n;
          what.batch = batch * n, what.bucket_mb = 25;
          beside_.emplace_back(what, kNever);
        }
    if (is_asked_for(o, "dp")) exposed_[n] = kNever;
  }
}

void Calibrator::round() {
  for (const std::string& amp : options_.amp)
    for (const std::int64_t batch : batches_) {
      Case what = base_;
      what.strategy = "single", what.amp = amp, what.batch = batch;
      const ModelProfile found = profile_alone(options_, arguments_, what);
      const auto [at, is_first] = alone_.try_emplace({amp, batch}, found);
      if (!is_first && step_s(found) < step_s(at->second)) at->second = found;
    }
  for (auto& [what, seconds] : beside_)
    seconds = std::min(seconds, step_side_by_side(options_, arguments_, what));
  for (auto& [n, seconds] : exposed_)
    seconds = std::min(seconds, exposed_s(options_, arguments_, an_image_a_device(base_, n)));
  measure_links(options_, arguments_, base_, links_);
}

Calibration Calibrator::result() const {
  Calibration calibration{.links = links_};
  for (const auto& [key, profile] : alone_) calibration.profiles.push_back(profile);
  for (const auto& [what, seconds] : beside_)
    calibration.side_by_side.push_back(
        {what, seconds / step_s(alone_.at({what.amp, what.batch_per_device()}))});
  for (const auto& [n, seconds] : exposed_)
    if (const auto times =
            predicted(describe_machine(options_), calibration, an_image_a_device(base_, n)))
      calibration.host_s[n] = std::max(0.0, seconds - times->exposed_s);
  return calibration;
}

}  // namespace examples::compare
