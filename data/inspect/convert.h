// Writing what was in a file of one format into one of another.
#pragma once

#include <filesystem>

#include "ferrite/data/inspect/contents.h"

namespace ferrite::inspect {

struct ConvertOptions {
  /// Whether to leave out what the format cannot hold beside tensors: values, metadata.
  bool tensors_only = false;
  std::uint64_t max_shard_size = 0;  ///< data::SaveOptions
};

/// The format is that of the path's extension: .safetensors, .pth or .pt, .npz, .npy. ValueError:
/// for another; if there are values or metadata that it cannot hold, or that would come out as
/// others (PthOptions::exact), unless tensors_only; for .npy unless there is one tensor. IoError if
/// views with far more elements than memory would be written. What the writers throw: DTypeError
/// for bfloat16 in NumPy's formats.
void convert(const Contents& contents, const std::filesystem::path& path,
             const ConvertOptions& options);

}  // namespace ferrite::inspect
