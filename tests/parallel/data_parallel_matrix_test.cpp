// DataParallel on virtual devices gives the results of one device; with batch norm, those of
// PyTorch's DataParallel.
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/tests/parallel/data_parallel_training.h"

using namespace ferrite;
using test::DataParallelTraining;

TEST_CASE("all combinations on 2, 3 and 4 virtual devices") {
  test::check_all_combinations(DeviceType::cpu, {2, 3, 4});
}

TEST_CASE("batch norm as PyTorch's DataParallel has it") {
  test::check_batch_norm(DeviceType::cpu);
}

TEST_CASE("LeNet on virtual devices trains as on one device") {
  DataParallelTraining c{.make = [] { return std::make_unique<nn::LeNet5>(); },
                         .batch = {10, 1, 28, 28},
                         .classes = 10,
                         .steps = 20,
                         .lr = 0.02};
  const test::Trained expected = test::train_alone(c);
  for (const int n : {2, 4}) {
    CAPTURE(n);
    c.devices = test::devices_of(DeviceType::cpu, n);
    c.loss_in_replicas = n == 4;
    test::check_trained(test::train_parallel(c), expected, 1e-5);
  }
}

TEST_CASE("a channels-last ResNet-18 in eval() mode trains as on one device") {
  DataParallelTraining c{.make =
                             [] {
                               auto net = std::make_unique<nn::ResNet18>(nn::ResNetOptions{
                                   .classes = 3, .stem = nn::ResNetStem::small, .width = 4});
                               net->eval();
                               return net;
                             },
                         .devices = test::devices_of(DeviceType::cpu, 2),
                         .batch = {5, 3, 8, 8},
                         .lr = 0.002,
                         .format = kChannelsLast};
  test::check_trained(test::train_parallel(c), test::train_alone(c), 2e-5);
}
