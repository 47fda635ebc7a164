// Lines that several training programs print.
#pragma once

#include <cstdint>
#include <string>

namespace examples {

/// "test accuracy 0.9812 after 780 steps in 0:12".
std::string finished_line(double accuracy, std::int64_t steps, double seconds);

}  // namespace examples
