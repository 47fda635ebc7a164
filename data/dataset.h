// Data sets: indexed samples, fetched one at a time or in batches.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"

namespace ferrite::data {

enum class Split : std::uint8_t { train, test };

struct Sample {
  Tensor input;
  Tensor label;
};

/// Samples along a new first dimension; reads as `auto& [images, labels]`.
struct Batch {
  Tensor inputs;
  Tensor labels;

  std::int64_t size() const { return inputs.defined() ? inputs.size(0) : 0; }
};

/// The seed of random transforms: a sample's numbers depend on the seed, the epoch and its index,
/// never on the order or the thread in which samples are fetched.
struct Epoch {
  std::uint64_t seed = 0;
  std::int64_t number = 0;

  Generator generator(std::int64_t index) const;
};

/// Indexed samples. Loaders call get() and get_batch() from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  /// Sample `index` of 0..size()-1; IndexError outside. Random transforms use Epoch{}. The tensors
  /// may share the data set's memory: clone them before changing them.
  virtual Sample get(std::int64_t index) const = 0;
  /// Samples at `indices`, at least one, stacked in that order. The default stacks the results of
  /// get(); data sets that can copy a batch at once, or that have random transforms, override it.
  virtual Batch get_batch(std::span<const std::int64_t> indices, const Epoch& epoch = {}) const;
};

/// Throws IndexError unless 0 <= index < size.
void check_index(std::int64_t index, std::int64_t size, std::string_view op);

/// Copies host tensors of one shape and dtype (ShapeError, DTypeError) along a new first dimension.
Tensor stack(std::span<const Tensor> tensors);

/// The rows `indices` of a host tensor [N, ...], copied into a new one; IndexError.
Tensor gather_rows(const Tensor& tensor, std::span<const std::int64_t> indices);

/// Rows of tensors: sample i is inputs[i] and labels[i]. ShapeError unless both have the same first
/// size; DeviceError unless both are on the cpu.
class TensorDataset : public Dataset {
 public:
  TensorDataset(const Tensor& inputs, const Tensor& labels);

  std::int64_t size() const override { return inputs_.size(0); }
  Sample get(std::int64_t index) const override;
  Batch get_batch(std::span<const std::int64_t> indices, const Epoch& epoch = {}) const override;

 private:
  Tensor inputs_, labels_;
};

/// The samples of another data set at chosen indices, e.g. to hold out a part for validation.
class Subset : public Dataset {
 public:
  /// IndexError if an index is outside `dataset`.
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices);
  /// Copies the data set, like DataLoader.
  template <std::derived_from<Dataset> D>
  Subset(D dataset, std::vector<std::int64_t> indices)
      : Subset(std::shared_ptr<const Dataset>(std::make_shared<D>(std::move(dataset))),
               std::move(indices)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Sample get(std::int64_t index) const override;
  Batch get_batch(std::span<const std::int64_t> indices, const Epoch& epoch = {}) const override;

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;
};

}  // namespace ferrite::data
