// Methods that change the sizes and strides of a tensor itself.
#include "ferrite/autograd/meta.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/ops/defined.h"
#include "ferrite/ops/renamed.h"

namespace ferrite {

namespace {

template <class F>
const Tensor& become(const Tensor& self, const char* op, F view) {
  const profiler::OpRange range(op, self);
  ops::check_defined(self, op);
  std::string form = op;
  form.pop_back();
  FERRITE_CHECK(!tracing::on(), ValueError, op,
                "it cannot be recorded for a file; write x = x.{}(...)", form);
  ops::renamed(op, [&] { autograd::set_geometry(self, op, view); });
  return self;
}

}  // namespace

const Tensor& InPlaceMethods::unsqueeze_(int dim) const {
  return become(self(), "unsqueeze_", [=](const Tensor& x) { return x.unsqueeze(dim); });
}
const Tensor& InPlaceMethods::squeeze_() const {
  return become(self(), "squeeze_", [](const Tensor& x) { return x.squeeze(); });
}
const Tensor& InPlaceMethods::squeeze_(int dim) const {
  return become(self(), "squeeze_", [=](const Tensor& x) { return x.squeeze(dim); });
}
const Tensor& InPlaceMethods::squeeze_(const Dims& dims) const {
  return become(self(), "squeeze_", [&](const Tensor& x) { return x.squeeze(dims); });
}
const Tensor& InPlaceMethods::transpose_(int dim0, int dim1) const {
  return become(self(), "transpose_", [=](const Tensor& x) { return x.transpose(dim0, dim1); });
}
const Tensor& InPlaceMethods::t_() const {
  return become(self(), "t_", [](const Tensor& x) { return x.t(); });
}
const Tensor& InPlaceMethods::swapaxes_(int dim0, int dim1) const { return transpose_(dim0, dim1); }
const Tensor& InPlaceMethods::swapdims_(int dim0, int dim1) const { return transpose_(dim0, dim1); }

}  // namespace ferrite
