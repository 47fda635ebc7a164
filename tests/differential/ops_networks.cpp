// Recurrent layers, attention, transformers and losses by PyTorch's names.
#include "ferrite/tests/differential/ops_modules.h"

namespace ferrite::differential {

template <>
FERRITE_OPTIONS(nn::RNNOptions, num_layers, nonlinearity, bias, batch_first, dropout, bidirectional,
                proj_size);
template <>
FERRITE_OPTIONS(nn::RNNCellOptions, bias, nonlinearity);
template <>
FERRITE_OPTIONS(nn::MultiheadAttentionOptions, dropout, bias, add_bias_kv, add_zero_attn, kdim,
                vdim, batch_first);
template <>
FERRITE_OPTIONS(nn::TransformerLayerOptions, dim_feedforward, dropout, activation, layer_norm_eps,
                batch_first, norm_first, bias);
template <>
FERRITE_OPTIONS(nn::TransformerOptions, d_model, nhead, num_encoder_layers, num_decoder_layers,
                dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
                bias);
template <>
FERRITE_OPTIONS(nn::AdaptiveLogSoftmaxWithLossOptions, div_value, head_bias);
template <>
FERRITE_OPTIONS(CrossEntropyOptions, weight, ignore_index, reduction, label_smoothing);
template <>
FERRITE_OPTIONS(NllLossOptions, weight, ignore_index, reduction);
template <>
FERRITE_OPTIONS(SmoothL1LossOptions, reduction, beta);
template <>
FERRITE_OPTIONS(HuberLossOptions, reduction, delta);
template <>
FERRITE_OPTIONS(BceWithLogitsOptions, weight, reduction, pos_weight);
template <>
FERRITE_OPTIONS(BceOptions, weight, reduction);
template <>
FERRITE_OPTIONS(KlDivOptions, reduction, log_target);
template <>
FERRITE_OPTIONS(PoissonNllLossOptions, log_input, full, eps, reduction);
template <>
FERRITE_OPTIONS(GaussianNllLossOptions, full, eps, reduction);
template <>
FERRITE_OPTIONS(HingeEmbeddingLossOptions, margin, reduction);
template <>
FERRITE_OPTIONS(MarginRankingLossOptions, margin, reduction);
template <>
FERRITE_OPTIONS(CosineEmbeddingLossOptions, margin, reduction);
template <>
FERRITE_OPTIONS(TripletMarginLossOptions, margin, p, eps, swap, reduction);
template <>
FERRITE_OPTIONS(TripletMarginWithDistanceLossOptions, margin, swap, reduction);
template <>
FERRITE_OPTIONS(MultiMarginLossOptions, p, margin, weight, reduction);
template <>
FERRITE_OPTIONS(MultilabelSoftMarginLossOptions, weight, reduction);
template <>
FERRITE_OPTIONS(CtcLossOptions, blank, reduction, zero_infinity);

namespace {

std::int64_t whole(Json& a, const char* name) { return take<std::int64_t>(a, name); }

/// A call of the module with its own state and these further arguments.
template <class M, class... Inputs>
Tensors called(M& m, const StateDict& state, const Inputs&... inputs) {
  Tensors out;
  append(out, nn::functional_call(m, state, inputs...));
  return out;
}

constexpr auto kLSTM = [](auto& m, const StateDict& state, const Tensors& x, const Json&) {
  return called(m, state, x[0], nn::LSTMState{optional_input(x, 1), optional_input(x, 2)});
};

template <class M>
M recurrent(Json& a) {
  return M(whole(a, "input_size"), whole(a, "hidden_size"), options<nn::RNNOptions>(a));
}

void add_recurrent(Table& t) {
  FERRITE_MODULE(t, RNN, whole(a, "input_size"), whole(a, "hidden_size"),
                 options<nn::RNNOptions>(a));
  t["nn.GRU"] = module_op<nn::GRU>(recurrent<nn::GRU>);
  t["nn.LSTM"] = module_op<nn::LSTM>(recurrent<nn::LSTM>, kLSTM);
  FERRITE_MODULE(t, RNNCell, whole(a, "input_size"), whole(a, "hidden_size"),
                 options<nn::RNNCellOptions>(a));
  FERRITE_MODULE(t, GRUCell, whole(a, "input_size"), whole(a, "hidden_size"),
                 options<nn::RNNCellOptions>(a));
  t["nn.LSTMCell"] = module_op<nn::LSTMCell>(
      [](Json& a) {
        return nn::LSTMCell(whole(a, "input_size"), whole(a, "hidden_size"),
                            options<nn::RNNCellOptions>(a));
      },
      kLSTM);
}

constexpr auto kAttention = [](auto& m, const StateDict& state, const Tensors& x, const Json& a,
                               const Tensors& in) {
  const Json& call = a["call"];
  return called(
      m, state, x[0], x[1], x[2],
      nn::AttentionArguments{.key_padding_mask = named_input(in, a, "key_padding_mask"),
                             .need_weights = call.value("need_weights", true),
                             .attn_mask = named_input(in, a, "attn_mask"),
                             .average_attn_weights = call.value("average_attn_weights", true),
                             .is_causal = call.value("is_causal", false)});
};

constexpr auto kEncoder = [](auto& m, const StateDict& state, const Tensors& x, const Json& a,
                             const Tensors& in) {
  Tensor mask = named_input(in, a, "mask");
  if (!mask.defined()) mask = named_input(in, a, "src_mask");  // of a single layer
  return called(m, state, x[0],
                nn::TransformerEncoderArguments{
                    .mask = mask,
                    .src_key_padding_mask = named_input(in, a, "src_key_padding_mask"),
                    .is_causal = a["call"].value("is_causal", false)});
};

constexpr auto kDecoder = [](auto& m, const StateDict& state, const Tensors& x, const Json& a,
                             const Tensors& in) {
  return called(m, state, x[0], x[1],
                nn::TransformerDecoderArguments{
                    .tgt_mask = named_input(in, a, "tgt_mask"),
                    .memory_mask = named_input(in, a, "memory_mask"),
                    .tgt_key_padding_mask = named_input(in, a, "tgt_key_padding_mask"),
                    .memory_key_padding_mask = named_input(in, a, "memory_key_padding_mask"),
                    .tgt_is_causal = a["call"].value("tgt_is_causal", false),
                    .memory_is_causal = a["call"].value("memory_is_causal", false)});
};

constexpr auto kTransformer = [](auto& m, const StateDict& state, const Tensors& x, const Json& a,
                                 const Tensors& in) {
  return called(m, state, x[0], x[1],
                nn::TransformerArguments{
                    .src_mask = named_input(in, a, "src_mask"),
                    .tgt_mask = named_input(in, a, "tgt_mask"),
                    .memory_mask = named_input(in, a, "memory_mask"),
                    .src_key_padding_mask = named_input(in, a, "src_key_padding_mask"),
                    .tgt_key_padding_mask = named_input(in, a, "tgt_key_padding_mask"),
                    .memory_key_padding_mask = named_input(in, a, "memory_key_padding_mask"),
                    .src_is_causal = a["call"].value("src_is_causal", false),
                    .tgt_is_causal = a["call"].value("tgt_is_causal", false),
                    .memory_is_causal = a["call"].value("memory_is_causal", false)});
};

template <class Layer>
Layer transformer_layer(Json& a) {
  return Layer(whole(a, "d_model"), whole(a, "nhead"), options<nn::TransformerLayerOptions>(a));
}
/// Of layers, with a norm behind them if asked for.
template <class Stack, class Layer>
Stack transformer_stack(Json& a) {
  const std::int64_t width = a["d_model"], layers = whole(a, "num_layers");
  const bool norm = take<bool>(a, "norm");
  return Stack(transformer_layer<Layer>(a), layers,
               norm ? std::make_unique<nn::LayerNorm>(width) : nullptr);
}

void add_attention(Table& t) {
  t["nn.MultiheadAttention"] = module_op<nn::MultiheadAttention>(
      [](Json& a) {
        return nn::MultiheadAttention(whole(a, "embed_dim"), whole(a, "num_heads"),
                                      options<nn::MultiheadAttentionOptions>(a));
      },
      kAttention);
  using EncoderLayer = nn::TransformerEncoderLayer;
  using DecoderLayer = nn::TransformerDecoderLayer;
  t["nn.TransformerEncoderLayer"] =
      module_op<EncoderLayer>(transformer_layer<EncoderLayer>, kEncoder);
  t["nn.TransformerDecoderLayer"] =
      module_op<DecoderLayer>(transformer_layer<DecoderLayer>, kDecoder);
  t["nn.TransformerEncoder"] = module_op<nn::TransformerEncoder>(
      transformer_stack<nn::TransformerEncoder, EncoderLayer>, kEncoder);
  t["nn.TransformerDecoder"] = module_op<nn::TransformerDecoder>(
      transformer_stack<nn::TransformerDecoder, DecoderLayer>, kDecoder);
  t["nn.Transformer"] = module_op<nn::Transformer>(
      [](Json& a) { return nn::Transformer(options<nn::TransformerOptions>(a)); }, kTransformer);
  FERRITE_MODULE(t, AdaptiveLogSoftmaxWithLoss, whole(a, "in_features"), whole(a, "n_classes"),
                 take<std::vector<std::int64_t>>(a, "cutoffs"),
                 options<nn::AdaptiveLogSoftmaxWithLossOptions>(a));
}

void add_loss_modules(Table& t) {
  FERRITE_MODULE(t, MSELoss, take(a, "reduction", Choice(Reduction::mean)));
  FERRITE_MODULE(t, L1Loss, take(a, "reduction", Choice(Reduction::mean)));
  FERRITE_MODULE(t, SoftMarginLoss, take(a, "reduction", Choice(Reduction::mean)));
  FERRITE_MODULE(t, MultiLabelMarginLoss, take(a, "reduction", Choice(Reduction::mean)));
  FERRITE_MODULE(t, CrossEntropyLoss, options<CrossEntropyOptions>(a));
  FERRITE_MODULE(t, NLLLoss, options<NllLossOptions>(a));
  FERRITE_MODULE(t, BCEWithLogitsLoss, options<BceWithLogitsOptions>(a));
  FERRITE_MODULE(t, BCELoss, options<BceOptions>(a));
  FERRITE_MODULE(t, SmoothL1Loss, options<SmoothL1LossOptions>(a));
  FERRITE_MODULE(t, HuberLoss, options<HuberLossOptions>(a));
  FERRITE_MODULE(t, KLDivLoss, options<KlDivOptions>(a));
  FERRITE_MODULE(t, PoissonNLLLoss, options<PoissonNllLossOptions>(a));
  FERRITE_MODULE(t, HingeEmbeddingLoss, options<HingeEmbeddingLossOptions>(a));
  FERRITE_MODULE(t, MultiMarginLoss, options<MultiMarginLossOptions>(a));
  FERRITE_MODULE(t, MultiLabelSoftMarginLoss, options<MultilabelSoftMarginLossOptions>(a));
  FERRITE_MODULE(t, GaussianNLLLoss, options<GaussianNllLossOptions>(a));
  FERRITE_MODULE(t, MarginRankingLoss, options<MarginRankingLossOptions>(a));
  FERRITE_MODULE(t, CosineEmbeddingLoss, options<CosineEmbeddingLossOptions>(a));
  FERRITE_MODULE(t, TripletMarginLoss, options<TripletMarginLossOptions>(a));
  FERRITE_MODULE(t, TripletMarginWithDistanceLoss,
                 options<TripletMarginWithDistanceLossOptions>(a));
  FERRITE_MODULE(t, CTCLoss, options<CtcLossOptions>(a));
}

}  // namespace

void add_networks(Table& t) {
  add_recurrent(t);
  add_attention(t);
  add_loss_modules(t);
}

}  // namespace ferrite::differential
