// The in-place forms of ops/index.h. Their gradients need nothing of the tensor that they change,
// so each is its new values, recorded as the functional form has them, copied over the old ones.
#include "autograd/record.h"
#include "ops/copy.h"
#include "ops/index.h"

namespace ferrite {

namespace {

/// self = make(): checked first, so that nothing is computed for a tensor that may not be changed.
template <class Make>
const Tensor& replace(const Tensor& self, const char* op, Make make) {
  FERRITE_CHECK(self.defined(), ValueError, op, "the tensor is undefined");
  autograd::check_inplace(self, op);
  return self.copy_(make());
}

}  // namespace

const Tensor& scatter_(const Tensor& self, int dim, const Tensor& index, const Tensor& source) {
  return replace(self, "scatter_", [&] { return scatter(self, dim, index, source); });
}
const Tensor& scatter_(const Tensor& self, int dim, const Tensor& index, Scalar value) {
  return replace(self, "scatter_", [&] { return scatter(self, dim, index, value); });
}
const Tensor& scatter_add_(const Tensor& self, int dim, const Tensor& index, const Tensor& source) {
  return replace(self, "scatter_add_", [&] { return scatter_add(self, dim, index, source); });
}
const Tensor& index_add_(const Tensor& self, int dim, const Tensor& index, const Tensor& source,
                         Scalar alpha) {
  return replace(self, "index_add_", [&] { return index_add(self, dim, index, source, alpha); });
}

}  // namespace ferrite
