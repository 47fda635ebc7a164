// safetensors in several files, as Hugging Face's libraries divide large models:
// model-00001-of-00003.safetensors ..., and model.safetensors.index.json, which says in which file
// each tensor is: {"metadata": {"total_size": 96}, "weight_map": {"fc.weight": "model-00001-..."}}.
// https://huggingface.co/docs/huggingface_hub/package_reference/serialization
//
//   save(model.state_dict(), "llm/model.safetensors", {}, {.max_shard_size = 5'000'000'000});
//   model.load_state_dict(load("llm"));
//   data::SafetensorsShards shards("llm");     // one tensor at a time
//
// Writing divides the tensors in the order of the dict; one that is larger than max_shard_size has
// a file of its own, and tensors that fit into one file are written as one, without an index. Each
// file holds the metadata. If the process is killed while writing, either the old files or the new
// ones are complete: the new files get unused names ("model.2-00001-of-00003.safetensors" if there
// are shards already), the index replaces the old one once they are on disk, and then the shards
// and the undivided file of the same name that the index does not list are removed.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/data/safetensors.h"

namespace ferrite::data {

/// The files of an index, opened as if they were one. Its const members are thread-safe.
class SafetensorsShards {
 public:
  /// `path` is an index, a folder that holds one, or the file that was divided. Opens all files and
  /// checks their headers (see SafetensorsFile), reading no tensor. IoError: the index is not
  /// valid; a file is missing, or its path leaves the index's folder (is absolute, or has ".."); a
  /// tensor is not in the file that the index names, is in two, or is in a file but not in the
  /// index.
  explicit SafetensorsShards(const std::filesystem::path& path, SafetensorsOptions options = {});

  /// By the files' names, then in the order of their headers: the order in which they were saved.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const { return weight_map_.contains(name); }
  /// IndexError if there is no such tensor.
  TensorInfo info(std::string_view name) const { return shard_of(name).info(name); }
  /// The tensor of this name.
  Tensor get(std::string_view name) const { return shard_of(name).get(name); }
  /// As SafetensorsFile::load(): all wanted tensors are verified before memory is allocated.
  StateDict load() const;
  /// IoError if a file does not fit the index.
  void verify() const;
  /// What the files say; where they differ, the first of them.
  Metadata metadata() const;
  /// The path of the index.
  const std::filesystem::path& path() const { return path_; }
  /// The files that the index names.
  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  const SafetensorsFile& shard_of(std::string_view name) const;
  void compare_with_index(const std::vector<std::string>& names_of_files) const;

  std::filesystem::path path_;
  std::map<std::string, std::size_t, std::less<>> weight_map_;  // to a position in files_
  std::vector<SafetensorsFile> files_;
};

/// The index's weight_map: tensors' names, and their files' as they stand there. IoError.
std::map<std::string, std::string> parse_shard_index(Bytes bytes, std::string_view name);

/// Whether a path is that of an index, by its extension .json.
bool is_shard_index(const std::filesystem::path& path);
/// The file to read for `path`: in a folder, model.safetensors, model.safetensors.index.json, or
/// the only file that ends in .safetensors.index.json or else in .safetensors; for a file that does
/// not exist but has an index beside it, that; else `path`. IoError, tagged with `op`, if there is
/// none in a folder, or several.
std::filesystem::path find_safetensors(const std::filesystem::path& path, std::string_view op);

}  // namespace ferrite::data
