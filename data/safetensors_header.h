// The JSON header of safetensors files: read without trust, checked, written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/core/dtype.h"
#include "ferrite/core/shape.h"
#include "ferrite/data/file.h"

namespace ferrite::data {

/// Free text beside the tensors.
using Metadata = std::map<std::string, std::string>;

/// Whether a file's checksums are compared, where it has any.
enum class Checksums : std::uint8_t { compare, ignore };

struct SafetensorsEntry {
  std::string name;
  DType dtype = kFloat32;
  Shape shape = {};
  std::uint64_t begin = 0, end = 0;            ///< in the data part
  std::string device = "cpu";                  ///< it was saved on
  std::optional<std::uint32_t> checksum = {};  ///< CRC-32 of its bytes

  std::uint64_t nbytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in the order of the header
  std::vector<std::size_t> by_name;       ///< indices of the entries, sorted by their names
  Metadata metadata;                      ///< without our own keys
  std::uint64_t data_offset = 0;

  /// Null where there is none.
  SafetensorsEntry* find(std::string_view name);
  const SafetensorsEntry* find(std::string_view name) const {
    return const_cast<SafetensorsHeader*>(this)->find(name);
  }
};

inline constexpr std::string_view kMetadataKey = "__metadata__";
/// Begins the metadata keys that are ours.
inline constexpr std::string_view kOwnKeys = "ferrite.";

/// The header of the file `bytes`, checked against its length: when this returns, the tensors cover
/// the data exactly. IoError. Time and memory go with the bytes of the header (and the logarithm of
/// its members), whatever it holds.
SafetensorsHeader read_safetensors_header(Bytes bytes, const Where& where, Checksums checksums);

/// The bytes before the data: length and JSON, padded to a multiple of 8. `offsets` of the entries
/// must be set. Its size depends on whether there are checksums, not on their values. ValueError
/// for text that is not UTF-8 and names that are reserved.
std::string write_safetensors_header(std::span<const SafetensorsEntry> entries,
                                     const Metadata& metadata);

/// CRC-32 as zlib, gzip and PNG have it (zlib.crc32 in Python), going on from `crc`.
std::uint32_t crc32_of(Bytes bytes, std::uint32_t crc = 0);
/// The same by all threads, where there is much.
std::uint32_t parallel_crc32_of(Bytes bytes);

}  // namespace ferrite::data
