// What is in a file, whatever its format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/data/value.h"

namespace ferrite::inspect {

enum class Format : std::uint8_t { pth, safetensors, shards, checkpoint, npy, npz, onnx };
std::string_view name(Format format);

struct Contents {
  Format format = Format::safetensors;
  std::filesystem::path path = {};  ///< of a .pth file
  /// Under dotted names: "model.0.weight". That of a .npy file is "arr_0", as in NumPy's archives.
  StateDict tensors = {};
  /// Tensors of dtypes that Ferrite does not have, which are listed and not read.
  std::map<std::string, data::TensorInfo> foreign = {};
  /// What is neither a tensor nor holds any, under names of the same kind: numbers, text, lists of
  /// them.
  std::vector<std::pair<std::string, data::Value>> values = {};
  data::Metadata metadata = {};  ///< of safetensors; of ONNX: opsets, inputs, outputs, nodes
};

/// Reads .pth and .pt, safetensors and their indexes, Ferrite's checkpoints, .npy and .npz, told by
/// their first bytes, and, told by its name, .onnx (in a build with that component). Where it can,
/// tensors are views of the mapped file. The readers' errors.
Contents read_contents(const std::filesystem::path& path);

}  // namespace ferrite::inspect
