// A language model of characters: a small GPT.
#pragma once

#include <ferrite/ferrite.h>

struct CharLMOptions {
  std::int64_t vocabulary = 256, context = 64, width = 64, layers = 2, heads = 4;
  double dropout = 0;
};

/// Logits [N, L, vocabulary] of the character after each of [N, L], L at most `context`.
class CharLM : public ferrite::nn::Cloneable<CharLM> {
 public:
  explicit CharLM(const CharLMOptions& o)
      : tokens_(o.vocabulary, o.width),
        positions_(o.context, o.width),
        blocks_(ferrite::nn::TransformerEncoderLayer(o.width, o.heads,
                                                     {.dim_feedforward = 4 * o.width,
                                                      .dropout = o.dropout,
                                                      .activation = "gelu",
                                                      .batch_first = true,
                                                      .norm_first = true}),
                o.layers, std::make_unique<ferrite::nn::LayerNorm>(o.width)),
        output_(o.width, o.vocabulary, {.bias = false}) {
    register_module("tokens", tokens_);
    register_module("positions", positions_);
    register_module("blocks", blocks_);
    register_module("output", output_);
    for (const ferrite::Tensor& p : parameters())
      if (p.dim() > 1) ferrite::nn::init::normal_(p, 0, 0.02);
  }

  ferrite::Tensor forward(const ferrite::Tensor& ids) override {
    const std::int64_t length = ids.size(1);
    const ferrite::Tensor steps =
        ferrite::arange(length, {.dtype = ferrite::kInt64, .device = ids.device()});
    const ferrite::Tensor x = tokens_(ids) + positions_(steps);
    const ferrite::Tensor past = ferrite::nn::Transformer::generate_square_subsequent_mask(
        length, {.dtype = x.dtype(), .device = x.device()});
    return output_(blocks_(x, {.mask = past, .is_causal = true}));
  }

 private:
  ferrite::nn::Embedding tokens_, positions_;
  ferrite::nn::TransformerEncoder blocks_;
  ferrite::nn::Linear output_;
};
