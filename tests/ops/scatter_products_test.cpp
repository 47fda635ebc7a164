// Second derivatives of scattered products with zeros, against PyTorch's where it has them.
#include <doctest/doctest.h>

#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("scatter_reduce, prod: second derivatives beside zeros") {
  using Doubles = std::vector<double>;
  const struct {
    Doubles x, source;
    bool include_self;
    Doubles of_x, of_source;
  } cases[] = {
      {{0, 3}, {5, 7, 11}, true, {12, 1}, {7, 5, 1}},
      {{2, 3}, {0, 7, 11}, true, {7, 1}, {9, 2, 1}},
      {{2, 3}, {4, 7, 11}, true, {11, 1}, {9, 6, 1}},
      // Two zeros in a place, for which PyTorch has no second derivative: of x s0 + x s1 + s0 s1.
      {{0, 3}, {0, 7, 11}, true, {7, 1}, {7, 0, 1}},
      {{2, 3}, {0, 0, 11}, true, {0, 1}, {2, 2, 1}},
      {{2, 3}, {0, 7, 11}, false, {0, 0}, {1, 1, 0}},
  };
  for (const auto& c : cases) {
    const Tensor x = from_vector(c.x, {2}).set_requires_grad(),
                 source = from_vector(c.source, {3}).set_requires_grad();
    const Tensor y = scatter_reduce(x, 0, tensor({0, 0, 1}), source, "prod", c.include_self);
    const std::vector<Tensor> first = autograd::grad({y.sum()}, {x, source}, {}, true, true);
    const std::vector<Tensor> second =
        autograd::grad({first[0].sum() + first[1].sum()}, {x, source}, {}, true, false, true);
    if (c.include_self) check_close(second[0], c.of_x, 1e-15);
    check_close(second[1], c.of_source, 1e-15);
  }
}
