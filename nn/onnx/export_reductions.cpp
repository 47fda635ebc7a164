// Sums, means and others along dimensions; softmax.
#include "ferrite/nn/onnx/builder.h"

namespace ferrite::onnx {

namespace {

/// The dimensions of the op; all of them if it names none.
std::vector<std::int64_t> axes_of(const Exported& e) {
  std::vector<std::int64_t> axes = e.op.integers("dims");
  if (axes.empty())
    for (int d = 0; d < e.input(0).dim(); ++d) axes.push_back(d);
  return axes;
}

std::string reduced(Exported& e, const char* type, const std::string& x,
                    const std::vector<std::int64_t>& axes, bool keepdim) {
  if (axes.empty()) return x;  // of no dimensions
  const NamedAttribute keeps{"keepdims", std::int64_t{keepdim}};
  if (std::string_view(type) == "ReduceSum" || e.graph.opset() >= 18)
    return e.graph.node(type, {x, e.graph.integers(axes)}, {keeps});
  return e.graph.node(type, {x}, {{"axes", axes}, keeps});
}

std::string reduced(Exported& e, const char* type, const std::string& x, bool keepdim) {
  return reduced(e, type, x, axes_of(e), keepdim);
}

template <const char* const& Type>
void export_reduction(Exported& e) {
  e.give(reduced(e, Type, e.as(0, e.output().dtype()), e.op.flag("keepdim")));
}

std::string variance(Exported& e) {
  const DType dtype = e.output().dtype();
  const std::string& x = e.inputs[0];
  double count = -static_cast<double>(e.op.integer("correction"));
  double all = 1;
  for (const std::int64_t d : axes_of(e))
    all *= static_cast<double>(e.fixed_size(0, static_cast<int>(d < 0 ? d + e.input(0).dim() : d)));
  count += all;
  const std::string centred = e.graph.node("Sub", {x, reduced(e, "ReduceMean", x, true)});
  const std::string sum =
      reduced(e, "ReduceSum", e.graph.node("Mul", {centred, centred}), e.op.flag("keepdim"));
  return e.graph.node("Div", {sum, e.graph.scalar(count, dtype)});
}

void export_var(Exported& e) { e.give(variance(e)); }
void export_std(Exported& e) { e.give(e.graph.node("Sqrt", {variance(e)})); }

void export_norm(Exported& e) {
  const double p = e.op.number("p");
  if (p != 1 && p != 2) e.op.refuse(fmt::format("the norm of power {} has no equivalent", p));
  e.give(reduced(e, p == 1 ? "ReduceL1" : "ReduceL2", e.as(0, e.output().dtype()),
                 e.op.flag("keepdim")));
}

template <const char* const& Type>
void export_arg(Exported& e) {
  e.give(e.graph.node(
      Type, {e.inputs[0]},
      {{"axis", e.op.integer("dim")}, {"keepdims", std::int64_t{e.op.flag("keepdim")}}}));
}

/// Both the largest or smallest elements along a dimension, and where they are.
template <const char* const& Type, const char* const& ArgType>
void export_extremum(Exported& e) {
  if (e.input(0).dim() == 0) e.op.refuse("it is of a tensor of no dimensions");
  const std::int64_t dim = e.op.integer("dim"), keepdim{e.op.flag("keepdim")};
  e.give(reduced(e, Type, e.inputs[0], {dim}, keepdim != 0));
  e.outputs[1] = e.graph.node(ArgType, {e.inputs[0]}, {{"axis", dim}, {"keepdims", keepdim}});
}

template <const char* const& Type>
void export_along(Exported& e) {
  const std::string x = e.as(0, e.output().dtype());
  if (e.input(0).dim() == 0) e.op.refuse("it is of a tensor of no dimensions");
  e.give(e.graph.node(Type, {x}, {{"axis", e.op.integer("dim")}}));
}

void export_cumsum(Exported& e) {
  e.give(e.graph.node("CumSum",
                      {e.as(0, e.output().dtype()), e.graph.scalar(e.op.integer("dim"), kInt64)}));
}

/// Whether any or all are not 0: the largest or smallest of 0 and 1.
template <const char* const& Type>
void export_question(Exported& e) {
  const std::string bits = e.graph.cast(e.as(0, kBool), kBool, kInt32);
  e.give(e.graph.cast(reduced(e, Type, bits, e.op.flag("keepdim")), kInt32, e.output().dtype()));
}

constexpr const char *kReduceSum = "ReduceSum", *kReduceMean = "ReduceMean",
                     *kReduceMax = "ReduceMax", *kReduceMin = "ReduceMin", *kArgMax = "ArgMax",
                     *kArgMin = "ArgMin", *kSoftmax = "Softmax", *kLogSoftmax = "LogSoftmax",
                     *kReduceLogSumExp = "ReduceLogSumExp";

}  // namespace

const ExporterTable& reduction_exporters() {
  static const ExporterTable table{
      {"sum", export_reduction<kReduceSum>},
      {"mean", export_reduction<kReduceMean>},
      {"amax", export_reduction<kReduceMax>},
      {"amin", export_reduction<kReduceMin>},
      {"max", export_extremum<kReduceMax, kArgMax>},
      {"min", export_extremum<kReduceMin, kArgMin>},
      {"logsumexp", export_reduction<kReduceLogSumExp>},
      {"any", export_question<kReduceMax>},
      {"all", export_question<kReduceMin>},
      {"var", export_var},
      {"std", export_std},
      {"norm", export_norm},
      {"argmax", export_arg<kArgMax>},
      {"argmin", export_arg<kArgMin>},
      {"cumsum", export_cumsum},
      {"softmax", export_along<kSoftmax>},
      {"log_softmax", export_along<kLogSoftmax>},
  };
  return table;
}

}  // namespace ferrite::onnx
