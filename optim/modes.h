// Training modes of modules, for code that changes them for a while.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "ferrite/nn/module.h"

namespace ferrite::optim {

/// Gives modules, all of a tree, their modes back. train() of a module sets those below it, too, of
/// which one may have several parents: a round ends with the modes of those whose parents were
/// right before it.
inline void restore_modes(std::span<const std::pair<nn::Module*, bool>> modes) {
  bool changed = true;
  for (std::size_t round = 0; changed && round < modes.size(); ++round) {
    changed = false;
    for (const auto& [module, on] : modes)
      if (module->is_training() != on) module->train(on), changed = true;
  }
}

}  // namespace ferrite::optim
