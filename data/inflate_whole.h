// Decompression of what lies in memory as a whole, into memory of the size that it will have: by
// libdeflate, twice as fast as zlib, which works piece by piece (data/inflate.h).
#pragma once

#include <cstdint>
#include <span>

#include "ferrite/data/file.h"

namespace ferrite::data {

/// Inflates a zlib stream (RFC 1950), or a gzip member (RFC 1952), which `in` must be to its last
/// byte; it must fill `out` to the byte, and its checksum be right. False where that is not so:
/// `out` may have been written to then; InflateStream says what is wrong.
bool inflate_zlib(Bytes in, std::span<std::uint8_t> out);
bool inflate_gzip(Bytes in, std::span<std::uint8_t> out);

}  // namespace ferrite::data
