// Losses of margins, counts, distributions and sequences.
#include "ferrite/ops/ctc_loss.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/margin_loss.h"
#include "ferrite/tests/differential/ops.h"

namespace ferrite::differential {

namespace {

using In = const Tensors&;
using Args = const Json&;

void add_weighted(Table& t) {
  t["cross_entropy_weight"] = [](In x, Args a) {
    return Tensors{cross_entropy(x[0], x[1],
                                 {.weight = optional_input(x, 2),
                                  .ignore_index = a["ignore_index"],
                                  .reduction = to_reduction(a),
                                  .label_smoothing = a["smoothing"]})};
  };
  t["nll_loss_weight"] = [](In x, Args a) {
    return Tensors{nll_loss(x[0], x[1],
                            {.weight = optional_input(x, 2),
                             .ignore_index = a["ignore_index"],
                             .reduction = to_reduction(a)})};
  };
  t["bce_weight"] = [](In x, Args a) {
    return Tensors{
        binary_cross_entropy(x[0], x[1], {.weight = x[2], .reduction = to_reduction(a)})};
  };
  t["bce_with_logits_weight"] = [](In x, Args a) {
    return Tensors{binary_cross_entropy_with_logits(
        x[0], x[1], {.weight = x[2], .reduction = to_reduction(a), .pos_weight = x[3]})};
  };
}

}  // namespace

void add_margins(Table& t) {
  add_weighted(t);
  t["poisson_nll_loss"] = [](In x, Args a) {
    return Tensors{poisson_nll_loss(x[0], x[1],
                                    {.log_input = a["log_input"],
                                     .full = a["full"],
                                     .eps = a["eps"],
                                     .reduction = to_reduction(a)})};
  };
  t["gaussian_nll_loss"] = [](In x, Args a) {
    return Tensors{gaussian_nll_loss(
        x[0], x[1], x[2], {.full = a["full"], .eps = a["eps"], .reduction = to_reduction(a)})};
  };
  t["hinge_embedding_loss"] = [](In x, Args a) {
    return Tensors{
        hinge_embedding_loss(x[0], x[1], {.margin = a["margin"], .reduction = to_reduction(a)})};
  };
  t["soft_margin_loss"] = [](In x, Args a) {
    return Tensors{soft_margin_loss(x[0], x[1], to_reduction(a))};
  };
  t["margin_ranking_loss"] = [](In x, Args a) {
    return Tensors{margin_ranking_loss(x[0], x[1], x[2],
                                       {.margin = a["margin"], .reduction = to_reduction(a)})};
  };
  t["cosine_embedding_loss"] = [](In x, Args a) {
    return Tensors{cosine_embedding_loss(x[0], x[1], x[2],
                                         {.margin = a["margin"], .reduction = to_reduction(a)})};
  };
  t["triplet_margin_loss"] = [](In x, Args a) {
    return Tensors{triplet_margin_loss(
        x[0], x[1], x[2],
        {.margin = a["margin"], .p = a["p"], .swap = a["swap"], .reduction = to_reduction(a)})};
  };
  t["multi_margin_loss"] = [](In x, Args a) {
    return Tensors{multi_margin_loss(x[0], x[1],
                                     {.p = a["p"],
                                      .margin = a["margin"],
                                      .weight = optional_input(x, 2),
                                      .reduction = to_reduction(a)})};
  };
  t["multilabel_margin_loss"] = [](In x, Args a) {
    return Tensors{multilabel_margin_loss(x[0], x[1], to_reduction(a))};
  };
  t["multilabel_soft_margin_loss"] = [](In x, Args a) {
    return Tensors{multilabel_soft_margin_loss(
        x[0], x[1], {.weight = optional_input(x, 2), .reduction = to_reduction(a)})};
  };
  t["ctc_loss"] = [](In x, Args a) {
    return Tensors{ctc_loss(
        x[0], x[1], x[2], x[3],
        {.blank = a["blank"], .reduction = to_reduction(a), .zero_infinity = a["zero_infinity"]})};
  };
}

}  // namespace ferrite::differential
