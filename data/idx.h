// IDX, the format of MNIST: a big-endian header (two zero bytes, element type, number of
// dimensions, the sizes), then the elements in row-major order.
#pragma once

#include <filesystem>
#include <string_view>

#include "ferrite/core/tensor.h"
#include "ferrite/data/file.h"

namespace ferrite::data {

/// Reads an IDX file, plain or gzip (detected by content, not by name), into a host tensor of the
/// file's shape, 1 to 8 dimensions. Element types: uint8 (0x08), int8 (0x09), int16 (0x0B), int32
/// (0x0C), float32 (0x0D), float64 (0x0E). The header is checked against the size of the
/// file before anything is allocated, and no more is decompressed than the header announces. Throws
/// IoError with the byte offset and the expected and actual values.
Tensor read_idx(const std::filesystem::path& path);
/// The same from memory; `name` is used in messages.
Tensor parse_idx(Bytes bytes, std::string_view name);

}  // namespace ferrite::data
