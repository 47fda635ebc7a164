#include "ferrite/nn/models/vision_transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ferrite/nn/init.h"
#include "ferrite/nn/linear.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"

namespace ferrite::nn {

namespace {

constexpr LayerNormOptions kNorm{.eps = 1e-6};

const VisionTransformerOptions& checked(const VisionTransformerOptions& o) {
  const std::int64_t least = std::min({o.classes, o.in_channels, o.image_size, o.patch_size,
                                       o.num_layers, o.num_heads, o.hidden_dim, o.mlp_dim});
  FERRITE_CHECK(least > 0 && o.image_size % o.patch_size == 0, ValueError, "VisionTransformer",
                "expected sizes above 0 and an image_size that patch_size divides, got {} and {}, "
                "and at least {}",
                o.image_size, o.patch_size, least);
  return o;
}

/// Tokens of an image: its patches, and one for the class.
std::int64_t length(const VisionTransformerOptions& o) {
  const std::int64_t side = o.image_size / o.patch_size;
  return side * side + 1;
}

}  // namespace

EncoderBlock::EncoderBlock(const VisionTransformerOptions& o)
    : ln_1(o.hidden_dim, kNorm),
      self_attention(o.hidden_dim, o.num_heads,
                     {.dropout = o.attention_dropout, .batch_first = true}),
      dropout(o.dropout),
      ln_2(o.hidden_dim, kNorm),
      mlp(Linear(o.hidden_dim, o.mlp_dim), GELU(), Dropout(o.dropout),
          Linear(o.mlp_dim, o.hidden_dim), Dropout(o.dropout)) {
  register_module("ln_1", ln_1);
  register_module("self_attention", self_attention);
  register_module("dropout", dropout);
  register_module("ln_2", ln_2);
  register_module("mlp", mlp);
  mlp.apply<Linear>([](Linear& linear) {
    init::xavier_uniform_(linear.weight);
    init::normal_(linear.bias, 0, 1e-6);
  });
}

Tensor EncoderBlock::forward(const Tensor& input) {
  const Tensor x = input + dropout(self_attention(ln_1(input)));
  return x + mlp(ln_2(x));
}

VisionEncoder::VisionEncoder(const VisionTransformerOptions& o)
    : pos_embedding(init::normal_(empty({1, length(o), o.hidden_dim}), 0, 0.02)),
      dropout(o.dropout),
      ln(o.hidden_dim, kNorm) {
  for (std::int64_t i = 0; i < o.num_layers; ++i)
    layers.push_back(fmt::format("encoder_layer_{}", i), EncoderBlock(o));
  register_parameter("pos_embedding", pos_embedding);
  register_module("dropout", dropout);
  register_module("layers", layers);
  register_module("ln", ln);
}

Tensor VisionEncoder::forward(const Tensor& input) {
  return ln(layers(dropout(input + pos_embedding)));
}

VisionTransformer::VisionTransformer(const VisionTransformerOptions& o)
    : options_(checked(o)),
      conv_proj(o.in_channels, o.hidden_dim, o.patch_size, {.stride = o.patch_size}),
      class_token(zeros({1, 1, o.hidden_dim})),
      encoder(o) {
  Linear& head = heads.push_back("head", Linear(o.hidden_dim, o.classes));
  register_parameter("class_token", class_token);
  register_module("conv_proj", conv_proj);
  register_module("encoder", encoder);
  register_module("heads", heads);
  init::trunc_normal_(
      conv_proj.weight, 0,
      std::sqrt(1 / static_cast<double>(init::calculate_fans(conv_proj.weight).in)));
  for (const Tensor& t : {conv_proj.bias, head.weight, head.bias}) init::zeros_(t);
}

Tensor VisionTransformer::forward(const Tensor& input) {
  FERRITE_CHECK(input.dim() == 4 && input.size(2) == options_.image_size &&
                    input.size(3) == options_.image_size,
                ShapeError, "VisionTransformer", "expected images [N, {}, {}, {}], got {}",
                options_.in_channels, options_.image_size, options_.image_size, input.describe());
  const Tensor patches = conv_proj(input).flatten(2).transpose(1, 2);
  const Tensor token = class_token.expand({input.size(0), 1, options_.hidden_dim});
  return heads(encoder(cat({token, patches}, 1)).select(1, 0));
}

}  // namespace ferrite::nn
