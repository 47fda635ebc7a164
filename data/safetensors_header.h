// The JSON header of safetensors files: reads untrusted headers, checks and writes them.
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

/// Free text stored with the tensors.
using Metadata = std::map<std::string, std::string>;

/// Whether a file's checksums are verified, if it has any.
enum class Checksums : std::uint8_t { compare, ignore };

struct SafetensorsEntry {
  std::string name;
  DType dtype = kFloat32;
  /// The file's name of a dtype that Ferrite does not have, "F8_E4M3"; `dtype` then means nothing.
  std::string foreign = {};
  Shape shape = {};
  std::uint64_t begin = 0, end = 0;            ///< offsets in the data part
  std::string device = "cpu";                  ///< device it was saved on
  std::optional<std::uint32_t> checksum = {};  ///< CRC-32 of its bytes

  std::uint64_t nbytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in the order of the header
  std::vector<std::size_t> by_name;       ///< indices of the entries, sorted by their names
  Metadata metadata;                      ///< without our own keys
  std::uint64_t data_offset = 0;

  /// Null if there is none.
  SafetensorsEntry* find(std::string_view name);
  const SafetensorsEntry* find(std::string_view name) const {
    return const_cast<SafetensorsHeader*>(this)->find(name);
  }
};

inline constexpr std::string_view kMetadataKey = "__metadata__";
/// Prefix of our own metadata keys.
inline constexpr std::string_view kOwnKeys = "ferrite.";

/// What a file is whose bytes are of another format, for the end of an error's text: "; it begins
/// as ...". Empty if that cannot be told.
std::string_view foreign_format(Bytes bytes);

/// Reads the header of the file `bytes` and checks it against its length: when this returns, the
/// tensors cover the data exactly, and have the bytes of their shapes where the size of their
/// elements is known: not of foreign dtypes of other names than U16, U32, U64 and F8_*. IoError.
/// Time and memory are proportional to the bytes of the header (times the logarithm of the number
/// of members), whatever its contents.
SafetensorsHeader read_safetensors_header(Bytes bytes, const Where& where, Checksums checksums);

/// The bytes before the data: length and JSON, padded to a multiple of 8. The offsets of `entries`
/// must be set. The size depends on whether there are checksums, not on their values. ValueError
/// for text that is not UTF-8 and for reserved names.
std::string write_safetensors_header(std::span<const SafetensorsEntry> entries,
                                     const Metadata& metadata);

/// CRC-32 as in zlib, gzip and PNG (zlib.crc32 in Python), continuing from `crc`.
std::uint32_t crc32_of(Bytes bytes, std::uint32_t crc = 0);
/// The same, using all threads for large inputs.
std::uint32_t parallel_crc32_of(Bytes bytes);

}  // namespace ferrite::data
