#pragma once

#include <initializer_list>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"

namespace ferrite::test {

using Values = std::vector<double>;

inline Values values(const Tensor& t) { return t.to_vector<double>(); }

/// A float64 leaf that requires a gradient.
inline Tensor leaf(const Values& v, const Device& device = {}) {
  Tensor t = from_vector(v, {static_cast<std::int64_t>(v.size())}).to(device);
  t.set_requires_grad();
  return t;
}

inline Tensor grad_of(const Tensor& out, const Tensor& in, bool create_graph = false) {
  return autograd::grad({&out, 1}, {&in, 1}, {}, create_graph, create_graph)[0];
}

}  // namespace ferrite::test
