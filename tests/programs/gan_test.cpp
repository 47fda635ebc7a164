// A generative adversarial network: two networks and two optimizers, which train in turn.
#include <doctest/doctest.h>

#include <vector>

#include "ferrite/ferrite.h"
#include "ferrite/tests/programs/recorded.h"

using namespace ferrite;

namespace {

constexpr std::int64_t kBatch = 8, kNoise = 12;

/// [N, kNoise] to images [N, 1, 8, 8] in (-1, 1).
class GeneratorNet : public nn::Cloneable<GeneratorNet> {
 public:
  GeneratorNet() {
    register_module("fc", fc_);
    register_module("layers", layers_);
  }
  Tensor forward(const Tensor& z) override { return layers_(fc_(z).view(-1, 16, 2, 2)); }

 private:
  nn::Linear fc_{kNoise, 16 * 2 * 2};
  nn::Sequential layers_{nn::BatchNorm2d(16),
                         nn::ReLU(),
                         nn::ConvTranspose2d(16, 8, 4, {.stride = 2, .padding = 1, .bias = false}),
                         nn::BatchNorm2d(8),
                         nn::ReLU(),
                         nn::ConvTranspose2d(8, 1, 4, {.stride = 2, .padding = 1}),
                         nn::Tanh()};
};

nn::Sequential make_discriminator() {
  return nn::Sequential(nn::Conv2d(1, 8, 4, {.stride = 2, .padding = 1}), nn::LeakyReLU(0.2),
                        nn::Conv2d(8, 16, 4, {.stride = 2, .padding = 1}), nn::LeakyReLU(0.2),
                        nn::Flatten(), nn::Linear(16 * 2 * 2, 1));
}

/// Stripes of width two, shifted and noisy.
Tensor real_images(int step) {
  const Tensor column = arange(8).view(1, 1, 1, 8);
  const Tensor shift = (arange(kBatch) + step).view(-1, 1, 1, 1);
  const Tensor stripes = ((column + shift).floor_divide(2).remainder(2) * 2 - 1).to(kFloat32);
  return stripes.expand({kBatch, 1, 8, 8}) * 0.5 +
         test::hash_uniform({kBatch, 1, 8, 8}, 1000 + static_cast<std::uint32_t>(step), 48);
}

Tensor noise(int step) {
  return test::hash_uniform({kBatch, kNoise}, 2000 + static_cast<std::uint32_t>(step), 1);
}

/// The two losses of each step, the discriminator's first.
std::vector<double> train(const Device& device, int steps) {
  GeneratorNet generator;
  nn::Sequential discriminator = make_discriminator();
  test::set_weights(generator);
  test::set_weights(discriminator, 100);
  generator.to(device);
  discriminator.to(device);
  optim::Adam optimizer_g(generator.parameters(), {.lr = 2e-3, .betas = {0.5, 0.999}});
  optim::Adam optimizer_d(discriminator.parameters(), {.lr = 2e-3, .betas = {0.5, 0.999}});
  nn::BCEWithLogitsLoss criterion;
  const Tensor smooth = full({kBatch, 1}, 0.9, device), fake = zeros({kBatch, 1}, device);

  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const Tensor images = real_images(step).to(device);
    const Tensor made = generator(noise(step).to(device));

    optimizer_d.zero_grad();
    const Tensor loss_d =
        criterion(discriminator(images), smooth) + criterion(discriminator(made.detach()), fake);
    loss_d.backward();
    optimizer_d.step();

    optimizer_g.zero_grad();
    const Tensor loss_g = criterion(discriminator(made), ones_like(fake));
    loss_g.backward();
    optimizer_g.step();

    losses.push_back(loss_d.item<double>());
    losses.push_back(loss_g.item<double>());
  }
  return losses;
}

}  // namespace

TEST_CASE("a GAN trains as in PyTorch") { test::check_losses("gan", train("cpu", 20)); }

TEST_CASE("a GAN trains as in PyTorch on a CUDA device") {
  REQUIRE_CUDA(1);
  test::check_losses("gan", train("cuda", 4));
}
