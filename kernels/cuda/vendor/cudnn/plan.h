// A convolution as cuDNN runs it: a graph of one to three operations, and the engine that computes
// them. One plan serves all calls with the same problem.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "ferrite/kernels/conv_problem.h"
#include "ferrite/kernels/cuda/vendor/cudnn/descriptor.h"

namespace ferrite::kernels::cuda::vendor {

/// Whom plans are made for: the device of a handle, or, without one, a device of these properties.
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
    const void *input, *weight, *out;  // of which cuDNN writes the computed one
    Extras extras;                     // null but for what the problem has
    bool operator==(const Pointers&) const = default;
  };

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Puts the convolution on the handle's stream; false where cuDNN refuses it after all.
  bool run(cudnnHandle_t handle, const Pointers& pointers, void* workspace);

 private:
  friend class ConvPlans;
  ConvPlan(Descriptor plan, std::size_t workspace_bytes)
      : plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}

  Descriptor plan_;
  std::size_t workspace_bytes_;
  // The operands of the last call: a training step brings the same ones again and again.
  std::optional<Descriptor> operands_;
  Pointers pointers_{};
  void* workspace_ = nullptr;
};

/// The plans that cuDNN has for a problem, the one first that its heuristic prefers.
class ConvPlans {
 public:
  /// Throws NotSupported where the graph itself is refused.
  ConvPlans(const PlanTarget& target, const ConvProblem& problem);

  std::size_t size() const { return configurations_.size(); }
  /// Makes one of them ready; nothing where it cannot be, or needs too much workspace.
  std::optional<ConvPlan> make(std::size_t index) const;
  /// Why the last one could not be made.
  const std::string& why_not() const { return why_not_; }

 private:
  std::vector<Descriptor> configurations_of(cudnnBackendHeurMode_t mode) const;

  PlanTarget target_;
  std::int64_t workspace_limit_;
  std::vector<Descriptor> parts_;  // what the graph is made of
  Descriptor graph_;
  std::vector<Descriptor> configurations_;
  mutable std::string why_not_;
};

}  // namespace ferrite::kernels::cuda::vendor
