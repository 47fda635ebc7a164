// Buckets: gradients that are contiguous in memory, to be communicated as one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"

namespace ferrite::parallel::ddp {

struct BucketLimits {
  std::size_t first_bytes, bytes;
};

/// Groups parameters, given by their indices, into buckets. They are taken in the given order, each
/// into the open bucket of its dtype and device, which is closed once it reaches its size; buckets
/// are ordered by their last parameters. At most `first_bytes` of the last parameters form the last
/// bucket.
std::vector<std::vector<std::size_t>> plan_buckets(std::span<const Tensor> parameters,
                                                   std::span<const std::size_t> order,
                                                   const BucketLimits& limits);

/// A flat tensor and, for each parameter, a view of it for the gradient, with the parameter's
/// layout; each begins at a multiple of 64 bytes, with zeros between them.
class Bucket {
 public:
  /// For parameters of one dtype and device. Existing gradients move into the bucket.
  Bucket(std::vector<std::size_t> indices, std::span<const Tensor> all_parameters,
         std::span<const std::string> all_names);

  const Tensor& flat() const { return flat_; }
  std::span<const Tensor> parameters() const { return parameters_; }
  std::span<const std::string> names() const { return names_; }
  std::span<const Tensor> views() const { return views_; }
  /// Indices of the parameters in the model.
  const std::vector<std::size_t>& indices() const { return indices_; }
  std::vector<Tensor>& scratch() { return scratch_; }

  /// Whether the gradient of a parameter is its view.
  bool holds(std::size_t slot) const;
  /// Makes the view the gradient, with the values of the existing gradient; if there is none, the
  /// view is filled with zeros, and the parameter stays without a gradient. Returns whether it has
  /// one. DistributedError if the parameter's dtype, device or shape has changed.
  bool take(std::size_t slot);

 private:
  std::vector<std::size_t> indices_;
  std::vector<Tensor> parameters_, views_;
  std::vector<std::string> names_;
  Tensor flat_;
  std::vector<Tensor> scratch_;
};

}  // namespace ferrite::parallel::ddp
