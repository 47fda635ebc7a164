#include "ferrite/nn/transformer.h"

#include <limits>

#include "ferrite/nn/init.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/rearrange.h"

namespace ferrite::nn {

namespace {

std::shared_ptr<const TransformerLayerOptions> checked(const TransformerLayerOptions& options,
                                                       const char* layer) {
  if (const auto* name = std::get_if<std::string>(&options.activation))
    FERRITE_CHECK(*name == "relu" || *name == "gelu", ValueError, layer,
                  "activation: expected \"relu\", \"gelu\" or a function, got \"{}\"", *name);
  return std::make_shared<const TransformerLayerOptions>(options);
}

Tensor activate(const TransformerActivation& activation, const Tensor& x) {
  if (const auto* name = std::get_if<std::string>(&activation))
    return *name == "relu" ? relu(x) : gelu(x);
  return std::get<1>(activation)(x);
}

MultiheadAttention attention_of(std::int64_t d_model, std::int64_t nhead,
                                const TransformerLayerOptions& o) {
  return {d_model, nhead, {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first}};
}

LayerNormOptions norm_of(const TransformerLayerOptions& o) {
  return {.eps = o.layer_norm_eps, .bias = o.bias};
}

/// x + part(norm(x)), or norm(x + part(x)).
template <class Part>
Tensor residual(bool norm_first, const Tensor& x, LayerNorm& norm, Part&& part) {
  return norm_first ? x + part(norm(x)) : norm(x + part(x));
}

/// What encoder and decoder layers have in common.
template <class Layer>
Tensor feed_forward(Layer& layer, const TransformerActivation& activation, const Tensor& x) {
  return layer.linear2(layer.dropout(activate(activation, layer.linear1(x))));
}

template <class Layer>
void fill(ModuleList& layers, const Layer& layer, std::int64_t num_layers, const char* stack) {
  FERRITE_CHECK(num_layers >= 0, ValueError, stack, "num_layers: expected 0 or more, got {}",
                num_layers);
  for (std::int64_t i = 0; i < num_layers; ++i) layers.push_back(layer.clone());
}

TransformerLayerOptions layer_options(const TransformerOptions& o) {
  return {.dim_feedforward = o.dim_feedforward,
          .dropout = o.dropout,
          .activation = o.activation,
          .layer_norm_eps = o.layer_norm_eps,
          .batch_first = o.batch_first,
          .norm_first = o.norm_first,
          .bias = o.bias};
}

std::unique_ptr<Module> last_norm(const TransformerOptions& o) {
  return std::make_unique<LayerNorm>(o.d_model, norm_of(layer_options(o)));
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerLayerOptions& options)
    : self_attn(attention_of(d_model, nhead, options)),
      linear1(d_model, options.dim_feedforward, {.bias = options.bias}),
      dropout(options.dropout),
      linear2(options.dim_feedforward, d_model, {.bias = options.bias}),
      norm1(d_model, norm_of(options)),
      norm2(d_model, norm_of(options)),
      dropout1(options.dropout),
      dropout2(options.dropout),
      options_(checked(options, "TransformerEncoderLayer")) {
  register_module("self_attn", self_attn);
  register_module("linear1", linear1);
  register_module("dropout", dropout);
  register_module("linear2", linear2);
  register_module("norm1", norm1);
  register_module("norm2", norm2);
  register_module("dropout1", dropout1);
  register_module("dropout2", dropout2);
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const TransformerEncoderArguments& a) {
  const Tensor x = residual(options_->norm_first, src, norm1, [&](const Tensor& h) {
    return dropout1(self_attn(h, h, h,
                              {.key_padding_mask = a.src_key_padding_mask,
                               .need_weights = false,
                               .attn_mask = a.mask,
                               .is_causal = a.is_causal})
                        .output);
  });
  return residual(options_->norm_first, x, norm2, [&](const Tensor& h) {
    return dropout2(feed_forward(*this, options_->activation, h));
  });
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerLayerOptions& options)
    : self_attn(attention_of(d_model, nhead, options)),
      multihead_attn(attention_of(d_model, nhead, options)),
      linear1(d_model, options.dim_feedforward, {.bias = options.bias}),
      dropout(options.dropout),
      linear2(options.dim_feedforward, d_model, {.bias = options.bias}),
      norm1(d_model, norm_of(options)),
      norm2(d_model, norm_of(options)),
      norm3(d_model, norm_of(options)),
      dropout1(options.dropout),
      dropout2(options.dropout),
      dropout3(options.dropout),
      options_(checked(options, "TransformerDecoderLayer")) {
  register_module("self_attn", self_attn);
  register_module("multihead_attn", multihead_attn);
  register_module("linear1", linear1);
  register_module("dropout", dropout);
  register_module("linear2", linear2);
  register_module("norm1", norm1);
  register_module("norm2", norm2);
  register_module("norm3", norm3);
  register_module("dropout1", dropout1);
  register_module("dropout2", dropout2);
  register_module("dropout3", dropout3);
}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory,
                                        const TransformerDecoderArguments& a) {
  const Tensor own = residual(options_->norm_first, tgt, norm1, [&](const Tensor& h) {
    return dropout1(self_attn(h, h, h,
                              {.key_padding_mask = a.tgt_key_padding_mask,
                               .need_weights = false,
                               .attn_mask = a.tgt_mask,
                               .is_causal = a.tgt_is_causal})
                        .output);
  });
  const Tensor x = residual(options_->norm_first, own, norm2, [&](const Tensor& h) {
    return dropout2(multihead_attn(h, memory, memory,
                                   {.key_padding_mask = a.memory_key_padding_mask,
                                    .need_weights = false,
                                    .attn_mask = a.memory_mask,
                                    .is_causal = a.memory_is_causal})
                        .output);
  });
  return residual(options_->norm_first, x, norm3, [&](const Tensor& h) {
    return dropout3(feed_forward(*this, options_->activation, h));
  });
}

TransformerEncoder::TransformerEncoder() { register_module("layers", layers); }

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer,
                                       std::int64_t num_layers, std::unique_ptr<Module> norm)
    : has_norm_(norm != nullptr) {
  fill(layers, layer, num_layers, "TransformerEncoder");
  register_module("layers", layers);
  if (norm) register_module("norm", std::move(norm));
}

Tensor TransformerEncoder::forward(const Tensor& src, const TransformerEncoderArguments& a) {
  Tensor x = src;
  for (Module& layer : layers) x = layer.as<TransformerEncoderLayer>()(x, a);
  return has_norm_ ? get_submodule("norm")(x) : x;
}

TransformerDecoder::TransformerDecoder() { register_module("layers", layers); }

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer,
                                       std::int64_t num_layers, std::unique_ptr<Module> norm)
    : has_norm_(norm != nullptr) {
  fill(layers, layer, num_layers, "TransformerDecoder");
  register_module("layers", layers);
  if (norm) register_module("norm", std::move(norm));
}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory,
                                   const TransformerDecoderArguments& a) {
  Tensor x = tgt;
  for (Module& layer : layers) x = layer.as<TransformerDecoderLayer>()(x, memory, a);
  return has_norm_ ? get_submodule("norm")(x) : x;
}

Transformer::Transformer(const TransformerOptions& o)
    : encoder(o.custom_encoder ? TransformerEncoder()
                               : TransformerEncoder(
                                     TransformerEncoderLayer(o.d_model, o.nhead, layer_options(o)),
                                     o.num_encoder_layers, last_norm(o))),
      decoder(o.custom_decoder ? TransformerDecoder()
                               : TransformerDecoder(
                                     TransformerDecoderLayer(o.d_model, o.nhead, layer_options(o)),
                                     o.num_decoder_layers, last_norm(o))),
      custom_encoder_(o.custom_encoder),
      custom_decoder_(o.custom_decoder) {
  if (custom_encoder_)
    register_module("encoder", custom_encoder_.clone());
  else
    register_module("encoder", encoder);
  if (custom_decoder_)
    register_module("decoder", custom_decoder_.clone());
  else
    register_module("decoder", decoder);
  reset_parameters();
}

void Transformer::reset_parameters() {
  for (const Tensor& p : parameters())
    if (p.dim() > 1) init::xavier_uniform_(p);
}

Tensor Transformer::forward(const Tensor& src, const Tensor& tgt, const TransformerArguments& a) {
  const TransformerEncoderArguments of_encoder{.mask = a.src_mask,
                                               .src_key_padding_mask = a.src_key_padding_mask,
                                               .is_causal = a.src_is_causal};
  const TransformerDecoderArguments of_decoder{.tgt_mask = a.tgt_mask,
                                               .memory_mask = a.memory_mask,
                                               .tgt_key_padding_mask = a.tgt_key_padding_mask,
                                               .memory_key_padding_mask = a.memory_key_padding_mask,
                                               .tgt_is_causal = a.tgt_is_causal,
                                               .memory_is_causal = a.memory_is_causal};
  const Tensor memory = custom_encoder_
                            ? custom_encoder_.call(get_submodule("encoder"), src, of_encoder)
                            : encoder(src, of_encoder);
  return custom_decoder_ ? custom_decoder_.call(get_submodule("decoder"), tgt, memory, of_decoder)
                         : decoder(tgt, memory, of_decoder);
}

Tensor Transformer::generate_square_subsequent_mask(std::int64_t size,
                                                    const TensorOptions& options) {
  return triu(full({size, size}, -std::numeric_limits<double>::infinity(), options), 1);
}

}  // namespace ferrite::nn
