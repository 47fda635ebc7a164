// The launches and bytes of a training step, held to what is reached: a change that adds a launch,
// or makes one move more, has to raise a number here.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ferrite/benchmarks/ledger/step.h"
#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/emulator/emulator.h"
#include "ferrite/emulator/ledger.h"
#include "ferrite/kernels/vendor.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/views.h"

using namespace ferrite;

namespace {

/// While it lives new memory is left as it is: tests fill it with NaN, which would count.
struct UnfilledMemory {
  UnfilledMemory() { allocator("cuda:0").set_poison(false); }
  ~UnfilledMemory() { allocator("cuda:0").set_poison(true); }
};

/// While it lives there are a cuBLASLt and a cuDNN whose calls are counted but compute nothing.
struct CountedLibraries {
  CountedLibraries() {
    emulator::set_cublaslt(true);
    emulator::set_cudnn(true);
    emulator::set_libraries_compute(false);
  }
  ~CountedLibraries() {
    emulator::set_cublaslt(false);
    emulator::set_cudnn(false);
    emulator::set_libraries_compute(true);
  }
};

std::vector<emulator::LedgerEntry> ledger_of(const bench::StepOptions& options) {
  bench::TrainingStep step(options);
  step.warm_up();
  emulator::open_ledger();
  step();
  return emulator::close_ledger();
}

std::string list(const std::vector<emulator::LedgerEntry>& ledger) {
  std::map<std::string, int> counts;
  for (const emulator::LedgerEntry& e : ledger) ++counts[e.name];
  std::string text;
  for (const auto& [name, n] : counts) text += fmt::format("{:>4} {}\n", n, name);
  return text;
}

/// In kilobytes.
double moved(const std::vector<emulator::LedgerEntry>& ledger) {
  std::uint64_t bytes = 0;
  for (const emulator::LedgerEntry& e : ledger) bytes += e.read + e.written;
  return 1e-3 * static_cast<double>(bytes);
}

}  // namespace

TEST_CASE("a ledger has the launches with their grids, and the bytes that each touches") {
  if (!emulator::has_race_detector()) {
    MESSAGE("skipped: the build does not see accesses");
    return;
  }
  const UnfilledMemory unfilled;
  const Tensor a = ones({1024, 3}, {.device = "cuda:0"}), b = a.mul(2);
  synchronize(b.device());
  emulator::open_ledger();
  const Tensor c = a.add(b);
  c.add_(1);
  synchronize(c.device());
  const std::vector<emulator::LedgerEntry> ledger = emulator::close_ledger();
  REQUIRE(ledger.size() == 2);
  CHECK(ledger[0].read == 2 * a.nbytes());
  CHECK(ledger[0].written == a.nbytes());
  CHECK(ledger[0].grid.x * ledger[0].block.x >= 1024 * 3 / 8);
  CHECK(ledger[1].read == a.nbytes());
  CHECK(ledger[1].written == a.nbytes());

  emulator::open_ledger();  // the row that every block reads again counts once, as a sector
  const Tensor d = a.add(b.narrow(0, 0, 1));
  synchronize(d.device());
  const auto broadcast = emulator::close_ledger();
  REQUIRE(broadcast.size() == 1);
  CHECK(broadcast[0].read == a.nbytes() + 32);
  CHECK(broadcast[0].written == d.nbytes());
}

TEST_CASE("steps launch no more and move no more than is reached") {
  const UnfilledMemory unfilled;
  const CountedLibraries libraries;
  if (!cudnn::is_available() || !cublas::is_available()) {
    MESSAGE("skipped: the build had no headers of cuBLASLt or cuDNN");
    return;
  }
  const bool counts_bytes = emulator::has_race_detector();
  SUBCASE("LeNet-5 in float32 as a graph") {
    const auto ledger =
        ledger_of({.model = "lenet5", .batch = 256, .opt_level = "O0", .graphed = true});
    INFO(list(ledger));
    CHECK(ledger.size() <= 19);  // 17 nodes, and the copies of the inputs into the graph's
    if (counts_bytes) CHECK(moved(ledger) <= 44240);
  }
  SUBCASE("ResNet-18 at O2 in NHWC") {
    const auto ledger = ledger_of({.model = "resnet18",
                                   .batch = 2,
                                   .image_size = 32,
                                   .opt_level = "O2",
                                   .channels_last = true,
                                   .width = 8,
                                   .classes = 10});
    INFO(list(ledger));
    CHECK(ledger.size() <= 125);
    if (counts_bytes) CHECK(moved(ledger) <= 5482);
  }
}
