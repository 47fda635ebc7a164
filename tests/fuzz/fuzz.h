// The interface of fuzz targets. A target reads untrusted bytes: it may reject them only by a
// ferrite::Error, in time and memory proportional to their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/data/file.h"

namespace ferrite::fuzz {

struct Target {
  std::string_view name;
  void (*run)(data::Bytes);
  /// Valid inputs, small and large, from which mutations start.
  std::vector<std::string> (*seeds)();
  /// Limits per byte, in addition to the constant ones (`seconds`, `memory`): processor time under
  /// the sanitizers, and memory held at a time.
  double microseconds_per_byte = 2;
  double memory_per_byte = 64;
  /// Fixes checksums and lengths of a mutated input, so that mutations reach the code behind those
  /// checks; null if there are none.
  void (*repair)(std::string&) = nullptr;
  double seconds = 0.5;            ///< of processor time, for any input
  std::size_t memory = 8'000'000;  ///< bytes, for any input
};

/// For ONNX: protobuf reserves up to 50 MB for a string, however short the file is.
constexpr std::size_t kProtobufMemory = 58'000'000;

/// All registered targets.
std::vector<Target>& targets();

struct Registered {
  explicit Registered(const Target& target) { targets().push_back(target); }
};

inline std::string_view text_of(data::Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace ferrite::fuzz
