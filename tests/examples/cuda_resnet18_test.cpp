// The program examples/resnet18 on CUDA devices.
#include <cmath>

#include "ferrite/tests/examples/resnet18.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

json report_of(const ResNetPlace& place, Arguments arguments) {
  arguments.insert(arguments.end(),
                   {"--width", "2", "--max-steps", "9", "--seed", "5", "--report", "report.json"});
  check_fine(place.train(arguments));
  return place.report();
}

}  // namespace

TEST_CASE("resnet18 trains on a CUDA device to the CPU's losses") {
  REQUIRE_CUDA(1);
  const ResNetPlace place;
  const Arguments common = {
      "--warmup-epochs", "1",  "--max-grad-norm", "1", "--label-smoothing", "0.1", "--lr", "0.01",
      "--batch-size",    "12", "--device"};
  Arguments on_cuda = common, on_host = common;
  on_cuda.emplace_back("cuda:0");
  on_host.emplace_back("cpu");
  const json got = report_of(place, on_cuda), expected = report_of(place, on_host);
  CHECK(got.at("configuration").at("device") == "cuda:0");
  REQUIRE(got.at("epochs").size() == expected.at("epochs").size());
  for (std::size_t i = 0; i < got["epochs"].size(); ++i) {
    const json epoch = got["epochs"][i], reference = expected["epochs"][i];
    for (const char* key : {"train_loss", "test_loss"})
      CHECK(std::abs(epoch.at(key).get<double>() - reference.at(key).get<double>()) < 2e-3);
    CHECK(epoch.at("step") == reference.at("step"));
    CHECK(epoch.at("device").at("memory").at("max_allocated") > 0);
  }
}

TEST_CASE("resnet18 --graph gives the eager losses to the last bit, and resumes to them") {
  REQUIRE_CUDA(1);
  const ResNetPlace place;
  const Arguments common = {"--device",     "cuda:0", "--max-grad-norm", "1", "--accumulate", "2",
                            "--batch-size", "6",      "--opt-level",     "O2"};
  const auto with = [&](const Arguments& more) {
    Arguments all = common;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const json expected = report_of(place, common);
  const json got = report_of(place, with({"--graph", "--workers", "0"}));
  CHECK(timeless(got) == timeless(expected));
  CHECK(got.at("graph").at("replayed").get<int>() > 3);
  // Half of it, and the rest from the checkpoint, in the other mode.
  report_of(place, with({"--save-every", "1", "--checkpoint-dir", "ck"}));
  std::filesystem::remove(place / "ck" / "step_00000009.safetensors");
  const json resumed = report_of(
      place, with({"--graph", "--checkpoint-dir", "ck", "--resume", "--save-every", "1"}));
  CHECK(timeless(resumed) == timeless(expected));
}
