// Runs training programs on data small enough for many runs.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ferrite/core/cuda.h"
#include "ferrite/data/synthetic_digits.h"
#include "ferrite/tests/examples/process.h"

namespace ferrite::test {

using nlohmann::json;
using Arguments = std::vector<std::string>;

/// A folder with a data set in MNIST's format, small enough for many runs.
class Workplace : public TempDir {
 public:
  /// Batches of `batch` images; six of them are an epoch, and two its test.
  explicit Workplace(std::string program = "lenet", int batch = 16)
      : program_(std::move(program)), batch_(batch) {
    write_split("train", 6 * batch, 1);
    write_split("t10k", 2 * batch, 2);
  }

  /// On the host, unless another device is given.
  Outcome run(Arguments arguments) const {
    if (std::ranges::find(arguments, "--device") == arguments.end())
      arguments.insert(arguments.begin(), {"--device", "cpu"});
    return run_program(program_, arguments, path());
  }
  /// With the small data set.
  Outcome train(Arguments arguments) const {
    arguments.insert(arguments.begin(), {"--dataset", "mnist", "--data", path().string(),
                                         "--batch-size", std::to_string(batch_)});
    return run(arguments);
  }
  json report(const std::string& name = "report.json") const {
    return json::parse(read_file(*this / name));
  }

 private:
  void write_split(const std::string& prefix, std::int64_t n, std::uint64_t seed) {
    const data::SyntheticDigits digits(n, seed);
    const auto count = big32(static_cast<std::uint32_t>(n));
    std::string labels;
    for (std::int64_t i = 0; i < n; ++i)
      labels.push_back(static_cast<char>(digits.labels().data<std::int64_t>()[i]));
    const std::string pixels(static_cast<const char*>(digits.images().data_ptr()),
                             static_cast<std::size_t>(digits.images().numel()));
    write_file(*this / (prefix + "-images-idx3-ubyte"),
               std::string("\0\0\x08\3", 4) + count + big32(28) + big32(28) + pixels);
    write_file(*this / (prefix + "-labels-idx1-ubyte"),
               std::string("\0\0\x08\1", 4) + count + labels);
  }

  std::string program_;
  int batch_;
};

/// The parts of a report that must not depend on the machine: all but times, threads, workers and
/// the device description.
inline json timeless(json report) {
  for (const char* key : {"seconds", "graph"}) report.erase(key);
  for (const char* key : {"threads", "workers", "device", "graph"})
    report["configuration"].erase(key);
  for (json& epoch : report["epochs"])
    for (const char* key : {"images_per_second", "waiting_for_data", "device"}) epoch.erase(key);
  return report;
}

/// Checks that it exited with `code` (-1: any but 0) and one line on stderr that contains `text`.
inline void check_refused(const Outcome& outcome, const std::string& text, int code = 1) {
  INFO(outcome.err);
  CHECK(outcome.code != 0);
  CHECK(outcome.code < 128);
  if (code >= 0) CHECK(outcome.code == code);
  CHECK(contains(outcome.err, text));
  const std::size_t first = outcome.err.find('\n');
  REQUIRE(first != std::string::npos);
  CHECK(first < 500);
  // Only errors of the command line have a second line.
  const std::string rest = outcome.err.substr(first + 1);
  CHECK((rest.empty() || rest == "Run with --help for more information.\n"));
}

inline void check_fine(const Outcome& outcome) {
  INFO(outcome.out, outcome.err);
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
}

}  // namespace ferrite::test
