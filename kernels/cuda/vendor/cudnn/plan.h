// A convolution as cuDNN runs it: a graph of one or two nodes, built once for a problem.
#pragma once

#include <cudnn.h>

#include <array>
#include <compare>
#include <cstdint>
#include <memory>

#include "kernels/conv.h"

namespace ferrite::kernels::cuda::vendor {

enum class Pass : std::uint8_t { forward, data, weight };

/// Everything that a plan depends on. `input`, `weight` and `out` name the convolution's operands
/// in every pass; which of them is computed says the pass.
struct ConvProblem {
  struct Operand {
    std::array<std::int64_t, 4> sizes{}, strides{};
    std::uint32_t alignment = 0;
    auto operator<=>(const Operand&) const = default;
  };
  Pass pass = Pass::forward;
  DType dtype = kFloat32;
  bool has_bias = false;
  bool tf32 = true, deterministic = false, measured = false;
  Operand input, weight, out;
  std::array<std::int64_t, 2> stride{}, dilation{}, before{}, after{};  // padding

  auto operator<=>(const ConvProblem&) const = default;
};

/// The graph itself is plan.cpp's secret: the frontend's headers take half a minute to compile.
class ConvPlan {
 public:
  ~ConvPlan();
  ConvPlan(const ConvPlan&) = delete;
  ConvPlan& operator=(const ConvPlan&) = delete;
  /// Null where cuDNN has no plan for the problem.
  static std::unique_ptr<ConvPlan> make(cudnnHandle_t handle, const ConvProblem& problem);

  struct Pointers {
    void *input, *weight, *out, *bias;
  };
  std::size_t workspace_bytes() const;
  /// Times all plans on these operands, of which it overwrites the computed one, and keeps the
  /// fastest. Waits for the device.
  void measure(cudnnHandle_t handle, const Pointers& pointers, void* workspace);
  std::size_t measuring_workspace_bytes() const;
  void run(cudnnHandle_t handle, const Pointers& pointers, void* workspace) const;

 private:
  struct Impl;
  explicit ConvPlan(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ferrite::kernels::cuda::vendor
