#include "ferrite/nn/weight_norm.h"

#include <algorithm>
#include <vector>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/conv.h"
#include "ferrite/nn/init.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite::nn::utils {

namespace {

/// The parameter `name` of `module` itself, which will be computed from others.
Tensor own_parameter(const Module& module, const char* op, const std::string& name) {
  for (const auto& [own, tensor] : module.named_parameters())
    if (own == name) return tensor.detach().clone();
  fail<ValueError>(op, "expected the name of a parameter of {}, got '{}'", module.name(), name);
}

int wrapped_dim(const Tensor& weight, const char* op, int dim) {
  FERRITE_CHECK(dim >= -weight.dim() && dim < weight.dim(), IndexError, op,
                "expected a dimension of a weight with {}, got {}", weight.dim(), dim);
  return dim < 0 ? dim + weight.dim() : dim;
}

/// |v| for each index of `dim`, or of all of it.
Tensor norm_except(const Tensor& v, std::optional<int> dim) {
  if (!dim) return norm(v);
  Dims others;
  for (int d = 0; d < v.dim(); ++d)
    if (d != *dim) others.push_back(d);
  return others.empty() ? abs(v) : norm(v, 2, others, true);
}

/// In float32 at least: of 16-bit numbers, the gradients of quotients by short lengths overflow.
Tensor widened(const Tensor& t) { return itemsize(t.dtype()) < 4 ? t.to(kFloat32) : t; }

/// [size of `dim`, the rest], with the columns in the order in which PyTorch saves v.
Tensor as_matrix(const Tensor& weight, int dim) {
  return movedim(weight, dim, 0).reshape({weight.size(dim), -1});
}

Tensor normalized(const Tensor& x, double eps) { return x / clamp(norm(x), eps); }

/// PyTorch's number of steps from random vectors: the first weights then have a norm near 1.
constexpr int kFirstIterations = 15;

/// Brings `u` and `v` closer to the first singular vectors of `rows`, in place.
void iterate(const Tensor& rows, Tensor& u, Tensor& v, int iterations, double eps) {
  NoGradGuard off_the_tape;
  for (int i = 0; i < iterations; ++i) {
    v.copy_(normalized(mv(rows.transpose(0, 1), u), eps));
    u.copy_(normalized(mv(rows, v), eps));
  }
}

bool is_transposed_conv(const Module& module) {
  return dynamic_cast<const ConvTransposeNd<1>*>(&module) ||
         dynamic_cast<const ConvTransposeNd<2>*>(&module) ||
         dynamic_cast<const ConvTransposeNd<3>*>(&module);
}

/// Whether spectral norms that are computed in this thread leave their buffers as they are, as in
/// eval() mode.
thread_local bool without_iterations = false;

}  // namespace

void detail::weight_norm(Module& module, const std::string& name, std::optional<int> dim) {
  const Tensor weight = own_parameter(module, "weight_norm", name);
  if (dim == -1) dim.reset();  // PyTorch's other name of None, not the last dimension
  if (dim) dim = wrapped_dim(weight, "weight_norm", *dim);
  const std::string g = name + "_g", v = name + "_v";
  NoGradGuard guard;
  module.add_parameter(g, norm_except(weight, dim));
  module.add_parameter(v, weight);
  module.compute_before_forward(name, [g, v, dim](Module& m) {
    const Tensor direction = widened(m.get_parameter(v));
    const Tensor weight = direction * (widened(m.get_parameter(g)) / norm_except(direction, dim));
    return weight.to(m.get_parameter(v).dtype());
  });
}

void remove_weight_norm(Module& module, const std::string& name) {
  module.stop_computing(name);
  for (const char* part : {"_g", "_v"}) module.unregister_tensor(name + part);
}

void detail::spectral_norm(Module& module, const SpectralNormOptions& options) {
  const std::string& name = options.name;
  const Tensor weight = own_parameter(module, "spectral_norm", name);
  FERRITE_CHECK(options.n_power_iterations > 0, ValueError, "spectral_norm",
                "expected at least one power iteration, got {}", options.n_power_iterations);
  const int dim =
      wrapped_dim(weight, "spectral_norm", options.dim.value_or(is_transposed_conv(module)));
  const std::string orig = name + "_orig", u = name + "_u", v = name + "_v";
  NoGradGuard guard;
  const Tensor matrix = as_matrix(weight, dim);
  const auto direction = [&](std::int64_t size) {
    return normalized(
        init::normal_(empty({size}, {.dtype = weight.dtype(), .device = weight.device()})),
        options.eps);
  };
  module.add_parameter(orig, weight);
  Tensor left = direction(matrix.size(0)), right = direction(matrix.size(1));
  iterate(matrix, left, right, kFirstIterations, options.eps);
  module.add_buffer(u, left);
  module.add_buffer(v, right);
  module.compute_before_forward(name, [=](Module& m) {
    const Tensor w = m.get_parameter(orig);
    const Tensor rows = as_matrix(w, dim);
    Tensor left = m.get_buffer(u), right = m.get_buffer(v);
    // A checkpoint that runs the layer again must compute with the same weight.
    if (m.is_training() && !without_iterations && !autograd::is_recomputing())
      iterate(rows, left, right, options.n_power_iterations, options.eps);
    // Later calls change the buffers; this one's gradient needs them as they are.
    return w / dot(left.clone(), mv(rows, right.clone()));
  });
}

void remove_spectral_norm(Module& module, const std::string& name) {
  {
    const struct Guard {
      Guard() { without_iterations = true; }
      ~Guard() { without_iterations = false; }
    } guard;
    module.stop_computing(name);
  }
  for (const char* part : {"_orig", "_u", "_v"}) module.unregister_tensor(name + part);
}

}  // namespace ferrite::nn::utils
