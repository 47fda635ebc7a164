// cuBLASLt thinks in columns: the row-major product out = a b is its out' = b' a', for which
// nothing has to be moved.
#include <cublasLt.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "core/cuda/runtime.h"
#include "core/deterministic.h"
#include "core/error.h"
#include "kernels/cuda/vendor/cublaslt.h"
#include "kernels/cuda/workspace.h"
#include "kernels/vendor.h"

namespace ferrite::kernels::cuda::vendor {

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

#define CUBLAS_CHECK(call)                                                                  \
  do {                                                                                      \
    if (const cublasStatus_t status = (call); status != CUBLAS_STATUS_SUCCESS) [[unlikely]] \
      fail<CudaError>("matmul", "{} failed: {}", #call, cublasLtGetStatusString(status));   \
  } while (false)

/// A matrix as cuBLASLt takes it, by columns.
struct Matrix {
  bool transposed = false;
  std::int64_t rows = 0, columns = 0;  // as it lies in memory
  std::int64_t leading = 0, batch_stride = 0;

  auto key() const { return std::tuple(transposed, rows, columns, leading, batch_stride); }
};

/// View [.., r, c] as the r x c matrix's transpose, or nothing where neither stride is 1.
std::optional<Matrix> by_columns(const View& v) {
  const int d = v.ndim - 2;
  const std::int64_t r = v.sizes[d], c = v.sizes[d + 1];
  const std::int64_t across = v.strides[d], along = v.strides[d + 1];
  Matrix m;
  m.batch_stride = v.ndim == 3 ? v.strides[0] : 0;
  if ((along == 1 || c == 1) && (across >= c || r == 1)) {
    m.rows = c, m.columns = r, m.leading = r == 1 ? c : across;
  } else if ((across == 1 || r == 1) && (along >= r || c == 1)) {
    m.transposed = true;
    m.rows = r, m.columns = c, m.leading = c == 1 ? r : along;
  } else {
    return std::nullopt;
  }
  return m;
}

struct Types {
  cudaDataType_t data, scale;
  cublasComputeType_t compute;
};

std::optional<Types> types_of(DType dtype) {
  switch (dtype) {
    case kFloat32:
      return Types{CUDA_R_32F, CUDA_R_32F,
                   cublas::allow_tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
    case kFloat64:
      return Types{CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case kFloat16:
      return Types{CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case kBFloat16:
      return Types{CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    default:
      return std::nullopt;
  }
}

std::uint32_t alignment_of(const void* p) {
  const auto bits = reinterpret_cast<std::uintptr_t>(p);
  return static_cast<std::uint32_t>(bits % 256 == 0 ? 256 : bits & (~bits + 1));
}

/// What a plan depends on.
struct Problem {
  Types types;
  Matrix out, left, right;  // out' = left' right', left being the caller's b
  std::int64_t batch = 1;
  bool has_bias = false, reads_out = false;
  std::array<std::uint32_t, 3> alignment{};

  auto key() const {
    return std::tuple(types.data, types.compute, out.key(), left.key(), right.key(), batch,
                      has_bias, reads_out, alignment);
  }
};

/// Descriptors and the algorithm chosen for a problem. Used by one call at a time.
class Plan {
 public:
  Plan(cublasLtHandle_t handle, const Problem& p) {
    CUBLAS_CHECK(cublasLtMatmulDescCreate(&product_, p.types.compute, p.types.scale));
    const auto transpose = [&](cublasLtMatmulDescAttributes_t which, const Matrix& m) {
      const cublasOperation_t op = m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
      CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(product_, which, &op, sizeof op));
    };
    transpose(CUBLASLT_MATMUL_DESC_TRANSA, p.left);
    transpose(CUBLASLT_MATMUL_DESC_TRANSB, p.right);
    if (p.has_bias) {
      const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
      CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                                  &epilogue, sizeof epilogue));
    }
    left_ = layout(p, p.left);
    right_ = layout(p, p.right);
    out_ = layout(p, p.out);
    choose(handle, p);
  }
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {left_, right_, out_})
      if (layout) cublasLtMatrixLayoutDestroy(layout);
    if (product_) cublasLtMatmulDescDestroy(product_);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Whether cuBLASLt has an algorithm.
  bool usable() const { return usable_; }
  std::size_t workspace_bytes() const { return result_.workspaceSize; }

  void run(cublasLtHandle_t handle, cudaStream_t stream, const void* alpha, const void* beta,
           void* out, const void* left, const void* right, const void* bias, void* workspace) {
    if (bias)
      CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                  &bias, sizeof bias));
    CUBLAS_CHECK(cublasLtMatmul(handle, product_, alpha, left, left_, right, right_, beta, out,
                                out_, out, out_, &result_.algo, workspace, result_.workspaceSize,
                                stream));
  }

 private:
  static cublasLtMatrixLayout_t layout(const Problem& p, const Matrix& m) {
    cublasLtMatrixLayout_t made = nullptr;
    CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&made, p.types.data, static_cast<std::uint64_t>(m.rows),
                                            static_cast<std::uint64_t>(m.columns), m.leading));
    const auto count = static_cast<std::int32_t>(p.batch);
    CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                  sizeof count));
    CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                  &m.batch_stride, sizeof m.batch_stride));
    return made;
  }

  void choose(cublasLtHandle_t handle, const Problem& p) {
    cublasLtMatmulPreference_t preference = nullptr;
    CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
    const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                          cublasStatus_t (*)(cublasLtMatmulPreference_t)>
        owner(preference, cublasLtMatmulPreferenceDestroy);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
      CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.alignment[0]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.alignment[1]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.alignment[2]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.alignment[2]);
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, product_, left_, right_, out_, out_, preference, 1, &result_, &found);
    usable_ = status == CUBLAS_STATUS_SUCCESS && found > 0;
  }

  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t left_ = nullptr, right_ = nullptr, out_ = nullptr;
  cublasLtMatmulHeuristicResult_t result_{};
  bool usable_ = false;
};

/// Handles and plans of one device.
class Library {
 public:
  Library() { CUBLAS_CHECK(cublasLtCreate(&handle_)); }

  /// Calls use(handle, plan) with the plan for `problem`, made once; false where there is none.
  template <class Use>
  bool with_plan(const Problem& problem, Use&& use) {
    std::lock_guard lock(mutex_);
    auto& plan = plans_[problem.key()];
    if (!plan) plan = std::make_unique<Plan>(handle_, problem);
    if (!plan->usable()) return false;
    use(handle_, *plan);
    return true;
  }

  /// That of a device; never destroyed, since the driver may be gone by then.
  static Library& of(const Device& device) {
    static std::array<std::once_flag, Device::kMaxIndex + 1>& once =
        *new std::array<std::once_flag, Device::kMaxIndex + 1>;
    static std::array<Library*, Device::kMaxIndex + 1> all{};
    const auto slot = static_cast<std::size_t>(device.index());
    std::call_once(once[slot], [&] { all[slot] = new Library; });
    return *all[slot];
  }

 private:
  std::mutex mutex_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<decltype(Problem().key()), std::unique_ptr<Plan>> plans_;
};

std::optional<Problem> problem_of(const View& out, const View& a, const View& b,
                                  const MatmulOptions& options) {
  const auto types = types_of(out.dtype);
  const auto to = by_columns(out), left = by_columns(b), right = by_columns(a);
  if (!types || !to || to->transposed || !left || !right) return std::nullopt;
  if (a.sizes[a.ndim - 1] == 0 || out.numel == 0) return std::nullopt;
  if (options.bias.data && (options.bias.strides[0] != 1 || options.bias.dtype != out.dtype))
    return std::nullopt;
  Problem p{.types = *types, .out = *to, .left = *left, .right = *right};
  if (out.ndim == 3) p.batch = out.sizes[0];
  p.has_bias = options.bias.data != nullptr;
  p.reads_out = options.beta != 0;
  p.alignment = {alignment_of(b.data), alignment_of(a.data), alignment_of(out.data)};
  return p;
}

}  // namespace

bool matmul(const Stream& stream, const View& out, const View& a, const View& b,
            const MatmulOptions& options) {
  if (!cublas::is_enabled()) return false;
  const std::optional<Problem> problem = problem_of(out, a, b, options);
  if (!problem) return false;
  const double alpha = options.alpha, beta = options.beta;
  const auto alpha32 = static_cast<float>(alpha), beta32 = static_cast<float>(beta);
  const bool wide = out.dtype == kFloat64;
  return Library::of(stream.device()).with_plan(*problem, [&](cublasLtHandle_t handle, Plan& plan) {
    const Workspace workspace(stream, plan.workspace_bytes());
    plan.run(handle, ferrite::cuda::native_stream(stream),
             wide ? static_cast<const void*>(&alpha) : &alpha32,
             wide ? static_cast<const void*>(&beta) : &beta32, out.data, b.data, a.data,
             options.bias.data, workspace.as<void>());
  });
}

}  // namespace ferrite::kernels::cuda::vendor

namespace ferrite {

bool cublas::is_available() { return true; }

std::string cublas::version() {
  const std::size_t v = cublasLtGetVersion();
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace ferrite
