#include "ferrite/data/inspect/contents.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ferrite/data/file.h"
#include "ferrite/data/npy.h"
#include "ferrite/data/onnx/onnx_tensors.h"
#include "ferrite/data/pth.h"
#include "ferrite/data/safetensors_shards.h"
#include "ferrite/data/value_names.h"
#include "ferrite/data/zip.h"

namespace ferrite::inspect {

namespace {

constexpr const char* kReadOp = "ferrite-inspect";
constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr const char* kNpyName = "arr_0";

Format format_of(const std::filesystem::path& path) {
  if (data::is_shard_index(path)) return Format::shards;
  if (path.extension() == ".onnx") return Format::onnx;
  const data::MappedFile file(path, kReadOp);
  const data::Bytes bytes = file.bytes();
  if (bytes.size() >= kNpyMagic.size() &&
      std::memcmp(bytes.data(), kNpyMagic.data(), kNpyMagic.size()) == 0)
    return Format::npy;
  if (!data::is_pth(bytes)) return Format::safetensors;
  if (!data::is_zip(bytes)) return Format::pth;
  const std::string name = path.string();
  const data::ZipReader archive(bytes, {kReadOp, name});
  const bool pickled = std::ranges::any_of(archive.members(), [](const data::ZipMember& member) {
    return member.name.ends_with("/data.pkl");
  });
  return pickled ? Format::pth : Format::npz;
}

/// Whether it is listed as one value: no dict, no tensor, and no list of lists.
bool is_plain(const data::Value& value) {
  const auto is_leaf = [](const data::Value& v) {
    return !v.is_tensor() && !v.is_list() && !v.is_dict();
  };
  if (value.is_list()) return std::ranges::all_of(value.items(), is_leaf);
  return is_leaf(value) || (value.is_dict() && value.entries().empty());
}

Contents read_tree(const std::filesystem::path& path) {
  const data::Value tree = data::load_pth(path, {.mmap = true});
  // A file may hold one tensor, or one number.
  const bool alone = !tree.is_dict() && !tree.is_list();
  const data::Value named = alone ? data::Value::dict({{"value", tree}}) : tree;
  Contents contents{.format = Format::pth, .path = path};
  contents.tensors = named.tensors();
  data::for_each_named(named, [&](const std::string& name, const data::Value& value) {
    const bool listed = !name.empty() && is_plain(value);
    if (listed) contents.values.emplace_back(name, value);
    return listed;
  });
  return contents;
}

/// Of a file or of several.
template <class File>
void read_safetensors(const File& file, Contents& contents) {
  contents.metadata = file.metadata();
  for (const std::string& name : file.names())
    if (data::TensorInfo info = file.info(name); info.foreign_dtype.empty())
      contents.tensors.insert(name, file.get(name));
    else
      contents.foreign.emplace(name, std::move(info));
}

}  // namespace

std::string_view name(Format format) {
  constexpr std::string_view names[] = {
      "pth", "safetensors", "safetensors index", "checkpoint", "npy", "npz", "onnx"};
  return names[static_cast<std::size_t>(format)];
}

Contents read_contents(const std::filesystem::path& path) {
  const std::filesystem::path file = data::find_safetensors(path, kReadOp);
  const Format format = format_of(file);
  switch (format) {
    case Format::pth:
      return read_tree(file);
    case Format::npy:
      return {.format = format, .tensors = {{kNpyName, data::load_npy(file)}}};
    case Format::npz:
      return {.format = format, .tensors = data::load_npz(file)};
    case Format::onnx: {
      data::OnnxContents onnx = data::read_onnx_contents(file);
      return {.format = format,
              .tensors = std::move(onnx.tensors),
              .metadata = {onnx.facts.begin(), onnx.facts.end()}};
    }
    case Format::shards: {
      Contents contents{.format = format};
      read_safetensors(data::SafetensorsShards(file, {.mmap = true}), contents);
      return contents;
    }
    default: {
      Contents contents{.format = Format::safetensors};
      read_safetensors(data::SafetensorsFile(file, {.mmap = true}), contents);
      const auto said = contents.metadata.find("format");
      if (said != contents.metadata.end() && said->second.starts_with("ferrite.checkpoint."))
        contents.format = Format::checkpoint;
      return contents;
    }
  }
}

}  // namespace ferrite::inspect
