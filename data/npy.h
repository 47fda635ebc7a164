// NumPy's .npy (one array) and .npz (a zip archive of them).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/data/file.h"

namespace ferrite::data {

/// Reads versions 1, 2 and 3 of the format, little endian, C or Fortran order, 0 to 8 dimensions,
/// into a row-major host tensor. Types: f2, f4, f8, i1, i2, i4, i8, u1, c8, c16 and bool. Throws
/// IoError with the byte offset for anything else, including lengths that disagree with the file's.
Tensor load_npy(const std::filesystem::path& path);
/// The same from memory; `name` is used in messages.
Tensor parse_npy(Bytes bytes, std::string_view name, std::string_view op = "load_npy");

/// Writes version 1.0, row-major whatever the strides. Replaces `path` atomically. DTypeError for
/// bfloat16, which NumPy does not have; DeviceError if the tensor is not on the host.
void save_npy(const Tensor& tensor, const std::filesystem::path& path);
/// The header that save_npy writes in front of the elements.
std::string npy_header(DType dtype, const Shape& shape, std::string_view op = "save_npy");

/// Reads all arrays of an archive, stored or deflated, in the order of its directory, without
/// ".npy" in their names. Checksums are verified. Throws IoError.
StateDict load_npz(const std::filesystem::path& path);
/// The arrays of a .npz file in memory.
StateDict parse_npz(Bytes bytes, std::string_view name);

/// Whether arrays are compressed.
enum class NpzCompression : std::uint8_t { stored, deflated };

/// Writes an archive for numpy.load. ValueError for an array of 4 GiB or more that is to be
/// deflated.
void save_npz(const StateDict& arrays, const std::filesystem::path& path,
              NpzCompression compression = NpzCompression::stored);

}  // namespace ferrite::data
