// The program examples/data_parallel_shapes, run like users do.
#include <algorithm>
#include <string>
#include <vector>

#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// The output for a batch whose parts have these numbers of rows.
std::string batch(const std::vector<int>& parts) {
  std::string lines;
  int rows = 0;
  for (const int n : parts) {
    const std::string size = std::to_string(n);
    lines += "\tIn Model: input size [" + size + ", 5] output size [" + size + ", 2]\n";
    rows += n;
  }
  const std::string size = std::to_string(rows);
  return lines + "Outside: input size [" + size + ", 5] output_size [" + size + ", 2]\n";
}

}  // namespace

TEST_CASE("data_parallel_shapes prints the part of each replica") {
  const TempDir folder;
  const auto prints = [&](std::vector<std::string> arguments, const std::string& expected) {
    if (std::ranges::find(arguments, "--device") == arguments.end())
      arguments.insert(arguments.end(), {"--device", "cpu"});
    const Outcome outcome = run_program("data_parallel_shapes", arguments, folder.path());
    check_fine(outcome);
    CHECK(outcome.out == expected);
  };
  const std::string whole = batch({8, 8, 8, 6}), last = batch({3, 3, 3, 1});
  const std::string four = "Let's use 4 devices!\n" + whole + whole + whole + last;
  prints({}, four);
  prints({"--devices", "1"}, batch({30}) + batch({30}) + batch({30}) + batch({10}));
  prints({"--devices", "2", "--batch-size", "40"},
         "Let's use 2 devices!\n" + batch({20, 20}) + batch({20, 20}) + batch({10, 10}));
  // Fewer parts than devices.
  prints({"--devices", "4", "--batch-size", "5", "--samples", "6"},
         "Let's use 4 devices!\n" + batch({2, 2, 1}) + batch({1}));
  if (cuda::device_count() >= 4)
    prints({"--devices", "4", "--device", "cuda"}, four);
  else
    MESSAGE("part skipped: fewer than four CUDA devices");
}

TEST_CASE("data_parallel_shapes refuses wrong options") {
  const TempDir folder;
  const auto refuses = [&](const std::vector<std::string>& arguments, const std::string& text) {
    check_refused(run_program("data_parallel_shapes", arguments, folder.path()), text, -1);
  };
  refuses({"--devices", "0"}, "--devices");
  refuses({"--batch-size", "0"}, "--batch-size");
  refuses({"--device", "tpu"}, "--device");
  if (!cuda::is_available()) refuses({"--device", "cuda"}, "no CUDA device is available");
}
