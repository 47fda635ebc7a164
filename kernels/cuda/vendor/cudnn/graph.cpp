#include "ferrite/kernels/cuda/vendor/cudnn/graph.h"

#include <algorithm>

#include "ferrite/core/error.h"

namespace ferrite::kernels::cuda::vendor {

namespace {

std::vector<cudnnBackendDescriptor_t> raw(const std::vector<Descriptor>& descriptors) {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const Descriptor& d : descriptors) all.push_back(d.raw());
  return all;
}

/// Whether the limits allow the numerics of a configuration's engine.
bool is_allowed(const Descriptor& configuration, const PlanLimits& limits) {
  Descriptor engine(configuration.cudnn(), CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t filled[] = {engine.raw()};
  configuration.fill(CUDNN_ATTR_ENGINECFG_ENGINE, filled);
  const auto notes = engine.all<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const auto has = [&](cudnnBackendNumericalNote_t note) {
    return std::find(notes.begin(), notes.end(), note) != notes.end();
  };
  // Never round inputs to half precision or sum in half precision.
  if (has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) ||
      has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION))
    return false;
  if (limits.deterministic && has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  return limits.tensor_cores || !has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

}  // namespace

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case kFloat16:
      return CUDNN_DATA_HALF;
    case kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

const Descriptor& Graph::tensor(std::int64_t name, cudnnDataType_t type, const Four& sizes,
                                const Four& strides, std::int64_t alignment, Storage storage) {
  Descriptor& made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .set_list(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
      .set_list(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, name)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, storage == Storage::virtual_memory);
  if (storage == Storage::value) made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  return made.finalize();
}

void Graph::pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor& y,
                      const PointwiseParts& parts) {
  Descriptor& function = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, parts.precision);
  if (mode == CUDNN_POINTWISE_RELU_FWD)  // a loss scaler must see an overflow
    function.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION,
                 CUDNN_PROPAGATE_NAN);
  if (mode == CUDNN_POINTWISE_GEN_INDEX)
    function.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, parts.axis);
  function.finalize();
  Descriptor& operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  if (parts.b) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *parts.b);
  if (parts.t) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *parts.t);
  add(operation.finalize());
}

Plans::Plans(const PlanTarget& target, Graph parts, const PlanLimits& limits)
    : target_(target),
      limits_(limits),
      parts_(std::move(parts)),
      graph_(target.cudnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             std::span<const cudnnBackendDescriptor_t>(parts_.operations()));
  if (target.handle) graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  graph_.finalize();

  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    try {
      for (Descriptor& configuration : configurations_of(mode))
        if (is_allowed(configuration, limits)) configurations_.push_back(std::move(configuration));
    } catch (const NotSupported& refusal) {  // refused by one heuristic; the other may have plans
      why_not_ = refusal.why;
    }
  }
}

std::vector<Descriptor> Plans::configurations_of(cudnnBackendHeurMode_t mode) const {
  const Cudnn& cudnn = target_.cudnn;
  Descriptor heuristic(cudnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
#if CUDNN_VERSION >= 90800
  if (target_.properties) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target_.properties);
#endif
  heuristic.finalize();
  std::int64_t count = heuristic.count(CUDNN_ATTR_ENGINEHEUR_RESULTS);
  std::vector<Descriptor> configurations;
  for (std::int64_t i = 0; i < count; ++i)
    configurations.emplace_back(cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> filled = raw(configurations);
  count = heuristic.fill(CUDNN_ATTR_ENGINEHEUR_RESULTS, filled);
  configurations.erase(configurations.begin() + count, configurations.end());
  return configurations;
}

std::optional<Plan> Plans::make(std::size_t index) const {
  try {
    Descriptor plan(target_.cudnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (target_.handle)
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target_.handle);
#if CUDNN_VERSION >= 90800
    if (target_.properties) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target_.properties);
#endif
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configurations_[index]).finalize();
    const auto bytes =
        plan.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64);
    if (bytes > limits_.workspace) {
      why_not_ = "needs " + std::to_string(bytes) + " bytes of workspace";
      return std::nullopt;
    }
    return Plan(std::move(plan), static_cast<std::size_t>(bytes));
  } catch (const NotSupported& refusal) {
    why_not_ = refusal.why;
    return std::nullopt;
  }
}

bool Plan::run(const char* op, cudnnHandle_t handle, const GraphOperands& operands,
               void* workspace) {
  const Cudnn& cudnn = plan_.cudnn();
  if (!pack_ || !(operands == operands_) || workspace != workspace_) {
    pack_.reset();
    operands_ = operands;
    workspace_ = workspace;
    std::vector<std::int64_t> names = operands_.names;
    std::vector<const void*> pointers = operands_.pointers;
    names.insert(names.end(), operands_.value_names.begin(), operands_.value_names.end());
    for (const float& value : operands_.values) pointers.push_back(&value);
    try {
      Descriptor pack(cudnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
      pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
               std::span<const std::int64_t>(names))
          .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
               std::span<const void* const>(pointers))
          .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace)
          .finalize();
      pack_ = std::move(pack);
    } catch (const NotSupported& refusal) {
      fail<CudaError>(op, "cuDNN does not take the operands: {}", refusal.why);
    }
  }
  const cudnnStatus_t status = cudnn.execute(handle, plan_.raw(), pack_->raw());
  if (CUDNN_STATUS_CATEGORY(static_cast<int>(status)) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  FERRITE_CHECK(status == CUDNN_STATUS_SUCCESS, CudaError, op, "cuDNN failed: {}: {}",
                cudnn.error_string(status), cudnn.last_error());
  return true;
}

}  // namespace ferrite::kernels::cuda::vendor
