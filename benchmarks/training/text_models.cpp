#include "ferrite/benchmarks/training/text_models.h"

#include "ferrite/ferrite.h"

namespace bench {

using namespace ferrite;

namespace {

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
  const nn::GPTOptions options = {.vocab_size = task.classes,
                                  .context_length = task.length,
                                  .num_layers = task.layers,
                                  .num_heads = task.heads,
                                  .hidden_dim = task.width};
  return std::make_unique<nn::Sequential>(nn::GPT(options),
                                          nn::Flatten({.start_dim = 0, .end_dim = 1}));
}

}  // namespace bench
