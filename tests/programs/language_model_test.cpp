// A language model of characters: embedding, GRU, a transformer block, and an output that shares
// the embedding's weights.
#include <doctest/doctest.h>

#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/ferrite.h"
#include "ferrite/tests/programs/recorded.h"

using namespace ferrite;

namespace {

const std::string kText =
    R"(It was the best of times, it was the worst of times, it was the age of wisdom, it was the age
of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of
Light, it was the season of Darkness, it was the spring of hope, it was the winter of despair.)";

class LanguageModel : public nn::Cloneable<LanguageModel> {
 public:
  LanguageModel(std::int64_t vocabulary, std::int64_t width, std::int64_t heads)
      : tokens_(vocabulary, width),
        gru_(width, width, {.batch_first = true}),
        norm1_(width),
        attention_(width, heads, {.batch_first = true}),
        norm2_(width),
        mlp_(nn::Linear(width, 2 * width), nn::GELU(), nn::Linear(2 * width, width)),
        norm3_(width),
        output_(width, vocabulary, {.bias = false}) {
    output_.weight = tokens_.weight;
    register_module("tokens", tokens_);
    register_module("gru", gru_);
    register_module("norm1", norm1_);
    register_module("attention", attention_);
    register_module("norm2", norm2_);
    register_module("mlp", mlp_);
    register_module("norm3", norm3_);
    register_module("output", output_);
  }

  Tensor forward(const Tensor& ids) override {
    Tensor x = tokens_(ids);
    const auto [states, last] = gru_(x);
    x = x + states;
    const Tensor h = norm1_(x);
    const Tensor future = ones({ids.size(1), ids.size(1)}, x.options().dtype(kBool)).triu(1);
    x = x + attention_(h, h, h, {.need_weights = false, .attn_mask = future}).output;
    x = x + mlp_(norm2_(x));
    return output_(norm3_(x));
  }

 private:
  nn::Embedding tokens_;
  nn::GRU gru_;
  nn::LayerNorm norm1_;
  nn::MultiheadAttention attention_;
  nn::LayerNorm norm2_;
  nn::Sequential mlp_;
  nn::LayerNorm norm3_;
  nn::Linear output_;
};

/// The number of each character among those that occur, in order.
Tensor encode(const std::string& text) {
  const std::set<char> letters(text.begin(), text.end());
  std::vector<std::int64_t> ids;
  for (const char c : text) ids.push_back(std::distance(letters.begin(), letters.find(c)));
  return tensor(ids);
}

/// Pieces of the text, and the same one character later.
std::pair<Tensor, Tensor> get_batch(const Tensor& text, int step) {
  constexpr std::int64_t kBatch = 4, kContext = 24;
  std::vector<Tensor> x, y;
  for (std::int64_t i = 0; i < kBatch; ++i) {
    const std::int64_t start = (step * kBatch + i) * 53 % (text.size(0) - kContext);
    x.push_back(text.slice(0, start, start + kContext));
    y.push_back(text.slice(0, start + 1, start + kContext + 1));
  }
  return {stack(x), stack(y)};
}

std::vector<double> train(const Device& device, int steps) {
  const Tensor text = encode(kText).to(device);
  LanguageModel model(text.max().item<std::int64_t>() + 1, 32, 4);
  test::set_weights(model);
  model.to(device);

  std::vector<Tensor> decay, no_decay;
  for (const auto& [name, p] : model.named_parameters())
    (p.dim() > 1 ? decay : no_decay).push_back(p);
  optim::AdamW optimizer({{decay, {.lr = 3e-3, .weight_decay = 0.1}},  //
                          {no_decay, {.lr = 3e-3, .weight_decay = 0}}});
  optim::LinearLR warmup(optimizer, {.start_factor = 0.1, .total_iters = 5});

  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const auto [x, y] = get_batch(text, step);
    const Tensor logits = model(x);
    const Tensor loss = cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1));
    optimizer.zero_grad();
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 0.5);
    optimizer.step();
    warmup.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace

TEST_CASE("a language model trains as in PyTorch") {
  test::check_losses("language_model", train("cpu", 20));
}

TEST_CASE("a language model trains as in PyTorch on a CUDA device") {
  REQUIRE_CUDA(1);
  test::check_losses("language_model", train("cuda", 4));
}
