// Decompression of a whole buffer into memory of the final size: by libdeflate, twice as fast as
// zlib, which works in pieces (data/inflate.h).
#pragma once

#include <cstdint>
#include <span>

#include "ferrite/data/file.h"

namespace ferrite::data {

/// Inflates `in`, exactly one zlib stream (RFC 1950) or gzip member (RFC 1952), which must fill
/// `out` exactly and have a valid checksum. Otherwise returns false, possibly after writing to
/// `out`; InflateStream reports the reason.
bool inflate_zlib(Bytes in, std::span<std::uint8_t> out);
bool inflate_gzip(Bytes in, std::span<std::uint8_t> out);

}  // namespace ferrite::data
