#include "ferrite/ops/attention.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/resize.h"
#include "ferrite/ops/rotary.h"
#include "ferrite/ops/sampling.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/tests/ops/op_table.h"

namespace ferrite::test {

namespace {

using C = const Call&;
using T = const Tensor&;

/// The elements of a row of `x`; 1 where it has none.
std::int64_t row_size(T x) { return x.defined() && x.dim() > 0 ? x.size(-1) : 1; }

/// A weight that fits `x`.
Tensor ones_for(T x, const Shape& shape) {
  return x.defined() ? ones(shape, {.dtype = x.dtype(), .device = x.device()}) : x;
}

Arg optional(const Shape& shape, Fill fill = Fill::positive) {
  return {.shape = shape, .fill = fill, .optional = true};
}

void add_products(std::vector<Op>& table) {
  const Adder add{table, Takes::products};
  in_lower_precision(add("matmul", {{{3, 4}}, {{4, 2}}}, [](C c) { return matmul(c[0], c[1]); }));
  in_lower_precision(add("matmul", {{{2, 3, 4}}, {{4}}}, [](C c) { return c[0].matmul(c[1]); }));
  in_lower_precision(
      add("matmul", {{{2, 3, 4}}, {{2, 4, 2}}}, [](C c) { return matmul(c[0], c[1]); }));
  in_lower_precision(add("mm", {{{3, 4}}, {{4, 2}}}, [](C c) { return mm(c[0], c[1]); }));
  in_lower_precision(add("bmm", {{{2, 3, 4}}, {{2, 4, 2}}}, [](C c) { return bmm(c[0], c[1]); }));
  in_lower_precision(add("mv", {{{3, 4}}, {{4}}}, [](C c) { return mv(c[0], c[1]); }));
  promoted(add("dot", {{{4}}, {{4}}}, [](C c) { return dot(c[0], c[1]); }));
  in_lower_precision(
      add("addmm", {{{2}}, {{3, 4}}, {{4, 2}}}, [](C c) { return addmm(c[0], c[1], c[2], 2, 3); }));
  in_lower_precision(add("addmm_relu", {{{2}}, {{3, 4}}, {{4, 2}}},
                         [](C c) { return addmm_relu(c[0], c[1], c[2]); }));
  in_lower_precision(add("linear", {{{3, 4}}, {{2, 4}}, optional({2})}, [](C c) {
    return linear(c[0], c[1], c[2]);
  })).large = {{500, 9}, {7, 9}, {7}};
  in_lower_precision(add("linear_relu", {{{3, 4}}, {{2, 4}}, optional({2})},
                         [](C c) { return linear_relu(c[0], c[1], c[2]); }));
  in_lower_precision(add("linear_gelu", {{{3, 4}}, {{2, 4}}, optional({2})},
                         [](C c) { return linear_gelu(c[0], c[1], c[2]); }));
  in_lower_precision(add("linear_gelu", {{{2, 3, 4}}, {{2, 4}}, optional({2})}, [](C c) {
    return linear_gelu(c[0], c[1], c[2], GeluApproximation::tanh);
  }));
  add("outer", Takes::any, {{{4}}, {{3}}}, [](C c) { return outer(c[0], c[1]); });

  const Arg bias{.shape = {2}, .optional = true, .fixed = true};
  const Adder rows{table, Takes::products, {{{2, 3, 4}}, bias}, Shapes::rows};
  in_lower_precision(rows("matmul", {{{2, 3, 4}}}, [](T x) {
    return matmul(x, ones_for(x, {row_size(x), 2}));
  }));
  in_lower_precision(
      rows("matmul", {{{2, 3, 4}}}, [](T x) { return matmul(x, ones_for(x, {row_size(x)})); }));
  in_lower_precision(rows("linear", [](T x, T b) {
    return linear(x, ones_for(x, {2, row_size(x)}), b);
  }));
  in_lower_precision(rows("linear_relu", [](T x, T b) {
    return linear_relu(x, ones_for(x, {2, row_size(x)}), b);
  }));
  in_lower_precision(rows("linear_gelu", [](T x, T b) {
    return linear_gelu(x, ones_for(x, {2, row_size(x)}), b);
  }));
}

void add_convolutions(std::vector<Op>& table) {
  const Adder add{table, Takes::floating};
  const Arg image{{2, 4, 5, 6}};
  in_lower_precision(add("conv2d", {image, {{3, 4, 3, 3}}, optional({3})}, [](C c) {
    return conv2d(c[0], c[1], c[2], {.stride = 2, .padding = 1});
  })).large = {{6, 3, 32, 32}, {4, 3, 3, 3}, {4}};
  in_lower_precision(add("conv2d", {image, {{4, 1, 3, 3}}, optional({4})}, [](C c) {
    return conv2d(c[0], c[1], c[2], {.padding = Padding::same, .groups = 4});
  }));
  in_lower_precision(add("conv2d", {image, {{3, 4, 3, 3}}, optional({3})},
                         [](C c) { return conv2d(c[0], c[1], c[2], 2, 1); }));
  in_lower_precision(add("conv2d_relu", {image, {{3, 4, 3, 3}}, optional({3})}, [](C c) {
    return conv2d_relu(c[0], c[1], c[2], {.stride = 2, .padding = 1});
  }));
  in_lower_precision(add("conv2d_relu_max_pool", {image, {{3, 4, 3, 3}}, optional({3})}, [](C c) {
    return conv2d_relu_max_pool(c[0], c[1], c[2], {.padding = 1}, {.kernel_size = 2});
  }));
  in_lower_precision(add("conv1d", {{{2, 4, 6}}, {{3, 4, 3}}, optional({3})},
                         [](C c) { return conv1d(c[0], c[1], c[2]); }));
  in_lower_precision(add("conv_transpose2d", {image, {{4, 3, 2, 2}}, optional({3})},
                         [](C c) { return conv_transpose2d(c[0], c[1], c[2], {.stride = 2}); }));
  add("max_pool2d", {image}, [](C c) { return max_pool2d(c[0], 2); });
  add("avg_pool2d", {image}, [](C c) { return avg_pool2d(c[0], 3, 2, 1); });
  add("adaptive_avg_pool2d", {image}, [](C c) { return adaptive_avg_pool2d(c[0], 3); });
  add("adaptive_max_pool2d", {image}, [](C c) { return adaptive_max_pool2d(c[0], {2, 3}); });
  add("interpolate", Takes::pixels, {image},
      [](C c) { return interpolate(c[0], {.scale_factor = 2}); });
  add("interpolate", Takes::pixels, {image}, [](C c) {
    return interpolate(c[0], {.size = {9, 4}, .mode = InterpolateMode::bilinear});
  });
  add("max_pool2d", {image},
      [](T x) { return max_pool2d_with_indices(x, {.kernel_size = 3, .stride = 2}); });
  add("adaptive_max_pool2d", {image}, [](T x) { return adaptive_max_pool2d_with_indices(x, 2); });
}

/// Channels last, where it is an image.
Tensor last(const Tensor& t) {
  return t.defined() && t.dim() == 4 ? t.contiguous(kChannelsLast) : t;
}

void add_norms(std::vector<Op>& table) {
  const Adder add{table, Takes::floating};
  const Arg image{{3, 4, 2, 2}};
  const Arg statistic{.shape = {4}, .fill = Fill::constant},
      residual{.shape = image.shape, .optional = true};
  promoted(add("batch_norm", {image, statistic, statistic, optional({4}), optional({4})},
               [](C c) { return batch_norm(c[0], c[1], c[2], c[3], c[4], true); }));
  promoted(add("batch_norm", {image, statistic, statistic, optional({4}), optional({4})},
               [](C c) { return batch_norm(c[0], c[1], c[2], c[3], c[4]); }));
  for (const bool training : {true, false}) {
    promoted(add(
        "batch_norm_relu", {image, statistic, statistic, optional({4}), optional({4})}, [=](C c) {
          return batch_norm(c[0], c[1], c[2], c[3], c[4], {.training = training, .relu = true});
        }));
    promoted(add("batch_norm_relu_max_pool",
                 {image, statistic, statistic, optional({4}), optional({4})}, [=](C c) {
                   return batch_norm(last(c[0]), c[1], c[2], c[3], c[4],
                                     {.training = training,
                                      .relu = true,
                                      .max_pool = MaxPool2dOptions{.kernel_size = 2, .stride = 1}});
                 }));
    for (const bool relu : {true, false})
      promoted(add(relu ? "batch_norm_add_relu" : "batch_norm_add",
                   {image, statistic, statistic, optional({4}), optional({4}), residual}, [=](C c) {
                     return batch_norm(c[0], c[1], c[2], c[3], c[4],
                                       {.training = training, .residual = c[5], .relu = relu});
                   }));
  }
  for (const bool in_columns : {true, false})
    promoted(add("batch_norm_shortcut",
                 {image,
                  statistic,
                  statistic,
                  optional({4}),
                  optional({4}),
                  {.shape = image.shape},
                  statistic,
                  statistic,
                  optional({4}),
                  optional({4})},
                 [=](C c) {
                   const BatchNormShortcut shortcut{.input = c[5],
                                                    .running_mean = c[6],
                                                    .running_var = c[7],
                                                    .weight = c[8],
                                                    .bias = c[9]};
                   return batch_norm(in_columns ? last(c[0]) : c[0], c[1], c[2], c[3], c[4],
                                     {.training = true, .shortcut = shortcut, .relu = true});
                 }));
  in_lower_precision(add("conv2d_statistics", {image, {{3, 4, 1, 1}}, optional({3})}, [](C c) {
    const auto [y, statistics] = conv2d_statistics(c[0], c[1], c[2]);
    const Tensor out = batch_norm(y, {}, {}, {}, {}, {.training = true, .statistics = statistics});
    return std::vector<Tensor>{y, out};
  }));
  in_float32(add("layer_norm", {{{3, 4}}, optional({4}), optional({4})}, [](C c) {
    return layer_norm(c[0], {4}, c[1], c[2]);
  })).large = {{2000, 4}, {4}, {4}};
  in_float32(add("rms_norm", {{{3, 4}}, optional({4})}, [](C c) {
    return rms_norm(c[0], {4}, c[1], 1e-3);
  })).large = {{2000, 4}, {4}};
  in_float32(add("group_norm", {image, optional({4}), optional({4})},
                 [](C c) { return group_norm(c[0], 2, c[1], c[2]); }));

  const Adder rows{table, Takes::floating, {{{2, 3, 4}}}, Shapes::rows, 1};
  in_float32(rows("softmax", [](T x, int d) { return softmax(x, d); })).large = {{1, 3000, 5}};
  in_float32(rows("log_softmax", [](T x, int d) { return log_softmax(x, d); }));
  in_float32(Adder{table, Takes::floating, {{{2, 3, 4}}}, Shapes::rows}(
      "layer_norm", [](T x) { return layer_norm(x, {row_size(x)}); }));
  in_float32(Adder{table, Takes::floating, {{{2, 3, 4}}}, Shapes::rows}("rms_norm", [](T x) {
    return rms_norm(x, {row_size(x)});
  })).terms = 1;
}

void add_losses(std::vector<Op>& table) {
  const Adder add{table, Takes::floating};
  const Arg x{{3, 4}}, y{{3, 4}}, p{{3, 4}, Fill::positive};
  const Arg labels{{3}, Fill::index, 4};
  const Arg classes = optional({4}, Fill::constant);
  in_float32(add("cross_entropy", {x, labels, classes}, [](C c) {
    return cross_entropy(c[0], c[1], {.weight = c[2], .label_smoothing = 0.1});
  })).large = {{3000, 4}, {3000}, {4}};
  in_float32(add("cross_entropy", {x, p, classes}, [](C c) {
    return cross_entropy(c[0], c[1], {.weight = c[2], .reduction = Reduction::none});
  }));
  in_float32(add("nll_loss", {x, labels, classes},
                 [](C c) { return nll_loss(c[0], c[1], {.weight = c[2]}); }));
  const Adder pairs{table, Takes::floating, {x, y}, Shapes::any};
  in_float32(pairs("mse_loss", [](T a, T b) { return mse_loss(a, b); }));
  in_float32(pairs("l1_loss", [](T a, T b) { return l1_loss(a, b); }));
  in_float32(pairs("l1_loss", [](T a, T b) { return l1_loss(a, b, Reduction::sum); }));
  in_float32(pairs("smooth_l1_loss", [](T a, T b) { return smooth_l1_loss(a, b); }));
  in_float32(pairs("huber_loss", [](T a, T b) { return huber_loss(a, b); }));
  in_float32(pairs("huber_loss", [](T a, T b) { return huber_loss(a, b, {.delta = 0.5}); }));
  in_float32(
      pairs("binary_cross_entropy_with_logits", {x, p, optional({4}), optional({4})}, [](C c) {
        return binary_cross_entropy_with_logits(c[0], c[1], {.weight = c[2], .pos_weight = c[3]});
      }));
  in_float32(add("binary_cross_entropy", {p, p, optional({4})},
                 [](C c) { return binary_cross_entropy(c[0], c[1], {.weight = c[2]}); }));
  in_float32(pairs("kl_div", {x, p}, [](C c) { return kl_div(c[0], c[1]); }));
}

void add_attention(std::vector<Op>& table) {
  const Adder add{table, Takes::floating};
  const Arg query{{2, 3, 4}}, key{{2, 5, 4}}, value{{2, 5, 3}};
  const char* const name = "scaled_dot_product_attention";
  composed(add(name, {query, key, value}, [](C c) {
    return scaled_dot_product_attention(c[0], c[1], c[2], {.is_causal = true});
  }));
  composed(add(name, {query, key, value, optional({3, 5}, Fill::constant)}, [](C c) {
    return scaled_dot_product_attention(c[0], c[1], c[2], {.attn_mask = c[3], .scale = 0.7});
  }));
  composed(add(name, {query, {{1, 5, 4}}, {{5, 3}}, optional({2, 3, 5}, Fill::mask)}, [](C c) {
    return scaled_dot_product_attention(c[0], c[1], c[2], {.attn_mask = c[3], .dropout_p = 0.2});
  }));
  composed(add(name, {{{2, 4, 3, 4}}, {{2, 2, 5, 4}}, {{2, 2, 5, 3}}}, [](C c) {
    return scaled_dot_product_attention(c[0], c[1], c[2], {.enable_gqa = true});
  }));
  add("rotary_embedding", {{{2, 3, 4}}}, [](T x) { return rotary_embedding(x, {.offset = 2}); });
  add("rotary_embedding", {{{2, 3, 4}}},
      [](T x) { return rotary_embedding(x, {.interleaved = true}); });
  add("filter_logits", {{{3, 5}}},
      [](T x) { return filter_logits(x, {.temperature = 0.5, .top_k = 3}); });
  random_results(
      add("sample_logits", {{{3, 5}}}, [](T x) { return sample_logits(x, {.top_p = 0.9}); }));
  random_results(
      composed(add("gumbel_softmax", {{{3, 5}}}, [](T x) { return gumbel_softmax(x, 0.7); })));
}

}  // namespace

void add_nn_ops(std::vector<Op>& table) {
  add_products(table);
  add_convolutions(table);
  add_norms(table);
  add_losses(table);
  add_attention(table);
}

}  // namespace ferrite::test
