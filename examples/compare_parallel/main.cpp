// What do DataParallel and DistributedDataParallel cost, on this model and this machine? One
// program, one table: a single device, DataParallel, the same with the loss on all devices, and
// DistributedDataParallel with the all-reduce of its backend and with Ferrite's ring, with buckets
// of several sizes, with and without overlap.
//   compare_parallel                                        LeNet-5 on one and two devices
//   compare_parallel --model resnet18 --devices 1,2,4 --amp O0,O2 --json all.json --svg chart.svg
//   compare_parallel --link-delay ethernet-10g              as if ranks were on several hosts
// docs/comparing.md says how to read it.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/common/folder.h"
#include "ferrite/examples/common/training_options.h"
#include "ferrite/examples/compare_parallel/measure.h"
#include "ferrite/examples/compare_parallel/options.h"
#include "ferrite/examples/compare_parallel/report.h"
#include "ferrite/examples/compare_parallel/simulate.h"

namespace {

using namespace examples::compare;

/// Before minutes are spent on what goes there.
void check_writable(const std::string& file, const char* option) {
  if (file.empty()) return;
  const auto folder = std::filesystem::path(file).parent_path();
  examples::make_writable_folder(folder.empty() ? "." : folder, option);
}

/// 1 where a row has failed.
int measure(const Options& options, const std::vector<std::string>& arguments) {
  check_writable(options.json, "--json");
  check_writable(options.csv, "--csv");
  check_writable(options.svg, "--svg");
  const Measurement found = measure_all(options, arguments);
  fmt::print("{}", table(found));
  if (!options.json.empty()) write_file(options.json, to_text(to_json(found)));
  if (!options.csv.empty()) write_file(options.csv, csv(found));
  if (!options.svg.empty()) write_file(options.svg, chart(found));
  return std::ranges::any_of(found.rows, [](const Row& row) { return !row.error.empty(); });
}

int compare_parallel(int argc, char** argv) {
  examples::CommandLine app(
      "Compares DataParallel with DistributedDataParallel and a single device: throughput, "
      "scaling, compute and communication time, bytes moved and peak memory.",
      {"compare_parallel --model resnet18 --devices 1,2,4 --amp O0,O2 --json all.json --svg "
       "all.svg",
       "compare_parallel --simulate 65536 --from all.json --inside nvlink3 --between "
       "infiniband-hdr"});
  Options options;
  SimulateOptions simulation;
  add_options(app, options);
  add_simulate_options(app, simulation);
  if (const auto status = app.parse(argc, argv)) return *status;
  complete(options);
  const std::vector<std::string> arguments(argv, argv + argc);
  if (!options.worker.empty()) return run_worker(options);
  if (simulation.wanted()) return simulate(options, simulation, arguments);
  return measure(options, arguments);
}

}  // namespace

int main(int argc, char** argv) { return examples::run(compare_parallel, argc, argv); }
