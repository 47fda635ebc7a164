// What differs from build to build, in a file of its own: all other test code can be shared.
#include <cstdlib>
#include <string_view>

#include "ferrite/tests/paths.h"
#include "ferrite/tests/support/sanitizers.h"

namespace ferrite::test {

namespace {

/// A build that was carried to another place is told where it is.
std::string told(const char* variable, const char* otherwise) {
  const char* const value = std::getenv(variable);
  return value ? value : otherwise;
}

}  // namespace

std::string source_dir() { return told("FERRITE_TEST_SOURCE_DIR", FERRITE_SOURCE_DIR); }
std::string bin_dir() { return told("FERRITE_TEST_BIN_DIR", FERRITE_BIN_DIR); }
std::string cuda_driver_stub() { return FERRITE_CUDA_DRIVER_STUB; }

bool has_address_sanitizer() {
  return std::string_view(FERRITE_SANITIZE).find("address") != std::string_view::npos;
}
bool has_thread_sanitizer() {
  return std::string_view(FERRITE_SANITIZE).find("thread") != std::string_view::npos;
}

}  // namespace ferrite::test
