// Transformers (Vaswani et al. 2017): layers, stacks of them, and the whole.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "ferrite/nn/activation.h"
#include "ferrite/nn/attention.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/norm.h"

namespace ferrite::nn {

/// "relu", "gelu", or a function.
using TransformerActivation = std::variant<std::string, std::function<Tensor(const Tensor&)>>;

/// Of a layer. Inputs are [L, N, d_model], or [L, d_model] without a batch.
struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;  ///< the size of the hidden layer
  double dropout = 0.1;                 ///< the probability of all dropouts, in training
  TransformerActivation activation = "relu";
  double layer_norm_eps = 1e-5;  ///< added to the variance in layer norms
  bool batch_first = false;      ///< [N, L, d_model]
  bool norm_first = false;       ///< norms come before attention and feed-forward, not after
  bool bias = true;
};

/// The optional arguments of calls; masks as those of MultiheadAttention. is_causal says that the
/// mask, which must be given, is that of causal attention.
struct TransformerEncoderArguments {
  Tensor mask = {};  ///< which positions attend to which
  Tensor src_key_padding_mask = {};
  bool is_causal = false;  ///< whether a position attends only to those before it
};
/// Masks, as torch.nn names them.
struct TransformerDecoderArguments {
  Tensor tgt_mask = {};
  Tensor memory_mask = {};
  Tensor tgt_key_padding_mask = {};
  Tensor memory_key_padding_mask = {};
  bool tgt_is_causal = false;
  bool memory_is_causal = false;
};
/// Masks, as torch.nn names them.
struct TransformerArguments {
  /// Which positions attend to which: bool, or float values that are added to the scores.
  Tensor src_mask = {};
  Tensor tgt_mask = {};
  Tensor memory_mask = {};
  Tensor src_key_padding_mask = {};
  Tensor tgt_key_padding_mask = {};
  Tensor memory_key_padding_mask = {};
  bool src_is_causal = false;  ///< whether a position attends only to those before it
  bool tgt_is_causal = false;
  bool memory_is_causal = false;
};

/// Self-attention and a feed-forward network, each with a residual and a LayerNorm. Parameters have
/// PyTorch's names. ValueError for an activation of another name.
class TransformerEncoderLayer : public Cloneable<TransformerEncoderLayer> {
 public:
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerLayerOptions& options = {});
  Tensor forward(const Tensor& src) override { return forward(src, {}); }
  Tensor forward(const Tensor& src, const TransformerEncoderArguments& arguments);
  Tensor operator()(const Tensor& src, const TransformerEncoderArguments& arguments = {}) {
    return Cloneable::operator()(src, arguments);
  }

  MultiheadAttention self_attn;
  Linear linear1;
  Dropout dropout;  ///< the dropout between linear1 and linear2
  Linear linear2;
  LayerNorm norm1;
  LayerNorm norm2;
  Dropout dropout1;
  Dropout dropout2;

 private:
  std::shared_ptr<const TransformerLayerOptions> options_;
};

/// The same with attention to `memory`, an encoder's output, in between.
class TransformerDecoderLayer : public Cloneable<TransformerDecoderLayer> {
 public:
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerLayerOptions& options = {});
  using Module::forward;
  Tensor forward(const Tensor& tgt, const Tensor& memory,
                 const TransformerDecoderArguments& arguments);
  Tensor operator()(const Tensor& tgt, const Tensor& memory,
                    const TransformerDecoderArguments& arguments = {}) {
    return Cloneable::operator()(tgt, memory, arguments);
  }

  MultiheadAttention self_attn;
  MultiheadAttention multihead_attn;  ///< the attention to the encoder's output
  Linear linear1;
  Dropout dropout;  ///< the dropout between linear1 and linear2
  Linear linear2;
  LayerNorm norm1;
  LayerNorm norm2;
  LayerNorm norm3;  ///< the layer norm of a decoder layer's feed-forward network
  Dropout dropout1;
  Dropout dropout2;
  Dropout dropout3;  ///< the dropout behind a decoder layer's feed-forward network

 private:
  std::shared_ptr<const TransformerLayerOptions> options_;
};

/// `num_layers` clones of a layer, with the same initial values as in PyTorch, and a norm of the
/// result if one is given: `TransformerEncoder(layer, 6, std::make_unique<LayerNorm>(512))`.
class TransformerEncoder : public Cloneable<TransformerEncoder> {
 public:
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers,
                     std::unique_ptr<Module> norm = nullptr);
  Tensor forward(const Tensor& src) override { return forward(src, {}); }
  Tensor forward(const Tensor& src, const TransformerEncoderArguments& arguments);
  Tensor operator()(const Tensor& src, const TransformerEncoderArguments& arguments = {}) {
    return Cloneable::operator()(src, arguments);
  }

  ModuleList layers;

 private:
  bool has_norm_;
};

/// A stack of decoder layers.
class TransformerDecoder : public Cloneable<TransformerDecoder> {
 public:
  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers,
                     std::unique_ptr<Module> norm = nullptr);
  using Module::forward;
  Tensor forward(const Tensor& tgt, const Tensor& memory,
                 const TransformerDecoderArguments& arguments);
  Tensor operator()(const Tensor& tgt, const Tensor& memory,
                    const TransformerDecoderArguments& arguments = {}) {
    return Cloneable::operator()(tgt, memory, arguments);
  }

  ModuleList layers;

 private:
  bool has_norm_;
};

struct TransformerOptions {
  std::int64_t d_model = 512;           ///< the size of a token
  std::int64_t nhead = 8;               ///< the number of heads of an attention
  std::int64_t num_encoder_layers = 6;  ///< the number of layers of the encoder
  std::int64_t num_decoder_layers = 6;  ///< the number of layers of the decoder
  std::int64_t dim_feedforward = 2048;  ///< the size of the hidden layer
  double dropout = 0.1;                 ///< the probability of all dropouts, in training
  TransformerActivation activation = "relu";
  double layer_norm_eps = 1e-5;  ///< added to the variance in layer norms
  bool batch_first = false;      ///< whether inputs are [N, L, E] instead of [L, N, E]
  /// Whether norms stand before attention and network instead of after them.
  bool norm_first = false;
  bool bias = true;
};

/// An encoder of src and a decoder of tgt, which sees the encoder's output, each with a norm at its
/// end. Matrices are drawn by init::xavier_uniform_.
class Transformer : public Cloneable<Transformer> {
 public:
  explicit Transformer(const TransformerOptions& options = {});
  Transformer(std::int64_t d_model, std::int64_t nhead, std::int64_t num_encoder_layers = 6,
              std::int64_t num_decoder_layers = 6, std::int64_t dim_feedforward = 2048,
              double dropout = 0.1)
      : Transformer(TransformerOptions{.d_model = d_model,
                                       .nhead = nhead,
                                       .num_encoder_layers = num_encoder_layers,
                                       .num_decoder_layers = num_decoder_layers,
                                       .dim_feedforward = dim_feedforward,
                                       .dropout = dropout}) {}
  /// Draws all matrices again.
  void reset_parameters();
  using Module::forward;
  Tensor forward(const Tensor& src, const Tensor& tgt, const TransformerArguments& arguments);
  Tensor operator()(const Tensor& src, const Tensor& tgt,
                    const TransformerArguments& arguments = {}) {
    return Cloneable::operator()(src, tgt, arguments);
  }
  /// [size, size]: -inf above the diagonal, 0 elsewhere; the mask of causal attention.
  static Tensor generate_square_subsequent_mask(std::int64_t size,
                                                const TensorOptions& options = {});

  TransformerEncoder encoder;  ///< the stack of encoder layers
  TransformerDecoder decoder;  ///< the stack of decoder layers
};

}  // namespace ferrite::nn
