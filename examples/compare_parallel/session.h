// Everything that is measured, in turns.
#pragma once

#include <string>
#include <vector>

#include "ferrite/examples/compare_parallel/measurement.h"
#include "ferrite/examples/compare_parallel/options.h"

namespace examples::compare {

/// What the devices are.
Machine describe_machine(const Options& options);

/// Measures all cases in every repetition, one after another, so that what else the machine does
/// meets them all alike; in every second one backwards. A case that fails has its error in its row,
/// and is left out from then on. `arguments` are the program's own.
Measurement measure_all(const Options& options, const std::vector<std::string>& arguments);

}  // namespace examples::compare
