#include "ferrite/nn/models/gpt.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/init.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"

namespace ferrite::nn {

namespace {

const GPTOptions& checked(const GPTOptions& o) {
  const std::int64_t least =
      std::min({o.vocab_size, o.context_length, o.num_layers, o.num_heads, o.hidden_dim});
  FERRITE_CHECK(least > 0, ValueError, "GPT",
                "expected sizes above 0, got a vocab_size of {}, a context_length of {}, {} layers "
                "of {} heads, and a hidden_dim of {}",
                o.vocab_size, o.context_length, o.num_layers, o.num_heads, o.hidden_dim);
  return o;
}

TransformerEncoderLayer block(const GPTOptions& o) {
  return {o.hidden_dim,
          o.num_heads,
          {.dim_feedforward = 4 * o.hidden_dim,
           .dropout = o.dropout,
           .activation = [how = o.activation](const Tensor& x) { return gelu(x, how); },
           .batch_first = true,
           .norm_first = true}};
}

}  // namespace

GPT::GPT(const GPTOptions& o)
    : options_(checked(o)),
      tokens(o.vocab_size, o.hidden_dim),
      positions(o.context_length, o.hidden_dim),
      dropout(o.dropout),
      blocks(block(o), o.num_layers, std::make_unique<LayerNorm>(o.hidden_dim)),
      output(o.hidden_dim, o.vocab_size, {.bias = false}) {
  if (o.tie_weights) output.weight = tokens.weight;
  register_module("tokens", tokens);
  register_module("positions", positions);
  register_module("dropout", dropout);
  register_module("blocks", blocks);
  register_module("output", output);
  const double residual = 0.02 / std::sqrt(2 * static_cast<double>(o.num_layers));
  for (const auto& [name, p] : named_parameters()) {
    const bool adds = name.ends_with("out_proj.weight") || name.ends_with("linear2.weight");
    if (p.dim() > 1)
      init::normal_(p, 0, adds ? residual : 0.02);
    else if (name.ends_with("bias"))
      init::zeros_(p);
  }
}

Tensor GPT::forward(const Tensor& ids) {
  FERRITE_CHECK(ids.dim() == 2 && ids.size(1) <= options_.context_length, ShapeError, "GPT",
                "expected ids [N, L] with L of at most {}, the context_length, got {}",
                options_.context_length, ids.describe());
  const std::int64_t length = ids.size(1);
  const Tensor steps = arange(length, {.dtype = kInt64, .device = ids.device()});
  const Tensor x = dropout(tokens(ids) + positions(steps));
  const Tensor mask = Transformer::generate_square_subsequent_mask(
      length, {.dtype = x.dtype(), .device = x.device()});
  return output(blocks(x, {.mask = mask, .is_causal = true}));
}

Tensor GPT::generate(const Tensor& ids, std::int64_t count, const SamplingOptions& options,
                     Generator* generator) {
  FERRITE_CHECK(ids.dim() == 2 && ids.size(1) > 0, ShapeError, "GPT::generate",
                "expected ids [N, L] with an L above 0, got {}", ids.describe());
  FERRITE_CHECK(count >= 0, ValueError, "GPT::generate", "expected a count of at least 0, got {}",
                count);
  const NoGradGuard no_grad;
  Tensor all = ids;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t length = std::min(all.size(1), options_.context_length);
    const Tensor logits = (*this)(all.narrow(1, all.size(1) - length, length)).select(1, -1);
    all = cat({all, sample_logits(logits, options, generator).unsqueeze(1)}, 1);
  }
  return all;
}

}  // namespace ferrite::nn
