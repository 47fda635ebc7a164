// The update of the loss scale at the end of a step.
#include <algorithm>

#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/loss_scale.h"

namespace ferrite::kernels::cuda {

namespace {

struct Flags {
  static constexpr int kMax = 256;
  float* values[kMax];
  int count;
};

/// Runs in one thread: there is one flag per optimizer, and few programs have more than two
/// optimizers. All launches but the last leave their result in `carry`.
__global__ void update(Flags flags, float* carry, bool ends, LossScale scale,
                       UpdateScaleArgs args) {
  bool overflow = carry && *carry != 0;
  for (int i = 0; i < flags.count; ++i) {
    if (*flags.values[i] != 0) overflow = true;
    *flags.values[i] = 0;
  }
  if (carry) *carry = overflow && !ends ? 1.0f : 0.0f;
  if (ends) advance(scale, overflow, args);
}

}  // namespace

void update_scale(const Stream& stream, const LossScale& scale,
                  const std::vector<float*>& found_inf, const UpdateScaleArgs& args) {
  float* const carry = found_inf.empty() ? nullptr : found_inf[0];
  std::size_t at = 0;
  do {
    Flags some;
    some.count = static_cast<int>(std::min<std::size_t>(Flags::kMax, found_inf.size() - at));
    std::copy_n(found_inf.begin() + static_cast<std::ptrdiff_t>(at), some.count, some.values);
    at += static_cast<std::size_t>(some.count);
    launch({"update_scale", stream, 1, 1}, update, some, carry, at == found_inf.size(), scale,
           args);
  } while (at < found_inf.size());
}

}  // namespace ferrite::kernels::cuda
