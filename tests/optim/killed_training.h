// A training that is killed and goes on: with shuffling, augmentation, dropout, batch norm,
// momentum, loss scaling that overflows, a learning rate that changes, loader workers, and
// checkpoints that are written behind it.
#pragma once

#include <string>

#include "ferrite/core/device.h"

namespace ferrite::test {

/// Trains for `steps` steps in a process of its own that is killed at random moments, `kills` times
/// over, each time going on from its last checkpoint; then to the end. What it ends with must be
/// what one that is left alone ends with, to the last bit.
void check_killed_training(const Device& device, int steps, int kills);

}  // namespace ferrite::test
