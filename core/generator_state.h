// The state of the default generators, for checkpoints.
#pragma once

#include "ferrite/core/state_dict.h"

namespace ferrite {

/// Every default generator used so far, by its device's name, as int64 [seed, offset]; the entry
/// "seed" is the seed of those not used yet.
StateDict generator_state_dict();
/// Restores such a state: generators without an entry start from its seed. Entries of devices that
/// do not exist here are ignored. ValueError for an entry of any other form; nothing is changed
/// then.
void load_generator_state_dict(const StateDict& state);

}  // namespace ferrite
