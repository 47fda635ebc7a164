#include "ferrite/optim/lr_scaling.h"

#include <cmath>

#include "ferrite/core/error.h"

namespace ferrite::optim {

LRScaling lr_scaling(std::string_view text) {
  if (text == "none") return LRScaling::none;
  if (text == "linear") return LRScaling::linear;
  FERRITE_CHECK(text == "sqrt", ValueError, "lr_scaling", "expected none, linear or sqrt, got '{}'",
                text);
  return LRScaling::sqrt;
}

double scale_lr(double base_lr, std::int64_t base_batch, std::int64_t global_batch,
                LRScaling rule) {
  FERRITE_CHECK(base_batch >= 1 && global_batch >= 1, ValueError, "scale_lr",
                "expected batches of 1 or more, got {} and {}", base_batch, global_batch);
  FERRITE_CHECK(base_lr >= 0 && std::isfinite(base_lr), ValueError, "scale_lr",
                "expected a learning rate of 0 or more, got {}", base_lr);
  const double k = static_cast<double>(global_batch) / static_cast<double>(base_batch);
  switch (rule) {
    case LRScaling::linear:
      return base_lr * k;
    case LRScaling::sqrt:
      return base_lr * std::sqrt(k);
    default:
      return base_lr;
  }
}

}  // namespace ferrite::optim
