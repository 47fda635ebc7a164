#include "ferrite/tests/emulator/src/settings.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace emulator {

namespace {

[[noreturn]] void refuse(const char* name, const char* value, const char* expected) {
  std::fprintf(stderr, "emulator: %s is \"%s\"; expected %s\n", name, value, expected);
  std::exit(2);
}

bool boolean(const char* name, bool otherwise) {
  const char* const text = std::getenv(name);
  if (!text || !*text) return otherwise;
  if (!std::strcmp(text, "1")) return true;
  if (!std::strcmp(text, "0")) return false;
  refuse(name, text, "0 or 1");
}

/// A number, with K, M or G for its binary multiples.
std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  if (!text || !*text) return otherwise;
  char* end = nullptr;
  errno = 0;
  std::uint64_t value = std::strtoull(text, &end, 10);
  const std::string unit = end;
  if (errno || end == text || *text == '-' || unit.size() > 1)
    refuse(name, text, "a number, or one with K, M or G behind it");
  const std::size_t power = unit.empty() ? 0 : std::string("KMG").find(unit[0]);
  if (power == std::string::npos) refuse(name, text, "a number, or one with K, M or G behind it");
  if (!unit.empty()) value <<= 10 * (power + 1);
  return value;
}

Settings from_environment() {
  Settings s;
  s.seed = number("FERRITE_EMULATOR_SEED", 0);
  const char* const order = std::getenv("FERRITE_EMULATOR_ORDER");
  const std::string name = order ? order : "";
  if (name == "descending")
    s.order = Order::descending;
  else if (name == "shuffled" || (name.empty() && s.seed))
    s.order = Order::shuffled;
  else if (!name.empty() && name != "ascending")
    refuse("FERRITE_EMULATOR_ORDER", order, "ascending, descending or shuffled");
  s.devices = static_cast<int>(number("FERRITE_EMULATOR_DEVICES", 4));
  if (s.devices < 0 || s.devices > kMaxDevices)
    refuse("FERRITE_EMULATOR_DEVICES", std::getenv("FERRITE_EMULATOR_DEVICES"), "0 to 16");
  s.memory = number("FERRITE_EMULATOR_MEMORY", s.memory);
  s.deferred = boolean("FERRITE_EMULATOR_DEFER", false);
  s.protect = boolean("FERRITE_EMULATOR_PROTECT", false);
  s.poison = boolean("FERRITE_EMULATOR_POISON", true);
  s.races = boolean("FERRITE_EMULATOR_RACES", true);
  return s;
}

}  // namespace

// Initialized before the statics of other files, which may use it.
__attribute__((init_priority(101))) Settings current_settings = from_environment();

namespace {
std::atomic<bool> cudnn_found{false}, cublaslt_found{false}, computes{true};
}
void set_cudnn(bool found) { cudnn_found = found; }
bool has_cudnn() { return cudnn_found; }
void set_cublaslt(bool found) { cublaslt_found = found; }
bool has_cublaslt() { return cublaslt_found; }
void set_libraries_compute(bool compute) { computes = compute; }
bool libraries_compute() { return computes; }

}  // namespace emulator
