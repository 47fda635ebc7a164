// Reductions, indexing, joining and views.
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/differential/ops.h"

namespace ferrite::differential {

namespace {

using In = const Tensors&;
using Args = const Json&;

std::vector<Tensor> joined(In in) { return {in.begin(), in.end()}; }

}  // namespace

void add_reductions(Table& t) {
  t["sum"] = [](In x, Args a) {
    return Tensors{sum(x[0], to_dims(a), a["keepdim"], maybe_dtype(a))};
  };
  t["mean"] = [](In x, Args a) {
    return Tensors{mean(x[0], to_dims(a), a["keepdim"], maybe_dtype(a))};
  };
  t["var"] = [](In x, Args a) {
    return Tensors{var(x[0], to_dims(a), a["correction"], a["keepdim"])};
  };
  t["std"] = [](In x, Args a) {
    return Tensors{std(x[0], to_dims(a), a["correction"], a["keepdim"])};
  };
  t["amax"] = [](In x, Args a) { return Tensors{amax(x[0], to_dims(a), a["keepdim"])}; };
  t["amin"] = [](In x, Args a) { return Tensors{amin(x[0], to_dims(a), a["keepdim"])}; };
  t["norm"] = [](In x, Args a) {
    return Tensors{norm(x[0], to_scalar(a["p"]).to<double>(), to_dims(a), a["keepdim"])};
  };
  t["count_nonzero"] = [](In x, Args a) { return Tensors{count_nonzero(x[0], to_dims(a))}; };
  t["max"] = [](In x, Args) { return Tensors{max(x[0])}; };
  t["min"] = [](In x, Args) { return Tensors{min(x[0])}; };
  t["prod"] = [](In x, Args) { return Tensors{prod(x[0])}; };
  t["any"] = [](In x, Args) { return Tensors{any(x[0])}; };
  t["all"] = [](In x, Args) { return Tensors{all(x[0])}; };
  t["max_dim"] = [](In x, Args a) { return pair(max(x[0], a["dim"], a["keepdim"])); };
  t["min_dim"] = [](In x, Args a) { return pair(min(x[0], a["dim"], a["keepdim"])); };
  t["prod_dim"] = [](In x, Args a) { return Tensors{prod(x[0], a["dim"], a["keepdim"])}; };
  t["any_dim"] = [](In x, Args a) { return Tensors{any(x[0], a["dim"], a["keepdim"])}; };
  t["all_dim"] = [](In x, Args a) { return Tensors{all(x[0], a["dim"], a["keepdim"])}; };
  t["argmax"] = [](In x, Args a) {
    return Tensors{argmax(x[0], maybe<int>(a, "dim"), a["keepdim"])};
  };
  t["argmin"] = [](In x, Args a) {
    return Tensors{argmin(x[0], maybe<int>(a, "dim"), a["keepdim"])};
  };
  t["cumsum"] = [](In x, Args a) { return Tensors{cumsum(x[0], a["dim"], maybe_dtype(a))}; };
  t["cumsum_"] = [](In x, Args a) { return Tensors{cumsum_(x[0], a["dim"])}; };
  t["topk"] = [](In x, Args a) { return pair(topk(x[0], a["k"], a["dim"], a["largest"])); };
  t["sort"] = [](In x, Args a) { return pair(sort(x[0], a["dim"], a["descending"])); };
  t["softmax"] = [](In x, Args a) { return Tensors{softmax(x[0], a["dim"], maybe_dtype(a))}; };
  t["log_softmax"] = [](In x, Args a) {
    return Tensors{log_softmax(x[0], a["dim"], maybe_dtype(a))};
  };
}

void add_indexing(Table& t) {
  t["gather"] = [](In x, Args a) { return Tensors{gather(x[0], a["dim"], x[1])}; };
  t["scatter"] = [](In x, Args a) { return Tensors{scatter(x[0], a["dim"], x[1], x[2])}; };
  t["scatter_"] = [](In x, Args a) { return Tensors{scatter_(x[0], a["dim"], x[1], x[2])}; };
  t["scatter_value"] = [](In x, Args a) {
    return Tensors{scatter(x[0], a["dim"], x[1], to_scalar(a["value"]))};
  };
  t["scatter_add"] = [](In x, Args a) { return Tensors{scatter_add(x[0], a["dim"], x[1], x[2])}; };
  t["scatter_add_"] = [](In x, Args a) {
    return Tensors{scatter_add_(x[0], a["dim"], x[1], x[2])};
  };
  t["index_select"] = [](In x, Args a) { return Tensors{index_select(x[0], a["dim"], x[1])}; };
  t["index_add"] = [](In x, Args a) {
    return Tensors{index_add(x[0], a["dim"], x[1], x[2], to_scalar(a["alpha"]))};
  };
  t["index_add_"] = [](In x, Args a) {
    return Tensors{index_add_(x[0], a["dim"], x[1], x[2], to_scalar(a["alpha"]))};
  };
  t["masked_fill"] = [](In x, Args a) {
    return Tensors{masked_fill(x[0], x[1], to_scalar(a["value"]))};
  };
  t["masked_fill_"] = [](In x, Args a) {
    return Tensors{x[0].masked_fill_(x[1], to_scalar(a["value"]))};
  };
  t["masked_select"] = [](In x, Args) { return Tensors{masked_select(x[0], x[1])}; };
  t["nonzero"] = [](In x, Args) { return Tensors{nonzero(x[0])}; };
  t["one_hot"] = [](In x, Args a) { return Tensors{one_hot(x[0], a["classes"])}; };
  t["embedding"] = [](In x, Args a) {
    return Tensors{embedding(x[0], x[1], maybe<std::int64_t>(a, "padding_idx"))};
  };
  t["cat"] = [](In x, Args a) { return Tensors{cat(joined(x), a["dim"].get<int>())}; };
  t["stack"] = [](In x, Args a) { return Tensors{stack(joined(x), a["dim"].get<int>())}; };
  t["split"] = [](In x, Args a) {
    return split(x[0], a["size"].get<std::int64_t>(), a["dim"].get<int>());
  };
  t["chunk"] = [](In x, Args a) { return chunk(x[0], a["chunks"], a["dim"]); };
  t["unbind"] = [](In x, Args a) { return unbind(x[0], a["dim"]); };
  t["repeat"] = [](In x, Args a) { return Tensors{repeat(x[0], to_shape(a["repeats"]))}; };
  t["tile"] = [](In x, Args a) { return Tensors{tile(x[0], to_shape(a["repeats"]))}; };
  t["pad"] = [](In x, Args a) {
    const std::string mode = a["mode"];
    return Tensors{pad(x[0], a["amounts"].get<std::vector<std::int64_t>>(),
                       mode == "reflect"     ? PadMode::reflect
                       : mode == "replicate" ? PadMode::replicate
                       : mode == "circular"  ? PadMode::circular
                                             : PadMode::constant,
                       to_scalar(a["value"]))};
  };
  t["flip"] = [](In x, Args a) { return Tensors{flip(x[0], to_dims(a))}; };
  t["roll"] = [](In x, Args a) { return Tensors{roll(x[0], to_dims(a, "shifts"), to_dims(a))}; };
  t["tril"] = [](In x, Args a) { return Tensors{tril(x[0], a["diagonal"])}; };
  t["triu"] = [](In x, Args a) { return Tensors{triu(x[0], a["diagonal"])}; };
  t["unfold"] = [](In x, Args a) { return Tensors{x[0].unfold(a["dim"], a["size"], a["step"])}; };
  t["diagonal"] = [](In x, Args a) {
    return Tensors{diagonal(x[0], a["offset"], a["dim1"], a["dim2"])};
  };
  t["reshape"] = [](In x, Args a) { return Tensors{x[0].reshape(to_shape(a["shape"]))}; };
  t["select"] = [](In x, Args a) { return Tensors{x[0].select(a["dim"], a["index"])}; };
  t["squeeze"] = [](In x, Args) { return Tensors{x[0].squeeze()}; };
  t["unsqueeze"] = [](In x, Args a) { return Tensors{x[0].unsqueeze(a["dim"])}; };
}

}  // namespace ferrite::differential
