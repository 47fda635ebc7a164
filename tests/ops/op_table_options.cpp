// What options make of ops: the other tables have most of them at their defaults.
#include "ferrite/ops/activation.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/resize.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/ops/op_table.h"

namespace ferrite::test {

namespace {

using C = const Call&;
using T = const Tensor&;

/// Parameters and statistics: float32 beside 16-bit inputs.
Arg wide(const Shape& shape, Fill fill) {
  return {.shape = shape, .fill = fill, .optional = true, .wide = true};
}

void add_windows(std::vector<Op>& table) {
  const Adder add{table, Takes::floating};
  const Arg image{{2, 4, 5, 6}};
  in_lower_precision(add("conv2d", {image, {{2, 4, 2, 3}}}, [](C c) {
    return conv2d(c[0], c[1], {}, {.stride = {1, 2}, .padding = {2, 1}, .dilation = 2});
  }));
  in_lower_precision(
      add("conv1d", {{{2, 4, 7}}, {{6, 2, 3}}, {.shape = {6}, .optional = true}},
          [](C c) { return conv1d(c[0], c[1], c[2], {.stride = 2, .padding = 1, .groups = 2}); }));
  in_lower_precision(
      add("conv_transpose2d", {image, {{4, 2, 3, 2}}, {.shape = {4}, .optional = true}}, [](C c) {
        return conv_transpose2d(c[0], c[1], c[2],
                                {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2});
      }));
  in_lower_precision(add("conv_transpose2d", {image, {{4, 3, 2, 2}}},
                         [](C c) { return conv_transpose2d(c[0], c[1], {}, 1, 0, 0, 1, 2); }));
  add("max_pool2d", {image}, [](T x) { return max_pool2d(x, 3, 2, 1, 1, true); }).large = {
      {4, 3, 40, 40}};
  add("max_pool2d", {image},
      [](C c) { return max_pool2d(c[0], {.kernel_size = 2, .stride = 1, .dilation = 2}); });
  add("avg_pool2d", {image}, [](C c) {
    return avg_pool2d(c[0], {.kernel_size = 3,
                             .stride = 2,
                             .padding = 1,
                             .ceil_mode = true,
                             .count_include_pad = false});
  });
  add("avg_pool2d", {image}, [](C c) {
    return avg_pool2d(c[0], {.kernel_size = {2, 3}, .divisor_override = 5});
  });
  add("adaptive_avg_pool2d", {image}, [](C c) { return adaptive_avg_pool2d(c[0], 1); });
  add("interpolate", Takes::pixels, {image}, [](C c) {
    return interpolate(c[0], {.size = {3, 11}});
  });
  for (const bool corners : {false, true})
    add("interpolate", Takes::pixels, {image}, [=](C c) {
      return interpolate(c[0], {.scale_factor = {1.7, 0.6},
                                .mode = InterpolateMode::bilinear,
                                .align_corners = corners});
    });
  add("interpolate", Takes::pixels, {image}, [](C c) {
    return interpolate(c[0], {.size = {8, 4}, .mode = "nearest-exact"});
  });
  add("interpolate", Takes::pixels, {image}, [](C c) {
    return interpolate(c[0], {.scale_factor = {1.7, 0.6}, .mode = "bicubic"});
  }).large = {{3, 40, 20, 30}};
  for (const char* const mode : {"bilinear", "bicubic"})
    add("interpolate", Takes::pixels, {image}, [=](C c) {
      return interpolate(c[0], {.size = {3, 11}, .mode = mode, .antialias = true});
    });
}

void add_norms(std::vector<Op>& table) {
  const Adder add{table, Takes::floating};
  const Arg image{{3, 4, 2, 2}}, sequence{{3, 4, 5}}, rows{{5, 4}};
  const Arg mean = wide({4}, Fill::constant), scale = wide({4}, Fill::positive);
  for (const bool training : {true, false})
    for (const Arg& input : {image, sequence, rows}) {
      // Without statistics there is only training.
      std::vector<Arg> args{input, mean, mean, scale, scale};
      args[1].optional = args[2].optional = false;
      promoted(add("batch_norm", args, [=](C c) {
        return batch_norm(c[0], c[1], c[2], c[3], c[4], training, 0.3, 1e-3);
      }));
    }
  promoted(add("batch_norm", {image, scale, scale}, [](C c) {
    return batch_norm(c[0], {}, {}, c[1], c[2], true);
  })).large = {{8, 4, 20, 20}, {4}, {4}};
  in_float32(add("layer_norm",
                 {sequence, wide({4, 5}, Fill::positive), wide({4, 5}, Fill::positive)}, [](C c) {
                   return layer_norm(c[0], {4, 5}, c[1], c[2], 1e-3);
                 }));
  in_float32(add("group_norm", {image, scale, scale},
                 [](C c) { return group_norm(c[0], 4, c[1], c[2]); }));
  in_float32(add("log_softmax", {image}, [](T x) { return log_softmax(x, 1); }));
  const Adder converts{table, Takes::any};
  in_float32(converts("softmax", {{{3, 4}}}, [](C c) { return softmax(c[0], 0, kFloat64); }));
  in_float32(
      converts("log_softmax", {{{3, 4}}}, [](C c) { return log_softmax(c[0], -1, kFloat64); }));
}

void add_losses(std::vector<Op>& table) {
  const Adder add{table, Takes::floating};
  const Arg x{{3, 4}}, y{{3, 4}}, p{{3, 4}, Fill::positive};
  const Arg labels{{3}, Fill::index, 4}, pixels{{2, 4, 3, 5}};
  const Arg classes{.shape = {4}, .fill = Fill::constant, .optional = true};
  const auto none = Reduction::none, total = Reduction::sum;
  in_float32(add("cross_entropy", {pixels, {{2, 3, 5}, Fill::index, 4}},
                 [=](C c) { return cross_entropy(c[0], c[1], {.reduction = none}); }));
  in_float32(add("cross_entropy", {x, p}, [=](C c) {
    return cross_entropy(c[0], c[1], {.reduction = total, .label_smoothing = 0.2});
  }));
  in_float32(add("nll_loss", {x, labels, classes},
                 [=](C c) { return nll_loss(c[0], c[1], {.weight = c[2], .reduction = none}); }));
  in_float32(add("mse_loss", {x, y}, [=](C c) { return mse_loss(c[0], c[1], none); }));
  in_float32(add("l1_loss", {x, y}, [=](C c) { return l1_loss(c[0], c[1], none); }));
  in_float32(add("smooth_l1_loss", {x, y}, [=](C c) {
    return smooth_l1_loss(c[0], c[1], {.reduction = total, .beta = 0.5});
  }));
  in_float32(
      add("huber_loss", {x, y}, [=](C c) { return huber_loss(c[0], c[1], {.reduction = none}); }));
  in_float32(add("binary_cross_entropy_with_logits", {x, p}, [=](C c) {
    return binary_cross_entropy_with_logits(c[0], c[1], {.reduction = none});
  }));
  in_float32(add("binary_cross_entropy", {p, p},
                 [=](C c) { return binary_cross_entropy(c[0], c[1], {.reduction = total}); }));
  in_float32(add("kl_div", {x, y},
                 [=](C c) { return kl_div(c[0], c[1], {.reduction = none, .log_target = true}); }));
}

void add_sums(std::vector<Op>& table) {
  const Adder add{table, Takes::any}, floats{table, Takes::floating};
  const Arg x{{2, 3, 4}, Fill::positive};
  in_float32(add("sum", {x}, [](C c) { return sum(c[0], {1}, false, kFloat32); }));
  add("mean", {x}, [](C c) { return mean(c[0], kFloat64); });
  in_float32(add("cumsum", {x}, [](C c) { return cumsum(c[0], 0, kFloat64); }));
  add("amax", {x}, [](C c) { return amax(c[0]); });
  add("amin", {x}, [](C c) { return amin(c[0], {0, 2}); });
  add("count_nonzero", {x}, [](C c) { return count_nonzero(c[0], {0}); });
  add("topk", {x}, [](C c) { return topk(c[0], 1, 1, false).values; });
  add("sort", {x}, [](C c) { return sort(c[0]).values; });
  floats("var", {x}, [](C c) { return var(c[0], {0, 2}, 0, true); });
  floats("std", {x}, [](C c) { return ferrite::std(c[0], {-1}); });
  in_float32(floats("norm", {x}, [](C c) { return norm(c[0], 1, {0, 2}, true); }));
  in_float32(floats("norm", {x}, [](C c) { return norm(c[0], "fro", {0, 2}); }));
  in_float32(floats("renorm", {x}, [](C c) { return renorm(c[0], 2, 1, 0.5); }));
}

void add_rest(std::vector<Op>& table) {
  const Adder add{table, Takes::any}, floats{table, Takes::floating};
  const Arg x{{3, 5}}, image{{2, 3, 4, 2}};
  random_results(floats("dropout", {x}, [](C c) { return dropout(c[0], 0.4, false); }));
  random_results(floats("dropout", {x}, [](C c) { return dropout(c[0], 1); }));
  random_results(floats("dropout", {image}, [](C c) { return dropout(c[0], 0.2); }));
  random_results(floats("dropout2d", {image}, [](C c) { return dropout2d(c[0]); }));
  random_results(floats("dropout1d", {{{2, 3, 4}}}, [](C c) { return dropout1d(c[0], 0.4); }));
  random_results(floats("dropout1d", {x}, [](C c) { return dropout1d(c[0], 0.4); }));
  random_results(floats("feature_dropout", {{{2, 3, 2, 1, 2}}},
                        [](C c) { return feature_dropout(c[0], 0.4); }));
  random_results(floats("uniform_", {x}, [](C c) { return uniform_(c[0], -1, 3); }));
  random_results(floats("normal_", {x}, [](C c) { return normal_(c[0], 1, 0.5); }));
  in_float32(add("softplus", {x}, [](C c) { return softplus(c[0], 2, 1); }));
  add("elu", {x}, [](C c) { return elu(c[0], 0.5); });
  random_results(add("bernoulli_", {x}, [](C c) { return bernoulli_(c[0], 0.2); }));
  add("pad", {image}, [](C c) { return pad(c[0], {1, 0, 0, 2, 1, 1}, PadMode::constant, 3); });
  add("movedim", {image}, [](C c) { return movedim(c[0], {0, 1}, {2, 0}); });
  add("diagonal", {image}, [](C c) { return diagonal(c[0], -1, 1, 2); });
  add("embedding", {{{2, 3}, Fill::index, 4}, {{4, 5}}}, [](C c) {
    return embedding(c[0], c[1]);
  }).large = {{3000, 1}, {4, 4}};
  in_lower_precision(Adder{table, Takes::products}("addmm", {{{3, 2}}, {{3, 4}}, {{4, 2}}},
                                                   [](C c) { return addmm(c[0], c[1], c[2]); }));
  in_lower_precision(Adder{table, Takes::products}("linear", {{{2, 3, 4}}, {{5, 4}}},
                                                   [](C c) { return linear(c[0], c[1]); }));
}

/// Numbers from nothing, of every dtype.
void add_creation(std::vector<Op>& table) {
  const Adder none{table};
  for (const DType dtype : {kFloat64, kFloat16, kBFloat16})
    none("none", [dtype](C c) {
      const TensorOptions f{.dtype = dtype, .device = c.device};
      return std::vector<Tensor>{
          zeros({2, 3, 2, 2}, {.dtype = dtype, .device = c.device, .memory_format = kChannelsLast}),
          arange(0, 2, 0.25, f),
          linspace(-1, 1, 5, f),
          eye(3, f),
          rand({7}, f),
          randn({7}, f),
          normal(1, 2, {5}, f)};
    });
  for (const DType dtype : {kInt32, kUInt8})
    none("none", [dtype](C c) {
      const TensorOptions i{.dtype = dtype, .device = c.device};
      return std::vector<Tensor>{full({2}, 3, i), arange(9, i), eye(2, 3, i), randint(100, {9}, i),
                                 randperm(9, i)};
    });
}

}  // namespace

void add_options(std::vector<Op>& table) {
  add_windows(table);
  add_norms(table);
  add_losses(table);
  add_sums(table);
  add_rest(table);
  add_creation(table);
}

}  // namespace ferrite::test
