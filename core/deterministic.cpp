#include "ferrite/core/deterministic.h"

#include <atomic>

#include "ferrite/core/error.h"

namespace ferrite {

namespace {
std::atomic<bool> enabled{false};
}

void use_deterministic_algorithms(bool on) { enabled.store(on, std::memory_order_relaxed); }

bool are_deterministic_algorithms_enabled() { return enabled.load(std::memory_order_relaxed); }

void alert_not_deterministic(const char* op, const Device& device) {
  FERRITE_CHECK(!are_deterministic_algorithms_enabled(), Error, op,
                "has no deterministic algorithm on {}; run it on the cpu, or allow it with "
                "use_deterministic_algorithms(false)",
                device);
}

}  // namespace ferrite
