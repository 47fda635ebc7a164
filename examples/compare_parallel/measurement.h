// What a run of compare_parallel has measured: what the table, the CSV file, the chart and the JSON
// file are made of, and what a simulation of larger machines is calibrated with.
//
// Times are in milliseconds, sizes in bytes, bandwidths in bytes a second. The JSON file has the
// names of the members here; figures that are not known are null.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/examples/compare_parallel/planning/profile.h"

namespace examples::compare {

inline constexpr const char* kSchema = "ferrite.compare_parallel";
inline constexpr int kSchemaVersion = 1;

/// The figures of all repetitions, in the order in which they were made.
struct Samples {
  std::vector<double> values;

  bool empty() const { return values.empty(); }
  /// 0 where there are none; of an even number the mean of the middle two.
  double median() const { return quantile(0.5); }
  double low() const { return quantile(0); }
  double high() const { return quantile(1); }
  /// Half of what lies between the quartiles.
  double spread() const { return (quantile(0.75) - quantile(0.25)) / 2; }
  /// Between the nearest two, linearly.
  double quantile(double q) const;
};

/// A bucket of gradients of DistributedDataParallel, or of DataParallel's reduction: average times
/// after the start of backward.
struct Bucket {
  std::int64_t bytes = 0;
  std::int64_t parameters = 0;  ///< how many are in it
  double ready_ms = 0, begun_ms = 0, ended_ms = 0;
};

/// A strategy with its settings, on so many devices.
struct Case {
  std::string strategy = "single";  ///< single, dp, dp-balanced, ddp, ddp-ring
  int devices = 1;
  std::string scaling = "none";  ///< of a single device; strong: `batch` is --batch for all devices
                                 ///< together; weak: --batch for each
  std::string amp = "O0";        ///< of optim::amp: O0, O1, O2, O3
  std::int64_t batch = 0;        ///< images a step, of all devices together
  double bucket_mb = 0;          ///< bucket_cap_mb; 0 where there are no buckets
  bool overlap = true;       ///< whether communication begins during backward (not delay_allreduce)
  int threads = 1;           ///< that compute for each device
  bool all_threads = false;  ///< of the single device: all the machine has

  std::int64_t batch_per_device() const { return (batch + devices - 1) / devices; }
  /// "ddp 25 MB", "ddp-ring 1 MB, no overlap".
  std::string label() const;
  friend bool operator==(const Case&, const Case&) = default;
};

/// A line of the table: one case, measured in every repetition.
struct Row {
  Case what;
  std::string error;  ///< why there are no figures; "" where there are

  /// A step: forward, backward, communication and the optimizer. Of ranks, the slowest.
  Samples step_ms;
  /// The same step without communication: all devices at work at the same time, each on its part.
  Samples compute_ms;
  /// step_ms - compute_ms of each repetition: what communication (and what goes with it: splitting,
  /// replicating, gathering) adds to the step. Noise may make it negative.
  Samples exposed_ms;
  /// While any bucket, parameter or input was under way; of the rank that waits for others least.
  Samples communication_ms;
  /// The part of communication_ms during which backward was still running. Not measured for
  /// DistributedDataParallel on CUDA devices.
  Samples hidden_ms;
  Samples images_per_second;
  /// Images a second in those of the single device with --batch images in the same precision; and
  /// that divided by the number of devices. No value where there is no such row.
  std::optional<double> speedup, efficiency;

  /// Sent in a step by all devices together, and the most that one device sends or receives.
  std::int64_t bytes_total = 0, bytes_busiest = 0;
  /// The most that each device had allocated during steps; of the host where devices are ranks on
  /// the CPU.
  std::vector<std::int64_t> peak_memory;
  /// In the order of communication; of rank 0.
  std::vector<Bucket> buckets;
  /// What the strategy itself has timed, of rank 0 in the last repetition: members of
  /// parallel::DDPReport or DataParallelReport by their names.
  std::map<std::string, double> parts;
};

/// What a strategy tells of the steps since the last reset_counts(), averages of a step.
struct Communication {
  double ms = 0;         ///< while anything was under way, waiting for other ranks included
  double hidden_ms = 0;  ///< of that, before backward had made its last gradient
  std::int64_t bytes_total = 0, bytes_busiest = 0;
  std::vector<Bucket> buckets;
  std::map<std::string, double> parts;  ///< see Row::parts
};

/// How long an exchange takes, by size; a straight line through it gives latency and bandwidth.
struct LinkTime {
  std::int64_t bytes = 0;
  double ms = 0;  ///< median
};

/// What was measured between devices, as a model time = latency + bytes / bandwidth.
struct Link {
  /// "send" (one way between two ranks), "all_reduce" and "ring_all_reduce" of the group, or
  /// "broadcast" and "reduce_add" of DataParallel's devices.
  std::string operation;
  std::string backend;  ///< gloo, nccl, local, copies
  int devices = 2;
  double latency_us = 0, bandwidth = 0;
  std::vector<LinkTime> times;
};

struct Machine {
  std::string kind;     ///< "gpus", "emulated gpus", "virtual cpu devices"
  std::string meaning;  ///< what that means for the figures
  std::vector<std::string> devices;
  int cores = 0;    ///< that this process may use
  int threads = 1;  ///< that compute for each device
  std::string ranks = "process", backend;
  double link_delay_us = 0, link_gbps = 0;  ///< played by FERRITE_LINK_DELAY_US and ..._GBPS
};

struct Model {
  std::string name;
  std::int64_t parameters = 0, parameter_bytes = 0, buffer_bytes = 0;
  std::vector<std::int64_t> input_shape;  ///< of one image
  std::int64_t multiply_adds = 0;         ///< of forward, an image
};

struct Measurement {
  Machine machine;
  Model model;
  std::string data;  ///< "synthetic" or a folder
  int steps = 0, warmup = 0, repetitions = 0;
  std::vector<Row> rows;
  /// A step on one device, for each precision and batch a device.
  std::vector<ferrite::planning::ModelProfile> profiles;
  std::vector<Link> links;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Case, strategy, devices, scaling, amp, batch, bucket_mb, overlap,
                                   threads, all_threads)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Bucket, bytes, parameters, ready_ms, begun_ms, ended_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Communication, ms, hidden_ms, bytes_total, bytes_busiest,
                                   buckets, parts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Machine, kind, meaning, devices, cores, threads, ranks, backend,
                                   link_delay_us, link_gbps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Model, name, parameters, parameter_bytes, buffer_bytes,
                                   input_shape, multiply_adds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LinkTime, bytes, ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Link, operation, backend, devices, latency_us, bandwidth, times)

/// With "schema" and "version".
nlohmann::json to_json(const Measurement& measurement);
/// JSON of a file that may be damaged: IoError for what is not JSON, is nested deeper than a
/// measurement, or has numbers that do not fit their members.
nlohmann::json report_from(std::string_view text);
/// The same of a file. IoError.
nlohmann::json load_report(const std::filesystem::path& path);
/// Whether a report is a measurement, by its schema.
bool is_measurement(const nlohmann::json& report);
/// Of a report. ValueError where it is of another schema or version, or lacks something; IoError
/// for a profile that is damaged.
Measurement measurement_from(const nlohmann::json& report);

}  // namespace examples::compare
