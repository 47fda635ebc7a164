// Products, convolutions, pooling, normalisation, resampling and losses.
#include "ferrite/ops/conv.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/resize.h"
#include "ferrite/tests/differential/ops.h"

namespace ferrite::differential {

namespace {

using In = const Tensors&;
using Args = const Json&;

void add_products(Table& t) {
  using Product = Tensor (*)(const Tensor&, const Tensor&);
  const auto add = [&](const char* name, Product f) {
    t[name] = [f](In in, Args) { return Tensors{f(in[0], in[1])}; };
  };
  add("matmul", matmul), add("mm", mm), add("bmm", bmm), add("mv", mv), add("dot", dot);
  add("outer", outer);
  t["addmm"] = [](In x, Args a) {
    return Tensors{addmm(x[0], x[1], x[2], to_scalar(a["beta"]), to_scalar(a["alpha"]))};
  };
  t["linear"] = [](In x, Args) { return Tensors{linear(x[0], x[1], optional_input(x, 2))}; };
}

void add_convolutions(Table& t) {
  t["conv2d"] = [](In x, Args a) {
    return Tensors{conv2d(x[0], x[1], optional_input(x, 2),
                          {.stride = to_pair(a, "stride"),
                           .padding = to_pair(a, "padding"),
                           .dilation = to_pair(a, "dilation"),
                           .groups = a["groups"]})};
  };
  t["conv1d"] = [](In x, Args a) {
    return Tensors{conv1d(x[0], x[1], optional_input(x, 2),
                          {.stride = a["stride"],
                           .padding = a["padding"].get<std::int64_t>(),
                           .dilation = a["dilation"],
                           .groups = a["groups"]})};
  };
  t["conv_transpose2d"] = [](In x, Args a) {
    return Tensors{conv_transpose2d(x[0], x[1], optional_input(x, 2),
                                    {.stride = to_pair(a, "stride"),
                                     .padding = to_pair(a, "padding"),
                                     .output_padding = to_pair(a, "output_padding"),
                                     .groups = a["groups"],
                                     .dilation = to_pair(a, "dilation")})};
  };
}

void add_pooling(Table& t) {
  t["max_pool2d"] = [](In x, Args a) {
    const auto [out, indices] = max_pool2d_with_indices(x[0], {.kernel_size = to_pair(a, "kernel"),
                                                               .stride = to_pair(a, "stride"),
                                                               .padding = to_pair(a, "padding"),
                                                               .dilation = to_pair(a, "dilation"),
                                                               .ceil_mode = a["ceil"]});
    return Tensors{out, indices};
  };
  t["avg_pool2d"] = [](In x, Args a) {
    return Tensors{avg_pool2d(x[0], {.kernel_size = to_pair(a, "kernel"),
                                     .stride = to_pair(a, "stride"),
                                     .padding = to_pair(a, "padding"),
                                     .ceil_mode = a["ceil"],
                                     .count_include_pad = a["include_pad"],
                                     .divisor_override = maybe<std::int64_t>(a, "divisor")})};
  };
  t["adaptive_avg_pool2d"] = [](In x, Args a) {
    return Tensors{adaptive_avg_pool2d(x[0], to_pair(a, "size"))};
  };
  t["adaptive_max_pool2d"] = [](In x, Args a) {
    const auto [out, indices] = adaptive_max_pool2d_with_indices(x[0], to_pair(a, "size"));
    return Tensors{out, indices};
  };
  t["interpolate"] = [](In x, Args a) {
    const std::string mode = a["mode"];
    InterpolateOptions o{.mode = mode,
                         .align_corners = maybe<bool>(a, "align_corners"),
                         .recompute_scale_factor = a["recompute"],
                         .antialias = a["antialias"]};
    const auto listed = [](const auto& v, auto list) -> decltype(list) {
      if (v.size() == 1) return decltype(list)(v[0]);
      if (v.size() == 2) return decltype(list)(v[0], v[1]);
      return decltype(list)(v[0], v[1], v[2]);
    };
    if (a["size"].is_null())
      o.scale_factor = listed(a["factor"].get<std::vector<double>>(), ScaleFactor(0));
    else
      o.size = listed(a["size"].get<std::vector<std::int64_t>>(), InterpolateSize(0));
    return Tensors{interpolate(x[0], o)};
  };
}

void add_norms(Table& t) {
  t["batch_norm"] = [](In x, Args a) {
    const Tensor mean = x[1].clone(), variance = x[2].clone();
    const Tensor out = batch_norm(x[0], mean, variance, optional_input(x, 3), optional_input(x, 4),
                                  a["training"], a["momentum"], a["eps"]);
    return Tensors{out, mean, variance};
  };
  t["layer_norm"] = [](In x, Args a) {
    return Tensors{layer_norm(x[0], to_shape(a["shape"]), optional_input(x, 1),
                              optional_input(x, 2), a["eps"])};
  };
  t["group_norm"] = [](In x, Args a) {
    return Tensors{
        group_norm(x[0], a["groups"], optional_input(x, 1), optional_input(x, 2), a["eps"])};
  };
}

void add_losses(Table& t) {
  t["mse_loss"] = [](In x, Args a) { return Tensors{mse_loss(x[0], x[1], to_reduction(a))}; };
  t["l1_loss"] = [](In x, Args a) { return Tensors{l1_loss(x[0], x[1], to_reduction(a))}; };
  t["smooth_l1_loss"] = [](In x, Args a) {
    return Tensors{smooth_l1_loss(x[0], x[1], {.reduction = to_reduction(a), .beta = a["beta"]})};
  };
  t["huber_loss"] = [](In x, Args a) {
    return Tensors{huber_loss(x[0], x[1], {.reduction = to_reduction(a), .delta = a["delta"]})};
  };
  t["bce_with_logits"] = [](In x, Args a) {
    return Tensors{binary_cross_entropy_with_logits(x[0], x[1], {.reduction = to_reduction(a)})};
  };
  t["bce"] = [](In x, Args a) {
    return Tensors{binary_cross_entropy(x[0], x[1], {.reduction = to_reduction(a)})};
  };
  t["kl_div"] = [](In x, Args a) {
    return Tensors{
        kl_div(x[0], x[1], {.reduction = to_reduction(a), .log_target = a["log_target"]})};
  };
  t["cross_entropy"] = [](In x, Args a) {
    return Tensors{cross_entropy(x[0], x[1],
                                 {.ignore_index = a["ignore_index"],
                                  .reduction = to_reduction(a),
                                  .label_smoothing = a["smoothing"]})};
  };
  t["nll_loss"] = [](In x, Args a) {
    return Tensors{
        nll_loss(x[0], x[1], {.ignore_index = a["ignore_index"], .reduction = to_reduction(a)})};
  };
}

}  // namespace

void add_layers(Table& t) {
  add_products(t);
  add_convolutions(t);
  add_pooling(t);
  add_norms(t);
  add_losses(t);
}

}  // namespace ferrite::differential
