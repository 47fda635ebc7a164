// What the planner knows of a model: how long its parts take on one device, and how many bytes they
// have. A profile is measured (examples/compare_parallel writes it), or written by hand from
// published figures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::planning {

/// Seconds: the median of several runs, and half the distance between their quartiles.
struct Duration {
  double median = 0, spread = 0;
};

/// A training step on one device that has nothing to exchange. All times are in seconds, all sizes
/// in bytes. What the device computes lies one after another:
///
///   zero_grad, ...    forward    backward: parameters[0], parameters[1], ..., tail    optimizer
///     other                                                                  loss included in
///     forward
struct ModelProfile {
  /// A gradient, in the order in which backward makes them (the last layer's first).
  struct Parameter {
    std::string name;
    std::int64_t bytes = 0;  ///< of the gradient, as it is communicated
    /// The time of backward from the previous gradient to this one; for the first gradient, from
    /// the start of backward. 0 for a gradient that is made together with the previous one.
    Duration backward = {};
  };

  std::string model;              ///< "resnet18"
  std::string dtype;              ///< "float32", "amp O2"
  std::string device;             ///< "Tesla P100", "AMD EPYC 9B14, 1 thread"
  std::int64_t batch = 0;         ///< samples of the step that was measured
  std::int64_t input_bytes = 0;   ///< of the batch: images and labels
  std::int64_t output_bytes = 0;  ///< of what the model returns for the batch
  std::int64_t buffer_bytes = 0;  ///< running statistics
  Duration forward = {};          ///< with the loss
  std::vector<Parameter> parameters = {};
  Duration backward_tail = {};  ///< of backward, after the last gradient
  Duration optimizer = {};
  Duration other = {};  ///< of a step, on the device: zeroing gradients, overhead of the host
  Duration step = {};   ///< the whole step, measured at once: what all the others should add up to

  std::int64_t parameter_bytes() const;
  double backward_s() const;  ///< of all parameters and the tail
  /// The parts, added up.
  double step_s() const;

  /// ValueError, naming the field, unless there are samples and parameters, and no time or size is
  /// negative, infinite or NaN.
  void check() const;
};

/// The same model with another batch: what depends on it (forward, backward, inputs, outputs)
/// in proportion, the rest as it is. Good for batches that keep the device as busy.
ModelProfile with_batch(const ModelProfile& profile, std::int64_t batch);
/// By a straight line through two measurements of one model with different batches; ValueError
/// where they are not that.
ModelProfile with_batch(const ModelProfile& a, const ModelProfile& b, std::int64_t batch);
/// A device that is `factor` times as fast.
ModelProfile faster(const ModelProfile& profile, double factor);

/// JSON, with times in seconds: {"model": ..., "parameters": [{"name": ..., "bytes": ...,
/// "backward": {"median": ..., "spread": ...}}, ...], ...}. What is missing is 0; names that are
/// not known are IoError, as is what is not such JSON. Reading checks the profile.
std::string to_json(const ModelProfile& profile);
ModelProfile profile_from_json(std::string_view text);

}  // namespace ferrite::planning
