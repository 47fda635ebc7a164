#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/ops/op_table.h"

namespace ferrite::test {

namespace {

using C = const Call&;
using T = const Tensor&;

void add_views(std::vector<Op>& table) {
  const Adder add{.table = table, .args = {{{2, 3, 4}}}};
  add("view", [](T x) { return x.view({6, -1}); });
  add("view", [](T x) { return view_as(x, empty({6, 4})); });
  add("reshape", [](T x) { return reshape_as(x, empty({4, 6})); });
  add("expand", [](T x) { return x.expand({2, 2, 3, 4}); });
  add("expand", [](T x) { return expand_as(x, empty({2, 2, 3, 4})); });
  add("expand", [](T x) { return broadcast_to(x, {2, 2, 3, 4}); });
  add("permute", [](T x) { return permute(x, {2, 0, 1}); });
  add("select", [](T x) { return x[1]; });
  add("slice", [](T x) { return x.slice(2, 1, 4, 2); });
  add("unfold", [](T x) { return x.unfold(2, 2, 1); });
  add("as_strided", [](T x) { return as_strided(x, {3, 2}, {4, 1}); });
  add("as_strided", [](T x) { return x.as_strided({3, 2}, {1, 1}); });
  add("unflatten", [](T x) { return unflatten(x, 2, {2, 2}); });
  add("diagonal", [](T x) { return diagonal(x, 1); });
  add("flip", [](T x) { return flip(x, {0, 2}); });
  add("roll", [](T x) { return roll(x, {1, -2}, {0, 1}); });
  add("tril", [](T x) { return tril(x); });
  add("triu", [](T x) { return triu(x, 1); });
  add("pad", [](T x) { return pad(x, {1, 2, -1, 1}); });
  add("repeat", [](T x) { return repeat(x, {2, 1, 3, 1}); });
  add("tile", [](T x) { return tile(x, {2, 2}); });
  add("split", [](T x) { return split(x, {1, 3}, 2); });
  promoted(add("cat", {{{2, 3, 4}}, {{2, 1, 4}}}, [](T x, T y) { return cat({x, y}, 1); }));
  promoted(add("stack", {{{2, 3, 4}}, {{2, 3, 4}}}, [](T x, T y) { return stack({x, y}, 1); }));
  add("t", {{{3, 4}}}, [](T x) { return x.t(); });

  const Adder any{.table = table, .args = {{{2, 3, 4}}}, .shapes = Shapes::any};
  any("reshape", [](T x) { return x.reshape({-1}); });
  any("flatten", [](T x) { return flatten(x); });
  any("squeeze", [](T x) { return squeeze(x); });
  any("flip", [](T x) { return flip(x, {}); });
  any("roll", [](T x) { return roll(x, {5}); });
}

void add_views_along(std::vector<Op>& table) {
  const Adder add{.table = table, .args = {{{2, 3, 4}}}, .dim = 1};
  add("flatten", [](T x, int d) { return flatten(x, d); });
  add("flatten", [](T x, int d) { return flatten(x, 0, d); });
  add("transpose", [](T x, int d) { return transpose(x, d, 0); });
  add("transpose", [](T x, int d) { return transpose(x, 0, d); });
  add("squeeze", [](T x, int d) { return squeeze(x, d); });
  add("unfold", [](T x, int d) { return x.unfold(d, 1, 1); });
  add("movedim", [](T x, int d) { return movedim(x, d, 0); });
  add("movedim", [](T x, int d) { return movedim(x, 0, d); });
  add("unflatten", [](T x, int d) { return unflatten(x, d, {1, -1}); });
  add("diagonal", [](T x, int d) { return diagonal(x, 0, d, 0); });
  add("unsqueeze", [](T x, int d) { return unsqueeze(x, d); }).adds_dim = true;
  promoted(add("stack", [](T x, int d) { return stack({x, x}, d); })).adds_dim = true;
  add("permute", {{{3, 4}}}, [](T x, int d) { return permute(x, {0, d}); });
  add("split", {{{3, 2}}}, [](T x, int d) { return split(x, {1, 1}, d); });

  const Adder rows{.table = table, .args = {{{2, 3, 4}}}, .shapes = Shapes::rows, .dim = 1};
  rows("select", [](T x, int d) { return select(x, d, 0); });
  rows("slice", [](T x, int d) { return x.slice(d, 1); });
  rows("narrow", [](T x, int d) { return narrow(x, d, 1, 1); });
  rows("flip", [](T x, int d) { return flip(x, {d}); });
  rows("roll", [](T x, int d) { return roll(x, {1}, {d}); });
  rows("split", [](T x, int d) { return split(x, 2, d); });
  rows("chunk", [](T x, int d) { return chunk(x, 2, d); });
  rows("unbind", [](T x, int d) { return unbind(x, d); });
  promoted(rows("cat", [](T x, int d) { return cat({x, x}, d); }));

  const Adder last{.table = table, .args = {{{2, 3, 4}}}, .shapes = Shapes::rows};
  last("pad", [](T x) { return pad(x, {1, 2}); });
  for (const PadMode mode : {PadMode::reflect, PadMode::replicate, PadMode::circular})
    last("pad", [mode](T x) { return pad(x, {1, 2}, mode); });
}

}  // namespace

void add_shape_ops(std::vector<Op>& table) {
  add_views(table);
  add_views_along(table);
}

void add_reductions(std::vector<Op>& table) {
  const Arg arg{{2, 3, 4}, Fill::positive};
  const auto floating = Takes::floating;
  const Adder add{.table = table, .args = {arg}};
  in_float32(add("sum", [](T x) { return sum(x, {0, 2}, true); }));
  add("sum_to", [](T x) { return sum_to(x, {3, 1}); });
  add("mean", floating, [](T x) { return mean(x, {0, 1}); });
  add("max", [](T x) { return max(x); });
  add("min", [](T x) { return min(x); });
  add("amax", [](T x) { return amax(x, {0, 1}); });
  add("amin", [](T x) { return amin(x, {2}, true); });
  add("argmax", [](T x) { return argmax(x); });

  const Adder any{.table = table, .args = {arg}, .shapes = Shapes::any};
  in_float32(any("sum", [](T x) { return sum(x); })).large = {{70000}};
  in_float32(any("sum", [](T x) { return sum(x, kFloat64); }));
  any("mean", floating, [](T x) { return mean(x); });
  any("var", floating, [](T x) { return var(x); });
  any("std", floating, [](T x) { return ferrite::std(x); });
  in_float32(any("norm", floating, [](T x) { return norm(x); }));
  in_float32(any("prod", [](T x) { return prod(x); }));
  any("any", [](T x) { return ferrite::any(x); });
  any("all", [](T x) { return all(x); });
  any("count_nonzero", [](T x) { return count_nonzero(x); });

  const Adder rows{.table = table, .args = {arg}, .shapes = Shapes::rows, .dim = 1};
  in_float32(rows("sum", [](T x, int d) { return sum(x, {d}); })).large = {{1, 3000, 20}};
  rows("mean", floating, [](T x, int d) { return mean(x, {d}, true); });
  rows("var", floating, [](T x, int d) { return var(x, {d}); });
  rows("std", floating, [](T x, int d) { return ferrite::std(x, {d}); });
  in_float32(rows("norm", floating, [](T x, int d) { return norm(x, 3, {d}); }));
  in_float32(rows("prod", [](T x, int d) { return prod(x, d, true); }));
  rows("any", [](T x, int d) { return ferrite::any(x, d); });
  rows("all", [](T x, int d) { return all(x, d); });
  rows("count_nonzero", [](T x, int d) { return count_nonzero(x, {d}); });
  rows("max", [](T x, int d) { return max(x, d); });
  rows("min", [](T x, int d) { return min(x, d, true); });
  rows("amax", [](T x, int d) { return amax(x, {d}); });
  rows("amin", [](T x, int d) { return amin(x, {d}); });
  rows("argmax", [](T x, int d) { return argmax(x, d); });
  rows("argmin", [](T x, int d) { return argmin(x, d, true); });
  in_float32(rows("cumsum", [](T x, int d) { return cumsum(x, d); }));
  rows("cumsum_", Takes::numeric, [](T x, int d) { return cumsum_(x, d); });
  rows("topk", [](T x, int d) { return topk(x, 2, d); });
  rows("sort", [](T x, int d) { return sort(x, d, true); });
  rows("argsort", [](T x, int d) { return argsort(x, d); });
}

void add_index_ops(std::vector<Op>& table) {
  const Arg x{{4, 5}}, source{{2, 5}};
  const Arg grid{{2, 5}, Fill::index, 4}, list{{2}, Fill::index, 4};
  const Arg mask{{4, 1}, Fill::mask};
  const Adder add{.table = table, .args = {x, grid, source}, .dim = 0};
  add("gather", {x, grid}, [](C c) { return gather(c[0], c.dim, c[1]); });
  promoted(add("scatter", [](C c) { return scatter(c[0], c.dim, c[1], c[2]); }));
  promoted(add("scatter", {x, grid}, [](C c) { return scatter(c[0], c.dim, c[1], 1); }));
  add("scatter_", [](C c) { return scatter_(c[0], c.dim, c[1], c[2]); });
  add("scatter_", {x, grid}, [](C c) { return scatter_(c[0], c.dim, c[1], 1); });
  promoted(add("scatter_add", [](C c) { return scatter_add(c[0], c.dim, c[1], c[2]); })).large = {
      {4, 2}, {3000, 2}, {3000, 2}};
  add("scatter_add_", [](C c) { return scatter_add_(c[0], c.dim, c[1], c[2]); });
  add("index_select", {x, list}, [](C c) { return index_select(c[0], c.dim, c[1]); });
  promoted(add("index_add", {x, list, source}, [](C c) {
    return index_add(c[0], c.dim, c[1], c[2], 2);
  })).large = {{4, 2}, {3000}, {3000, 2}};
  add("index_add_", {x, list, source}, [](C c) { return index_add_(c[0], c.dim, c[1], c[2], 2); });

  const Adder one{table};
  one("one_hot", {list}, [](T x) { return one_hot(x, 4); });
  one("embedding", {list, x}, [](T rows, T weight) { return embedding(rows, weight, 1); });
  const Adder any{.table = table, .args = {x, mask}, .shapes = Shapes::any};
  any("masked_fill", [](T x, T where) { return masked_fill(x, where, 1); });
  any("masked_fill_", [](T x, T where) { return x.masked_fill_(where, 1); });
  any("masked_select", [](T x, T where) { return masked_select(x, where); }).on_host = true;
  any("nonzero", {x}, [](T x) { return nonzero(x); }).on_host = true;

  // Along the last dimension of any tensor, by indices that fit its shape.
  const auto order = [](T x) { return x.defined() ? argsort(x, -1) : x; };
  const Arg two{.shape = {2}, .fill = Fill::index, .limit = 3, .fixed = true};
  const Adder rows{.table = table, .args = {{{4, 3}}}, .shapes = Shapes::rows};
  rows("gather", [=](T x) { return gather(x, -1, order(x)); });
  promoted(rows("scatter", [=](T x) { return scatter(x, -1, order(x), x); }));
  promoted(rows("scatter_add", [=](T x) { return scatter_add(x, -1, order(x), x); }));
  rows("index_select", {{{4, 3}}, two}, [](T x, T at) { return index_select(x, -1, at); });
  promoted(rows("index_add", {{{4, 3}}, two}, [](T x, T at) {
    return index_add(x, -1, at, x.defined() && x.dim() > 0 ? x.slice(-1, 0, 2) : x);
  }));
}

}  // namespace ferrite::test
