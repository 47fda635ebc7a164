// Readers of text files: profiles of a model, measurements and logs of a run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/measurement.h"
#include "ferrite/metrics/logger.h"
#include "ferrite/tests/fuzz/fuzz.h"
#include "ferrite/tests/fuzz/scratch.h"

namespace ferrite::fuzz {
namespace {

using data::Bytes;
using Seeds = std::vector<std::string>;

// ---- Profiles

void run_profile(Bytes bytes) {
  const planning::ModelProfile profile = planning::profile_from_json(text_of(bytes));
  // Writing the result and reading it again must give the same.
  const std::string text = planning::to_json(profile);
  if (planning::to_json(planning::profile_from_json(text)) != text) std::abort();
}

Seeds seeds_of_profile() {
  const auto profile = [](int parameters) {
    planning::ModelProfile p{.model = "resnet18", .device = "GPU", .batch = 8, .forward = {0.1}};
    for (int i = 0; i < parameters; ++i)
      p.parameters.push_back(
          {.name = fmt::format("parameter{}", i), .bytes = i, .backward = {0.2}});
    return planning::to_json(p);
  };
  std::string junk = "{";
  for (int i = 0; i < 100'000; ++i) junk += fmt::format("\"{}\":1,", i);
  return {profile(1), profile(10'000), junk + "\"batch\":1}",
          "{\"model\":" + std::string(500'000, '[') + std::string(500'000, ']') + "}"};
}

const Registered kProfile({.name = "profile",
                           .run = run_profile,
                           .seeds = seeds_of_profile,
                           .microseconds_per_byte = 10,
                           .memory_per_byte = 300});

// ---- Measurements

void run_measurement(Bytes bytes) {
  namespace compare = examples::compare;
  const auto report =
      compare::to_json(compare::measurement_from(compare::report_from(text_of(bytes))));
  // Writing the result and reading it again must give the same.
  if (compare::to_json(compare::measurement_from(compare::report_from(report.dump()))) != report)
    std::abort();
}

Seeds seeds_of_measurement() {
  namespace compare = examples::compare;
  const auto measured = [](int rows) {
    compare::Measurement m{.machine = {.kind = "gpus", .devices = {"GPU"}, .cores = 4},
                           .model = {.name = "resnet18", .input_shape = {3, 32, 32}},
                           .steps = 8};
    for (int i = 0; i < rows; ++i) {
      compare::Row row{.what = {.strategy = "ddp", .devices = 2, .batch = 8, .bucket_mb = 25},
                       .step_ms = {{3, 1, 2}},
                       .speedup = 1.5,
                       .buckets = {{.bytes = 100, .parameters = 2, .ready_ms = 0.5}},
                       .parts = {{"backward_ms", 0.5}}};
      m.rows.push_back(row);
    }
    m.profiles.push_back(planning::ModelProfile{.model = "resnet18",
                                                .device = "GPU",
                                                .batch = 8,
                                                .parameters = {{.name = "a", .bytes = 4}}});
    m.links.push_back({.operation = "all_reduce", .latency_us = 5, .times = {{1024, 0.1}}});
    return compare::to_json(m).dump();
  };
  std::string objects = "{\"schema\":\"ferrite.compare_parallel\"";
  for (int i = 0; i < 100'000; ++i) objects += fmt::format(",\"{}\":{{}}", i);
  return {measured(1), measured(2000), objects + "}",
          "{\"schema\":\"ferrite.compare_parallel\",\"profiles\":[" + std::string(500'000, '[') +
              std::string(500'000, ']') + "]}"};
}

const Registered kMeasurement({.name = "measurement",
                               .run = run_measurement,
                               .seeds = seeds_of_measurement,
                               .microseconds_per_byte = 40,
                               .memory_per_byte = 600});

// ---- Logs

constexpr std::int64_t kResumed = 5;

/// A log that was resumed can be read, and has no step after kResumed but the new one.
template <class Log>
void resume(Bytes bytes) {
  const std::filesystem::path path = scratch_folder() / "resumed";
  write_file(path, bytes);
  try {
    Log(path, {.resume_step = kResumed}).log(kResumed + 1, {{"added", 0.5}, {"note", "a, \"b\""}});
  } catch (const IoError&) {
    return;
  }
  const auto series = metrics::read_log(path);
  const auto& added = series.at("added");
  if (added.steps.back() != kResumed + 1 || added.values.back() != 0.5) std::abort();
  for (const auto& [name, column] : series)
    if (std::ranges::count_if(column.steps, [](double s) { return s > kResumed; }) >
        (name == "added"))
      std::abort();
}

void run_log(Bytes bytes) {
  try {
    resume<metrics::CsvLogger>(bytes);
    resume<metrics::JsonLinesLogger>(bytes);
  } catch (const Error&) {
    std::abort();
  }
  const std::filesystem::path path = scratch_folder() / "log";
  write_file(path, bytes);
  metrics::read_log(path);
}

Seeds seeds_of_log() {
  const auto log = [](auto* type, int rows) {
    using Log = std::remove_pointer_t<decltype(type)>;
    return written([&](const auto& path) {
      Log to(path, {.flush_rows = 1000});
      to.log(1, {{"loss", 0.25}, {"note", "a, \"b\"\nc"}, {"ok", true}});
      for (int i = 2; i < rows; ++i) to.log(i, {{"loss", 1e-300 * i}});
    });
  };
  std::string wide = "step";
  for (int i = 0; i < 100'000; ++i) wide += fmt::format(",{}", i);
  return {log(static_cast<metrics::CsvLogger*>(nullptr), 8),
          log(static_cast<metrics::JsonLinesLogger*>(nullptr), 8),
          log(static_cast<metrics::CsvLogger*>(nullptr), 50'000),
          log(static_cast<metrics::JsonLinesLogger*>(nullptr), 50'000),
          "step,a\r\n1,nan\r\n",
          "{\"step\":1,\"a\":\"NaN\",\"b\":[1e9]}\n",
          " {\"step\":1,\"added\":2}\n",
          "{\"step\":18446744073709551615,\"a\":1}\n",
          wide + '\n',
          "{\"step\":1,\"a\":" + std::string(500'000, '[') + std::string(500'000, ']') + "}\n"};
}

const Registered kLog({.name = "log",
                       .run = run_log,
                       .seeds = seeds_of_log,
                       .microseconds_per_byte = 10,
                       .memory_per_byte = 300});

}  // namespace
}  // namespace ferrite::fuzz
