// Writing safetensors away from the thread that trains.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ferrite/data/safetensors.h"

namespace ferrite::data {

/// As save_safetensors(), but waits for no device: the tensors must be ready. `devices` are those
/// to note as theirs, one a tensor.
void write_safetensors(const StateDict& tensors, const std::vector<std::string>& devices,
                       const std::filesystem::path& path, const Metadata& metadata,
                       const SaveOptions& options);

}  // namespace ferrite::data
