// Ops of layers in one and three dimensions, norms made of others, losses of margins and sequences.
#include "ferrite/ops/conv.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/ctc_loss.h"
#include "ferrite/ops/embedding_bag.h"
#include "ferrite/ops/fractional_pool.h"
#include "ferrite/ops/margin_loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/resize.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/tests/ops/op_table.h"

namespace ferrite::test {

namespace {

using C = const Call&;
using T = const Tensor&;

Arg optional(const Shape& shape, Fill fill = Fill::positive) {
  return {.shape = shape, .fill = fill, .optional = true};
}

/// An index of `x`'s shape for its unpooling: 0, 1, 2... in each line, plane or volume.
Tensor places_in(T x, int dims) {
  if (!x.defined() || x.dim() < dims) return zeros({1}, kInt64);
  Shape inner;
  for (int d = x.dim() - dims; d < x.dim(); ++d) inner.push_back(x.size(d));
  return arange(inner.numel(), {.dtype = kInt64, .device = x.device()})
      .reshape(inner)
      .expand(x.shape());
}

/// The places of fractional pooling in `dims` dimensions.
Tensor samples_for(T x, int dims) {
  return full({2, 4, dims}, 0.3, x.defined() ? x.device() : Device());
}

void add_dimensions(std::vector<Op>& table) {
  const Adder add{table, Takes::floating};
  const Arg line{{2, 4, 7}}, image{{2, 4, 5, 6}}, volume{{2, 4, 3, 4, 5}};
  in_lower_precision(add("conv1d", {line, {{3, 4, 3}}},
                         [](C c) { return conv1d(c[0], c[1], {}, {.padding = Padding1d::same}); }));
  in_lower_precision(add("conv3d", {volume, {{4, 2, 2, 3, 2}}, optional({4})}, [](C c) {
    return conv3d(c[0], c[1], c[2], {.stride = {1, 2, 1}, .padding = {1, 0, 1}, .groups = 2});
  }));
  in_lower_precision(add("conv3d", {volume, {{3, 4, 2, 1, 3}}}, [](C c) {
    return conv3d(c[0], c[1], {}, {.padding = Padding3d::same, .dilation = {2, 1, 1}});
  }));
  in_lower_precision(add("conv_transpose1d", {line, {{4, 2, 3}}, optional({4})}, [](C c) {
    return conv_transpose1d(c[0], c[1], c[2],
                            {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2});
  }));
  in_lower_precision(add("conv_transpose3d", {volume, {{4, 2, 2, 1, 2}}, optional({4})}, [](C c) {
    return conv_transpose3d(
        c[0], c[1], c[2],
        {.stride = 2, .padding = {1, 0, 0}, .output_padding = {1, 0, 1}, .groups = 2});
  }));
  add("max_pool1d", {line}, [](T x) { return max_pool1d(x, 3, {.stride = 2, .padding = 1}); });
  add("max_pool1d", {line}, [](T x) { return max_pool1d_with_indices(x, {.kernel_size = 2}); });
  add("avg_pool1d", {line}, [](T x) { return avg_pool1d(x, 3); });
  add("adaptive_avg_pool1d", {line}, [](T x) { return adaptive_avg_pool1d(x, 3); });
  add("adaptive_max_pool1d", {line}, [](T x) { return adaptive_max_pool1d(x, 3); });
  add("adaptive_max_pool1d", {line}, [](T x) { return adaptive_max_pool1d_with_indices(x, 3); });
  add("max_pool3d", {volume}, [](T x) { return max_pool3d(x, {2, 3, 2}, {.stride = 1}); });
  add("max_pool3d", {volume},
      [](T x) { return max_pool3d_with_indices(x, {.kernel_size = 2, .padding = 1}); });
  add("avg_pool3d", {volume}, [](T x) {
    return avg_pool3d(x, 2, {.padding = 1, .ceil_mode = true, .count_include_pad = false});
  });
  add("adaptive_avg_pool3d", {volume}, [](T x) { return adaptive_avg_pool3d(x, {2, 3, 4}); });
  add("adaptive_max_pool3d", {volume}, [](T x) { return adaptive_max_pool3d(x, {2, 3, 4}); });
  add("adaptive_max_pool3d", {volume}, [](T x) { return adaptive_max_pool3d_with_indices(x, 2); });
  for (const char* const mode : {"nearest", "nearest-exact"}) {
    add("interpolate", Takes::pixels, {line}, [=](T x) { return interpolate(x, 11, mode); });
    add("interpolate", Takes::pixels, {volume}, [=](T x) {
      return interpolate(x, {5, 4, 3}, mode);
    });
  }
  add("interpolate", {line}, [](T x) { return interpolate(x, 11, "linear"); });
  add("interpolate", {volume}, [](T x) { return interpolate(x, {5, 4, 3}, "trilinear"); });
  const auto positive = [](const Arg& arg) { return Arg{arg.shape, Fill::positive}; };
  in_float32(add("lp_pool1d", {positive(line)}, [](T x) { return lp_pool1d(x, 2, 3); }));
  in_float32(add("lp_pool2d", {positive(image)}, [](T x) {
    return lp_pool2d(x, 3, {2, 3}, {.stride = 1});
  }));
  in_float32(add("lp_pool3d", {positive(volume)}, [](T x) { return lp_pool3d(x, 1.5, 2); }));
  add("fractional_max_pool2d", {image}, [](T x) {
    return fractional_max_pool2d_with_indices(
        x, {2, 3}, {.output_size = {3, 2}, .random_samples = samples_for(x, 2)});
  });
  add("fractional_max_pool3d", {volume}, [](T x) {
    return fractional_max_pool3d_with_indices(
        x, {2, 1, 2}, {.output_size = 2, .random_samples = samples_for(x, 3)});
  });
  add("max_unpool1d", Takes::any, {line}, [](T x) { return max_unpool1d(x, places_in(x, 1), 2); });
  add("max_unpool2d", Takes::any, {image}, [](T x) { return max_unpool2d(x, places_in(x, 2), 2); });
  add("max_unpool3d", Takes::any, {volume},
      [](T x) { return max_unpool3d(x, places_in(x, 3), 2); });
}

void add_norms(std::vector<Op>& table) {
  const Adder add{table, Takes::floating};
  const Arg image{{3, 4, 2, 3}};
  const Arg mean{.shape = {4}, .fill = Fill::constant};
  composed(add("instance_norm", {image, optional({4}), optional({4})},
               [](C c) { return instance_norm(c[0], {}, {}, c[1], c[2]); }));
  composed(add("instance_norm", {image, mean, mean}, [](C c) {
    return instance_norm(c[0], c[1], c[2], {}, {}, {.use_input_stats = false});
  }));
  composed(add("local_response_norm", {image}, [](T x) { return local_response_norm(x, 3); }));
}

void add_losses(std::vector<Op>& table) {
  const Adder add{table, Takes::floating};
  const Arg x{{3, 4}}, y{{3, 4}}, z{{3, 4}}, p{{3, 4}, Fill::positive};
  const auto none = Reduction::none, total = Reduction::sum;
  in_float32(add("poisson_nll_loss", {x, p},
                 [](T a, T b) { return poisson_nll_loss(a, b, {.full = true}); }));
  in_float32(add("poisson_nll_loss", {p, y}, [=](T a, T b) {
    return poisson_nll_loss(a, b, {.log_input = false, .reduction = total});
  }));
  in_float32(add("gaussian_nll_loss", {x, y, p},
                 [](C c) { return gaussian_nll_loss(c[0], c[1], c[2], {.full = true}); }));
  in_float32(
      add("hinge_embedding_loss", {x, y}, [](T a, T b) { return hinge_embedding_loss(a, b); }));
  in_float32(add("soft_margin_loss", {x, y}, [](T a, T b) { return soft_margin_loss(a, b); }));
  in_float32(add("margin_ranking_loss", {x, y, z},
                 [](C c) { return margin_ranking_loss(c[0], c[1], c[2], {.margin = 0.3}); }));
  in_float32(add("cosine_embedding_loss", {x, y, {{3}}}, [=](C c) {
    return cosine_embedding_loss(c[0], c[1], c[2], {.margin = 0.1, .reduction = none});
  }));
  in_float32(add("triplet_margin_loss", {x, y, z},
                 [](C c) { return triplet_margin_loss(c[0], c[1], c[2], {.swap = true}); }));
  in_float32(add("triplet_margin_with_distance_loss", {x, y, z},
                 [](C c) { return triplet_margin_with_distance_loss(c[0], c[1], c[2]); }));
  const Arg labels{{3}, Fill::index, 4};
  in_float32(add("multi_margin_loss", {x, labels, optional({4}, Fill::constant)},
                 [](C c) { return multi_margin_loss(c[0], c[1], {.p = 2, .weight = c[2]}); }));
  in_float32(add("multilabel_margin_loss", {x}, [](T a) {
    const TensorOptions index{.dtype = kInt64, .device = a.defined() ? a.device() : Device()};
    const Shape shape = a.defined() ? a.shape() : Shape{3, 4};
    return multilabel_margin_loss(a, full(shape, 1, index));
  }));
  in_float32(add("multilabel_soft_margin_loss", {x, p, optional({4}, Fill::constant)},
                 [](C c) { return multilabel_soft_margin_loss(c[0], c[1], {.weight = c[2]}); }));
  in_float32(add("ctc_loss", {{{5, 3, 4}}}, [](T a) {
    const TensorOptions index{.dtype = kInt64, .device = a.defined() ? a.device() : Device()};
    const std::int64_t count = a.defined() && a.dim() == 3 ? a.size(1) : 3;
    return ctc_loss(a, full({count, 2}, 1, index), full({count}, 4, index), full({count}, 2, index),
                    {.zero_infinity = true});
  }));
  promoted(add("bilinear", {{{3, 4}}, {{3, 2}}, {{5, 4, 2}}, optional({5})},
               [](C c) { return bilinear(c[0], c[1], c[2], c[3]); }));
  const Arg rows{{2, 3}, Fill::index, 6};
  composed(add("embedding_bag", {rows, {{6, 4}}}, [](T i, T w) { return embedding_bag(i, w); }));
  composed(add("embedding_bag", {rows, {{6, 4}}},
               [](T i, T w) { return embedding_bag(i, w, {}, {.mode = BagMode::max}); }));
}

}  // namespace

void add_layer_ops(std::vector<Op>& table) {
  add_dimensions(table);
  add_norms(table);
  add_losses(table);
}

}  // namespace ferrite::test
