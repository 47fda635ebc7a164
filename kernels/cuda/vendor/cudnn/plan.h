// The plan of a convolution by cuDNN: a graph of one to three operations, and the engine that
// computes them. One plan serves all calls with the same problem.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "ferrite/kernels/conv_problem.h"
#include "ferrite/kernels/cuda/vendor/cudnn/descriptor.h"

namespace ferrite::kernels::cuda::vendor {

/// The device that plans are for: that of a handle or, without a handle, one with these properties.
struct PlanTarget {
  const Cudnn& cudnn;
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
};

class ConvPlan {
 public:
  /// Operands that only some problems have.
  struct Extras {
    const void *bias = nullptr, *sum = nullptr, *squares = nullptr;
    bool operator==(const Extras&) const = default;
  };
  struct Pointers {
    const void *input, *weight, *out;  // cuDNN writes the computed one
    Extras extras;                     // null unless the problem has them
    bool operator==(const Pointers&) const = default;
  };

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Launches the convolution on the handle's stream; returns false if cuDNN refuses it after all.
  bool run(cudnnHandle_t handle, const Pointers& pointers, void* workspace);

 private:
  friend class ConvPlans;
  ConvPlan(Descriptor plan, std::size_t workspace_bytes)
      : plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}

  Descriptor plan_;
  std::size_t workspace_bytes_;
  // The operands of the last call, because training steps repeat the same ones.
  std::optional<Descriptor> operands_;
  Pointers pointers_{};
  void* workspace_ = nullptr;
};

/// The plans that cuDNN has for a problem, in the order of its heuristic.
class ConvPlans {
 public:
  /// Throws NotSupported if cuDNN refuses the graph itself.
  ConvPlans(const PlanTarget& target, const ConvProblem& problem);

  std::size_t size() const { return configurations_.size(); }
  /// Builds one of the plans; nothing if that fails or if it needs too much workspace.
  std::optional<ConvPlan> make(std::size_t index) const;
  /// Why the last plan could not be built.
  const std::string& why_not() const { return why_not_; }

 private:
  std::vector<Descriptor> configurations_of(cudnnBackendHeurMode_t mode) const;

  PlanTarget target_;
  std::int64_t workspace_limit_;
  std::vector<Descriptor> parts_;  // the parts of the graph
  Descriptor graph_;
  std::vector<Descriptor> configurations_;
  mutable std::string why_not_;
};

}  // namespace ferrite::kernels::cuda::vendor
