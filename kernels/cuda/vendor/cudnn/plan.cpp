#include "kernels/cuda/vendor/cudnn/plan.h"

#include <cudnn_frontend.h>

#include "core/error.h"

namespace ferrite::kernels::cuda::vendor {

namespace fe = cudnn_frontend;

namespace {

// Names of the operands in the graph.
constexpr std::int64_t kInput = 1, kWeight = 2, kOut = 3, kBias = 4;
constexpr std::int64_t kWorkspaceLimit = std::int64_t{1} << 30;

fe::DataType_t data_type(DType dtype) {
  switch (dtype) {
    case kFloat16:
      return fe::DataType_t::HALF;
    case kBFloat16:
      return fe::DataType_t::BFLOAT16;
    case kFloat64:
      return fe::DataType_t::DOUBLE;
    default:
      return fe::DataType_t::FLOAT;
  }
}

std::vector<std::int64_t> list(const std::array<std::int64_t, 2>& a) { return {a[0], a[1]}; }
std::vector<std::int64_t> list(const std::array<std::int64_t, 4>& a) {
  return {a.begin(), a.end()};
}

fe::graph::Tensor_attributes attributes(const char* name, std::int64_t uid,
                                        const ConvProblem::Operand& operand) {
  return fe::graph::Tensor_attributes()
      .set_name(name)
      .set_uid(uid)
      .set_dim(list(operand.sizes))
      .set_stride(list(operand.strides))
      .set_alignment(static_cast<std::int64_t>(operand.alignment));
}

template <class Attributes>
Attributes geometry(const ConvProblem& p) {
  return Attributes()
      .set_pre_padding(list(p.before))
      .set_post_padding(list(p.after))
      .set_stride(list(p.stride))
      .set_dilation(list(p.dilation));
}

void mark_output(const std::shared_ptr<fe::graph::Tensor_attributes>& tensor, std::int64_t uid,
                 const ConvProblem::Operand& operand) {
  tensor->set_output(true)
      .set_uid(uid)
      .set_dim(list(operand.sizes))
      .set_stride(list(operand.strides))
      .set_alignment(static_cast<std::int64_t>(operand.alignment));
}

void add_forward(fe::graph::Graph& graph, const ConvProblem& p) {
  const auto input = graph.tensor(attributes("input", kInput, p.input));
  const auto weight = graph.tensor(attributes("weight", kWeight, p.weight));
  auto out = graph.conv_fprop(input, weight, geometry<fe::graph::Conv_fprop_attributes>(p));
  if (p.has_bias) {
    const std::int64_t channels = p.out.sizes[1];
    const auto bias = graph.tensor(fe::graph::Tensor_attributes()
                                       .set_name("bias")
                                       .set_uid(kBias)
                                       .set_dim({1, channels, 1, 1})
                                       .set_stride({channels, 1, channels, channels}));
    out->set_data_type(fe::DataType_t::FLOAT);  // rounded once, after the bias
    out = graph.pointwise(out, bias,
                          fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }
  mark_output(out, kOut, p.out);
}

void add_data_gradient(fe::graph::Graph& graph, const ConvProblem& p) {
  const auto grad = graph.tensor(attributes("grad", kOut, p.out));
  const auto weight = graph.tensor(attributes("weight", kWeight, p.weight));
  mark_output(graph.conv_dgrad(grad, weight, geometry<fe::graph::Conv_dgrad_attributes>(p)), kInput,
              p.input);
}

void add_weight_gradient(fe::graph::Graph& graph, const ConvProblem& p) {
  const auto grad = graph.tensor(attributes("grad", kOut, p.out));
  const auto input = graph.tensor(attributes("input", kInput, p.input));
  mark_output(graph.conv_wgrad(grad, input, geometry<fe::graph::Conv_wgrad_attributes>(p)), kWeight,
              p.weight);
}

void check(fe::error_t status, const char* what) {
  if (status.is_bad())
    fail<CudaError>("conv2d", "cuDNN: {} failed: {}", what, status.get_message());
}

}  // namespace

struct ConvPlan::Impl {
  using Variants = std::unordered_map<std::int64_t, void*>;
  Variants variants(const Pointers& p) const {
    Variants all = {{kInput, p.input}, {kWeight, p.weight}, {kOut, p.out}};
    if (has_bias) all.emplace(kBias, p.bias);
    return all;
  }

  fe::graph::Graph graph;
  std::size_t workspace_bytes = 0;
  bool has_bias = false;
};

ConvPlan::ConvPlan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ConvPlan::~ConvPlan() = default;

std::size_t ConvPlan::workspace_bytes() const { return impl_->workspace_bytes; }

std::unique_ptr<ConvPlan> ConvPlan::make(cudnnHandle_t handle, const ConvProblem& p) {
  auto impl = std::make_unique<Impl>();
  impl->has_bias = p.has_bias;
  fe::graph::Graph& graph = impl->graph;
  const fe::DataType_t wide = p.dtype == kFloat64 ? fe::DataType_t::DOUBLE : fe::DataType_t::FLOAT;
  graph.set_io_data_type(data_type(p.dtype))
      .set_intermediate_data_type(wide)
      .set_compute_data_type(wide);
  switch (p.pass) {
    case Pass::forward:
      add_forward(graph, p);
      break;
    case Pass::data:
      add_data_gradient(graph, p);
      break;
    case Pass::weight:
      add_weight_gradient(graph, p);
  }
  if (graph.validate().is_bad() || graph.build_operation_graph(handle).is_bad()) return nullptr;
  if (graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}).is_bad())
    return nullptr;
  graph.deselect_workspace_greater_than(kWorkspaceLimit);
  if (p.deterministic) graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
  if (p.dtype == kFloat32 && !p.tf32)
    graph.deselect_numeric_notes(
        {fe::NumericalNote_t::TENSOR_CORE, fe::NumericalNote_t::DOWN_CONVERT_INPUTS});
  if (graph.check_support(handle).is_bad()) return nullptr;
  const auto which =
      p.measured ? fe::BuildPlanPolicy_t::ALL : fe::BuildPlanPolicy_t::HEURISTICS_CHOICE;
  if (graph.build_plans(handle, which).is_bad()) return nullptr;
  std::int64_t bytes = 0;
  if (graph.get_workspace_size(bytes).is_bad()) return nullptr;
  impl->workspace_bytes = static_cast<std::size_t>(bytes);
  return std::unique_ptr<ConvPlan>(new ConvPlan(std::move(impl)));
}

std::size_t ConvPlan::measuring_workspace_bytes() const {
  return static_cast<std::size_t>(impl_->graph.get_autotune_workspace_size());
}

void ConvPlan::measure(cudnnHandle_t handle, const Pointers& pointers, void* workspace) {
  Impl::Variants all = impl_->variants(pointers);
  check(impl_->graph.autotune(handle, all, workspace), "timing the plans of a convolution");
  std::int64_t bytes = 0;
  check(impl_->graph.get_workspace_size(bytes), "asking for a plan's workspace");
  impl_->workspace_bytes = static_cast<std::size_t>(bytes);
}

void ConvPlan::run(cudnnHandle_t handle, const Pointers& pointers, void* workspace) const {
  Impl::Variants all = impl_->variants(pointers);
  check(impl_->graph.execute(handle, all, workspace), "a convolution");
}

}  // namespace ferrite::kernels::cuda::vendor
