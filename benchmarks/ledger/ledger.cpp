#include "ferrite/benchmarks/ledger/ledger.h"

#include <algorithm>
#include <cmath>

#include "ferrite/core/error.h"

#ifdef FERRITE_EMULATOR
#include "ferrite/emulator/emulator.h"
#include "ferrite/emulator/ledger.h"
#else
#include "ferrite/core/profiler/profile.h"
#endif

namespace bench {

using namespace ferrite;

double Launch::roofline_us(const Gpu& gpu, bool half) const {
  const double moves = static_cast<double>(bytes()) / gpu.bytes_per_second,
               computes = static_cast<double>(flops) / (half ? gpu.half_flops : gpu.float_flops);
  return 1e6 * std::max(moves, computes);
}

#ifdef FERRITE_EMULATOR

std::vector<Launch> launches_of(const StepOptions& options) {
  FERRITE_CHECK(emulator::has_race_detector(), Error, "ledger",
                "this build cannot count accesses: build with FERRITE_EMULATOR_RACE (the presets "
                "emulator-race and emulator-check)");
  emulator::set_cublaslt(true);
  emulator::set_cudnn(true);
  emulator::set_libraries_compute(false);
  TrainingStep step(options);
  step.warm_up();
  emulator::open_ledger();
  step();
  std::vector<Launch> launches;
  for (const emulator::LedgerEntry& e : emulator::close_ledger())
    launches.push_back({.name = e.name,
                        .grid = {e.grid.x, e.grid.y, e.grid.z},
                        .block = {e.block.x, e.block.y, e.block.z},
                        .read = e.read,
                        .written = e.written,
                        .flops = e.operations});
  return launches;
}

#else

std::vector<Launch> launches_of(const StepOptions& options) {
  FERRITE_CHECK(!options.graphed, ValueError, "ledger",
                "the launches inside of a graph cannot be measured one by one");
  TrainingStep step(options);
  for (int i = 0; i < 10; ++i) step();
  profiler::Profile profile;
  step();
  profile.stop();
  std::vector<Launch> launches;
  for (const profiler::DeviceEvent& e : profile.recording().device)
    launches.push_back({.name = e.name, .measured_us = 1e-3 * static_cast<double>(e.time)});
  return launches;
}

#endif

std::vector<Launch> extend(const std::vector<Launch>& at_first, std::int64_t first,
                           const std::vector<Launch>& at_second, std::int64_t second,
                           std::int64_t batch) {
  const auto names = [](const Launch& a, const Launch& b) { return a.name == b.name; };
  FERRITE_CHECK(first < second && std::ranges::equal(at_first, at_second, names), ValueError,
                "ledger", "batches of {} and {} do not launch the same kernels", first, second);
  std::vector<Launch> result;
  for (std::size_t i = 0; i < at_first.size(); ++i) {
    const Launch &a = at_first[i], &b = at_second[i];
    const auto at = [&](std::uint64_t x, std::uint64_t y) {
      const double each =
          (static_cast<double>(y) - static_cast<double>(x)) / static_cast<double>(second - first);
      return static_cast<std::uint64_t>(
          std::llround(static_cast<double>(y) + each * static_cast<double>(batch - second)));
    };
    Launch whole = b;
    whole.read = at(a.read, b.read);
    whole.written = at(a.written, b.written);
    whole.flops = at(a.flops, b.flops);
    result.push_back(whole);
  }
  return result;
}

}  // namespace bench
