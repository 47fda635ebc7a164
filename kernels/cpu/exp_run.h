#pragma once

#include <cstdint>

namespace ferrite::kernels::cpu {

/// y[i] = exp(x[i]); y may be x. Exact at NaN and the infinities; float32 results below the normal
/// range are 0.
void exp_run(const float* x, float* y, std::int64_t n);
void exp_run(const double* x, double* y, std::int64_t n);

}  // namespace ferrite::kernels::cpu
