// safetensors, the format of checkpoints: 8 bytes of header length, a JSON header with each
// tensor's dtype, shape and offsets, then the elements, little endian and row-major.
// https://huggingface.co/docs/safetensors
//
// Files are memory-mapped: the header is read and checked on opening, a tensor's bytes only when it
// is requested. docs/checkpoints.md describes the names and metadata that checkpoints use.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/data/file.h"
#include "ferrite/data/map_location.h"
#include "ferrite/data/safetensors_header.h"

namespace ferrite {

namespace data {

class HostTransfer;

/// The options of save() and save_safetensors().
struct SaveOptions {
  /// Store a CRC-32 of every tensor and of the header in the metadata.
  bool checksums = true;
  /// If the tensors have more bytes than this, they are divided among files of at most so many,
  /// with an index (data/safetensors_shards.h): 5'000'000'000 is "5GB" elsewhere. 0: one file.
  std::uint64_t max_shard_size = 0;
};

/// The options of load() and load_safetensors().
struct SafetensorsOptions {
  /// The target devices of the tensors; default: the host.
  MapLocation map_location = {};
  /// Load only tensors whose names have this prefix; no other data is read.
  std::string only_prefix = {};
  /// Removed from the names that begin with it.
  std::string strip_prefix = {};
  /// Tensors on the host are views of the mapped file, which are read on use and keep the mapping
  /// alive: loading takes no memory and almost no time. Writing to them does not change the file.
  /// While they exist the file must not be shortened or written to; replacing or removing it is
  /// fine.
  bool mmap = false;
  /// Whether checksums, if the file has them, are verified before anything is loaded. With `mmap`
  /// this reads the whole file once.
  bool checksums = true;
};

/// A tensor in a file.
struct TensorInfo {
  DType dtype = kFloat32;
  /// The file's name of a dtype that Ferrite does not have, such as "F8_E4M3": the tensor cannot be
  /// read, and `dtype` means nothing. Else empty.
  std::string foreign_dtype = {};
  Shape shape = {};  ///< the sizes of the tensor
  std::size_t nbytes = 0;
  std::string device = "cpu";  ///< device it was saved on; cpu for files of other programs
};

/// An open safetensors file. Its const members are thread-safe.
class SafetensorsFile {
 public:
  /// Maps the file and checks the header against its length, like all safetensors readers here:
  /// the tensors must cover the data exactly, without overlaps or holes. IoError with the byte
  /// offset. Tensors are read of the types F32, F16, BF16, F64, I64, I32, I16, I8, U8, BOOL and
  /// C64; those of others are listed, and reading them is an IoError.
  explicit SafetensorsFile(const std::filesystem::path& path, SafetensorsOptions options = {});
  SafetensorsFile(SafetensorsFile&&) = default;

  /// The names of all tensors, in the order of the header.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  /// IndexError if there is no such tensor.
  TensorInfo info(std::string_view name) const;
  /// The metadata passed to save().
  const Metadata& metadata() const { return header_.metadata; }
  const std::filesystem::path& path() const { return path_; }

  /// One tensor, by its name in the file; IndexError, and the errors of load().
  Tensor get(std::string_view name) const;
  /// The tensors selected by the options, under the resulting names. All errors of a file (IoError,
  /// with the tensor's name) are detected before memory is allocated; DeviceError names the tensor
  /// whose device does not exist.
  StateDict load() const;
  /// Verifies the checksum of every tensor that has one; IoError. load() does this automatically.
  void verify() const;

 private:
  friend class SafetensorsShards;
  bool is_wanted(const SafetensorsEntry& entry) const;
  void verify_wanted() const;
  void read_wanted(StateDict& tensors, HostTransfer& transfer) const;
  const SafetensorsEntry& entry(std::string_view name) const;
  void check_readable(const SafetensorsEntry& entry) const;
  void verify(const SafetensorsEntry& entry) const;
  Tensor read(const SafetensorsEntry& entry, HostTransfer& transfer) const;

  std::filesystem::path path_;
  SafetensorsOptions options_;
  std::shared_ptr<const MappedFile> file_;
  SafetensorsHeader header_;
};

/// Writes the tensors, row-major whatever their strides, in the order of the dict, but with larger
/// element types first in the file, so that each is aligned. CUDA tensors are copied in pieces
/// through a small page-locked buffer, strided ones one tensor at a time; their devices are
/// recorded. Replaces `path` atomically: temporary file, sync, rename, sync of the folder. Waits
/// for the tensors' devices. ValueError for the reserved name "__metadata__", metadata keys that
/// begin with "ferrite." and text that is not UTF-8; IoError. With options.max_shard_size it may
/// write several files (data/safetensors_shards.h).
void save_safetensors(const StateDict& tensors, const std::filesystem::path& path,
                      const Metadata& metadata = {}, const SaveOptions& options = {});

/// Reads tensors, in the header's order: SafetensorsFile(path, options).load(), or that of
/// SafetensorsShards if `path` is an index or a folder, or has only an index.
StateDict load_safetensors(const std::filesystem::path& path,
                           const SafetensorsOptions& options = {});
/// The texts in a file's header.
Metadata load_safetensors_metadata(const std::filesystem::path& path);
/// The same from memory, as copies on the host; `name` is used in messages.
StateDict parse_safetensors(Bytes bytes, std::string_view name);
/// The texts in a file's header.
Metadata parse_safetensors_metadata(Bytes bytes, std::string_view name);

}  // namespace data

/// Writes a state dict: as safetensors (data::save_safetensors), or for torch.load() where the path
/// ends in .pth or .pt (data::save_pth), which has neither metadata (ValueError) nor options.
///
///   save(model.state_dict(), "model.safetensors");
void save(const StateDict& state_dict, const std::filesystem::path& path,
          const data::Metadata& metadata = {}, const data::SaveOptions& options = {});
/// Reads a state dict that save(), Python's safetensors or torch.save() wrote, whatever the file's
/// name. The state of PyTorch's optimizers and schedulers is read by data::state_of_torch(), and
/// written by data::state_for_torch(). A tensor alone is named "0". Of another checkpoint of
/// torch.save() it has all tensors under dotted names (data::load_pth has the rest). Files with an
/// index are read by the index's path or that of their folder:
///   model.load_state_dict(load("resnet18.pth"));
///   model.load_state_dict(load("large_model/"));
///   load("run.safetensors", {.map_location = "cuda:1", .only_prefix = "model."});
StateDict load(const std::filesystem::path& path, const data::SafetensorsOptions& options = {});
/// `load("run.safetensors", "cuda:1")`: the same with {.map_location = location}.
template <std::convertible_to<data::MapLocation> Location>
StateDict load(const std::filesystem::path& path, const Location& location) {
  return load(path, {.map_location = location});
}

/// save() and load() of what has a state dict: `save(model, "model.safetensors")`, an optimizer, a
/// scheduler.
template <class T>
requires requires(const T& object) {
  { object.state_dict() } -> std::convertible_to<StateDict>;
}
void save(const T& object, const std::filesystem::path& path) {
  save(StateDict(object.state_dict()), path);
}
template <class T>
requires requires(T& object, const StateDict& state) { object.load_state_dict(state); }
void load(T& object, const std::filesystem::path& path) { object.load_state_dict(load(path)); }
/// Tensors without names, which torch.load() reads as a list, or as a tensor, where the path ends
/// in .pth or .pt. In a safetensors file they are named "0", "1", ...
void save(const std::vector<Tensor>& tensors, const std::filesystem::path& path);
void save(const Tensor& tensor, const std::filesystem::path& path);
void load(std::vector<Tensor>& tensors, const std::filesystem::path& path);
/// ValueError unless the file holds one tensor.
void load(Tensor& tensor, const std::filesystem::path& path);

}  // namespace ferrite
