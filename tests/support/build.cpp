// What differs from build to build, in a file of its own: all other test code can be shared.
#include <string_view>

#include "ferrite/tests/paths.h"
#include "ferrite/tests/support/sanitizers.h"

namespace ferrite::test {

std::string source_dir() { return FERRITE_SOURCE_DIR; }
std::string bin_dir() { return FERRITE_BIN_DIR; }
std::string cuda_driver_stub() { return FERRITE_CUDA_DRIVER_STUB; }

bool has_address_sanitizer() {
  return std::string_view(FERRITE_SANITIZE).find("address") != std::string_view::npos;
}
bool has_thread_sanitizer() {
  return std::string_view(FERRITE_SANITIZE).find("thread") != std::string_view::npos;
}

}  // namespace ferrite::test
