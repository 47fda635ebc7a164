#include "ferrite/kernels/loss_scale.h"

namespace ferrite::kernels::cpu {

void update_scale(const LossScale& scale, const std::vector<float*>& found_inf,
                  const UpdateScaleArgs& args) {
  bool overflow = false;
  for (float* found : found_inf) {
    overflow = overflow || *found != 0;
    *found = 0;
  }
  advance(scale, overflow, args);
}

}  // namespace ferrite::kernels::cpu
