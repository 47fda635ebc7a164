// The plan of a product by cuBLASLt: descriptors and an algorithm, chosen once per problem.
#pragma once

#include <atomic>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/kernels/cuda/vendor/cublaslt/library.h"
#include "ferrite/kernels/cuda/vendor/matmul_problem.h"

namespace ferrite::kernels::cuda::vendor {

/// Throws CudaError unless a call to cuBLASLt succeeded.
void check_cublas(cublasStatus_t status, const char* call);
#define CUBLAS_CHECK(call) ::ferrite::kernels::cuda::vendor::check_cublas((call), #call)

/// The addresses of a problem's operands, and its scales.
struct MatmulArguments {
  const void *left, *right;
  void* out;
  void* vector = nullptr;     ///< the bias, or the destination of the sums
  void* auxiliary = nullptr;  ///< receives the argument of gelu or the bits of relu, or has these
  double alpha = 1, beta = 0;
};

/// Several threads may run it at the same time.
class MatmulPlan {
 public:
  /// Gets the heuristic's first algorithm, or several if they are to be measured. `example` gives
  /// the alignment of operands.
  MatmulPlan(cublasLtHandle_t handle, const MatmulProblem& problem, const MatmulArguments& example);

  /// Whether cuBLASLt has an algorithm.
  bool is_usable() const { return !candidates_.empty() && !refused_; }
  /// If there are several algorithms, times them and keeps the fastest. Waits for the stream; does
  /// not write to out.
  void measure(cublasLtHandle_t handle, const Stream& stream, const MatmulArguments& arguments);
  /// Launches the product. If cuBLASLt refuses it, returns false, and the plan is no longer usable.
  bool run(cublasLtHandle_t handle, const Stream& stream, const MatmulArguments& arguments);

 private:
  using Candidate = cublasLtMatmulHeuristicResult_t;

  cublasLtMatrixLayoutOpaque_t layout(const ColumnMatrix& matrix) const;
  cublasLtMatmulDescOpaque_t product(const MatmulArguments& arguments) const;
  void find_candidates(cublasLtHandle_t handle, const MatmulArguments& example);
  cublasStatus_t run(cublasLtHandle_t handle, const Stream& stream,
                     const MatmulArguments& arguments, const Candidate& candidate,
                     void* workspace) const;

  const MatmulProblem problem_;
  cublasLtMatmulDescOpaque_t product_{};  // without the addresses of a call
  cublasLtMatrixLayoutOpaque_t left_{}, right_{}, out_{};
  std::vector<Candidate> candidates_;  // the first is used
  std::atomic<bool> refused_ = false;
};

}  // namespace ferrite::kernels::cuda::vendor
