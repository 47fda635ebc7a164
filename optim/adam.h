// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), as torch.optim has them.
#pragma once

#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

struct Betas {
  double first = 0.9, second = 0.999;
};

struct AdamOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0;  ///< L2: added to the gradient
  bool amsgrad = false;     ///< divides by the largest second moment so far (Reddi et al. 2018)
  bool maximize = false;
};

struct AdamWOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 1e-2;  ///< takes lr * weight_decay of the parameter itself
  bool amsgrad = false;
  bool maximize = false;
};

/// What the two share; they differ in how weight decays.
template <class Options>
class AdamBase : public OptimizerWith<Options> {
 protected:
  explicit AdamBase(const char* name)
      : OptimizerWith<Options>(name, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}) {}

 private:
  std::vector<Optimizer::Field> fields(std::size_t group) override;
  void check_options(std::size_t group) const override;
  double* momentum_option(std::size_t group) override { return &this->options(group).betas.first; }
  std::array<bool, Optimizer::kStates> states_used(std::size_t group) const override;
  void update(const Stream& stream, std::size_t group, kernels::OptimBatch batch) override;
};

class Adam final : public AdamBase<AdamOptions> {
 public:
  Adam(std::vector<Tensor> parameters, const AdamOptions& options = {});
  explicit Adam(const std::vector<Group>& groups);
};

class AdamW final : public AdamBase<AdamWOptions> {
 public:
  AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});
  explicit AdamW(const std::vector<Group>& groups);
};

}  // namespace ferrite::optim
