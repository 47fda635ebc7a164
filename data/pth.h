// The files of torch.save() and torch.load(): a pickle beside the memory of its tensors, in a zip
// archive (PyTorch 1.6 and later) or one after the other (earlier ones).
//
//   StateDict weights = load("resnet18.pth");               // a state dict, or a tree's tensors
//   data::Value run = data::load_pth("checkpoint.pth");     // model, optimizer, epoch ...
//   data::save_pth(data::Value::dict({{"model", model.state_dict()}, {"epoch", 3}}), "run.pth");
#pragma once

#include <filesystem>
#include <string_view>

#include "ferrite/data/file.h"
#include "ferrite/data/map_location.h"
#include "ferrite/data/value.h"

namespace ferrite::data {

/// The options of load_pth().
struct PthOptions {
  /// The target devices of the tensors; default: the host.
  MapLocation map_location = {};
  /// Tensors on the host are views of the mapped file, read when they are used; writing to them
  /// does not change the file. While they exist the file must not be shortened or written to.
  bool mmap = false;
  /// Whether the checksums of an archive are verified. PyTorch can write files without them
  /// (torch.serialization.set_crc32_options(False)).
  bool checksums = true;
  /// Whether sets, torch.dtype, torch.device and types, which become lists and text, are IoErrors
  /// instead.
  bool exact = false;
};

/// Reads a file of torch.save(). Tensors that shared memory share it again, with their strides; all
/// element types of Ferrite. Conjugated and negated views (is_conj(), is_neg()) become tensors of
/// those values, in memory of their own. Parameters become tensors; sets become lists; torch.Size
/// becomes a tuple, torch.device and torch.dtype text. Nothing of the file is executed: whatever
/// needs another Python class or function is an IoError that names it, as is what is damaged.
/// Memory is that of the tensors plus at most 400 bytes for each byte of the pickle.
Value load_pth(const std::filesystem::path& path, const PthOptions& options = {});
/// The same from memory, as copies on the host; `name` is used in messages.
Value parse_pth(Bytes bytes, std::string_view name);

/// Writes a file that torch.load(weights_only=True) reads, as PyTorch writes them. Tensors that
/// share memory share it in the file; a tensor that is the only view of a larger memory is stored
/// without the rest. CUDA tensors keep their device's name. Replaces `path` atomically, and waits
/// for the tensors' devices. IoError.
void save_pth(const Value& value, const std::filesystem::path& path);

/// The state dict of an optimizer, a scheduler or a GradScaler from the tree that PyTorch's has:
///   sgd.load_state_dict(data::state_of_torch(run["optimizer"]));
/// Numbers become 0-dimensional tensors (float64, int64), lists of numbers and the milestones of a
/// MultiStepLR tensors of one dimension, text and None in an optimizer's groups the uint8 of their
/// letters; other text is left out. Names are joined by dots ("state.0.exp_avg",
/// "param_groups.0.lr"). ValueError as of Value::tensors(). load() does it for a file that is such
/// a state alone.
StateDict state_of_torch(const Value& tree);
/// And back, for PyTorch's load_state_dict(); save() does it for paths that end in .pth. ValueError
/// for the state of a WarmupLR, which PyTorch does not have.
Value state_for_torch(const StateDict& state);

/// Whether a file begins like one of torch.save().
bool is_pth(Bytes bytes);

}  // namespace ferrite::data
