// Layers whose tensors are split over ranks or devices, and checkpoints of networks that hold them:
// in and out as if nothing were split.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/nn/module.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

/// What a layer holds of a tensor of the unsplit layer.
struct SplitTensor {
  std::string name;   ///< in the layer that is split: "weight", or "1.weight" of the second device
  std::string whole;  ///< in the unsplit layer: "weight"
  int dim = 0;        ///< that is split
  std::int64_t begin = 0;  ///< where this part lies in it
  Shape shape;             ///< of the whole
};

/// Base, beside nn::Module, of layers that hold parts. What they do not name is whole in each.
class SplitModule {
 public:
  virtual ~SplitModule() = default;
  /// In the order of the ranks or devices.
  virtual std::vector<SplitTensor> split_tensors() const = 0;
  /// Whose ranks hold the other parts, all of one size; null where this process has all parts.
  virtual std::shared_ptr<ProcessGroup> group() const { return nullptr; }
};

struct ParametersBySplit {
  std::vector<Tensor> split;  ///< parts, of which other ranks have the others
  /// That are the same on all ranks; also all parts of what is split over this process's devices.
  std::vector<Tensor> whole;
};
/// For what looks at all parameters at once, as the norm of their gradients: that of the parts is
/// to be added up over the ranks, that of the others is not.
ParametersBySplit parameters_by_split(const nn::Module& module);

/// state_dict() of the module as if its layers were not split: the names, shapes and values of the
/// unsplit layers, which can load it, and save() writes it. Parts are put together on the device of
/// the first; what is not split shares memory with the module. Every rank of the layers' groups
/// calls it, and has the whole.
StateDict full_state_dict(const nn::Module& module);

/// Loads such a dict, of an unsplit network's checkpoint: each layer takes its parts. No rank waits
/// for another. `strict` and errors as in Module::load_state_dict: missing and unexpected names
/// (ValueError), other shapes (ShapeError); then nothing is copied.
nn::LoadReport load_full_state_dict(nn::Module& module, const StateDict& dict, bool strict = true);

}  // namespace ferrite::parallel
