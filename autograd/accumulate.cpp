#include "ferrite/autograd/accumulate.h"

#include <utility>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/kernels/elementwise.h"

namespace ferrite::autograd {

bool is_exclusive(const Tensor& t) {
  return t.impl()->use_count() == 1 && t.storage()->use_count() == 1 &&
         (t.is_contiguous() || t.is_contiguous(kChannelsLast));
}

bool is_overwritable(const Tensor& t) {
  return is_exclusive(t) && !t.storage()->has_other_streams();
}

bool fills_storage(const Tensor& t) { return t.storage()->nbytes() == t.nbytes(); }

namespace {

bool is_addable(const Tensor& total, const Tensor& grad) {
  return !total.defined() || (total.shape() == grad.shape() && total.dtype() == grad.dtype() &&
                              total.device() == grad.device());
}

}  // namespace

void check_addable(const Tensor& total, const Tensor& grad, const char* op) {
  FERRITE_CHECK(is_addable(total, grad), AutogradError, op,
                "gradients of {} and of {} reach one tensor", total.describe(), grad.describe());
}

void check_accumulates(const Tensor& kept, const Tensor& grad) {
  FERRITE_CHECK(is_addable(kept, grad), AutogradError, "backward",
                "a gradient of {} cannot be added to the present grad() of {}; set grad() to a "
                "tensor like the one it belongs to, or reset it with zero_grad()",
                grad.describe(), kept.describe());
}

Tensor sum(const Tensor& a, const Tensor& b) {
  const profiler::OpRange range("add", a, b);
  Tensor out = empty_like(a);
  kernels::binary(current_stream(a.device()), kernels::BinaryOp::add, out, a, b);
  if (recording(a, b))
    record(out, "add", {a, b}, [](const Tensor& grad, Needs needs) -> Gradients {
      return {needs[0] ? grad : Tensor(), needs[1] ? grad : Tensor()};
    });
  return out;
}

void add_to(Tensor& total, Tensor grad) {
  if (!total.defined()) {
    total = std::move(grad);
  } else if (!creating_graph() && is_overwritable(total)) {
    const profiler::OpRange range("add_", total, grad);
    kernels::binary(current_stream(total.device()), kernels::BinaryOp::add, total, total, grad);
  } else {
    total = sum(total, grad);
  }
}

}  // namespace ferrite::autograd
