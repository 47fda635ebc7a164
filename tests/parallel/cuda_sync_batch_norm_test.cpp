#include <doctest/doctest.h>

#include "ferrite/nn/layers.h"
#include "ferrite/tests/parallel/parts_of_batch.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;

TEST_CASE("SyncBatchNorm across CUDA devices") {
  if (!test::has_cuda(3)) return;
  const auto make = [] {
    return std::make_unique<nn::Sequential>(
        nn::Sequential(nn::Conv2d(2, 3, 3), nn::BatchNorm2d(3), nn::ReLU(), nn::BatchNorm2d(3),
                       nn::Flatten(), nn::Linear(48, 4), nn::BatchNorm1d(4)));
  };
  const std::vector<Device> devices{Device("cuda:0"), Device("cuda:1"), Device("cuda:2")};
  test::check_parts({.make = make, .cuts = {0, 3, 4, 8}, .devices = devices});
  test::check_parts({.make = make, .cuts = {0, 3, 8}, .format = kChannelsLast, .devices = devices});
  test::check_parts({.make = make,
                     .cuts = {0, 5, 5, 8},
                     .dtype = kFloat32,
                     .tolerance = 1e-5,
                     .devices = devices});
}
