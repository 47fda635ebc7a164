// What the programs of this folder share: weights of a formula, and PyTorch's losses
// (tests/golden/record_programs.py, which has the same programs in PyTorch).
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ferrite/nn/module.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/golden.h"
#include "ferrite/tests/support/hash.h"

namespace ferrite::test {

/// Parameter i of the module, in the order of named_parameters(), gets the numbers of seed `first +
/// i`: matrices and filters of variance 1 / fan-in; biases small; weights of norms near 1.
inline void set_weights(const nn::Module& net, std::uint32_t first = 0) {
  for (const auto& [name, p] : net.named_parameters()) {
    if (p.dim() > 1) {
      set_uniform(p, first++, p.numel() / p.size(0));
    } else {
      set_uniform(p, first++, 300);
      if (name.ends_with("weight")) no_grad([&] { p.add_(1); });
    }
  }
}

/// Compares losses with the first recorded ones. The tolerance is four times the error of PyTorch's
/// own float32 by that step: the largest difference between its losses in float64 and those of
/// several runs in float32, whose initial weights differ in their last bits. Sums in another order
/// make such differences, which grow from step to step.
inline void check_losses(const std::string& program, const std::vector<double>& losses) {
  const Golden golden("programs");
  const auto expected = golden.get(program, "losses").to_vector<double>();
  const auto error = golden.get(program, "error").to_vector<double>();
  REQUIRE(!losses.empty());
  REQUIRE(losses.size() <= expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CAPTURE(program);
    CAPTURE(i);
    CAPTURE(losses[i]);
    CAPTURE(expected[i]);
    CHECK(std::abs(losses[i] - expected[i]) <= 4 * error[i]);
  }
}

}  // namespace ferrite::test
