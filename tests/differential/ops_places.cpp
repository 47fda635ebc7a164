// Statistics, scans, places and arrangements.
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/quantile.h"
#include "ferrite/ops/samples.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/tests/differential/ops.h"

namespace ferrite::differential {

namespace {

using In = const Tensors&;
using Args = const Json&;

Interpolation to_interpolation(Args a) {
  const std::string text = a["interpolation"];
  return text == "lower"      ? Interpolation::lower
         : text == "higher"   ? Interpolation::higher
         : text == "midpoint" ? Interpolation::midpoint
         : text == "nearest"  ? Interpolation::nearest
                              : Interpolation::linear;
}

SearchOptions to_search(Args a) { return {.out_int32 = a["int32"], .right = a["right"]}; }

UniqueOptions to_unique(Args a) {
  return {.return_inverse = true, .return_counts = true, .dim = maybe<int>(a, "dim")};
}

void add_quantiles(Table& t) {
  using Quantile =
      Tensor (*)(const Tensor&, double, std::optional<int>, bool, Choice<Interpolation>);
  using Quantiles =
      Tensor (*)(const Tensor&, const Tensor&, std::optional<int>, bool, Choice<Interpolation>);
  const auto add = [&](const std::string& name, Quantile one, Quantiles several) {
    t[name] = [one](In x, Args a) {
      return Tensors{one(x[0], a["q"], maybe<int>(a, "dim"), a["keepdim"], to_interpolation(a))};
    };
    t[name + "_tensor"] = [several](In x, Args a) {
      return Tensors{several(x[0], x[1], maybe<int>(a, "dim"), a["keepdim"], to_interpolation(a))};
    };
  };
  add("quantile", quantile, quantile), add("nanquantile", nanquantile, nanquantile);
}

void add_scans(Table& t) {
  t["cumprod"] = [](In x, Args a) { return Tensors{cumprod(x[0], a["dim"], maybe_dtype(a))}; };
  t["cumprod_"] = [](In x, Args a) { return Tensors{cumprod_(x[0], a["dim"])}; };
  t["logcumsumexp"] = [](In x, Args a) { return Tensors{logcumsumexp(x[0], a["dim"])}; };
  t["cummax"] = [](In x, Args a) { return pair(cummax(x[0], a["dim"])); };
  t["cummin"] = [](In x, Args a) { return pair(cummin(x[0], a["dim"])); };
}

}  // namespace

void add_statistics(Table& t) {
  add_quantiles(t);
  add_scans(t);
  t["median"] = [](In x, Args) { return Tensors{median(x[0])}; };
  t["nanmedian"] = [](In x, Args) { return Tensors{nanmedian(x[0])}; };
  t["median_dim"] = [](In x, Args a) { return pair(median(x[0], a["dim"], a["keepdim"])); };
  t["nanmedian_dim"] = [](In x, Args a) { return pair(nanmedian(x[0], a["dim"], a["keepdim"])); };
  t["kthvalue"] = [](In x, Args a) { return pair(kthvalue(x[0], a["k"], a["dim"], a["keepdim"])); };
  t["mode"] = [](In x, Args a) { return pair(mode(x[0], a["dim"], a["keepdim"])); };
  t["histc"] = [](In x, Args a) { return Tensors{histc(x[0], a["bins"], a["min"], a["max"])}; };
  t["bincount"] = [](In x, Args a) {
    return Tensors{bincount(x[0], optional_input(x, 1), a["minlength"])};
  };
  t["logsumexp"] = [](In x, Args a) { return Tensors{logsumexp(x[0], to_dims(a), a["keepdim"])}; };
  t["nansum"] = [](In x, Args a) {
    return Tensors{nansum(x[0], to_dims(a), a["keepdim"], maybe_dtype(a))};
  };
  t["nanmean"] = [](In x, Args a) { return Tensors{nanmean(x[0], to_dims(a), a["keepdim"])}; };
  t["var_mean"] = [](In x, Args a) {
    return pair(var_mean(x[0], to_dims(a), a["correction"], a["keepdim"]));
  };
  t["std_mean"] = [](In x, Args a) {
    return pair(std_mean(x[0], to_dims(a), a["correction"], a["keepdim"]));
  };
  t["aminmax"] = [](In x, Args a) {
    return pair(aminmax(x[0], maybe<int>(a, "dim"), a["keepdim"]));
  };
  t["cov"] = [](In x, Args a) {
    return Tensors{cov(x[0], a["correction"], optional_input(x, 1), optional_input(x, 2))};
  };
  t["corrcoef"] = [](In x, Args) { return Tensors{corrcoef(x[0])}; };
  t["dist"] = [](In x, Args a) { return Tensors{x[0].dist(x[1], a["p"])}; };
  t["vdot"] = [](In x, Args) { return Tensors{vdot(x[0], x[1])}; };
  t["msort"] = [](In x, Args) { return Tensors{msort(x[0])}; };
  t["trapezoid"] = [](In x, Args a) {
    if (x.size() == 2)
      return Tensors{trapezoid(x[0], x[1], a["dim"]), cumulative_trapezoid(x[0], x[1], a["dim"])};
    const double dx = a["dx"];
    return Tensors{trapezoid(x[0], dx, a["dim"]), cumulative_trapezoid(x[0], dx, a["dim"])};
  };
  t["trace"] = [](In x, Args) { return Tensors{trace(x[0])}; };
  t["diff"] = [](In x, Args a) {
    return Tensors{diff(x[0], a["n"], a["dim"], optional_input(x, 1), optional_input(x, 2))};
  };
  t["argsort"] = [](In x, Args a) { return Tensors{argsort(x[0], a["dim"], a["descending"])}; };
  t["softmin"] = [](In x, Args a) { return Tensors{softmin(x[0], a["dim"], maybe_dtype(a))}; };
}

void add_places(Table& t) {
  t["take"] = [](In x, Args) { return Tensors{take(x[0], x[1])}; };
  t["take_along_dim"] = [](In x, Args a) {
    return Tensors{take_along_dim(x[0], x[1], maybe<int>(a, "dim"))};
  };
  t["index_copy"] = [](In x, Args a) { return Tensors{index_copy(x[0], a["dim"], x[1], x[2])}; };
  t["index_copy_"] = [](In x, Args a) { return Tensors{index_copy_(x[0], a["dim"], x[1], x[2])}; };
  t["index_fill"] = [](In x, Args a) {
    return Tensors{index_fill(x[0], a["dim"], x[1], to_scalar(a["value"]))};
  };
  t["index_fill_"] = [](In x, Args a) {
    return Tensors{index_fill_(x[0], a["dim"], x[1], to_scalar(a["value"]))};
  };
  t["masked_scatter"] = [](In x, Args) { return Tensors{masked_scatter(x[0], x[1], x[2])}; };
  t["masked_scatter_"] = [](In x, Args) { return Tensors{masked_scatter_(x[0], x[1], x[2])}; };
  t["scatter_reduce"] = [](In x, Args a) {
    return Tensors{scatter_reduce(x[0], a["dim"], x[1], x[2], a["reduce"].get<std::string>(),
                                  a["include_self"])};
  };
  t["scatter_reduce_"] = [](In x, Args a) {
    return Tensors{scatter_reduce_(x[0], a["dim"], x[1], x[2], a["reduce"].get<std::string>(),
                                   a["include_self"])};
  };
  t["searchsorted"] = [](In x, Args a) { return Tensors{searchsorted(x[0], x[1], to_search(a))}; };
  t["searchsorted_scalar"] = [](In x, Args a) {
    return Tensors{searchsorted(x[0], to_scalar(a["value"]), to_search(a))};
  };
  t["bucketize"] = [](In x, Args a) { return Tensors{bucketize(x[0], x[1], to_search(a))}; };
  t["isin"] = [](In x, Args a) { return Tensors{isin(x[0], x[1], a["invert"])}; };
  t["unique"] = [](In x, Args a) {
    const Unique u = unique(x[0], to_unique(a));
    return Tensors{u.values, u.inverse, u.counts};
  };
  t["unique_consecutive"] = [](In x, Args a) {
    const Unique u = unique_consecutive(x[0], to_unique(a));
    return Tensors{u.values, u.inverse, u.counts};
  };
}

void add_arrangements(Table& t) {
  t["atleast"] = [](In x, Args) {
    return Tensors{atleast_1d(x[0]), atleast_2d(x[0]), atleast_3d(x[0])};
  };
  t["broadcast_tensors"] = [](In x, Args) { return broadcast_tensors(x); };
  t["tensor_split"] = [](In x, Args a) {
    return tensor_split(x[0], a["sections"].get<std::int64_t>(), a["dim"]);
  };
  t["tensor_split_at"] = [](In x, Args a) {
    return tensor_split(x[0], to_list(a["indices"]), a["dim"]);
  };
  t["rot90"] = [](In x, Args a) { return Tensors{rot90(x[0], a["k"], to_dims(a))}; };
  using Join = Tensor (*)(std::span<const Tensor>);
  const auto add = [&](const char* name, Join f) {
    t[name] = [f](In x, Args) { return Tensors{f(x)}; };
  };
  add("hstack", hstack), add("vstack", vstack), add("dstack", dstack);
  add("block_diag", block_diag), add("cartesian_prod", cartesian_prod);
  t["meshgrid"] = [](In x, Args a) { return meshgrid(x, a["indexing"].get<std::string>()); };
  t["combinations"] = [](In x, Args a) {
    return Tensors{combinations(x[0], a["r"], a["replacement"])};
  };
  t["triangle_indices"] = [](In, Args a) {
    return Tensors{tril_indices(a["rows"], a["columns"], a["offset"]),
                   triu_indices(a["rows"], a["columns"], a["offset"])};
  };
  add("column_stack", column_stack);
  t["hsplit"] = [](In x, Args a) { return hsplit(x[0], a["sections"].get<std::int64_t>()); };
  t["vsplit"] = [](In x, Args a) { return vsplit(x[0], to_list(a["indices"])); };
  t["dsplit"] = [](In x, Args a) { return dsplit(x[0], to_list(a["indices"])); };
  t["fliplr"] = [](In x, Args) { return Tensors{fliplr(x[0])}; };
  t["flipud"] = [](In x, Args) { return Tensors{flipud(x[0])}; };
  t["diagflat"] = [](In x, Args a) { return Tensors{diagflat(x[0], a["offset"])}; };
  t["select_scatter"] = [](In x, Args a) {
    return Tensors{select_scatter(x[0], x[1], a["dim"], a["index"])};
  };
  t["slice_scatter"] = [](In x, Args a) {
    return Tensors{slice_scatter(x[0], x[1], a["dim"], a["start"], a["end"], a["step"])};
  };
  t["diagonal_scatter"] = [](In x, Args a) {
    return Tensors{diagonal_scatter(x[0], x[1], a["offset"], a["dim1"], a["dim2"])};
  };
  t["tril_"] = [](In x, Args a) { return Tensors{x[0].tril_(a["diagonal"])}; };
  t["triu_"] = [](In x, Args a) { return Tensors{x[0].triu_(a["diagonal"])}; };
  t["fill_diagonal_"] = [](In x, Args a) {
    return Tensors{x[0].fill_diagonal_(to_scalar(a["value"]))};
  };
  t["diag"] = [](In x, Args a) { return Tensors{diag(x[0], a["diagonal"])}; };
  t["diag_embed"] = [](In x, Args a) {
    return Tensors{diag_embed(x[0], a["offset"], a["dim1"], a["dim2"])};
  };
  t["repeat_interleave"] = [](In x, Args a) {
    return Tensors{repeat_interleave(x[0], a["repeats"].get<std::int64_t>(), maybe<int>(a, "dim"))};
  };
  t["repeat_interleave_tensor"] = [](In x, Args a) {
    return Tensors{repeat_interleave(x[0], x[1], maybe<int>(a, "dim"))};
  };
  t["pixel_shuffle"] = [](In x, Args a) { return Tensors{pixel_shuffle(x[0], a["factor"])}; };
  t["pixel_unshuffle"] = [](In x, Args a) { return Tensors{pixel_unshuffle(x[0], a["factor"])}; };
  t["channel_shuffle"] = [](In x, Args a) { return Tensors{channel_shuffle(x[0], a["groups"])}; };
  const auto windows = [](Args a) {
    return FoldOptions{.dilation = to_pair(a, "dilation"),
                       .padding = to_pair(a, "padding"),
                       .stride = to_pair(a, "stride")};
  };
  t["im2col"] = [windows](In x, Args a) {
    return Tensors{unfold(x[0], to_pair(a, "kernel"), windows(a))};
  };
  t["col2im"] = [windows](In x, Args a) {
    return Tensors{fold(x[0], to_pair(a, "size"), to_pair(a, "kernel"), windows(a))};
  };
}

}  // namespace ferrite::differential
