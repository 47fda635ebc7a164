// The weights in an ONNX file, for ferrite-inspect.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/data/file.h"

namespace ferrite::data {

struct OnnxContents {
  StateDict tensors;  ///< the initializers, of Ferrite's dtypes, by name
  /// What else: producer, opset, inputs and outputs with their types and shapes, the number of
  /// nodes.
  std::vector<std::pair<std::string, std::string>> facts;
};

/// Reads what is in the file. The errors of OnnxFile.
OnnxContents read_onnx_contents(const std::filesystem::path& path);
/// The same of a file in memory.
OnnxContents read_onnx_contents(Bytes bytes);

}  // namespace ferrite::data
