#include "ferrite/kernels/vendor.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "ferrite/core/deterministic.h"

namespace ferrite {

namespace {

bool unless_zero(const char* variable) {
  const char* text = std::getenv(variable);
  return !text || std::string_view(text) != "0";
}

/// On at first unless the environment variable is 0.
std::atomic<bool>& cublas_switch() {
  static std::atomic<bool> on = unless_zero("FERRITE_CUBLAS");
  return on;
}
std::atomic<bool>& cudnn_switch() {
  static std::atomic<bool> on = unless_zero("FERRITE_CUDNN");
  return on;
}
std::atomic<bool>& cusolver_switch() {
  static std::atomic<bool> on = unless_zero("FERRITE_CUSOLVER");
  return on;
}

std::atomic<bool>& convolution_tf32() {
  static std::atomic<bool> on = unless_zero("FERRITE_TF32");
  return on;
}

std::atomic<bool> product_tf32 = false;
std::atomic<bool> measure_products = false;
std::atomic<bool> measure_plans = false;
std::atomic<bool> same_bits = false;
std::atomic<bool> sums_with_convolutions = true;
std::atomic<std::int64_t> most_workspace = std::int64_t{1} << 30;

}  // namespace

void cublas::set_enabled(bool on) { cublas_switch() = on; }
bool cublas::is_enabled() { return cublas_switch(); }
void cublas::set_allow_tf32(bool on) { product_tf32 = on; }
bool cublas::allow_tf32() { return product_tf32; }
void cublas::set_benchmark(bool on) { measure_products = on; }
bool cublas::benchmark() { return measure_products; }

void cusolver::set_enabled(bool on) { cusolver_switch() = on; }
bool cusolver::is_enabled() { return cusolver_switch(); }

void cudnn::set_enabled(bool on) { cudnn_switch() = on; }
bool cudnn::is_enabled() { return cudnn_switch(); }
void cudnn::set_benchmark(bool on) { measure_plans = on; }
bool cudnn::benchmark() { return measure_plans; }
void cudnn::set_deterministic(bool on) { same_bits = on; }
bool cudnn::deterministic() { return same_bits || are_deterministic_algorithms_enabled(); }
void cudnn::set_fused_statistics(bool on) { sums_with_convolutions = on; }
bool cudnn::fused_statistics() { return sums_with_convolutions; }
void cudnn::set_allow_tf32(bool on) { convolution_tf32() = on; }
bool cudnn::allow_tf32() { return convolution_tf32(); }
void cudnn::set_workspace_limit(std::int64_t bytes) { most_workspace = bytes; }
std::int64_t cudnn::workspace_limit() { return most_workspace; }

}  // namespace ferrite
