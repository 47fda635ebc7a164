// Buckets: gradients that lie next to each other in memory, to be communicated as one.
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

/// Which parameters (their indices) go together. They are taken in the given order, each into the
/// open bucket of its dtype and device, which is closed once it holds as many bytes as it should;
/// buckets are in the order in which their last parameters come. Of the very last no more than
/// `first_bytes` stay together at its end.
std::vector<std::vector<std::size_t>> plan_buckets(std::span<const Tensor> parameters,
                                                   std::span<const std::size_t> order,
                                                   const BucketLimits& limits);

/// A flat tensor and a view of it for the gradient of each parameter, laid out as that is; each
/// begins at a multiple of 64 bytes, and there are zeros between them.
class Bucket {
 public:
  /// Of one dtype and device. The gradients that parameters have move into the bucket.
  Bucket(std::vector<std::size_t> indices, std::span<const Tensor> all_parameters,
         std::span<const std::string> all_names);

  const Tensor& flat() const { return flat_; }
  std::span<const Tensor> parameters() const { return parameters_; }
  std::span<const std::string> names() const { return names_; }
  std::span<const Tensor> views() const { return views_; }
  /// The parameters' numbers in the model.
  const std::vector<std::size_t>& indices() const { return indices_; }
  std::vector<Tensor>& scratch() { return scratch_; }

  /// Whether the gradient of a parameter is its view.
  bool holds(std::size_t slot) const;
  /// Makes the view the gradient, with the values of the gradient that there is; where there is
  /// none the view is filled with zeros, and the parameter stays without. Returns whether it has
  /// one. DistributedError where the parameter is of another dtype, device or shape by now.
  bool take(std::size_t slot);

 private:
  std::vector<std::size_t> indices_;
  std::vector<Tensor> parameters_, views_;
  std::vector<std::string> names_;
  Tensor flat_;
  std::vector<Tensor> scratch_;
};

}  // namespace ferrite::parallel::ddp
