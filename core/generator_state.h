// The state of the default generators, for checkpoints.
#pragma once

#include "ferrite/core/state_dict.h"

namespace ferrite {

/// Every default generator that was used so far, by its device's name, as int64 [seed, offset], and
/// under "seed" the one that those not used yet will have.
StateDict generator_state_dict();
/// Goes back to such a state: generators that it does not hold begin anew with its seed. Devices
/// that are not there are no error. ValueError where an entry is none of these; nothing is changed
/// then.
void load_generator_state_dict(const StateDict& state);

}  // namespace ferrite
