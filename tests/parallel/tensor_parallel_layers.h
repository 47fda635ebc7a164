// Split layers, against the unsplit layer.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/nn/activation.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/linear.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/local/local_group.h"
#include "ferrite/parallel/tensor_parallel/parallel_linear.h"
#include "ferrite/parallel/tensor_parallel/regions.h"
#include "ferrite/parallel/tensor_parallel/split_linear.h"
#include "ferrite/tests/support/close.h"

namespace ferrite::test {

inline const parallel::LocalGroupOptions kShortGroup{.timeout = std::chrono::seconds(120)};

/// Sizes of the layers in these tests.
struct Sizes {
  std::int64_t in = 6, hidden = 12, out = 6;
  bool bias = true;
};

/// Two layers and a GELU: with names "fc1.weight" and so on, like the split MLPs.
class WholeMLP : public nn::Cloneable<WholeMLP> {
 public:
  explicit WholeMLP(const Sizes& sizes)
      : fc1(sizes.in, sizes.hidden, {.bias = sizes.bias}),
        fc2(sizes.hidden, sizes.out, {.bias = sizes.bias}) {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  Tensor forward(const Tensor& x) override { return fc2(gelu(fc1(x))); }

  nn::Linear fc1, fc2;
};

/// Outputs and gradients of a network that is used twice in one graph, under unsplit names.
struct TwoUses {
  Tensor y, dx;
  StateDict gradients;
};

inline TwoUses use_twice(const std::function<Tensor(const Tensor&)>& f, const nn::Module& network,
                         const Tensor& x, const Tensor& dy) {
  const Tensor input = x.detach().clone().set_requires_grad();
  const Tensor y = f(input) + f(input * 0.5);
  y.backward(dy.to(y.device()));
  TwoUses result{y.detach().cpu(), input.grad().cpu(), {}};
  for (const auto& [name, p] : network.named_parameters()) {
    REQUIRE_MESSAGE(p.grad().defined(), name);
    result.gradients.insert(name, p.grad().cpu());
  }
  return result;
}

/// The part of the unsplit network's gradient for each parameter of the split one.
inline void check_parts_of(const StateDict& parts, const nn::Module& network,
                           const StateDict& whole, double tolerance) {
  for (const auto& [path, module] : network.named_modules()) {
    const auto* const split = dynamic_cast<const parallel::SplitModule*>(module);
    if (!split) continue;
    const std::string prefix = path.empty() ? "" : path + ".";
    for (const parallel::SplitTensor& of : split->split_tensors()) {
      CAPTURE(prefix + of.name);
      const Tensor& part = parts.at(prefix + of.name);
      const Tensor& all = whole.at(prefix + of.whole);
      CHECK(of.shape == all.shape());
      check_close(part, all.narrow(of.dim, of.begin, part.size(of.dim)), tolerance, tolerance);
    }
  }
  for (const auto& [name, part] : parts)
    if (whole.contains(name) && whole.at(name).shape() == part.shape())
      check_close(part, whole.at(name), tolerance, tolerance);
}

inline void check_same(const TwoUses& split, const nn::Module& network, const TwoUses& whole,
                       double tolerance) {
  check_close(split.y, whole.y, tolerance, tolerance);
  check_close(split.dx, whole.dx, tolerance, tolerance);
  check_parts_of(split.gradients, network, whole.gradients, tolerance);
}

/// Bit for bit.
inline void check_equal(const StateDict& a, const StateDict& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, t] : b) {
    CAPTURE(name);
    REQUIRE(a.contains(name));
    CHECK(a.at(name).dtype() == t.dtype());
    check_close(a.at(name), t, 0, 0);
  }
}

}  // namespace ferrite::test
