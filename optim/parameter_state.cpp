#include "ferrite/optim/parameter_state.h"

#include <algorithm>

#include "ferrite/kernels/copy.h"
#include "ferrite/optim/capture.h"

namespace ferrite::optim {

namespace {

Tensor filled_with_zeros(const Shape& shape, const TensorOptions& options) {
  const Tensor out = empty(shape, options);
  kernels::fill(current_stream(options.device), out, 0);
  return out;
}

}  // namespace

const Tensor& ParameterState::get(std::string_view name, const Shape& shape, const Tensor& like,
                                  const char* op) {
  const MemoryFormat format = shape == like.shape() ? like.suggest_memory_format() : kContiguous;
  auto found = std::ranges::find_if(tensors, [&](const auto& t) { return t.first == name; });
  if (found != tensors.end()) {
    Tensor& t = found->second;
    const bool fits =
        t.dtype() == like.dtype() && t.device() == like.device() && t.is_contiguous(format);
    if (fits) [[likely]]
      return t;
    refuse_new_state(like.device(), op, "state of a parameter");
    return t = t.to(like.device(), like.dtype()).contiguous(format);
  }
  refuse_new_state(like.device(), op, "state of a parameter");
  const TensorOptions options{
      .dtype = like.dtype(), .device = like.device(), .memory_format = format};
  return tensors.emplace_back(name, filled_with_zeros(shape, options)).second;
}

const Tensor& ParameterState::step_on(const Device& device, const char* op) {
  if (step.defined() && step.device() == device) [[likely]]
    return step;
  refuse_new_state(device, op, "state of a parameter");
  return step = step.defined() ? step.to(device)
                               : filled_with_zeros({}, {.dtype = kInt64, .device = device});
}

}  // namespace ferrite::optim
