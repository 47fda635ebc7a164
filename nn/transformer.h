// Transformers (Vaswani et al. 2017): layers, stacks of them, and the whole.
#pragma once

#include <concepts>
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

/// The activation of the feed-forward network: "relu", "gelu" (ValueError for other names), or a
/// function of a tensor.
using TransformerActivation = std::variant<std::string, std::function<Tensor(const Tensor&)>>;

/// The options of encoder and decoder layers.
struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;  ///< the size of the hidden layer
  double dropout = 0.1;                 ///< the probability of all dropouts, in training
  TransformerActivation activation = "relu";
  double layer_norm_eps = 1e-5;  ///< added to the variance in layer norms
  bool batch_first = false;      ///< inputs and output are [N, L, d_model], not [L, N, d_model]
  bool norm_first = false;       ///< norms come before attention and feed-forward, not after
  bool bias = true;
};

/// The optional arguments of TransformerEncoderLayer and TransformerEncoder, for src [L, N,
/// d_model]. Masks are those of MultiheadAttention (AttentionArguments): true in a bool mask means
/// "does not attend", a floating mask is added to the scores; DTypeError for other dtypes,
/// ShapeError for other shapes.
struct TransformerEncoderArguments {
  /// [L, L], or [N * nhead, L, L]: which positions attend to which.
  Tensor mask = {};
  Tensor src_key_padding_mask = {};  ///< [N, L]: which positions of each sample are padding
  /// Says that `mask`, which must be given (ValueError), is that of causal attention. Without a
  /// src_key_padding_mask its values are then not read, which is faster.
  bool is_causal = false;
};
/// The optional arguments of TransformerDecoderLayer and TransformerDecoder, for tgt [T, N,
/// d_model] and memory [S, N, d_model]. Masks mean what they mean in TransformerEncoderArguments.
struct TransformerDecoderArguments {
  Tensor tgt_mask = {};                 ///< [T, T], or [N * nhead, T, T]: for self-attention
  Tensor memory_mask = {};              ///< [T, S], or [N * nhead, T, S]: for attention to memory
  Tensor tgt_key_padding_mask = {};     ///< [N, T]: which positions of tgt are padding
  Tensor memory_key_padding_mask = {};  ///< [N, S]: which positions of memory are padding
  /// Says that tgt_mask, which must be given (ValueError), is that of causal attention.
  bool tgt_is_causal = false;
  /// Says that memory_mask, which must be given (ValueError), is that of causal attention.
  bool memory_is_causal = false;
};
/// The optional arguments of Transformer: for src [S, N, d_model] and tgt [T, N, d_model], src_mask
/// is [S, S], tgt_mask [T, T] and memory_mask [T, S], or each for every head, [N * nhead, ...];
/// src_key_padding_mask and memory_key_padding_mask are [N, S], tgt_key_padding_mask [N, T]. They
/// mean what they mean in TransformerEncoderArguments; memory_key_padding_mask is usually
/// src_key_padding_mask again. src_is_causal, tgt_is_causal and memory_is_causal say that the mask
/// of that name, which must be given (ValueError), is that of causal attention.
struct TransformerArguments {
  /// Which positions of src attend to which: bool, or float values that are added to the scores.
  Tensor src_mask = {};
  Tensor tgt_mask = {};
  Tensor memory_mask = {};
  Tensor src_key_padding_mask = {};
  Tensor tgt_key_padding_mask = {};
  Tensor memory_key_padding_mask = {};
  /// Says that src_mask, which must be given (ValueError), is that of causal attention.
  bool src_is_causal = false;
  bool tgt_is_causal = false;
  bool memory_is_causal = false;
};

/// Self-attention and a feed-forward network, each with a residual and a LayerNorm. Parameters have
/// PyTorch's names.
///
///   nn::TransformerEncoderLayer layer(512, 8, {.batch_first = true});
///   Tensor y = layer(x, {.src_key_padding_mask = padding});  // x [N, L, 512], padding [N, L]
class TransformerEncoderLayer : public Cloneable<TransformerEncoderLayer> {
 public:
  /// ValueError unless nhead divides d_model, dropout is in [0, 1], and the activation is known.
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerLayerOptions& options = {});
  /// As below, without masks.
  Tensor forward(const Tensor& src) override { return forward(src, {}); }
  /// src [L, N, d_model], [N, L, d_model] with batch_first, or [L, d_model] without a batch, gives
  /// a tensor of its shape. ShapeError, DTypeError and ValueError as of MultiheadAttention.
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

/// Self-attention, attention to `memory`, which is an encoder's output, and a feed-forward network,
/// each with a residual and a LayerNorm. Parameters have PyTorch's names.
///
///   nn::TransformerDecoderLayer layer(512, 8);
///   Tensor mask = nn::Transformer::generate_square_subsequent_mask(tgt.size(0));
///   Tensor y = layer(tgt, memory, {.tgt_mask = mask, .tgt_is_causal = true});
class TransformerDecoderLayer : public Cloneable<TransformerDecoderLayer> {
 public:
  /// ValueError unless nhead divides d_model, dropout is in [0, 1], and the activation is known.
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerLayerOptions& options = {});
  using Module::forward;
  /// tgt [T, N, d_model] and memory [S, N, d_model] give [T, N, d_model]; with batch_first N comes
  /// first; both may lack N. ShapeError, DTypeError and ValueError as of MultiheadAttention.
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

/// `num_layers` clones of an encoder layer, one after another, and a norm of the result if one is
/// given. As in PyTorch, all clones begin with the values of the layer's parameters.
///
///   nn::TransformerEncoderLayer layer(512, 8, {.batch_first = true});
///   nn::TransformerEncoder encoder(layer, 6, nn::LayerNorm(512));
///   Tensor y = encoder(x, {.src_key_padding_mask = padding});  // x [N, L, 512], padding [N, L]
class TransformerEncoder : public Cloneable<TransformerEncoder> {
 public:
  /// ValueError if num_layers is negative.
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers,
                     std::unique_ptr<Module> norm = nullptr);
  /// The norm by value, which is copied.
  template <std::derived_from<Module> Norm>
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers,
                     const Norm& norm)
      : TransformerEncoder(layer, num_layers, norm.clone()) {}
  /// As below, without masks.
  Tensor forward(const Tensor& src) override { return forward(src, {}); }
  /// Shapes and errors as of TransformerEncoderLayer; each layer gets the arguments.
  Tensor forward(const Tensor& src, const TransformerEncoderArguments& arguments);
  Tensor operator()(const Tensor& src, const TransformerEncoderArguments& arguments = {}) {
    return Cloneable::operator()(src, arguments);
  }

  ModuleList layers;

 private:
  friend class Transformer;
  TransformerEncoder();  ///< without layers, where there is a custom one

  bool has_norm_ = false;
};

/// `num_layers` clones of a decoder layer, one after another, each of which attends to the same
/// `memory`, and a norm of the result if one is given. As in PyTorch, all clones begin with the
/// values of the layer's parameters.
///
///   nn::TransformerDecoder decoder(nn::TransformerDecoderLayer(512, 8), 6);
///   Tensor y = decoder(tgt, encoder(src), {.tgt_mask = mask, .tgt_is_causal = true});
class TransformerDecoder : public Cloneable<TransformerDecoder> {
 public:
  /// ValueError if num_layers is negative.
  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers,
                     std::unique_ptr<Module> norm = nullptr);
  /// The norm by value, which is copied.
  template <std::derived_from<Module> Norm>
  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers,
                     const Norm& norm)
      : TransformerDecoder(layer, num_layers, norm.clone()) {}
  using Module::forward;
  /// Shapes and errors as of TransformerDecoderLayer; each layer gets the arguments.
  Tensor forward(const Tensor& tgt, const Tensor& memory,
                 const TransformerDecoderArguments& arguments);
  Tensor operator()(const Tensor& tgt, const Tensor& memory,
                    const TransformerDecoderArguments& arguments = {}) {
    return Cloneable::operator()(tgt, memory, arguments);
  }

  ModuleList layers;

 private:
  friend class Transformer;
  TransformerDecoder();  ///< without layers, where there is a custom one

  bool has_norm_ = false;
};

/// A copy of a module of any type that has a forward() of `Inputs`, or none. It converts from such
/// a module: `.custom_encoder = MyEncoder(...)`.
template <class... Inputs>
class CustomModule {
 public:
  /// No module.
  CustomModule() = default;
  /// A clone of `module`.
  template <class M>
  requires std::derived_from<M, Module> && requires(M& m, const Inputs&... inputs) {
    { m(inputs...) } -> std::convertible_to<Tensor>;
  }
  CustomModule(const M& module)
      : module_(module.clone()),
        call_([](Module& m, const Inputs&... inputs) -> Tensor { return m.as<M>()(inputs...); }) {}
  /// Whether there is a module.
  explicit operator bool() const { return module_ != nullptr; }
  /// A clone of the module.
  std::unique_ptr<Module> clone() const { return module_->clone(); }
  /// Calls `module`, which has the type of this one (Error for others).
  Tensor call(Module& module, const Inputs&... inputs) const { return call_(module, inputs...); }

 private:
  std::shared_ptr<const Module> module_;
  Tensor (*call_)(Module&, const Inputs&...) = nullptr;
};
/// A module with a `Tensor forward(const Tensor& src, const TransformerEncoderArguments&)`.
using CustomEncoder = CustomModule<Tensor, TransformerEncoderArguments>;
/// A module with a `Tensor forward(const Tensor& tgt, const Tensor& memory, const
/// TransformerDecoderArguments&)`.
using CustomDecoder = CustomModule<Tensor, Tensor, TransformerDecoderArguments>;

struct TransformerOptions {
  std::int64_t d_model = 512;           ///< the number of features of a token
  std::int64_t nhead = 8;               ///< the number of heads of an attention
  std::int64_t num_encoder_layers = 6;  ///< the number of layers of the encoder
  std::int64_t num_decoder_layers = 6;  ///< the number of layers of the decoder
  std::int64_t dim_feedforward = 2048;  ///< the size of the hidden layer
  double dropout = 0.1;                 ///< the probability of all dropouts, in training
  TransformerActivation activation = "relu";
  /// If given, the encoder is a clone of this module, whatever the other options are.
  /// reset_parameters() draws its matrices anew, as PyTorch does: load pretrained weights
  /// afterwards.
  CustomEncoder custom_encoder = {};
  /// If given, the decoder is a clone of this module, with new matrices like the encoder.
  CustomDecoder custom_decoder = {};
  double layer_norm_eps = 1e-5;  ///< added to the variance in layer norms
  /// Inputs and output are [N, L, d_model], not [L, N, d_model].
  bool batch_first = false;
  /// Norms come before attention and feed-forward, not after.
  bool norm_first = false;
  bool bias = true;
};

/// An encoder of src and a decoder of tgt, which attends to the encoder's output, each with a
/// LayerNorm at its end, or modules of one's own. All matrices are drawn by init::xavier_uniform_.
///
///   nn::Transformer transformer({.d_model = 256, .nhead = 4});
///   Tensor mask = nn::Transformer::generate_square_subsequent_mask(tgt.size(0));
///   Tensor y = transformer(src, tgt, {.tgt_mask = mask, .tgt_is_causal = true});
class Transformer : public Cloneable<Transformer> {
 public:
  /// ValueError unless nhead divides d_model, the numbers of layers are 0 or more, dropout is in
  /// [0, 1], and the activation is known.
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
  /// src [S, N, d_model] and tgt [T, N, d_model] give [T, N, d_model]; with batch_first N comes
  /// first; both may lack N. ShapeError, DTypeError and ValueError as of MultiheadAttention.
  Tensor forward(const Tensor& src, const Tensor& tgt, const TransformerArguments& arguments);
  Tensor operator()(const Tensor& src, const Tensor& tgt,
                    const TransformerArguments& arguments = {}) {
    return Cloneable::operator()(src, tgt, arguments);
  }
  /// The mask of causal attention, [size, size]: -inf above the diagonal, 0 elsewhere. The dtype is
  /// floating; ShapeError for a negative size.
  static Tensor generate_square_subsequent_mask(std::int64_t size,
                                                const TensorOptions& options = {});

  /// The stack of encoder layers; without layers, and returning its input, where there is a custom
  /// encoder, which is get_submodule("encoder").
  TransformerEncoder encoder;
  /// The stack of decoder layers; without layers, and returning its input, where there is a custom
  /// decoder, which is get_submodule("decoder").
  TransformerDecoder decoder;

 private:
  // Called with the custom modules in the registry.
  CustomEncoder custom_encoder_;
  CustomDecoder custom_decoder_;
};

}  // namespace ferrite::nn
