#include "ferrite/kernels/cuda/vendor/cublaslt/plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/error.h"
#include "ferrite/core/profiler/device_work.h"
#include "ferrite/kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda::vendor {

namespace {

constexpr std::uint64_t kWorkspaceBytes = std::uint64_t{32} << 20;  // NVIDIA's advice for Hopper
constexpr int kCandidates = 8;                                      // to be measured
constexpr int kRepeats = 4;                                         // per measurement

struct Types {
  cudaDataType_t data, scale;
  cublasComputeType_t compute;
};

Types types_of(const MatmulProblem& p) {
  switch (p.dtype) {
    case kFloat64:
      return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case kFloat16:
      return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case kBFloat16:
      return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    default:
      return {CUDA_R_32F, CUDA_R_32F,
              p.settings.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
  }
}

cublasLtEpilogue_t native(MatmulEpilogue epilogue) {
  switch (epilogue) {
    case MatmulEpilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case MatmulEpilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case MatmulEpilogue::relu:
      return CUBLASLT_EPILOGUE_RELU;
    case MatmulEpilogue::relu_bias:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case MatmulEpilogue::relu_keep:
      return CUBLASLT_EPILOGUE_RELU_AUX;
    case MatmulEpilogue::relu_keep_bias:
      return CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
    case MatmulEpilogue::relu_gradient:
      return CUBLASLT_EPILOGUE_DRELU;
    case MatmulEpilogue::gelu:
      return CUBLASLT_EPILOGUE_GELU;
    case MatmulEpilogue::gelu_bias:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case MatmulEpilogue::gelu_keep:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case MatmulEpilogue::gelu_keep_bias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case MatmulEpilogue::left_sums:
      return CUBLASLT_EPILOGUE_BGRADA;
    case MatmulEpilogue::right_sums:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

template <class T>
void set(cublasLtMatmulDescOpaque_t& product, cublasLtMatmulDescAttributes_t which,
         const T& value) {
  CUBLAS_CHECK(cublaslt().set_product(&product, which, &value, sizeof value));
}

/// Whether a call was refused before anything was launched.
bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

}  // namespace

void check_cublas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail<CudaError>("matmul",
                    "{} failed: {} ({}); FERRITE_CUBLAS=0 makes products without cuBLASLt", call,
                    cublaslt().status_name(status), cublaslt().status_string(status));
}

MatmulPlan::MatmulPlan(cublasLtHandle_t handle, const MatmulProblem& problem,
                       const MatmulArguments& example)
    : problem_(problem) {
  const Types types = types_of(problem);
  CUBLAS_CHECK(cublaslt().init_product(&product_, sizeof product_, types.compute, types.scale));
  const auto operation = [](const ColumnMatrix& m) {
    return m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(product_, CUBLASLT_MATMUL_DESC_TRANSA, operation(problem.left));
  set(product_, CUBLASLT_MATMUL_DESC_TRANSB, operation(problem.right));
  set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, native(problem.epilogue));
  left_ = layout(problem.left);
  right_ = layout(problem.right);
  out_ = layout(problem.out);
  find_candidates(handle, example);
}

cublasLtMatrixLayoutOpaque_t MatmulPlan::layout(const ColumnMatrix& matrix) const {
  cublasLtMatrixLayoutOpaque_t made{};
  CUBLAS_CHECK(cublaslt().init_layout(&made, sizeof made, types_of(problem_).data,
                                      static_cast<std::uint64_t>(matrix.rows),
                                      static_cast<std::uint64_t>(matrix.columns), matrix.leading));
  const auto count = static_cast<std::int32_t>(problem_.batch);
  CUBLAS_CHECK(
      cublaslt().set_layout(&made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
  CUBLAS_CHECK(cublaslt().set_layout(&made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                     &matrix.batch_stride, sizeof matrix.batch_stride));
  return made;
}

cublasLtMatmulDescOpaque_t MatmulPlan::product(const MatmulArguments& arguments) const {
  cublasLtMatmulDescOpaque_t product = product_;
  if (arguments.vector) set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, arguments.vector);
  if (arguments.auxiliary) {
    const MatmulEpilogue e = problem_.epilogue;
    const bool bits = e == MatmulEpilogue::relu_keep || e == MatmulEpilogue::relu_keep_bias ||
                      e == MatmulEpilogue::relu_gradient;
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, arguments.auxiliary);
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
        bits ? 8 * relu_bits_size(problem_.out.rows) : problem_.out.leading);
    if (bits) return product;
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, problem_.out.batch_stride);
  }
  return product;
}

void MatmulPlan::find_candidates(cublasLtHandle_t handle, const MatmulArguments& example) {
  cublasLtMatmulPreferenceOpaque_t preference{};
  CUBLAS_CHECK(cublaslt().init_preference(&preference, sizeof preference));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    CUBLAS_CHECK(cublaslt().set_preference(&preference, which, &value, sizeof value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  // Partial sums stay in the type of the computation, so that results are rounded once, and they
  // are added in a fixed order.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem_.left.alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem_.right.alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, problem_.out.alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, problem_.out.alignment);

  std::array<Candidate, kCandidates> found{};
  int count = 0;
  cublasLtMatmulDescOpaque_t described = product(example);
  const cublasStatus_t status =
      cublaslt().get_heuristic(handle, &described, &left_, &right_, &out_, &out_, &preference,
                               problem_.settings.measured ? kCandidates : 1, found.data(), &count);
  if (status != CUBLAS_STATUS_SUCCESS) {
    if (!is_refusal(status)) check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
    return;
  }
  for (const Candidate& candidate : std::span(found).first(static_cast<std::size_t>(count)))
    if (candidate.state == CUBLAS_STATUS_SUCCESS) candidates_.push_back(candidate);
}

cublasStatus_t MatmulPlan::run(cublasLtHandle_t handle, const Stream& stream,
                               const MatmulArguments& arguments, const Candidate& candidate,
                               void* workspace) const {
  const auto alpha = static_cast<float>(arguments.alpha), beta = static_cast<float>(arguments.beta);
  const bool wide = problem_.dtype == kFloat64;  // the scales have the type of the sums
  cublasLtMatmulDescOpaque_t described = product(arguments);
  cublasLtMatrixLayoutOpaque_t left = left_, right = right_, out = out_;
  const profiler::detail::DeviceWork work(stream, "cublasLtMatmul");
  return cublaslt().matmul(handle, &described,
                           wide ? static_cast<const void*>(&arguments.alpha) : &alpha,
                           arguments.left, &left, arguments.right, &right,
                           wide ? static_cast<const void*>(&arguments.beta) : &beta, arguments.out,
                           &out, arguments.out, &out, &candidate.algo, workspace,
                           candidate.workspaceSize, ferrite::cuda::native_stream(stream));
}

bool MatmulPlan::run(cublasLtHandle_t handle, const Stream& stream,
                     const MatmulArguments& arguments) {
  const Candidate& candidate = candidates_.front();
  const Workspace workspace(stream, candidate.workspaceSize);
  const cublasStatus_t status = run(handle, stream, arguments, candidate, workspace.as<void>());
  if (is_refusal(status)) {
    refused_ = true;
    return false;
  }
  check_cublas(status, "cublasLtMatmul");
  return true;
}

void MatmulPlan::measure(cublasLtHandle_t handle, const Stream& stream,
                         const MatmulArguments& arguments) {
  if (candidates_.size() < 2) return;
  // Results go to other memory: `out` may be an operand and must stay as it is.
  const ColumnMatrix& out = problem_.out;
  const std::int64_t span =
      (problem_.batch - 1) * out.batch_stride + (out.columns - 1) * out.leading + out.rows;
  const Workspace results(stream, static_cast<std::size_t>(span) * itemsize(problem_.dtype));
  MatmulArguments trial = arguments;
  trial.out = results.as<void>();

  double best = std::numeric_limits<double>::infinity();
  std::size_t fastest = 0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Workspace workspace(stream, candidates_[i].workspaceSize);
    const auto works = [&] {
      const cublasStatus_t status =
          run(handle, stream, trial, candidates_[i], workspace.as<void>());
      if (!is_refusal(status)) check_cublas(status, "cublasLtMatmul");
      return status == CUBLAS_STATUS_SUCCESS;
    };
    if (!works()) continue;  // also loads the kernel
    Event start, end;
    start.record(stream);
    for (int r = 0; r < kRepeats; ++r) works();
    end.record(stream);
    end.synchronize();
    if (const double time = end.elapsed_ms(start); time < best) {
      best = time;
      fastest = i;
    }
  }
  candidates_ = {candidates_[fastest]};
}

}  // namespace ferrite::kernels::cuda::vendor
