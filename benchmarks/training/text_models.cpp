#include "ferrite/benchmarks/training/text_models.h"

#include "ferrite/ferrite.h"

namespace bench {

using namespace ferrite;

namespace {

/// GPT-2: layers with their norms in front and GELU by tanh, and an output that shares the
/// embedding's weights.
class Gpt : public nn::Cloneable<Gpt> {
 public:
  explicit Gpt(const Task& task)
      : tokens_(task.classes, task.width),
        positions_(task.length, task.width),
        blocks_(nn::TransformerEncoderLayer(
                    task.width, task.heads,
                    {.dim_feedforward = 4 * task.width,
                     .dropout = 0,
                     .activation = [](const Tensor& x) { return gelu(x, GeluApproximation::tanh); },
                     .batch_first = true,
                     .norm_first = true}),
                task.layers, std::make_unique<nn::LayerNorm>(task.width)),
        output_(task.width, task.classes, {.bias = false}) {
    output_.weight = tokens_.weight;
    register_module("tokens", tokens_);
    register_module("positions", positions_);
    register_module("blocks", blocks_);
    register_module("output", output_);
    for (const Tensor& p : parameters())
      if (p.dim() > 1) nn::init::normal_(p, 0, 0.02);
  }

  Tensor forward(const Tensor& ids) override {
    const Tensor steps = arange(ids.size(1), {.dtype = kInt64, .device = ids.device()});
    const Tensor x = tokens_(ids) + positions_(steps);
    const Tensor past = nn::Transformer::generate_square_subsequent_mask(
        ids.size(1), {.dtype = x.dtype(), .device = x.device()});
    return output_(blocks_(x, {.mask = past, .is_causal = true})).flatten(0, 1);
  }

 private:
  nn::Embedding tokens_, positions_;
  nn::TransformerEncoder blocks_;
  nn::Linear output_;
};

class LstmText : public nn::Cloneable<LstmText> {
 public:
  explicit LstmText(const Task& task)
      : tokens_(task.classes, task.width),
        lstm_(task.width, task.width, {.num_layers = task.layers, .batch_first = true}),
        output_(task.width, task.classes) {
    register_module("tokens", tokens_);
    register_module("lstm", lstm_);
    register_module("output", output_);
  }

  Tensor forward(const Tensor& ids) override {
    const auto [states, last] = lstm_(tokens_(ids));
    return output_(states).flatten(0, 1);
  }

 private:
  nn::Embedding tokens_;
  nn::LSTM lstm_;
  nn::Linear output_;
};

}  // namespace

std::unique_ptr<nn::Module> make_text_model(const Task& task) {
  if (task.heads == 0) return std::make_unique<LstmText>(task);
  return std::make_unique<Gpt>(task);
}

}  // namespace bench
