#include "ferrite/optim/master_weight.h"

#include "ferrite/kernels/copy.h"
#include "ferrite/optim/capture.h"

namespace ferrite::optim {

namespace {

bool has_16_bits(const Tensor& t) { return t.dtype() == kFloat16 || t.dtype() == kBFloat16; }

Tensor float32_like(const Tensor& t, const char* op, const char* what) {
  refuse_new_state(t.device(), op, what);
  return empty(
      t.shape(),
      {.dtype = kFloat32, .device = t.device(), .memory_format = t.suggest_memory_format()});
}

void copy_values(const Tensor& to, const Tensor& from) {
  kernels::copy(current_stream(to.device()), to, from.to(to.device()));
  to.storage()->bump_version("master_weights");
}

}  // namespace

void MasterWeight::make(const Tensor& parameter, const char* op) {
  if (!has_16_bits(parameter) || weight_.defined()) return;
  weight_ = float32_like(parameter, op, "the master of a parameter");
  copy_values(weight_, parameter);
}

void MasterWeight::follow(const Tensor& parameter, const char* op) {
  if (!weight_.defined()) return;
  if (!has_16_bits(parameter)) {
    copy_values(parameter, weight_);
    return drop();
  }
  const bool is_near = weight_.device() == parameter.device() &&
                       weight_.is_contiguous(parameter.suggest_memory_format());
  if (is_near) [[likely]]
    return;
  const Tensor moved = float32_like(parameter, op, "the master of a parameter");
  copy_values(moved, weight_);
  weight_.set_grad({});
  weight_.set_data(moved);  // handles on the master follow
  grad_ = Tensor();
}

void MasterWeight::load(const Tensor& parameter, const Tensor& values, const char* op) {
  follow(parameter, op);
  if (!weight_.defined()) return;
  copy_values(weight_, values.defined() ? values : parameter);
  if (values.defined()) copy_values(parameter, weight_);
}

const Tensor& MasterWeight::make_grad(const char* op) {
  if (!grad_.defined()) grad_ = float32_like(weight_, op, "the gradient of a master");
  weight_.set_grad(grad_);
  return grad_;
}

}  // namespace ferrite::optim
