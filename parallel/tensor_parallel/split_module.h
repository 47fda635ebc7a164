// Layers whose tensors are split over ranks or devices, and checkpoints of networks that contain
// them, in unsplit form.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/nn/module.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

/// A layer's part of a tensor of the unsplit layer.
struct SplitTensor {
  std::string name;        ///< in the split layer: "weight", or "1.weight" for the second device
  std::string whole;       ///< in the unsplit layer: "weight"
  int dim = 0;             ///< the dimension that is split
  std::int64_t begin = 0;  ///< start of this part in it
  Shape shape;             ///< of the whole tensor
};

/// Base, in addition to nn::Module, of layers that hold parts. Tensors that they do not name are
/// whole in each.
class SplitModule {
 public:
  virtual ~SplitModule() = default;
  /// In the order of the ranks or devices.
  virtual std::vector<SplitTensor> split_tensors() const = 0;
  /// The group whose ranks hold the other parts, all of one size; null if this process has all
  /// parts.
  virtual std::shared_ptr<ProcessGroup> group() const { return nullptr; }
};

/// Parameters that are divided over the ranks, and those that every rank has.
struct ParametersBySplit {
  std::vector<Tensor> split;  ///< parts; other ranks have the others
  /// Tensors that are the same on all ranks; also all parts of tensors split over this process's
  /// devices.
  std::vector<Tensor> whole;
};
/// For computations over all parameters, such as the norm of their gradients: contributions of the
/// parts must be summed over the ranks, those of the others must not.
ParametersBySplit parameters_by_split(const nn::Module& module);

/// state_dict() of the module as if its layers were not split: the names, shapes and values of the
/// unsplit layers, for loading into them or for save(). Parts are joined on the device of the
/// first; tensors that are not split share memory with the module. Every rank of the layers' groups
/// must call it, and gets the whole dict.
StateDict full_state_dict(const nn::Module& module);

/// Loads such a dict, for example an unsplit network's checkpoint: each layer takes its parts. Does
/// not wait for other ranks. `strict` and errors as in Module::load_state_dict: missing and
/// unexpected names (ValueError), other shapes (ShapeError); then nothing is copied.
nn::LoadReport load_full_state_dict(nn::Module& module, const StateDict& dict, bool strict = true);

}  // namespace ferrite::parallel
