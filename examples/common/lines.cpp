#include "ferrite/examples/common/lines.h"

#include <fmt/format.h>

#include "ferrite/core/terminal.h"
#include "ferrite/metrics/timer.h"

namespace examples {

std::string finished_line(double accuracy, std::int64_t steps, double seconds) {
  return fmt::format("test accuracy {:.4f} after {} in {}", accuracy,
                     ferrite::terminal::counted(steps, "step"),
                     ferrite::metrics::format_duration(seconds));
}

}  // namespace examples
