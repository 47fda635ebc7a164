#include <fmt/format.h>

#include <array>
#include <memory>
#include <mutex>

#include "ferrite/core/cuda/context.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/deterministic.h"
#include "ferrite/kernels/cuda/unary.h"
#include "ferrite/kernels/cuda/vendor/cublaslt.h"
#include "ferrite/kernels/cuda/vendor/cublaslt/plan.h"
#include "ferrite/kernels/cuda/vendor/plan_cache.h"
#include "ferrite/kernels/vendor.h"

namespace ferrite::kernels::cuda::vendor {

namespace {

constexpr std::size_t kPlans = 1024;

/// The handle and the plans of one device.
class Library {
 public:
  Library() {
    const ferrite::cuda::detail::CaptureRelaxed relaxed;
    CUBLAS_CHECK(cublaslt().create(&handle_));
  }

  /// Returns false if cuBLASLt does not support the problem.
  bool solve(const Stream& stream, const MatmulProblem& problem, const MatmulArguments& arguments) {
    const std::shared_ptr<MatmulPlan> plan = plan_for(stream, problem, arguments);
    return plan->is_usable() && plan->run(handle_, stream, arguments);
  }

  /// The instance of a device; never destroyed, since the driver may be gone by then.
  static Library& of(const Device& device) {
    static auto& once = *new std::array<std::once_flag, Device::kMaxIndex + 1>;
    static std::array<Library*, Device::kMaxIndex + 1> all{};
    const auto slot = static_cast<std::size_t>(device.index());
    std::call_once(once[slot], [&] { all[slot] = new Library; });
    return *all[slot];
  }

 private:
  std::shared_ptr<MatmulPlan> plan_for(const Stream& stream, MatmulProblem problem,
                                       const MatmulArguments& arguments) {
    const std::lock_guard lock(mutex_);
    if (auto plan = plans_.find(problem)) return plan;
    if (problem.settings.measured && ferrite::detail::cuda::is_capturing(stream)) {
      problem.settings.measured = false;  // nothing can be timed during a capture
      if (auto plan = plans_.find(problem)) return plan;
    }
    const ferrite::cuda::detail::CaptureRelaxed relaxed;
    auto plan = std::make_shared<MatmulPlan>(handle_, problem, arguments);
    if (problem.settings.measured) plan->measure(handle_, stream, arguments);
    plans_.insert(problem, plan);
    return plan;
  }

  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  PlanCache<MatmulProblem, MatmulPlan> plans_{kPlans};
};

MatmulSettings current_settings() {
  return {.tf32 = cublas::allow_tf32(),
          .measured = cublas::benchmark() && !are_deterministic_algorithms_enabled()};
}

/// The product with all options in one call.
bool fused(const Stream& stream, const View& out, const View& a, const View& b,
           const MatmulOptions& options, const MatmulSettings& settings) {
  const auto problem = matmul_problem(out, a, b, options, settings);
  if (!problem) return false;
  return Library::of(stream.device())
      .solve(stream, *problem,
             {.left = problem->left_is_a ? a.data : b.data,
              .right = problem->left_is_a ? b.data : a.data,
              .out = out.data,
              .vector = options.bias.data ? options.bias.data : options.row_sums.data,
              .auxiliary =
                  options.relu_bits.data ? options.relu_bits.data : options.before_activation.data,
              .alpha = options.alpha,
              .beta = options.beta});
}

/// The product, and then, by our own kernels, the options that cuBLASLt cannot fuse.
bool in_steps(const Stream& stream, const View& out, const View& a, const View& b,
              const MatmulOptions& options, const MatmulSettings& settings) {
  const View& relu = options.relu_of;
  if (options.activation == Activation::none && !options.row_sums.data && !relu.data) return false;
  MatmulOptions product = options;
  product.activation = Activation::none;
  product.before_activation = product.row_sums = product.relu_of = product.relu_bits = {};
  const View& to = options.before_activation.data ? options.before_activation : out;
  if (!fused(stream, to, a, b, product, settings)) return false;
  if (options.activation != Activation::none)
    cuda::unary(stream, unary_op(options.activation), out, to, {});
  if (options.row_sums.data) cuda::column_sum(stream, options.row_sums, transposed(a));
  if (relu.data) cuda::unary_backward(stream, UnaryOp::relu, out, out, relu, {});
  return true;
}

}  // namespace

bool matmul(const Stream& stream, const View& out, const View& a, const View& b,
            const MatmulOptions& options) {
  if (!cublas::is_enabled() || !has_cublaslt()) return false;
  const MatmulSettings settings = current_settings();
  if (fused(stream, out, a, b, options, settings)) {
    if (options.has_relu_bits) *options.has_relu_bits = true;
    return true;
  }
  MatmulOptions some = options;  // it may have no algorithm that writes bits
  if (options.activation == Activation::relu) some.relu_bits = {};
  return (some.relu_bits.data != options.relu_bits.data &&
          fused(stream, out, a, b, some, settings)) ||
         in_steps(stream, out, a, b, some, settings);
}

}  // namespace ferrite::kernels::cuda::vendor

namespace ferrite {

bool cublas::is_available() { return kernels::cuda::vendor::has_cublaslt(); }

std::string cublas::version() {
  if (!is_available()) return "";
  const std::size_t v = kernels::cuda::vendor::cublaslt().get_version();
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace ferrite
