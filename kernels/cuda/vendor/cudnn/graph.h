// A graph of operations for cuDNN, and the plans that cuDNN has for it: engines that compute it.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/vendor/cudnn/descriptor.h"

namespace ferrite::kernels::cuda::vendor {

/// The device that plans are for: that of a handle or, without a handle, one with these properties.
struct PlanTarget {
  const Cudnn& cudnn;
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
};

cudnnDataType_t data_type(DType dtype);

/// The descriptors of a graph under construction, and its operations in their order. References to
/// descriptors stay valid.
class Graph {
 public:
  using Four = std::array<std::int64_t, 4>;

  explicit Graph(const Cudnn& cudnn) : cudnn_(&cudnn) {}

  Descriptor& make(cudnnBackendDescriptorType_t type) { return kept_.emplace_back(*cudnn_, type); }

  /// In memory: an operand with this name. `virtual_memory`: a result between operations. `value`:
  /// a number that the host passes.
  enum class Storage : std::uint8_t { memory, virtual_memory, value };
  const Descriptor& tensor(std::int64_t name, cudnnDataType_t type, const Four& sizes,
                           const Four& strides, std::int64_t alignment,
                           Storage storage = Storage::memory);

  /// Adds y = mode(x, b), computed in `precision`; t is what CUDNN_POINTWISE_BINARY_SELECT tests,
  /// `axis` what CUDNN_POINTWISE_GEN_INDEX counts.
  struct PointwiseParts {
    const Descriptor *b = nullptr, *t = nullptr;
    cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    std::int64_t axis = -1;
  };
  void pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor& y,
                 const PointwiseParts& parts);
  void add(const Descriptor& operation) { operations_.push_back(operation.raw()); }

  const std::vector<cudnnBackendDescriptor_t>& operations() const { return operations_; }

 private:
  const Cudnn* cudnn_;
  std::deque<Descriptor> kept_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

/// The operands of a call, by their names in the graph: memory of the device, and numbers.
struct GraphOperands {
  std::vector<std::int64_t> names;
  std::vector<const void*> pointers;
  std::vector<std::int64_t> value_names;
  std::vector<float> values;

  void add(std::int64_t name, const void* pointer) {
    names.push_back(name);
    pointers.push_back(pointer);
  }
  void add_value(std::int64_t name, float value) {
    value_names.push_back(name);
    values.push_back(value);
  }
  bool operator==(const GraphOperands&) const = default;
};

class Plan {
 public:
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Launches the plan on the handle's stream; returns false if cuDNN refuses it after all. Errors
  /// name `op`.
  bool run(const char* op, cudnnHandle_t handle, const GraphOperands& operands, void* workspace);

 private:
  friend class Plans;
  Plan(Descriptor plan, std::size_t workspace_bytes)
      : plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}

  Descriptor plan_;
  std::size_t workspace_bytes_;
  // The operands of the last call, because training steps repeat the same ones.
  std::optional<Descriptor> pack_;
  GraphOperands operands_;
  void* workspace_ = nullptr;
};

/// What plans may do.
struct PlanLimits {
  bool tensor_cores = true, deterministic = false;
  std::int64_t workspace = 0;  // in bytes
};

/// The plans that cuDNN has for a graph, in the order of its heuristic.
class Plans {
 public:
  /// Throws NotSupported if cuDNN refuses the graph itself.
  Plans(const PlanTarget& target, Graph graph, const PlanLimits& limits);

  std::size_t size() const { return configurations_.size(); }
  /// Builds one of the plans; nothing if that fails or if it needs too much workspace.
  std::optional<Plan> make(std::size_t index) const;
  /// Why the last plan could not be built.
  const std::string& why_not() const { return why_not_; }

 private:
  std::vector<Descriptor> configurations_of(cudnnBackendHeurMode_t mode) const;

  PlanTarget target_;
  PlanLimits limits_;
  Graph parts_;
  Descriptor graph_;
  std::vector<Descriptor> configurations_;
  mutable std::string why_not_;
};

}  // namespace ferrite::kernels::cuda::vendor
