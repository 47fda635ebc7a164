// A net that three inputs pass through, a loss of tensor operations, and an optimizer of the
// user's.
#include <doctest/doctest.h>

#include <vector>

#include "ferrite/ferrite.h"
#include "ferrite/tests/programs/recorded.h"

using namespace ferrite;

namespace {

/// Adagrad (Duchi et al. 2011), as torch.optim has it.
struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double eps = 1e-10;

  static constexpr const char* kName = "Adagrad";
  optim::Fields fields() {
    return {{"lr", &lr, optim::kNonNegative},
            {"lr_decay", &lr_decay, optim::kNonNegative},
            {"weight_decay", &weight_decay, optim::kNonNegative},
            {"eps", &eps, optim::kNonNegative}};
  }
};

class Adagrad final : public optim::TensorOptimizer<AdagradOptions> {
 public:
  using TensorOptimizer::TensorOptimizer;

 private:
  void update(optim::ParameterStep& p, const AdagradOptions& o) override {
    const Tensor sum = p.state("sum");
    const Tensor grad = p.grad + o.weight_decay * p.param;
    sum += grad * grad;
    const Tensor lr = p.lr / (1 + (p.step() - 1) * o.lr_decay);
    p.param -= lr * grad / (sqrt(sum) + o.eps);
  }
};

struct Triplet {
  Tensor anchor, positive, negative;  // the second of the anchor's class, the third of another
};

/// Rows of numbers around the centre of their class.
struct Triplets : data::DatasetOf<Triplet> {
  std::int64_t size() const override { return 48; }
  Triplet get(std::int64_t index) const override {
    const std::int64_t label = index % 4, other = (label + 1 + index / 4 % 3) % 4;
    const auto row = [&](std::int64_t kind, std::int64_t which) {
      return test::hash_uniform({10}, 500 + static_cast<std::uint32_t>(kind), 2) +
             test::hash_uniform({10}, 600 + static_cast<std::uint32_t>(3 * index + which), 1);
    };
    return {row(label, 0), row(label, 1), row(other, 2)};
  }
};

class Embedder : public nn::Cloneable<Embedder> {
 public:
  Embedder() {
    register_module("fc1", fc1_);
    register_module("fc2", fc2_);
  }
  /// [N, 10] to vectors of length 1, [N, 6].
  Tensor forward(const Tensor& x) override {
    const Tensor y = fc2_(relu(fc1_(x)));
    return y / y.norm(2, -1, /*keepdim=*/true);
  }

 private:
  nn::Linear fc1_{10, 24}, fc2_{24, 6};
};

Tensor distance(const Tensor& a, const Tensor& b) { return (a - b).pow(2).sum(-1).sqrt(); }

Tensor triplet_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative) {
  return clamp_min(distance(anchor, positive) - distance(anchor, negative) + 0.5, 0).mean();
}

std::vector<double> train(const Device& device, int epochs) {
  data::DataLoader loader(Triplets(), {.batch_size = 8, .device = device});
  Embedder net;
  test::set_weights(net);
  net.to(device);
  Adagrad optimizer(net.parameters(), {.lr = 0.02, .lr_decay = 0.05, .weight_decay = 1e-3});
  optim::StepLR scheduler(optimizer, 2, 0.5);

  std::vector<double> losses;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (auto& [anchor, positive, negative] : loader) {
      const Tensor loss = triplet_loss(net(anchor), net(positive), net(negative));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
    scheduler.step();
  }
  return losses;
}

}  // namespace

TEST_CASE("a triplet net with a user's optimizer trains as in PyTorch") {
  test::check_losses("triplet", train("cpu", 4));
}

TEST_CASE("a triplet net with a user's optimizer trains as in PyTorch on a CUDA device") {
  REQUIRE_CUDA(1);
  test::check_losses("triplet", train("cuda", 1));
}
