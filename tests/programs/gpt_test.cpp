// nn::GPT trains as the same model in PyTorch.
#include <set>

#include "ferrite/ferrite.h"
#include "ferrite/tests/programs/recorded.h"

using namespace ferrite;

namespace {

const std::string kText =
    R"(It was the best of times, it was the worst of times, it was the age of wisdom, it was the age
of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of
Light, it was the season of Darkness, it was the spring of hope, it was the winter of despair.)";

std::vector<double> train(const Device& device, DType dtype, int steps) {
  constexpr std::int64_t kBatch = 4, kContext = 24;
  const std::set<char> letters(kText.begin(), kText.end());
  std::vector<std::int64_t> numbers;
  for (const char c : kText) numbers.push_back(std::distance(letters.begin(), letters.find(c)));
  const Tensor text = tensor(numbers).to(device);
  nn::GPT model({.vocab_size = static_cast<std::int64_t>(letters.size()),
                 .context_length = kContext,
                 .num_layers = 2,
                 .num_heads = 2,
                 .hidden_dim = 16});
  test::set_weights(model);
  model.to(dtype);
  model.to(device);
  optim::AdamW adam(model.parameters(), {.lr = 3e-3, .weight_decay = 0.1});
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    std::vector<Tensor> pieces;
    for (std::int64_t i = 0; i < kBatch; ++i) {
      const std::int64_t start = (step * kBatch + i) * 53 % (text.size(0) - kContext);
      pieces.push_back(text.slice(0, start, start + kContext + 1));
    }
    const Tensor batch = stack(pieces);
    const Tensor loss = cross_entropy(model(batch.narrow(1, 0, kContext)).flatten(0, 1),
                                      batch.narrow(1, 1, kContext).flatten());
    adam.zero_grad();
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 1);
    adam.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

/// Against PyTorch's losses in float64.
void check_float64(const std::vector<double>& losses) {
  const auto expected = test::Golden("programs").get("gpt", "losses").to_vector<double>();
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CAPTURE(i);
    CHECK(losses[i] == doctest::Approx(expected.at(i)).epsilon(1e-8));
  }
}

}  // namespace

TEST_CASE("nn::GPT trains as in PyTorch") {
  check_float64(train("cpu", kFloat64, 50));
  test::check_losses("gpt", train("cpu", kFloat32, 50));
}

TEST_CASE("nn::GPT trains as in PyTorch on a CUDA device") {
  REQUIRE_CUDA(1);
  check_float64(train("cuda", kFloat64, 4));
}
