// Data sets in HDF5 files: a component of its own, which is linked as ferrite::hdf5.
//
//   data::HDF5Dataset train("digits.h5", {"images", "labels"});
//   data::DataLoader loader(train, {.batch_size = 256, .shuffle = true, .num_workers = 2});
//
//   struct Scan { Tensor image, mask, depth; };
//   data::HDF5DatasetOf<Scan> scans("scans.h5", {"image", "mask", "maps/depth"});
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/data/dataset.h"

namespace ferrite::data {

/// Datasets of an HDF5 file with equally many rows, read when they are asked for. Copies share the
/// open file. Thread-safe; HDF5 itself reads one request at a time, also of different files.
class HDF5Rows {
 public:
  /// Opens the file and checks the datasets, whose names may be paths ("group/name"). IoError if
  /// the file cannot be read, or a dataset is missing (naming those that exist); DTypeError for
  /// types other than integers of up to 32 bits or int64, float16, float32, float64 and h5py's
  /// bool; ShapeError for datasets without rows, of too many dimensions, or of different lengths.
  HDF5Rows(const std::filesystem::path& path, const std::vector<std::string>& names);

  /// Number of rows.
  std::int64_t size() const;
  /// Number of datasets.
  std::int64_t count() const;
  /// Rows `indices` of dataset number `which`: [N, ...] on the host. Types stay what they are;
  /// uint16 becomes int32, and uint32 int64. Consecutive indices are read at once. IndexError;
  /// IoError naming the dataset if its data is damaged.
  Tensor read(std::int64_t which, std::span<const std::int64_t> indices) const;

 private:
  struct File;
  std::shared_ptr<const File> file_;
};

/// Sample i is row i of each dataset, in the order of the members of S: as many tensors as names
/// (ValueError). Errors are those of HDF5Rows.
template <class S>
class HDF5DatasetOf : public DatasetOf<S> {
  static_assert(std::same_as<S, Sample> || std::same_as<S, BatchOf<S>>,
                "the members of a sample have to be tensors");

 public:
  HDF5DatasetOf(const std::filesystem::path& path, const std::vector<std::string>& names)
      : rows_(path, names) {
    std::int64_t members = 0;
    BatchOf<S> batch{};
    impl::each_tensor(batch, [&](Tensor&) { ++members; });
    FERRITE_CHECK(members == rows_.count(), ValueError, "hdf5",
                  "expected {} names, one for each tensor of a sample, got {}", members,
                  rows_.count());
  }

  /// The number of samples.
  std::int64_t size() const override { return rows_.size(); }
  S get(std::int64_t index) const override {
    S sample{};
    std::int64_t which = 0;
    impl::each_tensor(
        sample, [&](Tensor& t) { t = impl::row_of(rows_.read(which++, std::span(&index, 1)), 0); });
    return sample;
  }
  BatchOf<S> get_batch(std::span<const std::int64_t> indices, const Epoch& = {}) const override {
    BatchOf<S> batch{};
    std::int64_t which = 0;
    impl::each_tensor(batch, [&](Tensor& t) { t = rows_.read(which++, indices); });
    return batch;
  }

 private:
  HDF5Rows rows_;
};

/// Inputs and labels.
using HDF5Dataset = HDF5DatasetOf<Sample>;

}  // namespace ferrite::data
