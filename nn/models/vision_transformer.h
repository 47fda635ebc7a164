// Vision transformers (Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words"), with
// torchvision's parameter names and initialisation, so that weights can be exchanged with it.
#pragma once

#include <cstdint>

#include "ferrite/nn/activation.h"
#include "ferrite/nn/attention.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/conv.h"
#include "ferrite/nn/norm.h"

namespace ferrite::nn {

/// The defaults are those of vit_b_16.
struct VisionTransformerOptions {
  std::int64_t classes = 1000;
  std::int64_t in_channels = 3;
  std::int64_t image_size = 224;
  std::int64_t patch_size = 16;
  std::int64_t num_layers = 12;
  std::int64_t num_heads = 12;
  std::int64_t hidden_dim = 768;
  std::int64_t mlp_dim = 3072;
  double dropout = 0;  ///< the probability of dropping values, in training
  double attention_dropout = 0;
};

/// x + attention(ln_1(x)), and to that its own mlp(ln_2(x)).
class EncoderBlock : public Cloneable<EncoderBlock> {
 public:
  explicit EncoderBlock(const VisionTransformerOptions& options);
  Tensor forward(const Tensor& input) override;

  LayerNorm ln_1;
  MultiheadAttention self_attention;
  Dropout dropout;
  LayerNorm ln_2;
  Sequential mlp;
};

/// Adds the positions to [N, L, hidden_dim], and runs the blocks and a norm.
class VisionEncoder : public Cloneable<VisionEncoder> {
 public:
  explicit VisionEncoder(const VisionTransformerOptions& options);
  Tensor forward(const Tensor& input) override;

  Tensor pos_embedding;  ///< [1, L, hidden_dim]
  Dropout dropout;
  Sequential layers;
  LayerNorm ln;
};

/// [N, in_channels, image_size, image_size] to logits [N, classes]: patches as tokens after one
/// for the class, whose output the head sees. 86,567,656 parameters for 1000 classes. ValueError
/// for sizes below 1, or unless patch_size divides image_size and num_heads hidden_dim; ShapeError
/// for images of another size.
class VisionTransformer : public Cloneable<VisionTransformer> {
 public:
  explicit VisionTransformer(const VisionTransformerOptions& options = {});
  Tensor forward(const Tensor& input) override;

 private:
  VisionTransformerOptions options_;  // checked before the layers are made

 public:
  Conv2d conv_proj;
  Tensor class_token;  ///< [1, 1, hidden_dim]
  VisionEncoder encoder;
  Sequential heads;
};

}  // namespace ferrite::nn
