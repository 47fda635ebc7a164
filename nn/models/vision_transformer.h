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
  std::int64_t image_size = 224;  ///< the height and the width of the images
  std::int64_t patch_size = 16;   ///< the height and the width of the patches
  std::int64_t num_layers = 12;   ///< the number of blocks
  std::int64_t num_heads = 12;    ///< the number of attention heads of a block
  std::int64_t hidden_dim = 768;  ///< the size of a token
  std::int64_t mlp_dim = 3072;  ///< the size of the hidden layer of a block's feed-forward network
  double dropout = 0;           ///< the probability of dropping values, in training
  /// The probability with which an attention weight becomes zero while training.
  double attention_dropout = 0;
};

/// x + attention(ln_1(x)), and to that its own mlp(ln_2(x)).
class EncoderBlock : public Cloneable<EncoderBlock> {
 public:
  explicit EncoderBlock(const VisionTransformerOptions& options);
  Tensor forward(const Tensor& input) override;

  LayerNorm ln_1;                     ///< the layer norm before self-attention
  MultiheadAttention self_attention;  ///< the self-attention
  Dropout dropout;                    ///< the dropout of this part, in training
  LayerNorm ln_2;                     ///< the layer norm before the feed-forward network
  /// The feed-forward network: hidden_dim to mlp_dim and back, with a GELU between.
  Sequential mlp;
};

/// Adds the positions to [N, L, hidden_dim], and runs the blocks and a norm.
class VisionEncoder : public Cloneable<VisionEncoder> {
 public:
  explicit VisionEncoder(const VisionTransformerOptions& options);
  Tensor forward(const Tensor& input) override;

  Tensor pos_embedding;  ///< [1, L, hidden_dim]
  Dropout dropout;       ///< the dropout of this part, in training
  Sequential layers;     ///< the blocks, in order
  LayerNorm ln;          ///< the layer norm behind the last block
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
  Conv2d conv_proj;       ///< the convolution that makes a token of each patch
  Tensor class_token;     ///< [1, 1, hidden_dim]
  VisionEncoder encoder;  ///< the positions, the blocks and the last norm
  Sequential heads;       ///< the linear layer that makes logits of the class token
};

}  // namespace ferrite::nn
