// The methods of core/tensor_methods.h that stand for functions of matrices, which PyTorch has had
// since before torch.linalg.
#include <cmath>

#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/linalg.h"

namespace ferrite {

Tensor TensorMethods::det() const { return ferrite::linalg::det(self()); }
std::tuple<Tensor, Tensor> TensorMethods::slogdet() const {
  return ferrite::linalg::slogdet(self());
}
Tensor TensorMethods::inverse() const { return ferrite::linalg::inv(self()); }
Tensor TensorMethods::pinverse(double rcond) const { return ferrite::linalg::pinv(self(), rcond); }
Tensor TensorMethods::cholesky_solve(const Tensor& factor, bool upper) const {
  return ferrite::cholesky_solve(self(), factor, upper);
}
Tensor TensorMethods::cholesky_inverse(bool upper) const {
  return ferrite::cholesky_inverse(self(), upper);
}
Tensor TensorMethods::matrix_power(std::int64_t n) const {
  return ferrite::linalg::matrix_power(self(), n);
}

Tensor TensorMethods::logdet() const { return ferrite::logdet(self()); }
Tensor logdet(const Tensor& x) {
  return ops::composite(
      "logdet",
      [&] {
        const auto [sign, log] = linalg::slogdet(x);
        return where(lt(sign, 0), NAN, log);
      },
      x);
}

std::tuple<Tensor, Tensor, Tensor> TensorMethods::svd(bool some, bool compute_uv) const {
  if (compute_uv) {
    const auto [u, s, vh] = ferrite::linalg::svd(self(), !some);
    return {u, s, vh.mT()};
  }
  const Tensor s = ferrite::linalg::svdvals(self());
  const auto zero = [&](int dim) {
    Shape shape = self().shape();
    shape[shape.size() - 2] = shape[shape.size() - 1] = self().size(dim);
    return zeros(shape, {.dtype = s.dtype(), .device = s.device()});
  };
  return {zero(-2), s, zero(-1)};
}

}  // namespace ferrite
