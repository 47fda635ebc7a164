// U-Net: images and masks, a decoder that joins the encoder's features, and a loss of the user's.
#include <doctest/doctest.h>

#include <vector>

#include "ferrite/ferrite.h"
#include "ferrite/tests/programs/recorded.h"

using namespace ferrite;

namespace {

/// Noisy images of a bright disc, [1, 16, 16], and where the disc is.
struct Pair {
  Tensor image, mask;
};

struct Cells : data::DatasetOf<Pair> {
  std::int64_t size() const override { return 24; }
  Pair get(std::int64_t index) const override {
    const auto seed = static_cast<std::uint32_t>(index);
    const auto draw = [&](int number) { return static_cast<int>(test::hash32(seed, number) % 6); };
    const int row = 5 + draw(0), column = 5 + draw(1), radius = 2 + draw(2) / 2;
    std::vector<float> image, mask;
    for (int y = 0; y < 16; ++y)
      for (int x = 0; x < 16; ++x) {
        const int dy = y - row, dx = x - column;
        const float inside = dy * dy + dx * dx <= radius * radius ? 1 : 0;
        const std::uint32_t noise = test::hash32(100 + seed, y * 16 + x) >> 24;
        image.push_back(inside + static_cast<float>(noise) / 256 - 0.5F);
        mask.push_back(inside);
      }
    return {tensor(image).view(1, 16, 16), tensor(mask).view(1, 16, 16)};
  }
};

nn::Sequential double_conv(std::int64_t in, std::int64_t out) {
  return nn::Sequential(nn::Conv2d(in, out, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(out),
                        nn::ReLU(), nn::Conv2d(out, out, 3, {.padding = 1, .bias = false}),
                        nn::BatchNorm2d(out), nn::ReLU());
}

class UNet : public nn::Cloneable<UNet> {
 public:
  UNet() {
    register_module("down1", down1_);
    register_module("down2", down2_);
    register_module("bottom", bottom_);
    register_module("rise2", rise2_);
    register_module("up2", up2_);
    register_module("up1", up1_);
    register_module("head", head_);
  }

  Tensor forward(const Tensor& x) override {
    const Tensor fine = down1_(x);
    const Tensor coarse = down2_(max_pool2d(fine, 2));
    const Tensor deep = bottom_(max_pool2d(coarse, 2));
    const Tensor y = up2_(cat({rise2_(deep), coarse}, 1));
    const Tensor wide = interpolate(
        y, {.scale_factor = 2, .mode = InterpolateMode::bilinear, .align_corners = false});
    return head_(up1_(cat({wide, fine}, 1)));
  }

 private:
  nn::Sequential down1_ = double_conv(1, 8), down2_ = double_conv(8, 16),
                 bottom_ = double_conv(16, 32);
  nn::ConvTranspose2d rise2_{32, 16, 2, {.stride = 2}};
  nn::Sequential up2_ = double_conv(32, 16), up1_ = double_conv(24, 8);
  nn::Conv2d head_{8, 1, 1};
};

/// One minus the overlap of prediction and mask (Milletari et al. 2016).
Tensor dice_loss(const Tensor& logits, const Tensor& mask) {
  const Tensor p = sigmoid(logits).flatten(1), m = mask.flatten(1);
  return 1 - ((2 * (p * m).sum(1) + 1) / (p.sum(1) + m.sum(1) + 1)).mean();
}

Tensor criterion(const Tensor& logits, const Tensor& mask) {
  return binary_cross_entropy_with_logits(logits, mask) + dice_loss(logits, mask);
}

/// The losses of all steps, and, after whole epochs, that of the evaluated network.
std::vector<double> train(const Device& device, int epochs, std::size_t most = 100) {
  data::DataLoader loader(Cells(), {.batch_size = 4, .num_workers = 1, .device = device});
  UNet net;
  test::set_weights(net);
  net.to(device);
  // The default eps makes steps of gradients that are only rounding errors.
  optim::Adam optimizer(net.parameters(), {.lr = 2e-3, .eps = 1e-4});

  std::vector<double> losses;
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (auto& [images, masks] : loader) {
      const Tensor loss = criterion(net(images), masks);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item<double>());
      if (losses.size() == most) return losses;
    }

  net.eval();
  NoGradGuard no_grad;
  double total = 0;
  for (auto& [images, masks] : loader) total += criterion(net(images), masks).item<double>();
  losses.push_back(total / static_cast<double>(loader.size()));
  return losses;
}

}  // namespace

TEST_CASE("U-Net trains as in PyTorch") { test::check_losses("unet", train("cpu", 3)); }

TEST_CASE("U-Net trains as in PyTorch on a CUDA device") {
  REQUIRE_CUDA(1);
  test::check_losses("unet", train("cuda", 1, 2));
}
