// A product as cuBLASLt makes it: descriptors and an algorithm, chosen once for a problem.
#pragma once

#include <atomic>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/kernels/cuda/vendor/cublaslt/library.h"
#include "ferrite/kernels/cuda/vendor/matmul_problem.h"

namespace ferrite::kernels::cuda::vendor {

/// Throws CudaError unless a call of cuBLASLt's succeeded.
void check_cublas(cublasStatus_t status, const char* call);
#define CUBLAS_CHECK(call) ::ferrite::kernels::cuda::vendor::check_cublas((call), #call)

/// Where a problem's operands lie, and its scales.
struct MatmulArguments {
  const void *left, *right;
  void* out;
  void* vector = nullptr;             ///< the bias, or what gets the sums
  void* before_activation = nullptr;  ///< what gets the argument of gelu
  double alpha = 1, beta = 0;
};

/// May be run by several threads at once.
class MatmulPlan {
 public:
  /// Asks for the algorithm that is thought best, or for several where they are to be measured.
  /// `example` is a call for its alignment.
  MatmulPlan(cublasLtHandle_t handle, const MatmulProblem& problem, const MatmulArguments& example);

  /// Whether cuBLASLt has an algorithm.
  bool is_usable() const { return !candidates_.empty() && !refused_; }
  /// Where there are several algorithms: times them and keeps the fastest. Waits for the stream;
  /// out is not touched.
  void measure(cublasLtHandle_t handle, const Stream& stream, const MatmulArguments& arguments);
  /// Puts the product on the stream; false, and no longer usable, where cuBLASLt refuses it.
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
