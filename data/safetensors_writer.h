// Writing safetensors outside the training thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ferrite/data/safetensors.h"

namespace ferrite::data {

/// As save_safetensors(), but does not wait for devices: the tensors must be ready. `devices` are
/// the devices to record, one per tensor.
void write_safetensors(const StateDict& tensors, const std::vector<std::string>& devices,
                       const std::filesystem::path& path, const Metadata& metadata,
                       const SaveOptions& options);
/// write_safetensors() with options.max_shard_size.
void write_safetensors_shards(const StateDict& tensors, const std::vector<std::string>& devices,
                              const std::filesystem::path& path, const Metadata& metadata,
                              SaveOptions options);

}  // namespace ferrite::data
