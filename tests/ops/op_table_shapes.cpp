#include "ferrite/ops/index.h"
#include "ferrite/ops/join.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/ops/op_table.h"

namespace ferrite::test {

namespace {

using Out = std::vector<Tensor>;
using T = const Tensor&;

struct Adder {
  std::vector<Op>& table;
  Shape shape;
  Fill fill = Fill::real;

  void operator()(const char* name, Takes what, std::function<Tensor(const Tensor&)> f) {
    table.push_back({name, what, {{shape, fill}}, [f](const Call& c) { return Out{f(c[0])}; }});
  }
};

}  // namespace

void add_shape_ops(std::vector<Op>& table) {
  Adder add{table, {2, 3, 4}};
  const auto any = Takes::any;
  add("view", any, [](T x) { return x.view({6, -1}); });
  add("view", any, [](T x) { return view_as(x, empty({6, 4})); });
  add("reshape", any, [](T x) { return x.reshape({-1}); });
  add("reshape", any, [](T x) { return reshape_as(x, empty({4, 6})); });
  add("flatten", any, [](T x) { return flatten(x); });
  add("transpose", any, [](T x) { return transpose(x, 0, 2); });
  add("permute", any, [](T x) { return permute(x, {2, 0, 1}); });
  add("select", any, [](T x) { return select(x, 1, 2); });
  add("select", any, [](T x) { return x[1]; });
  add("slice", any, [](T x) { return x.slice(2, 1, 4, 2); });
  add("narrow", any, [](T x) { return narrow(x, 1, 1, 2); });
  add("expand", any, [](T x) { return x.expand({2, 2, 3, 4}); });
  add("expand", any, [](T x) { return expand_as(x, empty({2, 2, 3, 4})); });
  add("expand", any, [](T x) { return broadcast_to(x, {2, 2, 3, 4}); });
  add("squeeze", any, [](T x) { return squeeze(x); });
  add("squeeze", any, [](T x) { return squeeze(x, 0); });
  add("unsqueeze", any, [](T x) { return unsqueeze(x, 1); });
  add("unfold", any, [](T x) { return x.unfold(2, 2, 1); });
  add("movedim", any, [](T x) { return movedim(x, 0, 2); });
  add("unflatten", any, [](T x) { return unflatten(x, 2, {2, 2}); });
  add("diagonal", any, [](T x) { return diagonal(x, 1); });
  add("flip", any, [](T x) { return flip(x, {0, 2}); });
  add("roll", any, [](T x) { return roll(x, {1, -2}, {0, 1}); });
  add("roll", any, [](T x) { return roll(x, {5}); });
  add("tril", any, [](T x) { return tril(x); });
  add("triu", any, [](T x) { return triu(x, 1); });
  add("pad", any, [](T x) { return pad(x, {1, 2, -1, 1}); });
  add("pad", any, [](T x) { return pad(x, {1, 2}, PadMode::reflect); });
  add("pad", any, [](T x) { return pad(x, {1, 2}, PadMode::replicate); });
  add("pad", any, [](T x) { return pad(x, {1, 2}, PadMode::circular); });
  add("repeat", any, [](T x) { return repeat(x, {2, 1, 3, 1}); });
  add("tile", any, [](T x) { return tile(x, {2, 2}); });
  Adder{table, {3, 4}}("t", any, [](T x) { return x.t(); });

  const Arg arg{{2, 3, 4}};
  table.push_back({"split", any, {arg}, [](const Call& c) { return split(c[0], 3, 2); }});
  table.push_back({"split", any, {arg}, [](const Call& c) { return split(c[0], {1, 3}, 2); }});
  table.push_back({"chunk", any, {arg}, [](const Call& c) { return chunk(c[0], 2, 1); }});
  table.push_back({"unbind", any, {arg}, [](const Call& c) { return unbind(c[0], 1); }});
  table.push_back({"cat", any, {arg, {{2, 1, 4}}}, [](const Call& c) {
                     return Out{cat({c[0], c[1]}, 1)};
                   }});
  table.push_back({"stack", any, {arg, arg}, [](const Call& c) {
                     return Out{stack({c[0], c[1]}, 1)};
                   }});
}

void add_reductions(std::vector<Op>& table) {
  Adder add{table, {2, 3, 4}, Fill::positive};
  const auto any = Takes::any, floating = Takes::floating;
  add("sum", any, [](T x) { return sum(x); });
  add("sum", any, [](T x) { return sum(x, {0, 2}, true); });
  add("sum", any, [](T x) { return sum(x, kFloat64); });
  add("sum_to", any, [](T x) { return sum_to(x, {3, 1}); });
  add("mean", floating, [](T x) { return mean(x); });
  add("mean", floating, [](T x) { return mean(x, {1}); });
  add("var", floating, [](T x) { return var(x, {1}); });
  add("std", floating, [](T x) { return ferrite::std(x); });
  add("max", any, [](T x) { return max(x); });
  add("min", any, [](T x) { return min(x); });
  add("amax", any, [](T x) { return amax(x, {0, 1}); });
  add("amin", any, [](T x) { return amin(x, {2}, true); });
  add("argmax", any, [](T x) { return argmax(x); });
  add("argmax", any, [](T x) { return argmax(x, 1); });
  add("argmin", any, [](T x) { return argmin(x, 2, true); });
  add("norm", floating, [](T x) { return norm(x); });
  add("norm", floating, [](T x) { return norm(x, 3, {1}); });
  add("prod", any, [](T x) { return prod(x); });
  add("prod", any, [](T x) { return prod(x, 1, true); });
  add("any", any, [](T x) { return ferrite::any(x); });
  add("any", any, [](T x) { return ferrite::any(x, 1); });
  add("all", any, [](T x) { return all(x); });
  add("all", any, [](T x) { return all(x, 1); });
  add("count_nonzero", any, [](T x) { return count_nonzero(x); });
  add("cumsum", any, [](T x) { return cumsum(x, 1); });
  add("cumsum_", Takes::numeric, [](T x) { return cumsum_(x, 1); });
  add("argsort", any, [](T x) { return argsort(x, 1); });
  const auto pairs = [&](const char* name, std::function<ValuesIndices(const Tensor&)> f) {
    table.push_back({name, any, {{{2, 3, 4}, Fill::positive}}, [f](const Call& c) {
                       const ValuesIndices r = f(c[0]);
                       return Out{r.values, r.indices};
                     }});
  };
  pairs("max", [](T x) { return max(x, 1); });
  pairs("min", [](T x) { return min(x, -1, true); });
  pairs("topk", [](T x) { return topk(x, 2); });
  pairs("sort", [](T x) { return sort(x, 1, true); });
}

void add_index_ops(std::vector<Op>& table) {
  const Arg x{{4, 5}}, source{{2, 5}};
  const Arg grid{{2, 5}, Fill::index, 4}, list{{2}, Fill::index, 4};
  const Arg mask{{4, 1}, Fill::mask};
  const auto add = [&](const char* name, Takes what, std::vector<Arg> args,
                       std::function<Tensor(const Call&)> f) {
    table.push_back({name, what, std::move(args), [f](const Call& c) { return Out{f(c)}; }});
  };
  using C = const Call&;
  const auto any = Takes::any;
  add("gather", any, {x, grid}, [](C c) { return gather(c[0], 0, c[1]); });
  add("scatter", any, {x, grid, source}, [](C c) { return scatter(c[0], 0, c[1], c[2]); });
  add("scatter", any, {x, grid}, [](C c) { return scatter(c[0], 0, c[1], 1); });
  add("scatter_", any, {x, grid, source}, [](C c) { return scatter_(c[0], 0, c[1], c[2]); });
  add("scatter_", any, {x, grid}, [](C c) { return scatter_(c[0], 0, c[1], 1); });
  add("scatter_add", any, {x, grid, source}, [](C c) { return scatter_add(c[0], 0, c[1], c[2]); });
  add("scatter_add_", any, {x, grid, source},
      [](C c) { return scatter_add_(c[0], 0, c[1], c[2]); });
  add("index_select", any, {x, list}, [](C c) { return index_select(c[0], 0, c[1]); });
  add("index_add", any, {x, list, source}, [](C c) { return index_add(c[0], 0, c[1], c[2], 2); });
  add("index_add_", any, {x, list, source}, [](C c) { return index_add_(c[0], 0, c[1], c[2], 2); });
  add("masked_fill", any, {x, mask}, [](C c) { return masked_fill(c[0], c[1], 1); });
  add("masked_fill_", any, {x, mask}, [](C c) { return c[0].masked_fill_(c[1], 1); });
  add("masked_select", any, {x, mask}, [](C c) { return masked_select(c[0], c[1]); });
  table.back().on_host = true;
  add("nonzero", any, {x}, [](C c) { return nonzero(c[0]); });
  table.back().on_host = true;
  add("one_hot", any, {list}, [](C c) { return one_hot(c[0], 4); });
  add("embedding", any, {list, x}, [](C c) { return embedding(c[0], c[1], 1); });
}

}  // namespace ferrite::test
