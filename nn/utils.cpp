#include "ferrite/nn/utils.h"

#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/concat.h"

namespace ferrite::nn::utils {

Tensor parameters_to_vector(std::span<const Tensor> parameters) {
  FERRITE_CHECK(!parameters.empty(), ValueError, "parameters_to_vector",
                "expected parameters, got none");
  std::vector<Tensor> flat;
  for (const Tensor& p : parameters) flat.push_back(p.reshape({-1}));
  return cat(flat);
}

void vector_to_parameters(const Tensor& vector, std::span<const Tensor> parameters) {
  std::int64_t all = 0;
  for (const Tensor& p : parameters) all += p.numel();
  FERRITE_CHECK(vector.dim() == 1 && vector.numel() == all, ShapeError, "vector_to_parameters",
                "expected a vector of {} elements, as many as the parameters have, got {}", all,
                vector.describe());
  const NoGradGuard guard;
  std::int64_t begin = 0;
  for (const Tensor& p : parameters) {
    p.copy_(vector.narrow(0, begin, p.numel()).view(p.shape()));
    begin += p.numel();
  }
}

}  // namespace ferrite::nn::utils
