// RMSprop (Tieleman and Hinton 2012; centered: Graves 2013), as torch.optim.RMSprop.
#pragma once

#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  ///< smoothing of the mean square
  double eps = 1e-8;
  double weight_decay = 0;  ///< L2: added to the gradient
  double momentum = 0;
  bool centered = false;  ///< divides by the deviation instead of the root mean square
  bool maximize = false;
};

class RMSprop final : public OptimizerWith<RMSpropOptions> {
 public:
  RMSprop(std::vector<Tensor> parameters, const RMSpropOptions& options = {});
  explicit RMSprop(const std::vector<Group>& groups);

 private:
  std::vector<Field> fields(std::size_t group) override;
  void check_options(std::size_t group) const override;
  double* momentum_option(std::size_t group) override { return &options(group).momentum; }
  std::array<bool, kStates> states_used(std::size_t group) const override;
  void update(const Stream& stream, std::size_t group, kernels::OptimBatch batch) override;
};

}  // namespace ferrite::optim
