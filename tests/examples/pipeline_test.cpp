// The program examples/pipeline, run like users do.
#include "ferrite/data/safetensors.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("pipeline trains over two virtual devices, reports and saves under the network's names") {
  const Workplace place("pipeline");
  const Outcome trained =
      run_program("pipeline",
                  {"--devices", "cpu:0,cpu:1", "--dataset", "mnist", "--data",
                   place.path().string(), "--batch-size", "16", "--max-steps", "3", "--width", "4",
                   "--measured-steps", "1", "--checkpoint-dir", "runs"},
                  place.path());
  INFO(trained.err);
  CHECK(trained.code == 0);
  CHECK(contains(trained.out, "Pipeline(devices=[cpu:0, cpu:1], balance=["));
  CHECK(contains(trained.out, "times as fast"));
  CHECK(contains(trained.out, "Pipeline of 2 stages, 4 micro-batches"));
  CHECK(contains(trained.out, "3 steps"));
  nn::ResNet18 net({.classes = 10, .in_channels = 1, .stem = nn::ResNetStem::small, .width = 4});
  CHECK(net.load_state_dict(load(place / "runs/final.safetensors")).complete());
}

TEST_CASE("pipeline with more stages, other splits, and invalid options") {
  const Workplace place("pipeline");
  const auto run = [&](Arguments arguments) {
    arguments.insert(arguments.end(),
                     {"--dataset", "mnist", "--data", place.path().string(), "--batch-size", "16",
                      "--max-steps", "1", "--model", "convnet", "--measured-steps", "0"});
    return run_program("pipeline", arguments, place.path());
  };
  const Outcome three = run({"--devices", "cpu:0,cpu:1,cpu:2", "--stages", "3", "--chunks", "2",
                             "--balance", "size", "--checkpoint", "always"});
  INFO(three.err);
  CHECK(three.code == 0);
  CHECK(contains(three.out, "Pipeline of 3 stages, 2 micro-batches"));
  check_refused(run({"--devices", "cpu:0", "--stages", "2"}), "has 2 stages", 1);
  check_refused(run_program("pipeline",
                            {"--dataset", "mnist", "--data", place.path().string(), "--batch-size",
                             "100000", "--devices", "cpu:0,cpu:1"},
                            place.path()),
                "--batch-size", 1);
}
