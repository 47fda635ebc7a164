// Decompression of what lies in memory as a whole, into memory of the size that it will have: twice
// as fast as zlib, which works piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "data/file.h"

namespace ferrite::data {

/// Inflates the deflate stream (RFC 1951) that `in` begins with; it must fill `out` to the byte.
/// Gives how much of `in` it was; nothing where it is corrupt, cut off, or of another size. `out`
/// may have been written to then; InflateStream says what is wrong.
std::optional<std::size_t> inflate_whole(Bytes in, std::span<std::uint8_t> out);

/// The same of a zlib stream (RFC 1950) and of a gzip member (RFC 1952), which `in` must be to its
/// last byte, and of which the checksum is checked.
bool inflate_zlib(Bytes in, std::span<std::uint8_t> out);
bool inflate_gzip(Bytes in, std::span<std::uint8_t> out);

}  // namespace ferrite::data
