// compare_parallel --simulate: what the same training step would cost on machines that are not
// here, from what was measured of one device and of links; and --check-simulation, which holds such
// predictions against measured steps.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/examples/compare_parallel/measurement.h"
#include "ferrite/examples/compare_parallel/options.h"
#include "ferrite/examples/compare_parallel/planning/plan.h"

namespace examples {
class CommandLine;
}

namespace examples::compare {

struct SimulateOptions {
  std::vector<int> devices;  ///< one: powers of two up to it
  bool check = false;
  std::string from;  ///< a file of --json, or a profile; measured where there is none

  // ---- The machine that is planned
  std::string inside = "measured", between = "infiniband-hdr";
  int per_node = 8, adapters = 1;
  double faster = 1;  ///< a device of it, than the one that was measured
  std::string all_reduce = "fastest", stragglers = "lognormal:0.02";
  double mtbf_hours = 50'000, restart = 300, checkpoint = 10, checkpoint_interval = 0;
  bool failures = true, fetch_by_layer = false;
  double worthwhile = 0.5;

  bool wanted() const { return check || !devices.empty(); }
};

void add_simulate_options(CommandLine& app, SimulateOptions& options);

/// Plans, or checks, and writes what --json, --csv and --svg ask for. `arguments` are the program's
/// own. 1 where a prediction is off by more than kTolerance, or where one is missing.
int simulate(const Options& options, const SimulateOptions& simulation,
             const std::vector<std::string>& arguments);

// ---- What it is made of

inline constexpr double kTolerance = 0.15;

/// Devices that step side by side: each begins a step when all are done with the one before, but
/// they exchange nothing. What they share (memory, caches, power) costs that much, and waiting for
/// the slowest.
struct SideBySide {
  Case what;            ///< "ddp": a process each; "dp": all in one. Batch: of all together
  double slowdown = 1;  ///< of a step, against that of a device alone
};

/// What predictions know: of one device, and of what is between devices of this host.
struct Calibration {
  std::vector<ferrite::planning::ModelProfile> profiles;
  std::vector<SideBySide> side_by_side;
  std::vector<Link> links;
  /// What a step of DataParallel on so many devices takes beyond computing and moving bytes (making
  /// replicas, waking threads), measured with one image for each device.
  std::map<int, double> host_s;

  /// The slowdown of the most similar case, with the nearest batch; 1 where nothing is known.
  double slowdown(const Case& what) const;
};

/// The profile of `batch` samples for each device with that precision: a measured one, or one from
/// the line through two.
ferrite::planning::ModelProfile profile_of(const Calibration& calibration, const std::string& dtype,
                                           std::int64_t batch);

/// A row that was measured, its fastest repetition, and what comes out of the calibration.
struct Prediction {
  Case what;
  double measured_ms = 0, spread_ms = 0, predicted_ms = 0;
  double error() const { return predicted_ms / measured_ms - 1; }
};

/// Predictions for all rows with at least 2 devices that have figures.
std::vector<Prediction> predict(const Measurement& measurement, const Calibration& calibration);

/// Measures on this machine: a device alone, links, and devices side by side where they are what is
/// predicted; of all rounds the fastest, as what else the machine does only slows down.
class Calibrator {
 public:
  /// `options` and the program's own `arguments` must outlive it.
  Calibrator(const Options& options, const std::vector<std::string>& arguments, bool side_by_side);
  void round();
  Calibration result() const;

 private:
  const Options& options_;
  const std::vector<std::string>& arguments_;
  const Case base_;
  std::set<std::int64_t> batches_;  ///< of a device
  std::map<std::pair<std::string, std::int64_t>, ferrite::planning::ModelProfile> alone_;
  std::vector<std::pair<Case, double>> beside_;  ///< seconds a step
  std::map<int, double> exposed_;                ///< of DataParallel, by devices
  std::vector<Link> links_;
};

std::string to_dtype(const std::string& amp);

}  // namespace examples::compare
