// Which classes are taken for which.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"

namespace ferrite::metrics {

/// What the cells of a normalized matrix are shares of: those of a row (a true class), of a column
/// (a predicted one), or of all samples.
enum class Normalize : std::uint8_t { none, true_class, predicted_class, all };

/// Scores of one class, or averages of several. 0 where they would be 0 / 0.
struct ClassScores {
  double precision = 0;        ///< of those predicted as this class, how many are of it
  double recall = 0;           ///< of those of this class, how many were predicted so
  double f1 = 0;               ///< 2 * precision * recall / (precision + recall)
  std::int64_t support = 0;    ///< samples of this class
  std::int64_t predicted = 0;  ///< samples taken for it
};

/// Counts on the host, and what follows from them: what ConfusionMatrix::value() gives.
class ConfusionCounts {
 public:
  /// `counts`: classes * classes, rows of true classes. ShapeError.
  ConfusionCounts(std::int64_t classes, std::vector<std::int64_t> counts);

  std::int64_t classes() const { return classes_; }
  std::int64_t at(std::int64_t true_class, std::int64_t predicted_class) const;
  std::int64_t total() const { return total_; }
  /// Row-major; a share of nothing is 0.
  std::vector<double> normalized(Normalize by) const;

  double accuracy() const;  ///< 0 of nothing
  ClassScores of(std::int64_t class_index) const;
  /// The mean over the classes that occur, as labels or as predictions, each counting the same
  /// (scikit-learn's and torchmetrics' "macro").
  ClassScores macro() const;
  /// The same, each class counting as its samples ("weighted").
  ClassScores weighted() const;
  /// Of all decisions at once: all three are the accuracy.
  ClassScores micro() const;

  // Names by class; numbers where there are none (ValueError for another count of names).
  /// The matrix, rows of true classes: counts, or percentages with one decimal.
  std::string str(std::span<const std::string> names = {}, Normalize by = Normalize::none) const;
  /// scikit-learn's classification_report: a row a class and the averages.
  std::string report(std::span<const std::string> names = {}) const;
  /// A head "true\predicted,name,..." and a row a class: counts, or shares.
  std::string csv(std::span<const std::string> names = {}, Normalize by = Normalize::none) const;

 private:
  std::vector<std::string> checked(std::span<const std::string> names) const;
  template <class Weight>
  ClassScores mean(Weight&& weight) const;

  std::int64_t classes_, total_ = 0;
  std::vector<std::int64_t> counts_, rows_, columns_;
};

/// Counts on the device: update() waits for nothing and may be part of a CUDA graph.
class ConfusionMatrix {
 public:
  /// ValueError unless `classes` is in 1..65535.
  explicit ConfusionMatrix(std::int64_t classes, const Device& device = {},
                           std::int64_t ignore_index = -100);
  ConfusionMatrix(ConfusionMatrix&&) = default;
  ConfusionMatrix& operator=(ConfusionMatrix&&) = default;

  /// `output`: scores [N, C] or [N, C, ...] of floating type, or predicted classes [N, ...].
  /// `target`: classes [N, ...]; those equal to `ignore_index` are left out. A class out of range
  /// is an IndexError, on a CUDA device at the next point that waits, and the counts are then
  /// unspecified. ShapeError, DTypeError.
  void update(const Tensor& output, const Tensor& target);
  void reset();

  /// Waits for the device.
  ConfusionCounts value() const;
  /// int64 [C, C] on the device, rows of true classes, for an all-reduce.
  Tensor counts() const { return matrix_; }

  /// "counts", a copy on the device.
  StateDict state_dict() const;
  /// ShapeError where it is that of another number of classes.
  void load_state_dict(const StateDict& dict);

 private:
  std::int64_t classes_, ignore_index_;
  Tensor cells_;   // int64 [C * C + 1]; the last takes what is left out
  Tensor matrix_;  // its view [C, C]
  Tensor ids_;     // int64 [C], 0, 1, ...: looked up in, they are checked
  Tensor one_;     // int64 [1]
};

}  // namespace ferrite::metrics
