// Stochastic gradient descent with momentum, as torch.optim.SGD.
#pragma once

#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;  ///< L2: added to the gradient
  bool nesterov = false;    ///< needs momentum and no dampening (ValueError)
  bool maximize = false;
};

class SGD final : public OptimizerWith<SGDOptions> {
 public:
  SGD(std::vector<Tensor> parameters, const SGDOptions& options = {});
  explicit SGD(const std::vector<Group>& groups);

 private:
  std::vector<Field> fields(std::size_t group) override;
  void check_options(std::size_t group) const override;
  double* momentum_option(std::size_t group) override { return &options(group).momentum; }
  std::array<bool, kStates> states_used(std::size_t group) const override;
  void update(const Stream& stream, std::size_t group, kernels::OptimBatch batch) override;
};

}  // namespace ferrite::optim
