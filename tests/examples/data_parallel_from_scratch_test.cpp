// The program examples/data_parallel_from_scratch, run like users do.
#include <regex>

#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// The losses of all epochs of all runs.
std::vector<double> losses(const std::string& text) {
  std::vector<double> result;
  const std::regex line(R"(epoch +\d+/\d  train loss (\S+)\n +test  accuracy \d\.\d{4}\n)");
  for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end; ++it)
    result.push_back(std::stod((*it)[1]));
  return result;
}

/// Checks that runs of `epochs` epochs each have the same losses, which change from epoch to epoch.
void check_alike(const std::string& text, std::size_t runs, std::size_t epochs) {
  INFO(text);
  const std::vector<double> all = losses(text);
  REQUIRE(all.size() == runs * epochs);
  CHECK(all.front() != doctest::Approx(all[epochs - 1]).epsilon(1e-3));
  for (std::size_t i = epochs; i < all.size(); ++i)
    CHECK(all[i] == doctest::Approx(all[i % epochs]).epsilon(2e-4));
}

}  // namespace

TEST_CASE("data_parallel_from_scratch has the same losses on any number of devices") {
  const Workplace place("data_parallel_from_scratch");
  const Arguments common = {"--dataset", "mnist", "--data", place.path().string()};
  Arguments arguments = common;
  // The last batch is a single image: the other devices contribute nothing to the gradient.
  arguments.insert(arguments.end(), {"--batch-size", "5", "--epochs", "3", "--lr", "3",
                                     "--num-devices", "1", "2", "4"});
  const Outcome outcome = place.run(arguments);
  check_fine(outcome);
  check_alike(outcome.out, 3, 3);
  for (const char* devices : {"[cpu:0]\n", "[cpu:0, cpu:1]\n", "[cpu:0, cpu:1, cpu:2, cpu:3]\n"})
    CHECK(contains(outcome.out, std::string(" s per epoch on ") + devices));

  if (cuda::device_count() >= 2) {
    arguments = common;
    arguments.insert(arguments.end(), {"--batch-size", "6", "--epochs", "2", "--max-steps", "2",
                                       "--lr", "3", "--device", "cuda"});
    const Outcome on_cuda = place.run(arguments);
    check_fine(on_cuda);
    check_alike(on_cuda.out, 2, 2);
    CHECK(contains(on_cuda.out, "[cuda:0, cuda:1]\n"));
  } else {
    MESSAGE("part skipped: fewer than two CUDA devices");
  }
}

TEST_CASE("data_parallel_from_scratch trains on synthetic digits where no folder is named") {
  const Workplace place("data_parallel_from_scratch");
  const Outcome outcome = place.run({"--num-devices", "2", "--epochs", "1", "--max-steps", "1"});
  check_fine(outcome);
  CHECK(losses(outcome.out).size() == 1);
  check_refused(place.run({"--num-devices", "0"}), "--num-devices", -1);
  check_refused(place.run({"--device", "gpu"}), "--device", -1);
  check_refused(place.run({"--dataset", "mnist", "--data", "nosuch"}), "nosuch");
  if (!cuda::is_available())
    check_refused(place.run({"--device", "cuda"}), "no CUDA device is available", 1);
}
