#include "ferrite/core/version.h"

namespace ferrite {

const char* version() { return kVersion; }

}  // namespace ferrite
