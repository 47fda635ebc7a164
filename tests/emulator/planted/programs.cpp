#include "ferrite/tests/emulator/planted/planted.h"

namespace planted {

std::vector<Program>& programs() {
  static std::vector<Program> all;
  return all;
}

}  // namespace planted
