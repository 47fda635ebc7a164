// Functions made of others: blends, products, statistics, places, arrangements, samples.
#include "ferrite/ops/aliases.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/blend.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/grid_sample.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/products.h"
#include "ferrite/ops/quantile.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/samples.h"
#include "ferrite/tests/ops/op_table.h"

namespace ferrite::test {

namespace {

using C = const Call&;
using T = const Tensor&;

const auto any = Takes::any, numeric = Takes::numeric, floating = Takes::floating,
           products = Takes::products;

void add_blends(std::vector<Op>& table) {
  const Arg x{{3, 5}}, row{{5}, Fill::positive};
  const Adder add{.table = table, .takes = floating, .args = {x, row}, .shapes = Shapes::any};
  add("hypot", any, [](T a, T b) { return hypot(a, b); });
  add("copysign", any, [](T a, T b) { return copysign(a, b); });
  add("copysign", any, {x}, [](T a) { return copysign(a, -1); });
  add("logaddexp", [](T a, T b) { return logaddexp(a, b); });
  add("logaddexp2", [](T a, T b) { return logaddexp2(a, b); });
  add("xlogy", any, [](T a, T b) { return xlogy(a, b); });
  add("xlogy", any, {row}, [](T a) { return xlogy(a, 2); });
  add("xlogy", any, {row}, [](T b) { return xlogy(0.5, b); });
  add("heaviside", any, [](T a, T b) { return heaviside(a, b); });
  add("fmax", any, [](T a, T b) { return fmax(a, b); });
  add("clamp", any, [](T a, T b) { return clamp(a, b); });
  add("div", numeric, [](T a, T b) { return div(a, b, "trunc"); });
  add("div", any, {row}, [](T a) { return div(a, 2, "floor"); });
  add("fmin", any, [](T a, T b) { return fmin(a, b); });
  add("float_power", any, {row}, [](T a) { return float_power(a, 2.5); });
  add("float_power", any, {row, row}, [](T a, T b) { return float_power(a, b); });
  add("float_power", any, {row}, [](T a) { return float_power(2, a); });
  add("isposinf", any, {x}, [](T a) { return isposinf(a); });
  add("isneginf", any, {x}, [](T a) { return isneginf(a); });
  add("isreal", any, {x}, [](T a) { return isreal(a); });
  add("lerp", {x, row, x}, [](C c) { return lerp(c[0], c[1], c[2]); });
  add("lerp", [](T a, T b) { return lerp(a, b, 0.3); });
  add("lerp_", {x, row, x}, [](C c) { return lerp_(c[0], c[1], c[2]); });
  add("lerp_", [](T a, T b) { return lerp_(a, b, 0.7); });
  promoted(add("addcmul", numeric, {x, row, x}, [](C c) { return addcmul(c[0], c[1], c[2], 2); }));
  add("addcmul_", numeric, {x, row, x}, [](C c) { return addcmul_(c[0], c[1], c[2], 2); });
  promoted(add("addcdiv", {x, x, row}, [](C c) { return addcdiv(c[0], c[1], c[2], 0.5); }));
  add("addcdiv_", {x, x, row}, [](C c) { return addcdiv_(c[0], c[1], c[2], 0.5); });
}

void add_products(std::vector<Op>& table) {
  const Adder add{.table = table, .takes = products, .args = {{{3, 4}}, {{4, 2}}}};
  in_lower_precision(add("einsum", [](T a, T b) { return einsum("ij,jk", {a, b}); }));
  in_lower_precision(add("einsum", {{{2, 3, 3}}, {{2, 3}}}, [](T a, T b) {
    return einsum("bii,...i->b...i", {a, b});
  })).takes = numeric;
  in_lower_precision(add("einsum", {{{3, 4}}}, [](T a) { return einsum("ij->j", {a}); })).takes =
      numeric;
  in_lower_precision(
      add("tensordot", {{{2, 3, 4}}, {{3, 4, 5}}}, [](T a, T b) { return tensordot(a, b); }));
  in_lower_precision(
      add("tensordot", {{{2, 3}}, {{4, 2}}}, [](T a, T b) { return tensordot(a, b, {0}, {1}); }));
  in_lower_precision(add("inner", {{{2, 4}}, {{3, 4}}}, [](T a, T b) { return inner(a, b); }));
  add("kron", any, {{{2, 3}}, {{3, 1}}}, [](T a, T b) { return kron(a, b); });
  const Arg batch{{2, 3, 4}}, other{{2, 4, 5}};
  in_lower_precision(add("baddbmm", {{{3, 5}}, batch, other},
                         [](C c) { return baddbmm(c[0], c[1], c[2], 2, 3); }));
  in_lower_precision(
      add("addbmm", {{{3, 5}}, batch, other}, [](C c) { return addbmm(c[0], c[1], c[2], 2, 3); }));
  in_lower_precision(
      add("addmv", {{{3}}, {{3, 4}}, {{4}}}, [](C c) { return addmv(c[0], c[1], c[2], 2, 3); }));
  add("addr", numeric, {{{3, 4}}, {{3}}, {{4}}}, [](C c) { return addr(c[0], c[1], c[2], 2, 3); });
  add("cross", numeric, {{{2, 3}}, {{2, 3}}}, [](T a, T b) { return cross(a, b); });
  const Arg rows{{3, 4}}, more{{5, 4}};
  in_float32(add("cdist", floating, {rows, more}, [](T a, T b) { return cdist(a, b); }));
  in_float32(add("cdist", floating, {rows, more}, [](T a, T b) { return cdist(a, b, 1); }));
  in_float32(add("pdist", floating, {rows}, [](T a) { return pdist(a); }));
  in_float32(add("pairwise_distance", floating, {rows, rows},
                 [](T a, T b) { return pairwise_distance(a, b, 3); }));
  in_float32(add("cosine_similarity", floating, {rows, rows}, [](T a, T b) {
    return cosine_similarity(a, b);
  })).terms = 1;
  in_float32(Adder{.table = table, .takes = floating, .args = {rows}, .dim = 1}(
      "normalize", [](T x, int d) { return normalize(x, 2, d); }));
}

void add_statistics(std::vector<Op>& table) {
  const Arg x{{2, 3, 4}, Fill::positive};
  const Adder all{.table = table, .args = {x}, .shapes = Shapes::any};
  all("logsumexp", [](T x) { return logsumexp(x); });
  all("nansum", [](T x) { return nansum(x); });
  all("nanmean", floating, [](T x) { return nanmean(x); });
  all("histc", floating, [](T x) { return histc(x, 4, 0, 1); });
  const Adder rows{.table = table, .args = {x}, .shapes = Shapes::rows, .dim = 1};
  rows("logsumexp", [](T x, int d) { return logsumexp(x, d, true); });
  rows("var_mean", floating, [](T x, int d) { return var_mean(x, d); });
  rows("std_mean", floating, [](T x, int d) { return std_mean(x, d, 0, true); });
  rows("aminmax", [](T x, int d) { return aminmax(x, d); });
  rows("diff", [](T x, int d) { return diff(x, 2, d); });
  in_float32(rows("cumprod", [](T x, int d) { return cumprod(x, d); }));
  rows("cumprod_", numeric, [](T x, int d) { return cumprod_(x, d); });
  rows("logcumsumexp", floating, [](T x, int d) { return logcumsumexp(x, d); });
  rows("cummax", [](T x, int d) { return cummax(x, d); });
  rows("cummin", [](T x, int d) { return cummin(x, d); });
  rows("median", [](T x, int d) { return median(x, d); });
  rows("nanmedian", [](T x, int d) { return nanmedian(x, d, true); });
  rows("kthvalue", [](T x, int d) { return kthvalue(x, 2, d); });
  rows("mode", [](T x, int d) { return mode(x, d); });
  rows("quantile", floating, [](T x, int d) { return quantile(x, 0.3, d); });
  rows("nanquantile", floating, [](T x, int d) { return nanquantile(x, 0.6, d, true); });
  const Adder add{.table = table, .args = {x}};
  add("median", [](T x) { return median(x); });
  add("nanmedian", [](T x) { return nanmedian(x); });
  add("trace", {{{3, 4}}}, [](T x) { return trace(x); });
  const Arg edge{.shape = {2, 1, 4}, .fill = Fill::positive, .optional = true};
  add("diff", {x, edge}, [](T x, T y) { return diff(x, 1, 1, y, y); });
  const Arg q{{2}, Fill::constant};
  add("quantile", floating, {x, q}, [](T x, T q) { return quantile(x, q, 1); });
  add("nanquantile", floating, {x, q}, [](T x, T q) { return nanquantile(x, q); });
  add("bincount", {{{6}, Fill::positive}}, [](T x) {
    return bincount(x.defined() ? x.detach().to(kInt64) : x, {}, 3);
  }).on_host = true;
}

void add_covariances(std::vector<Op>& table) {
  const Arg x{{3, 5}}, line{{5}};
  const Adder add{.table = table, .takes = numeric, .args = {x}};
  add("cov", [](T x) { return cov(x); });
  add("cov", {line}, [](T x) { return cov(x, 0); });
  const Arg weights{.shape = {5}, .fill = Fill::constant, .optional = true};
  add("cov", floating, {x, weights, weights}, [](C c) {
    return cov(c[0], 1, c[1].defined() ? (c[1] * 3).ceil().to(kInt64) : c[1], c[2]);
  }).on_host = true;
  add("corrcoef", [](T x) { return corrcoef(x); }).terms = 1;
  in_float32(add("dist", floating, {x, line}, [](T a, T b) { return a.dist(b, 3); }));
  add("vdot", products, {line, line}, [](T a, T b) { return vdot(a, b); });
  add("msort", any, [](T x) { return msort(x); });
  const Adder along{.table = table, .args = {x}, .shapes = Shapes::rows, .dim = 1};
  along("trapezoid", numeric, [](T x, int d) { return trapezoid(x, 0.5, d); });
  along("cumulative_trapezoid", numeric,
        [](T x, int d) { return cumulative_trapezoid(x, 0.5, d); });
  add("trapezoid", {x, line}, [](T y, T x) { return trapezoid(y, x); });
  add("cumulative_trapezoid", {x, {{3, 1}}},
      [](T y, T x) { return cumulative_trapezoid(y, x, 0); });
}

void add_places(std::vector<Op>& table) {
  const Arg x{{4, 5}}, list{{2}, Fill::index, 4}, source{{2, 5}}, grid{{2, 5}, Fill::index, 4};
  const Adder add{.table = table, .args = {x, list}, .dim = 0};
  add("take_along_dim", {x, {{2, 1}, Fill::index, 4}},
      [](C c) { return take_along_dim(c[0], c[1], c.dim); });
  add("index_copy", {x, list, source}, [](C c) { return index_copy(c[0], c.dim, c[1], c[2]); });
  add("index_copy_", {x, list, source}, [](C c) { return index_copy_(c[0], c.dim, c[1], c[2]); });
  add("index_fill", [](C c) { return index_fill(c[0], c.dim, c[1], 1); });
  add("index_fill_", [](C c) { return index_fill_(c[0], c.dim, c[1], 1); });
  for (const char* how : {"sum", "prod", "mean", "amax", "amin"})
    for (const bool self : {true, false})
      add("scatter_reduce", numeric, {x, grid, source}, [=](C c) {
        return scatter_reduce(c[0], c.dim, c[1], c[2], how, self);
      }).large = {{4, 2}, {3000, 2}, {3000, 2}};
  for (const char* how : {"prod", "mean", "amax", "amin"})
    add("index_reduce", numeric, {x, list, source},
        [=](C c) { return index_reduce(c[0], c.dim, c[1], c[2], how); });
  add("index_reduce_", numeric, {x, list, source},
      [](C c) { return index_reduce_(c[0], c.dim, c[1], c[2], "amax", false); });
  add("scatter_reduce_", numeric, {x, grid, source},
      [](C c) { return scatter_reduce_(c[0], c.dim, c[1], c[2], "prod"); });

  const Adder one{.table = table, .args = {x}};
  one("take", {x, {{2, 3}, Fill::index, 20}}, [](T x, T at) { return take(x, at); });
  const Arg mask{{4, 1}, Fill::mask}, many{{4, 5}};
  one("masked_scatter", {x, mask, many}, [](C c) { return masked_scatter(c[0], c[1], c[2]); });
  one("masked_scatter_", {x, mask, many}, [](C c) { return masked_scatter_(c[0], c[1], c[2]); });
  const Arg sorted{{5}};
  one("searchsorted", {sorted, x}, [](T a, T b) { return searchsorted(a, b); });
  one("searchsorted", {sorted}, [](T a) { return searchsorted(a, 1); });
  one("bucketize", {x, sorted}, [](T a, T b) { return bucketize(a, b, {true, true}); });
  one("isin", {x, sorted}, [](T a, T b) { return isin(a, b); });
  const auto parts = [](const Unique& u) {
    return std::vector<Tensor>{u.values, u.inverse, u.counts};
  };
  one("unique", [=](T x) { return parts(unique(x, {true, true})); }).on_host = true;
  one("unique", [=](T x) { return parts(unique(x, {true, true, 0})); }).on_host = true;
  one("unique_consecutive", [=](T x) {
    return parts(unique_consecutive(x, {true, true}));
  }).on_host = true;
  const Arg weights{{3, 4}, Fill::constant};
  random_results(one("multinomial", floating, {weights}, [](T p) { return multinomial(p, 2); }));
  random_results(
      one("multinomial", floating, {weights}, [](T p) { return multinomial(p, 5, true); }));
}

void add_arrangements(std::vector<Op>& table) {
  const Arg x{{2, 3, 4}}, row{{3}}, matrix{{3, 3}};
  const Adder add{.table = table, .args = {x}}, two{.table = table, .args = {row, row}};
  add("atleast_1d", [](T x) { return atleast_1d(x); });
  add("atleast_2d", {row}, [](T x) { return atleast_2d(x); });
  add("atleast_3d", {row}, [](T x) { return atleast_3d(x); });
  add("reshape", [](T x) { return ravel(x); });
  add("transpose", [](T x) { return swapaxes(x, 0, 1); });
  add("transpose", [](T x) { return swapdims(x, 0, 2); });
  add("rot90", [](T x) { return rot90(x); });
  add("rot90", [](T x) { return rot90(x, -1, {1, 2}); });
  const auto list = [](T a, T b) { return std::vector<Tensor>{a, b}; };
  two("broadcast_tensors",
      {{.shape = {3}, .any_device = true}, {.shape = {2, 1}, .any_device = true}},
      [=](T a, T b) { return broadcast_tensors(list(a, b)); });
  two("hstack", [=](T a, T b) { return hstack(list(a, b)); });
  two("vstack", [=](T a, T b) { return vstack(list(a, b)); });
  two("dstack", [=](T a, T b) { return dstack(list(a, b)); });
  two("column_stack", {row, matrix}, [=](T a, T b) { return column_stack(list(a, b)); });
  two("vstack", [=](T a, T b) { return row_stack(list(a, b)); });
  two("block_diag", {row, matrix}, [=](T a, T b) { return block_diag(list(a, b)); });
  two("meshgrid", [=](T a, T b) { return meshgrid(list(a, b)); });
  two("meshgrid", [=](T a, T b) { return meshgrid(list(a, b), "xy"); });
  two("cartesian_prod", [=](T a, T b) { return cartesian_prod(list(a, b)); });
  add("combinations", {row}, [](T x) { return combinations(x, 2, true); }).on_host = true;
  add("diag", {row}, [](T x) { return diag(x, 1); });
  add("diag", {matrix}, [](T x) { return diag(x); });
  add("diagflat", [](T x) { return diagflat(x, -1); });
  add("fliplr", [](T x) { return fliplr(x); });
  add("flipud", [](T x) { return flipud(x); });
  add("hsplit", [](T x) { return hsplit(x, 3); });
  add("hsplit", {row}, [](T x) { return hsplit(x, std::vector<std::int64_t>{1, 2}); });
  add("vsplit", [](T x) { return vsplit(x, 2); });
  add("vsplit", [](T x) { return vsplit(x, std::vector<std::int64_t>{1}); });
  add("dsplit", [](T x) { return dsplit(x, 2); });
  add("dsplit", [](T x) { return dsplit(x, std::vector<std::int64_t>{-1}); });
  add("select_scatter", {x, {{2, 4}}}, [](T x, T y) { return select_scatter(x, y, 1, -1); });
  add("slice_scatter", {x, {{2, 2, 4}}}, [](T x, T y) { return slice_scatter(x, y, 1, 0, 3, 2); });
  add("diagonal_scatter", {matrix, {{2}}}, [](T x, T y) { return diagonal_scatter(x, y, 1); });
  add("diag_embed", [](T x) { return diag_embed(x, -1, 0, 2); });
  add("pixel_shuffle", {{{2, 4, 2, 3}}}, [](T x) { return pixel_shuffle(x, 2); });
  add("pixel_unshuffle", {{{1, 2, 4}}}, [](T x) { return pixel_unshuffle(x, 2); });
  add("channel_shuffle", {{{2, 4, 3}}}, [](T x) { return channel_shuffle(x, 2); });
  add("unfold", {{{2, 3, 4, 5}}}, [](T x) {
    return unfold(x, {2, 3}, {.dilation = {2, 1}, .padding = 1, .stride = {1, 2}});
  });
  add("fold", {{{2, 12, 6}}}, [](T x) { return fold(x, {3, 4}, 2); });
  const Adder made{.table = table};
  made("tril_indices", [](C c) {
    return tril_indices(3, 4, 1, {.dtype = kInt64, .device = c.device});
  }).on_host = true;
  made("triu_indices", [](C c) {
    return triu_indices(3, 4, -1, {.dtype = kInt64, .device = c.device});
  }).on_host = true;

  const Adder along{.table = table, .args = {x}, .shapes = Shapes::rows, .dim = 1};
  along("tensor_split", [](T x, int d) { return tensor_split(x, 2, d); });
  along("tensor_split", [](T x, int d) {
    return tensor_split(x, std::vector<std::int64_t>{1, -1}, d);
  });
  along("repeat_interleave", [](T x, int d) { return repeat_interleave(x, 2, d); });
}

void add_samples(std::vector<Op>& table) {
  const std::vector<Arg> images{{{2, 3, 4, 5}}, {{2, 2, 3, 2}}},
      volumes{{{2, 2, 3, 4, 5}}, {{2, 2, 1, 3, 3}}};
  const Adder add{.table = table, .takes = floating, .args = images};
  const auto add_sample = [&](const std::vector<Arg>& args, const GridSampleOptions& options) {
    promoted(add("grid_sample", args, [=](T x, T grid) { return grid_sample(x, grid, options); }));
  };
  for (const auto padding :
       {GridSamplePadding::zeros, GridSamplePadding::border, GridSamplePadding::reflection})
    for (const bool corners : {false, true}) {
      add_sample(images, {.padding_mode = padding, .align_corners = corners});
      add_sample(volumes, {.padding_mode = padding, .align_corners = corners});
      add_sample(
          images,
          {.mode = GridSampleMode::bicubic, .padding_mode = padding, .align_corners = corners});
    }
  add_sample(images, {.mode = GridSampleMode::nearest});
  add_sample(volumes, {.mode = GridSampleMode::nearest});
  add("affine_grid", {{{2, 2, 3}}}, [](T theta) { return affine_grid(theta, {2, 1, 3, 4}); });
  add("affine_grid", {{{2, 3, 4}}}, [](T theta) { return affine_grid(theta, {2, 1, 2, 3, 4}); });
}

}  // namespace

void add_functions(std::vector<Op>& table) {
  add_blends(table);
  add_products(table);
  add_statistics(table);
  add_covariances(table);
  add_places(table);
  add_arrangements(table);
  add_samples(table);
}

}  // namespace ferrite::test
