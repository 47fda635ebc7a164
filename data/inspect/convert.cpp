#include "ferrite/data/inspect/convert.h"

#include "ferrite/core/error.h"
#include "ferrite/data/inspect/statistics.h"
#include "ferrite/data/npy.h"
#include "ferrite/data/pth.h"

namespace ferrite::inspect {

namespace {

constexpr const char* kConvertOp = "ferrite-inspect";

/// Metadata without {"format": "pt"}, by which Python's programs mark files of PyTorch's tensors.
data::Metadata without_mark(data::Metadata metadata) {
  const auto mark = metadata.find("format");
  if (mark != metadata.end() && mark->second == "pt") metadata.erase(mark);
  return metadata;
}

void check_can_hold(const std::filesystem::path& path, std::size_t count, const std::string& what,
                    const std::string& first) {
  FERRITE_CHECK(count == 0, ValueError, kConvertOp,
                "'{}' cannot hold the {} {}, such as '{}'; --tensors-only leaves them out",
                path.string(), count, what, first);
}

void check_no_values(const Contents& contents, const std::filesystem::path& path,
                     const ConvertOptions& options) {
  if (!options.tensors_only && !contents.values.empty())
    check_can_hold(path, contents.values.size(), "values that are no tensors",
                   contents.values[0].first);
}

void check_no_metadata(const Contents& contents, const std::filesystem::path& path,
                       const ConvertOptions& options) {
  // The metadata of an ONNX file describe its graph, which no other format holds either.
  if (contents.format == Format::onnx) return;
  const data::Metadata metadata = without_mark(contents.metadata);
  if (!options.tensors_only && !metadata.empty())
    check_can_hold(path, metadata.size(), "entries of metadata", metadata.begin()->first);
}

/// The whole file, if nothing of it is another value here than in Python.
data::Value exact_tree(const Contents& contents) {
  try {
    return data::load_pth(contents.path, {.mmap = true, .exact = true});
  } catch (const IoError& error) {
    fail<ValueError>(kConvertOp, "{}; --tensors-only leaves out all but tensors", error.what());
  }
}

/// A view that repeats its elements is written as many times as large.
void check_size(const Contents& contents) {
  ElementBudget budget(contents.tensors);
  for (const auto& [name, tensor] : contents.tensors)
    FERRITE_CHECK(budget.take(tensor), IoError, kConvertOp,
                  "tensor '{}' of shape {} is a view that repeats its elements, and with all of "
                  "them the file would be far larger than their memory; save what it is a view of",
                  name, tensor.shape());
}

}  // namespace

void convert(const Contents& contents, const std::filesystem::path& path,
             const ConvertOptions& options) {
  const std::string extension = path.extension().string();
  FERRITE_CHECK(options.max_shard_size == 0 || extension == ".safetensors", ValueError, kConvertOp,
                "--max-shard-size divides .safetensors, not '{}'", path.string());
  if (!contents.foreign.empty()) {
    const auto& [name, info] = *contents.foreign.begin();
    fail<ValueError>(kConvertOp,
                     "tensor '{}' is {}, which Ferrite does not have: it cannot be "
                     "converted",
                     name, info.foreign_dtype);
  }
  check_size(contents);
  if (extension == ".safetensors") {
    check_no_values(contents, path, options);
    return data::save_safetensors(contents.tensors, path, contents.metadata,
                                  {.max_shard_size = options.max_shard_size});
  }
  if (extension == ".pth" || extension == ".pt") {
    check_no_metadata(contents, path, options);
    const bool whole = contents.format == Format::pth && !options.tensors_only;
    return data::save_pth(whole ? exact_tree(contents) : data::Value(contents.tensors), path);
  }
  FERRITE_CHECK(extension != ".onnx", ValueError, kConvertOp,
                "'{}' would be a network, and tensors alone are none; onnx::save writes one",
                path.string());
  FERRITE_CHECK(
      extension == ".npz" || extension == ".npy", ValueError, kConvertOp,
      "cannot tell the format of '{}'; expected the extension .safetensors, .pth, .pt, .npz "
      "or .npy",
      path.string());
  check_no_values(contents, path, options);
  check_no_metadata(contents, path, options);
  if (extension == ".npz") return data::save_npz(contents.tensors, path);
  FERRITE_CHECK(contents.tensors.size() == 1, ValueError, kConvertOp,
                "'{}' holds one tensor, and there are {}; choose the extension .npz", path.string(),
                contents.tensors.size());
  data::save_npy(contents.tensors.begin()->second, path);
}

}  // namespace ferrite::inspect
