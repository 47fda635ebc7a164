// FusedOptimizer: optimizers with a kernel that updates all parameters of a group in one launch.
#pragma once

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/kernels/optim.h"
#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

/// Names of a parameter's state, in the order in which the kernel takes it; null: none.
using StateNames = std::array<const char*, 3>;

/// The updates of a step, a batch for each device and combination of dtypes.
class FusedBatches {
 public:
  /// The parameters of one dtype and device, which one kernel updates.
  struct Batch {
    Device device;
    kernels::OptimBatch kernel;  ///< what the kernel is given
  };

  /// `scalar`: the name of a number that is kept of each parameter, or null. `mixes`: whether the
  /// kernel takes gradients of both 16 and 32 bits.
  FusedBatches(std::vector<Optimizer::Update> updates, const StateNames& names, const char* scalar,
               bool mixes, const char* op);

  /// The batches of a step.
  std::vector<Batch>& batches() { return batches_; }
  /// After all launches: parameters that are not dense take what was updated in their place.
  void write_back() const;

 private:
  void add(Optimizer::Update& u, const StateNames& names, const char* scalar, const char* op);
  kernels::OptimTensor& add_to_batch(const Tensor& updated, const Tensor& grad, const Tensor* copy);

  const bool mixes_;
  std::vector<Batch> batches_;
  std::vector<Optimizer::Update> updates_;  // alive until all is launched
  std::vector<std::pair<Tensor, Tensor>> not_dense_;
};

template <class Options>
class FusedOptimizer : public OptimizerWith<Options> {
 public:
  using OptimizerWith<Options>::OptimizerWith;

 protected:
  /// The names of what the method keeps of each parameter; null for what it does not need.
  virtual StateNames state_names(const Options& options) const = 0;
  /// The name of a number that is kept of each parameter; null: none.
  virtual const char* scalar_name() const { return nullptr; }
  /// Whether the kernel knows OptimTensor::wide_grad.
  virtual bool mixes_gradients() const { return true; }
  /// Runs the method's kernel on a batch.
  virtual void launch(const Stream& stream, kernels::OptimBatch batch,
                      const Options& options) const = 0;

  Shape state_shape(std::string_view name, const Tensor& parameter) const final {
    return scalar_name() && name == scalar_name() ? Shape() : parameter.shape();
  }

 private:
  void step_group(std::size_t group, const Tensor& inv_scale, const Tensor& found_inf) final {
    const Options& o = this->options(group);
    FusedBatches all(this->updates(group), state_names(o), scalar_name(), mixes_gradients(),
                     this->name_);
    for (auto& [device, batch] : all.batches()) {
      const auto c = this->controls(group, device, inv_scale, found_inf);
      batch.lr = c.lr.template data<double>();
      if (c.momentum.defined()) batch.momentum = c.momentum.template data<double>();
      if (c.inv_scale.defined()) batch.inv_scale = c.inv_scale.template data<float>();
      if (c.found_inf.defined()) batch.found_inf = c.found_inf.template data<float>();
      launch(current_stream(device), std::move(batch), o);
    }
    all.write_back();
  }
};

}  // namespace ferrite::optim
