// Softmax, reductions and sums along a dimension.
#include "ferrite/nn/onnx/graph.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"

namespace ferrite::onnx {

namespace {

using Results = std::vector<Tensor>;

Results run_softmax(const Call& c) { return {softmax(c[0], c.dim(c.integer("axis", -1)))}; }
Results run_log_softmax(const Call& c) { return {log_softmax(c[0], c.dim(c.integer("axis", -1)))}; }

/// Whether no dimension is reduced. An empty list is otherwise one of all dimensions.
bool reduces_nothing(const Call& c) {
  return c.integer("noop_with_empty_axes", 0) != 0 && c.list_or_input("axes", 1).empty();
}

template <class F>
Results reduced(const Call& c, F f) {
  if (reduces_nothing(c)) return {c[0]};
  const std::vector<std::int64_t> axes = c.list_or_input("axes", 1);
  return {f(c[0], Dims(Shape(axes)), c.integer("keepdims", 1) != 0)};
}
Results reduce_sum(const Call& c) {
  return reduced(c, [](const Tensor& x, const Dims& d, bool k) { return sum(x, d, k, x.dtype()); });
}
Results reduce_mean(const Call& c) {
  return reduced(c, [](const Tensor& x, const Dims& d, bool k) { return mean(x, d, k); });
}
Results reduce_max(const Call& c) {
  return reduced(c, [](const Tensor& x, const Dims& d, bool k) { return amax(x, d, k); });
}
Results reduce_min(const Call& c) {
  return reduced(c, [](const Tensor& x, const Dims& d, bool k) { return amin(x, d, k); });
}
Results reduce_log_sum_exp(const Call& c) {
  return reduced(c, [](const Tensor& x, const Dims& d, bool k) { return logsumexp(x, d, k); });
}
// Norms of single elements are their absolute values.
Results reduce_l1(const Call& c) {
  if (reduces_nothing(c)) return {abs(c[0])};
  return reduced(c, [](const Tensor& x, const Dims& d, bool k) { return norm(x, 1, d, k); });
}
Results reduce_l2(const Call& c) {
  if (reduces_nothing(c)) return {abs(c[0])};
  return reduced(c, [](const Tensor& x, const Dims& d, bool k) { return norm(x, 2, d, k); });
}

template <Tensor (*F)(const Tensor&, std::optional<int>, bool)>
Results arg(const Call& c) {
  if (c.integer("select_last_index", 0) != 0) c.node.refuse("select_last_index is not read");
  return {F(c[0], c.dim(c.integer("axis", 0)), c.integer("keepdims", 1) != 0)};
}

Results run_cumsum(const Call& c) {
  const int d = c.dim(c[1].item<std::int64_t>());
  const bool reverse = c.integer("reverse", 0) != 0;
  const Tensor x = reverse ? flip(c[0], d) : c[0];
  Tensor sums = cumsum(x, d, x.dtype());
  if (c.integer("exclusive", 0) != 0 && x.size(d) > 0) {
    // Not the sums less x: those of infinities would be NaN.
    const Tensor first = zeros_like(x.slice(d, 0, 1));
    sums = cat({first, sums.slice(d, 0, x.size(d) - 1)}, d);
  }
  return {reverse ? flip(sums, d) : sums};
}

const std::vector<std::string_view> kReduction{"axes", "keepdims", "noop_with_empty_axes"};

}  // namespace

const KernelTable& reduction_kernels() {
  static const KernelTable table{
      {"Softmax", {1, 1, 1, {"axis"}, run_softmax}},
      {"LogSoftmax", {1, 1, 1, {"axis"}, run_log_softmax}},
      {"ReduceSum", {1, 2, 1, kReduction, reduce_sum}},
      {"ReduceMean", {1, 2, 1, kReduction, reduce_mean}},
      {"ReduceMax", {1, 2, 1, kReduction, reduce_max}},
      {"ReduceMin", {1, 2, 1, kReduction, reduce_min}},
      {"ReduceLogSumExp", {1, 2, 1, kReduction, reduce_log_sum_exp}},
      {"ReduceL1", {1, 2, 1, kReduction, reduce_l1}},
      {"ReduceL2", {1, 2, 1, kReduction, reduce_l2}},
      {"ArgMax", {1, 1, 1, {"axis", "keepdims", "select_last_index"}, arg<argmax>}},
      {"ArgMin", {1, 1, 1, {"axis", "keepdims", "select_last_index"}, arg<argmin>}},
      {"CumSum", {2, 2, 1, {"exclusive", "reverse"}, run_cumsum}},
  };
  return table;
}

}  // namespace ferrite::onnx
