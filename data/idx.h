// IDX, the format of MNIST: a big-endian header (two zero bytes, element type, number of
// dimensions, the sizes), then the elements in row-major order.
#pragma once

#include <filesystem>
#include <string_view>

#include "ferrite/core/tensor.h"
#include "ferrite/data/file.h"

namespace ferrite::data {

/// Reads an IDX file, plain or gzip (told by content, not by name), into a host tensor of the
/// file's shape, 1 to 8 dimensions. Element types: uint8 (0x08), int32 (0x0C), float32 (0x0D),
/// float64 (0x0E); signed bytes and shorts have no dtype here and are refused. The header is
/// checked against the size of the file before anything is allocated, and no more is decompressed
/// than the header promises. Throws IoError with the byte offset, what was expected and what was
/// got.
Tensor read_idx(const std::filesystem::path& path);
/// The same from memory; `name` is for messages.
Tensor parse_idx(Bytes bytes, std::string_view name);

}  // namespace ferrite::data
