// Ops as members of Tensor and as operators, which call the functions.
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/ops/op_table.h"

namespace ferrite::test {

namespace {

using C = const Call&;

const auto any = Takes::any, numeric = Takes::numeric, floating = Takes::floating;

void add_unary(std::vector<Op>& table) {
  const Adder add{.table = table, .args = {{{3, 5}, Fill::positive}}};
  add("neg", numeric, [](C c) { return c[0].neg(); });
  add("abs", numeric, [](C c) { return c[0].abs(); });
  in_float32(add("exp", any, [](C c) { return c[0].exp(); }));
  in_float32(add("log", any, [](C c) { return c[0].log(); }));
  add("sqrt", any, [](C c) { return c[0].sqrt(); });
  in_float32(add("pow", any, [](C c) { return c[0].pow(3); }));
  add("tanh", any, [](C c) { return c[0].tanh(); });
  add("sigmoid", any, [](C c) { return c[0].sigmoid(); });
  add("relu", numeric, [](C c) { return c[0].relu(); });
  add("relu_", numeric, [](C c) { return c[0].relu_(); });
  add("clamp", any, [](C c) { return c[0].clamp(0, 1); });
  add("neg", numeric, [](C c) { return -c[0]; });
}

void add_binary(std::vector<Op>& table) {
  const Adder add{.table = table, .args = {{{3, 5}, Fill::positive}, {{5}, Fill::positive}}};
  add("add", any, [](C c) { return c[0].add(c[1], 2); });
  add("sub", numeric, [](C c) { return c[0].sub(c[1], 2); });
  add("mul", any, [](C c) { return c[0].mul(c[1]); });
  add("div", any, [](C c) { return c[0].div(c[1]); });
  add("eq", any, [](C c) { return c[0].eq(c[1]); });
  add("ne", any, [](C c) { return c[0].ne(c[1]); });
  add("add", any, [](C c) { return c[0] + c[1]; });
  add("sub", numeric, [](C c) { return c[0] - c[1]; });
  add("mul", any, [](C c) { return c[0] * c[1]; });
  add("div", any, [](C c) { return c[0] / c[1]; });
  add("add_", any, [](C c) { return c[0] += c[1]; });
  add("sub_", numeric, [](C c) { return c[0] -= c[1]; });
  add("mul_", any, [](C c) { return c[0] *= c[1]; });
  add("div_", floating, [](C c) { return c[0] /= c[1]; });

  const Adder with_number{.table = table, .args = {{{3, 5}, Fill::positive}}};
  with_number("add", any, [](C c) { return 2 + c[0]; });
  with_number("mul", any, [](C c) { return 2 * c[0]; });
  with_number("mul_", numeric, [](C c) { return c[0] *= 2; });
  with_number("div_", floating, [](C c) { return c[0] /= 2; });
  // A number of the host goes along with the work.
  with_number("mul", any, [](C c) { return c[0] * tensor(2.0, kCPU); });
}

void add_sums(std::vector<Op>& table) {
  const Adder add{.table = table, .args = {{{2, 3, 4}, Fill::positive}}};
  in_float32(add("sum", any, [](C c) { return c[0].sum(); }));
  in_float32(add("sum", any, [](C c) { return c[0].sum({1, 2}); }));
  add("mean", floating, [](C c) { return c[0].mean(); });
  add("mean", floating, [](C c) { return c[0].mean({0}, true); });
  add("max", any, [](C c) { return c[0].max(); });
  add("min", any, [](C c) { return c[0].min(); });
  add("argmax", any, [](C c) { return c[0].argmax(0); });
  add("argmin", any, [](C c) { return c[0].argmin(); });
  in_float32(add("softmax", floating, [](C c) { return c[0].softmax(1); }));
  in_float32(add("log_softmax", floating, [](C c) { return c[0].log_softmax(2); }));
}

void add_products_and_indices(std::vector<Op>& table) {
  const Adder add{table};
  const Arg x{{4, 5}};
  in_lower_precision(
      add("mm", Takes::products, {{{3, 4}}, {{4, 2}}}, [](C c) { return c[0].mm(c[1]); }));
  add("masked_fill", {x, {{4, 1}, Fill::mask}}, [](C c) { return c[0].masked_fill(c[1], 2); });
  add("gather", {x, {{2, 5}, Fill::index, 4}}, [](C c) { return c[0].gather(0, c[1]); });
  add("index_select", {x, {{2}, Fill::index, 4}}, [](C c) { return c[0].index_select(0, c[1]); });

  const Arg rows{.shape = {3}, .fill = Fill::index, .limit = 4, .any_device = true};
  const Arg columns{.shape = {2, 1}, .fill = Fill::index, .limit = 5, .any_device = true};
  add("index", {x}, [](C c) { return c[0].index({Slice(1, None), None, 2}); });
  add("index", {x, rows}, [](C c) { return c[0].index({c[1]}); });
  add("index", {x, columns}, [](C c) { return c[0].index({"...", c[1]}); });
  add("index", {x, rows, columns}, [](C c) { return c[0].index({c[1], c[2]}); });
  add("index_put_", {x, rows, {{3, 5}}}, [](C c) { return c[0].index_put_({c[1]}, c[2]); });
  add("index_put_", {x, rows, columns, {{3}}}, [](C c) {
    return c[0].index_put_({c[1], c[2]}, c[3], true);
  });
  add("index_put_", {x, {{4, 5}, Fill::mask, 0, false, true}},
      [](C c) { return c[0].index_put_({c[1]}, 2); });
}

/// Those that the other tables have in their function form.
void add_views(std::vector<Op>& table) {
  const Adder add{.table = table, .args = {{{2, 3, 4}}}};
  add("flatten", any, [](C c) { return c[0].flatten(1); });
  add("transpose", any, [](C c) { return c[0].transpose(1, 2); });
  add("permute", any, [](C c) { return c[0].permute({1, 2, 0}); });
  add("select", any, [](C c) { return c[0].select(2, -1); });
  add("narrow", any, [](C c) { return c[0].narrow(2, 0, 3); });
  add("squeeze", any, [](C c) { return c[0].squeeze(); });
  add("squeeze", {{{1, 2, 1}}}, [](C c) { return c[0].squeeze({0, 2}); });
  add("unsqueeze", any, [](C c) { return c[0].unsqueeze(-1); });
  add("transpose", any, [](C c) { return c[0].mT(); });
}

void add_conversions(std::vector<Op>& table) {
  const Adder add{.table = table, .args = {{{2, 3, 4}, Fill::positive}}};
  add("to", any, [](C c) { return c[0].half(); });
  add("to", any, [](C c) { return c[0].bfloat16(); });
  add("to", any, [](C c) { return c[0].byte(); });
  add("to", any, [](C c) { return c[0].float_(); });
  add("to", any, [](C c) { return c[0].double_(); });
  add("to", any, [](C c) { return c[0].int_(); });
  add("to", any, [](C c) { return c[0].long_(); });
  add("to", any, [](C c) { return c[0].short_(); });
  add("to", any, [](C c) { return c[0].char_(); });
  add("to", any, [](C c) { return c[0].bool_(); });
}

void add_masks(std::vector<Op>& table) {
  const Adder add{.table = table, .args = {{{3, 5}, Fill::mask}, {{5}, Fill::mask}}};
  add("bitwise_and", any, [](C c) { return bitwise_and(c[0], c[1]); });
  add("bitwise_or", any, [](C c) { return bitwise_or(c[0], c[1]); });
  add("bitwise_xor", any, [](C c) { return bitwise_xor(c[0], c[1]); });
  add("bitwise_and", any, {{{3, 5}, Fill::mask}}, [](C c) { return c[0] & 3; });
  add("bitwise_or", any, {{{3, 5}, Fill::mask}}, [](C c) { return c[0] | 4; });
  add("bitwise_xor", any, {{{3, 5}, Fill::mask}}, [](C c) { return c[0] ^ 5; });
  add("bitwise_not", any, {{{3, 5}, Fill::mask}}, [](C c) { return bitwise_not(c[0]); });
}

void add_in_place(std::vector<Op>& table) {
  const Arg row{{5}, Fill::positive};
  const Adder add{.table = table, .takes = numeric, .args = {{{3, 5}, Fill::positive}}};
  add("tril_", any, [](C c) { return c[0].tril_(); });
  add("triu_", any, [](C c) { return c[0].triu_(1); });
  add("fill_diagonal_", any, [](C c) { return c[0].fill_diagonal_(1); });
  add("fill_diagonal_", any, {{{3, 3, 3}}}, [](C c) { return c[0].fill_diagonal_(1); });
  add("clamp_", [](C c) { return c[0].clamp_min_(1); });
  add("clamp_", [](C c) { return c[0].clamp_max_(1); });
  add("floor_divide_", [](C c) { return c[0].floor_divide_(2); });
  add("remainder_", [](C c) { return c[0].remainder_(2); });
  add("fmod_", [](C c) { return c[0].fmod_(2); });
  const Adder two{.table = table, .takes = numeric, .args = {{{3, 5}, Fill::positive}, row}};
  two("floor_divide_", [](C c) { return c[0].floor_divide_(c[1]); });
  two("remainder_", [](C c) { return c[0].remainder_(c[1]); });
  two("fmod_", [](C c) { return c[0].fmod_(c[1]); });
  add("logical_not_", any, [](C c) { return c[0].logical_not_(); });
  add("renorm_", floating, [](C c) { return c[0].renorm_(2, 0, 0.5); });
  two("eq_", any, [](C c) { return c[0].eq_(c[1]); });
  add("ne_", any, [](C c) { return c[0].ne_(0.5); });
  two("lt_", any, [](C c) { return c[0].lt_(c[1]); });
  two("le_", any, [](C c) { return c[0].le_(c[1]); });
  two("gt_", any, [](C c) { return c[0].gt_(c[1]); });
  two("ge_", any, [](C c) { return c[0].ge_(c[1]); });
  two("logical_and_", any, [](C c) { return c[0].logical_and_(c[1]); });
  two("logical_or_", any, [](C c) { return c[0].logical_or_(c[1]); });
  two("logical_xor_", any, [](C c) { return c[0].logical_xor_(c[1]); });
  two("atan2_", floating, [](C c) { return c[0].atan2_(c[1]); });
  two("hypot_", floating, [](C c) { return c[0].hypot_(c[1]); });
  two("heaviside_", any, [](C c) { return c[0].heaviside_(c[1]); });
  two("copysign_", floating, [](C c) { return c[0].copysign_(c[1]); });
  two("xlogy_", floating, [](C c) { return c[0].xlogy_(c[1]); });
  const Adder masks{.table = table, .args = {{{3, 5}, Fill::mask}, {{5}, Fill::mask}}};
  masks("bitwise_and_", any, [](C c) { return c[0].bitwise_and_(c[1]); });
  masks("bitwise_or_", any, [](C c) { return c[0].bitwise_or_(c[1]); });
  masks("bitwise_xor_", any, [](C c) { return c[0].bitwise_xor_(c[1]); });
  masks("bitwise_not_", any, {{{3, 5}, Fill::mask}}, [](C c) { return c[0].bitwise_not_(); });
  const Arg matrix{{3, 5}};
  const Adder products{.table = table, .takes = Takes::products};
  products("addmm_", {matrix, {{3, 4}}, {{4, 5}}}, [](C c) { return c[0].addmm_(c[1], c[2]); });
  products("addmv_", {{{3}}, {{3, 4}}, {{4}}}, [](C c) { return c[0].addmv_(c[1], c[2]); });
  products("addr_", numeric, {matrix, {{3}}, {{5}}}, [](C c) { return c[0].addr_(c[1], c[2]); });
  const Arg left{{2, 3, 4}}, right{{2, 4, 5}};
  products("baddbmm_", {{{2, 3, 5}}, left, right}, [](C c) { return c[0].baddbmm_(c[1], c[2]); });
  products("addbmm_", {matrix, left, right}, [](C c) { return c[0].addbmm_(c[1], c[2]); });
  const Adder drawn{.table = table, .takes = floating, .args = {{{3, 5}, Fill::positive}}};
  random_results(drawn("exponential_", [](C c) { return c[0].exponential_(2); }));
  random_results(drawn("log_normal_", [](C c) { return c[0].log_normal_(0, 1); }));
  random_results(drawn("cauchy_", [](C c) { return c[0].cauchy_(); }));
  random_results(drawn("geometric_", [](C c) { return c[0].geometric_(0.5); }));
  random_results(drawn("random_", any, [](C c) { return c[0].random_(0, 2); }));
}

}  // namespace

void add_methods(std::vector<Op>& table) {
  add_unary(table);
  add_binary(table);
  add_sums(table);
  add_products_and_indices(table);
  add_views(table);
  add_conversions(table);
  add_masks(table);
  add_in_place(table);
}

}  // namespace ferrite::test
