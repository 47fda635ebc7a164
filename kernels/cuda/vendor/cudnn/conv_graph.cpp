#include "ferrite/kernels/cuda/vendor/cudnn/conv_graph.h"

#include <array>

namespace ferrite::kernels::cuda::vendor {

namespace {

// The operands' names in the graph.
constexpr std::int64_t kInput = 1, kWeight = 2, kOut = 3, kBias = 4, kSum = 5, kSquares = 6,
                       kFirstVirtual = 10;

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

/// Builds the graph of a problem.
class ConvBuilder {
 public:
  ConvBuilder(const Cudnn& cudnn, const ConvProblem& problem) : p_(problem), graph_(cudnn) {}

  Graph build() && {
    // Between the operations of a fused convolution, results are float32; they are rounded once at
    // the end.
    int results = 1 + (p_.has_bias ? 1 : 0) + (p_.has_relu ? 1 : 0);
    const auto result = [&]() -> const Descriptor& {
      return --results == 0 ? operand(kOut, p_.out) : between(kFirstVirtual + results);
    };
    const Descriptor* last = &result();
    convolution(*last);
    if (p_.has_bias) {
      const Descriptor& sum = result();
      graph_.pointwise(CUDNN_POINTWISE_ADD, *last, sum, {.b = &per_channel(kBias, p_.dtype)});
      last = &sum;
    }
    if (p_.has_relu) graph_.pointwise(CUDNN_POINTWISE_RELU_FWD, *last, result(), {});
    if (p_.has_stats) sums(*last);
    return std::move(graph_);
  }

 private:
  const Descriptor& operand(std::int64_t name, const ConvProblem::Operand& o) {
    return graph_.tensor(name, data_type(p_.dtype), o.sizes, p_.strides(o), o.alignment);
  }
  const Descriptor& between(std::int64_t name) {
    return graph_.tensor(name, CUDNN_DATA_FLOAT, p_.out.sizes, p_.strides(p_.out), 16,
                         Graph::Storage::virtual_memory);
  }
  /// One value for each channel of the output.
  const Descriptor& per_channel(std::int64_t name, DType dtype) {
    const std::int64_t channels = p_.out.sizes[1];
    return graph_.tensor(name, data_type(dtype), {1, channels, 1, 1},
                         {channels, 1, channels, channels},
                         static_cast<std::int64_t>(itemsize(dtype)));
  }

  const Descriptor& geometry() {
    return graph_.make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2})
        .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
        .set_list(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, p_.before)
        .set_list(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, p_.after)
        .set_list(CUDNN_ATTR_CONVOLUTION_DILATIONS, p_.dilation)
        .set_list(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, p_.stride)
        .finalize();
  }

  void convolution(const Descriptor& result) {
    const ConvolutionNames names = names_of(p_.pass);
    graph_.add(graph_.make(names.type)
                   .set(names.geometry, geometry())
                   .set(names.input, operand(kInput, p_.input))
                   .set(names.weight, operand(kWeight, p_.weight))
                   .set(names.out, result)
                   .set(names.alpha, CUDNN_TYPE_FLOAT, 1.0F)
                   .set(names.beta, CUDNN_TYPE_FLOAT, p_.adds ? 1.0F : 0.0F)
                   .finalize());
  }

  void sums(const Descriptor& of) {
    graph_.add(
        graph_.make(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR)
            .set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE,
                 CUDNN_GENSTATS_SUM_SQSUM)
            .set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
            .set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, of)
            .set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, per_channel(kSum, kFloat32))
            .set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, per_channel(kSquares, kFloat32))
            .finalize());
  }

  const ConvProblem& p_;
  Graph graph_;
};

}  // namespace

Plans plans_of(const PlanTarget& target, const ConvProblem& problem) {
  return {target,
          ConvBuilder(target.cudnn, problem).build(),
          {.tensor_cores = problem.dtype != kFloat32 || problem.tf32,
           .deterministic = problem.deterministic,
           .workspace = problem.workspace_limit}};
}

GraphOperands operands_of(const ConvPointers& p) {
  GraphOperands operands;
  const auto add = [&](std::int64_t name, const void* pointer) {
    if (pointer) operands.add(name, pointer);
  };
  add(kInput, p.input);
  add(kWeight, p.weight);
  add(kOut, p.out);
  add(kBias, p.extras.bias);
  add(kSum, p.extras.sum);
  add(kSquares, p.extras.squares);
  return operands;
}

}  // namespace ferrite::kernels::cuda::vendor
