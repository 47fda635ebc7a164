// The program examples/lenet on CUDA devices.
#include <cmath>
#include <cstdlib>

#include "ferrite/data/png.h"
#include "ferrite/tests/examples/workplace.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

json report_of(const Workplace& place, Arguments arguments) {
  arguments.insert(arguments.end(), {"--seed", "5", "--report", "report.json"});
  check_fine(place.train(arguments));
  return place.report();
}

}  // namespace

TEST_CASE("lenet trains on a CUDA device with the CPU's losses, and reports its memory") {
  REQUIRE_CUDA(1);
  const Workplace place("lenet", 4);
  if (is_emulated()) setenv("FERRITE_NVML", (bin_dir() + "/fake_nvml.so").c_str(), 1);
  for (const auto& [model, steps] : {std::pair<std::string, std::string>{"lenet5", "7"},
                                     std::pair<std::string, std::string>{"d2l", "2"}}) {
    CAPTURE(model);
    const Arguments arguments = {"--model", model, "--max-steps", steps, "--device"};
    Arguments on_cuda = arguments, on_host = arguments;
    on_cuda.emplace_back("cuda:0");
    on_host.emplace_back("cpu");
    const json got = report_of(place, on_cuda), expected = report_of(place, on_host);
    CHECK(got.at("configuration").at("device") == "cuda:0");
    CHECK(got["configuration"].at("graph") == false);
    REQUIRE(got.at("epochs").size() == expected.at("epochs").size());
    for (std::size_t i = 0; i < got["epochs"].size(); ++i) {
      const json epoch = got["epochs"][i], reference = expected["epochs"][i];
      for (const char* key : {"train_loss", "test_loss"})
        CHECK(std::abs(epoch.at(key).get<double>() - reference.at(key).get<double>()) < 5e-5);
      CHECK(epoch.at("step") == reference.at("step"));
      CHECK_FALSE(reference.contains("device"));
      const json memory = epoch.at("device").at("memory");
      CHECK(memory.at("allocated") > 60000 * 4);  // at least the parameters
      CHECK(memory.at("max_allocated") > memory["allocated"]);
      CHECK(memory.at("reserved") >= memory["max_allocated"]);
      CHECK(memory.at("max_reserved") >= memory["reserved"]);
      const json utilization = epoch["device"].at("utilization");
      if (is_emulated()) CHECK(utilization == json{{"kernels", 1}, {"memory", 0}});
    }
  }
  unsetenv("FERRITE_NVML");
}

TEST_CASE("lenet --graph gives the eager losses to the last bit") {
  REQUIRE_CUDA(1);
  const Workplace place("lenet", 4);
  const Arguments eager = {"--device", "cuda:0", "--max-steps", "7", "--epochs", "2"};
  Arguments graph = eager;
  graph.insert(graph.end(), {"--graph", "--workers", "0"});
  const json expected = report_of(place, eager), got = report_of(place, graph);
  CHECK(timeless(got) == timeless(expected));
  CHECK(got.at("configuration").at("graph") == true);
  CHECK(got.at("graph").at("replayed") == 4);
  CHECK(got["graph"].at("eager") == 3);
  CHECK_FALSE(expected.contains("graph"));
}

TEST_CASE("lenet trains on a second device, and classifies on any") {
  REQUIRE_CUDA(2);
  const Workplace place("lenet", 4);
  const Outcome trained =
      place.train({"--device", "cuda:1", "--max-steps", "2", "--checkpoint-dir", "."});
  check_fine(trained);
  CHECK(contains(trained.out, "mnist on cuda:1: "));
  CHECK(contains(trained.out, " MiB (peak "));
  data::write_png(as_strided(data::SyntheticDigits(1).images(), {28, 28}, {28, 1}, 0),
                  place / "digit.png");
  std::string expected;
  for (const std::string device : {"cpu", "cuda:0", "cuda:1"}) {
    const Outcome predicted =
        place.run({"--device", device, "--predict", "digit.png", "--checkpoint-dir", "."});
    check_fine(predicted);
    if (expected.empty()) expected = predicted.out;
    CHECK(predicted.out == expected);
  }
}
