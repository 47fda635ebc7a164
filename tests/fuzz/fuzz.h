// What fuzz targets are made of. A target reads bytes that nobody vouches for: it may refuse them
// by a ferrite::Error and by nothing else, in time and memory that go with their number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/data/file.h"

namespace ferrite::fuzz {

struct Target {
  std::string_view name;
  void (*run)(data::Bytes);
  /// Sound inputs, small and large: what mutations start from.
  std::vector<std::string> (*seeds)();
  /// What a byte may cost, beyond what every input may (main.cpp): of processor time under the
  /// sanitizers, and of memory that is held at a time.
  double microseconds_per_byte = 2;
  double memory_per_byte = 64;
  /// Makes checksums and lengths of a mutated input right again, so that mutations reach what
  /// lies behind them; null where there are none.
  void (*repair)(std::string&) = nullptr;
};

/// All there are.
std::vector<Target>& targets();

struct Registered {
  explicit Registered(const Target& target) { targets().push_back(target); }
};

inline std::string_view text_of(data::Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace ferrite::fuzz
