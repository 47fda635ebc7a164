#include "ferrite/kernels/cuda/vendor/cudnn/plan.h"

#include <algorithm>
#include <initializer_list>

#include "ferrite/core/error.h"

namespace ferrite::kernels::cuda::vendor {

namespace {

// The operands' names in the graph.
constexpr std::int64_t kInput = 1, kWeight = 2, kOut = 3, kBias = 4, kSum = 5, kSquares = 6,
                       kFirstVirtual = 10;

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

/// The attributes of an operation that convolves.
struct ConvolutionNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t geometry, input, weight, out, alpha, beta;
};

constexpr ConvolutionNames names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      break;
    case ConvPass::data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvPass::weight:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

/// Builds the description of a problem. Descriptors refer to other descriptors, so all are kept.
class Builder {
 public:
  Builder(const Cudnn& cudnn, const ConvProblem& problem, std::vector<Descriptor>& kept)
      : cudnn_(cudnn), p_(problem), kept_(kept) {
    kept.reserve(32);  // references to them are held
  }

  /// The operations, in their order.
  std::vector<cudnnBackendDescriptor_t> operations() {
    // Between the operations of a fused convolution, results are float32; they are rounded once at
    // the end.
    int results = 1 + (p_.has_bias ? 1 : 0) + (p_.has_relu ? 1 : 0);
    const auto result = [&]() -> const Descriptor& {
      return --results == 0 ? operand(kOut, p_.out) : between(kFirstVirtual + results);
    };
    const Descriptor* last = &result();
    std::vector<cudnnBackendDescriptor_t> all{convolution(*last)};
    if (p_.has_bias) {
      const Descriptor& sum = result();
      all.push_back(pointwise(CUDNN_POINTWISE_ADD, *last, &per_channel(kBias, p_.dtype), sum));
      last = &sum;
    }
    if (p_.has_relu) all.push_back(pointwise(CUDNN_POINTWISE_RELU_FWD, *last, nullptr, result()));
    if (p_.has_stats) all.push_back(sums(*last));
    return all;
  }

 private:
  using Four = std::array<std::int64_t, 4>;

  Descriptor& make(cudnnBackendDescriptorType_t type) { return kept_.emplace_back(cudnn_, type); }

  const Descriptor& tensor(std::int64_t name, cudnnDataType_t type, const Four& sizes,
                           const Four& strides, std::int64_t alignment, bool is_virtual = false) {
    return make(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
        .set_list(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
        .set_list(CUDNN_ATTR_TENSOR_STRIDES, strides)
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, name)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment)
        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual)
        .finalize();
  }
  const Descriptor& operand(std::int64_t name, const ConvProblem::Operand& o) {
    return tensor(name, data_type(p_.dtype), o.sizes, p_.strides(o), o.alignment);
  }
  const Descriptor& between(std::int64_t name) {
    return tensor(name, CUDNN_DATA_FLOAT, p_.out.sizes, p_.strides(p_.out), 16, true);
  }
  /// One value for each channel of the output.
  const Descriptor& per_channel(std::int64_t name, DType dtype) {
    const std::int64_t channels = p_.out.sizes[1];
    return tensor(name, data_type(dtype), {1, channels, 1, 1}, {channels, 1, channels, channels},
                  static_cast<std::int64_t>(itemsize(dtype)));
  }

  const Descriptor& geometry() {
    return make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2})
        .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
        .set_list(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, p_.before)
        .set_list(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, p_.after)
        .set_list(CUDNN_ATTR_CONVOLUTION_DILATIONS, p_.dilation)
        .set_list(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, p_.stride)
        .finalize();
  }

  cudnnBackendDescriptor_t convolution(const Descriptor& result) {
    const ConvolutionNames names = names_of(p_.pass);
    return make(names.type)
        .set(names.geometry, geometry())
        .set(names.input, operand(kInput, p_.input))
        .set(names.weight, operand(kWeight, p_.weight))
        .set(names.out, result)
        .set(names.alpha, CUDNN_TYPE_FLOAT, 1.0F)
        .set(names.beta, CUDNN_TYPE_FLOAT, 0.0F)
        .finalize()
        .raw();
  }

  /// to = mode(from, other).
  cudnnBackendDescriptor_t pointwise(cudnnPointwiseMode_t mode, const Descriptor& from,
                                     const Descriptor* other, const Descriptor& to) {
    Descriptor& function = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    if (mode == CUDNN_POINTWISE_RELU_FWD)  // a loss scaler must see an overflow
      function.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION,
                   CUDNN_PROPAGATE_NAN);
    function.finalize();
    Descriptor& operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    if (other) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *other);
    return operation.finalize().raw();
  }

  cudnnBackendDescriptor_t sums(const Descriptor& of) {
    return make(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM)
        .set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, of)
        .set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, per_channel(kSum, kFloat32))
        .set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, per_channel(kSquares, kFloat32))
        .finalize()
        .raw();
  }

  const Cudnn& cudnn_;
  const ConvProblem& p_;
  std::vector<Descriptor>& kept_;
};

std::vector<cudnnBackendDescriptor_t> raw(const std::vector<Descriptor>& descriptors) {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const Descriptor& d : descriptors) all.push_back(d.raw());
  return all;
}

/// Whether the problem allows the numerics of a configuration's engine.
bool is_allowed(const Descriptor& configuration, const ConvProblem& p) {
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
  if (p.deterministic && has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  return p.dtype != kFloat32 || p.tf32 || !has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

}  // namespace

ConvPlans::ConvPlans(const PlanTarget& target, const ConvProblem& problem)
    : target_(target),
      workspace_limit_(problem.workspace_limit),
      graph_(target.cudnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  const std::vector<cudnnBackendDescriptor_t> operations =
      Builder(target.cudnn, problem, parts_).operations();
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             std::span<const cudnnBackendDescriptor_t>(operations));
  if (target.handle) graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  graph_.finalize();

  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    try {
      for (Descriptor& configuration : configurations_of(mode))
        if (is_allowed(configuration, problem)) configurations_.push_back(std::move(configuration));
    } catch (const NotSupported& refusal) {  // refused by one heuristic; the other may have plans
      why_not_ = refusal.why;
    }
  }
}

std::vector<Descriptor> ConvPlans::configurations_of(cudnnBackendHeurMode_t mode) const {
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

std::optional<ConvPlan> ConvPlans::make(std::size_t index) const {
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
    if (bytes > workspace_limit_) {
      why_not_ = "needs " + std::to_string(bytes) + " bytes of workspace";
      return std::nullopt;
    }
    return ConvPlan(std::move(plan), static_cast<std::size_t>(bytes));
  } catch (const NotSupported& refusal) {
    why_not_ = refusal.why;
    return std::nullopt;
  }
}

bool ConvPlan::run(cudnnHandle_t handle, const Pointers& p, void* workspace) {
  const Cudnn& cudnn = plan_.cudnn();
  if (!operands_ || !(p == pointers_) || workspace != workspace_) {
    std::vector<std::int64_t> names;
    std::vector<const void*> pointers;
    const auto add = [&](std::int64_t name, const void* pointer) {
      if (!pointer) return;
      names.push_back(name);
      pointers.push_back(pointer);
    };
    add(kInput, p.input);
    add(kWeight, p.weight);
    add(kOut, p.out);
    add(kBias, p.extras.bias);
    add(kSum, p.extras.sum);
    add(kSquares, p.extras.squares);
    operands_.reset();
    try {
      Descriptor operands(cudnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
      operands
          .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
               std::span<const std::int64_t>(names))
          .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
               std::span<const void* const>(pointers))
          .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace)
          .finalize();
      operands_ = std::move(operands);
    } catch (const NotSupported& refusal) {
      fail<CudaError>("conv2d", "cuDNN does not take the operands: {}", refusal.why);
    }
    pointers_ = p;
    workspace_ = workspace;
  }
  const cudnnStatus_t status = cudnn.execute(handle, plan_.raw(), operands_->raw());
  if (CUDNN_STATUS_CATEGORY(static_cast<int>(status)) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  FERRITE_CHECK(status == CUDNN_STATUS_SUCCESS, CudaError, "conv2d", "cuDNN failed: {}: {}",
                cudnn.error_string(status), cudnn.last_error());
  return true;
}

}  // namespace ferrite::kernels::cuda::vendor
