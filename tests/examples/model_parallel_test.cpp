// The program examples/model_parallel, run like users do.
#include <regex>

#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("model_parallel has the same losses on one device, by layers and by matrix") {
  const Workplace place("model_parallel");
  const auto check = [&](const std::string& device) {
    const Outcome outcome =
        place.run({"--dataset", "mnist", "--data", place.path().string(), "--batch-size", "16",
                   "--steps", "8", "--hidden", "9", "--device", device});
    check_fine(outcome);
    INFO(outcome.out);
    const std::regex line(
        R"((one device|by layers|by matrix) +train loss (\S+) to (\S+)  test accuracy )");
    std::vector<double> first, last;
    for (std::sregex_iterator it(outcome.out.begin(), outcome.out.end(), line), end; it != end;
         ++it) {
      first.push_back(std::stod((*it)[2]));
      last.push_back(std::stod((*it)[3]));
    }
    REQUIRE(first.size() == 3);
    CHECK(last[0] != doctest::Approx(first[0]).epsilon(1e-3));
    for (const std::size_t i : {1u, 2u}) {
      CHECK(first[i] == doctest::Approx(first[0]).epsilon(1e-4));
      CHECK(last[i] == doctest::Approx(last[0]).epsilon(1e-3));
    }
    for (const std::string& where :
         {"fc2.weight   [10, 9] on " + device + ":1", "fc1.1.weight [4, 784] on " + device + ":1",
          "fc2.0.weight [10, 5] on " + device + ":0"})
      CHECK(contains(outcome.out, where));
  };
  check("cpu");
  if (cuda::device_count() >= 2)
    check("cuda");
  else
    MESSAGE("part skipped: fewer than two CUDA devices");
}

TEST_CASE("model_parallel refuses wrong options") {
  const Workplace place("model_parallel");
  check_refused(place.run({"--hidden", "1"}), "--hidden", -1);
  check_refused(place.run({"--steps", "0"}), "--steps", -1);
  check_refused(place.run({"--dataset", "mnist", "--data", "nosuch"}), "nosuch");
}
