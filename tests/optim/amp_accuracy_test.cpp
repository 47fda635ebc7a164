// Whole trainings: minutes, and so only where they are asked for.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/data/mnist.h"
#include "ferrite/data/transforms.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/amp/amp.h"
#include "ferrite/optim/sgd.h"

using namespace ferrite;
using namespace ferrite::optim::amp;

namespace {

constexpr std::int64_t kEpochs = 4, kBatch = 128;

data::FashionMNIST open(const char* root, data::Split split) {
  data::FashionMNIST set(root, split);
  set.set_transform(data::Compose{
      data::ToTensor(), data::Normalize(data::FashionMNIST::kMean, data::FashionMNIST::kStd)});
  return set;
}

/// The accuracy in percent on the test images of a LeNet that was trained in the same way at every
/// level but for its precision.
double train(const char* root, const Options& options) {
  manual_seed(1);
  nn::LeNet5 model;
  optim::SGD sgd(model.parameters(), {.lr = 0.02, .momentum = 0.9, .weight_decay = 5e-4});
  Amp amp = initialize(model, sgd, options);
  data::DataLoader loader(open(root, data::Split::train),
                          {.batch_size = kBatch, .shuffle = true, .drop_last = true, .seed = 1});
  const std::int64_t steps = kEpochs * (60000 / kBatch);
  std::int64_t step = 0;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch)
    for (const auto& [images, labels] : loader) {
      const double done = static_cast<double>(step++) / static_cast<double>(steps);
      sgd.set_lr(0.01 * (1 + std::cos(M_PI * done)));
      const Tensor loss = cross_entropy(model(images), labels);
      sgd.zero_grad();
      amp.scale(loss).backward();
      amp.step(sgd);
    }
  model.eval();
  NoGradGuard guard;
  std::int64_t right = 0;
  data::DataLoader test(open(root, data::Split::test), {.batch_size = 1000});
  for (const auto& [images, labels] : test)
    right += sum(eq(argmax(model(images), 1), labels)).item<std::int64_t>();
  return static_cast<double>(right) / 100;
}

}  // namespace

TEST_CASE("O1 and O2 end within half a point of O0 on Fashion-MNIST") {
  const char* root = std::getenv("FERRITE_DATA");
  if (!root || !*root || !std::getenv("FERRITE_SLOW_TESTS")) {
    MESSAGE(
        "skipped: set FERRITE_DATA to the folder that holds Fashion-MNIST, and "
        "FERRITE_SLOW_TESTS=1");
    return;
  }
  try {
    data::FashionMNIST(root, data::Split::test);
  } catch (const IoError& error) {
    if (std::string_view(error.what()).find("found no") == std::string_view::npos) throw;
    MESSAGE("skipped: " << error.what());
    return;
  }
  const double expected = train(root, {.opt_level = O0});
  CHECK(expected > 85);
  for (const Options& options : {Options{.opt_level = O1}, Options{.opt_level = O2},
                                 Options{.opt_level = O2, .dtype = kBFloat16}}) {
    const double accuracy = train(root, options);
    MESSAGE(properties_of(options).str()
            << "  accuracy            : " << accuracy << " % (O0: " << expected << " %)");
    CHECK(std::abs(accuracy - expected) <= 0.5);
  }
}
