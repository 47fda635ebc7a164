// The program examples/mnist, run like users do.
#include <cstdlib>
#include <regex>

#include "ferrite/data/safetensors.h"
#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// Test accuracies, epoch after epoch.
std::vector<double> accuracies(const std::string& text) {
  std::vector<double> result;
  const std::regex line(R"(epoch +\d+/\d  train loss \d+\.\d{4}\n +test  accuracy (\d\.\d{4})\n)");
  for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end; ++it)
    result.push_back(std::stod((*it)[1]));
  return result;
}

}  // namespace

TEST_CASE("mnist trains on the files of a folder, and saves weights") {
  const Workplace place("mnist");
  const Arguments arguments = {"--data", place.path().string(), "--epochs", "2",
                               "--save", "net.safetensors"};
  const Outcome first = place.run(arguments);
  check_fine(first);
  CHECK(accuracies(first.out).size() == 2);
  const StateDict state = load(place / "net.safetensors");
  CHECK(state.size() == 8);
  CHECK(state.at("conv2.weight").shape() == Shape{32, 16, 5, 5});
  CHECK(place.run(arguments).out == first.out);
}

TEST_CASE("mnist draws its own digits if there is no MNIST, and learns them") {
  const Workplace place("mnist");
  const char* const data = std::getenv("FERRITE_DATA");
  const std::string before = data ? data : "";
  setenv("FERRITE_DATA", "nosuch", 1);
  const Outcome outcome = place.run({"--epochs", "1"});
  before.empty() ? unsetenv("FERRITE_DATA") : setenv("FERRITE_DATA", before.c_str(), 1);
  check_fine(outcome);
  CHECK(contains(outcome.out, "no MNIST in 'nosuch': drawing training digits instead\n"));
  REQUIRE(accuracies(outcome.out).size() == 1);
  CHECK(accuracies(outcome.out)[0] > 0.8);
}

TEST_CASE("mnist refuses wrong options") {
  const Workplace place("mnist");
  check_refused(place.run({"--data", "nosuch"}), "nosuch", 1);
  check_refused(place.run({"--device", "gpu"}), "cannot read 'gpu'", 1);
  check_refused(place.run({"--epochs", "0"}), "error: --epochs: Value 0 not in range", -1);
  check_refused(
      place.run({"--data", place.path().string(), "--epochs", "1", "--save", "/nosuch/x"}),
      "/nosuch/x", 1);
}
