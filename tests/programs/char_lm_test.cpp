// The model of examples/char_lm trains as the same one in PyTorch.
#include <set>

#include "ferrite/examples/char_lm/model.h"
#include "ferrite/tests/programs/recorded.h"

using namespace ferrite;

namespace {

const std::string kText =
    R"(It was the best of times, it was the worst of times, it was the age of wisdom, it was the age
of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of
Light, it was the season of Darkness, it was the spring of hope, it was the winter of despair.)";

/// By PyTorch 2.15 in float64.
const std::vector<double> kLosses = {
    3.951476599, 3.548924458, 3.388499169, 3.151748755, 3.116690897, 3.042807432, 2.993774642,
    3.042399838, 2.933564128, 2.984033220, 2.839604950, 2.978202595, 2.896678037, 2.819340660,
    2.883262351, 2.795073752, 2.808364233, 2.639309915, 2.781561326, 2.804005305, 2.722004390,
    2.613055702, 2.613966232, 2.580617428, 2.495877058, 2.558079637, 2.524873483, 2.496381329,
    2.506234738, 2.454837959, 2.635367582, 2.430710568, 2.517278714, 2.494734706, 2.409041872,
    2.544800398, 2.435705727, 2.466313959, 2.227119554, 2.388574263, 2.345806247, 2.334370980,
    2.239870234, 2.335380783, 2.267832381, 2.289718225, 2.170940133, 2.160239907, 2.196075126,
    2.019523432};

std::vector<double> train(const Device& device, DType dtype, int steps) {
  constexpr std::int64_t kBatch = 4, kContext = 24;
  const std::set<char> letters(kText.begin(), kText.end());
  std::vector<std::int64_t> numbers;
  for (const char c : kText) numbers.push_back(std::distance(letters.begin(), letters.find(c)));
  const Tensor text = tensor(numbers).to(device);
  CharLM model({.vocabulary = static_cast<std::int64_t>(letters.size()),
                .context = kContext,
                .width = 16,
                .layers = 2,
                .heads = 2});
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

void check_losses(const std::vector<double>& losses, double tolerance) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CAPTURE(i);
    CHECK(losses[i] == doctest::Approx(kLosses[i]).epsilon(tolerance));
  }
}

}  // namespace

TEST_CASE("the model of char_lm trains as in PyTorch") {
  check_losses(train("cpu", kFloat64, 50), 1e-8);
  check_losses(train("cpu", kFloat32, 20), 1e-3);
}

TEST_CASE("the model of char_lm trains as in PyTorch on a CUDA device") {
  REQUIRE_CUDA(1);
  check_losses(train("cuda", kFloat64, 4), 1e-8);
}
