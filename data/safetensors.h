// safetensors, the format of checkpoints: 8 bytes of header length, a JSON header that gives each
// tensor's dtype, shape and place, then the elements, little endian and row-major.
// https://huggingface.co/docs/safetensors
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "core/state_dict.h"
#include "data/file.h"

namespace ferrite {

namespace data {

/// Free text beside the tensors.
using Metadata = std::map<std::string, std::string>;

/// Writes the tensors, row-major whatever their strides, in the order of the dict, larger element
/// types first in the file so that each is aligned. Replaces `path` atomically: temporary file,
/// sync, rename, sync of the folder. DeviceError for tensors that are not on the host; ValueError
/// for the reserved name "__metadata__" and for text that is not UTF-8; IoError.
void save_safetensors(const StateDict& tensors, const std::filesystem::path& path,
                      const Metadata& metadata = {});

/// Reads all tensors into host memory, in the header's order. Types: F32, F16, BF16, F64, I64,
/// I32, U8, BOOL. The header is checked against the file, and the tensors must cover the data
/// exactly, without overlaps or holes, before anything is allocated. Throws IoError with the byte
/// offset.
StateDict load_safetensors(const std::filesystem::path& path);
Metadata load_safetensors_metadata(const std::filesystem::path& path);
/// The same from memory; `name` is for messages.
StateDict parse_safetensors(Bytes bytes, std::string_view name);
Metadata parse_safetensors_metadata(Bytes bytes, std::string_view name);

}  // namespace data

/// Writes a state dict as safetensors (data::save_safetensors).
void save(const StateDict& state_dict, const std::filesystem::path& path,
          const data::Metadata& metadata = {});
/// Reads a state dict that save(), or Python's safetensors, wrote (data::load_safetensors).
StateDict load(const std::filesystem::path& path);

}  // namespace ferrite
