// The confusion matrix: which classes are predicted as which.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"

namespace ferrite::metrics {

/// The denominator of a normalized matrix: the sum of a row (a true class), of a column (a
/// predicted class), or of all samples.
enum class NormalizeBy : std::uint8_t { none, true_class, predicted_class, all };

/// Scores of one class, or averages over several. 0 in place of 0 / 0.
struct ClassScores {
  double precision = 0;        ///< fraction of samples predicted as this class that belong to it
  double recall = 0;           ///< fraction of samples of this class that were predicted as it
  double f1 = 0;               ///< 2 * precision * recall / (precision + recall)
  std::int64_t support = 0;    ///< samples of this class
  std::int64_t predicted = 0;  ///< samples predicted as this class
};

/// Counts on the host and the scores derived from them: the result of ConfusionMatrix::value().
class ConfusionCounts {
 public:
  /// `counts`: classes * classes, one row per true class. ShapeError.
  ConfusionCounts(std::int64_t classes, std::vector<std::int64_t> counts);

  /// The number of classes.
  std::int64_t classes() const { return classes_; }
  /// How often a class was predicted for another.
  std::int64_t at(std::int64_t true_class, std::int64_t predicted_class) const;
  std::int64_t total() const { return total_; }
  /// Row-major; a fraction of zero samples is 0.
  std::vector<double> normalized(NormalizeBy by) const;

  double accuracy() const;  ///< 0 without samples
  /// Precision, recall and so on of one class.
  ClassScores of(std::int64_t class_index) const;
  /// The unweighted mean over the classes that occur as labels or as predictions (scikit-learn's
  /// and torchmetrics' "macro").
  ClassScores macro() const;
  /// The mean weighted by each class's support ("weighted").
  ClassScores weighted() const;
  /// Over all decisions at once: all three scores equal the accuracy.
  ClassScores micro() const;

  // Names by class; class numbers if empty (ValueError for another count of names).
  /// The matrix, rows of true classes: counts, or percentages with one decimal.
  std::string str(std::span<const std::string> names = {},
                  NormalizeBy by = NormalizeBy::none) const;
  /// scikit-learn's classification_report: one row per class, and the averages.
  std::string report(std::span<const std::string> names = {}) const;
  /// A header "true\predicted,name,..." and one row per class: counts, or fractions.
  std::string csv(std::span<const std::string> names = {},
                  NormalizeBy by = NormalizeBy::none) const;

 private:
  std::vector<std::string> checked(std::span<const std::string> names) const;
  template <class Weight>
  ClassScores mean(Weight&& weight) const;

  std::int64_t classes_, total_ = 0;
  std::vector<std::int64_t> counts_, rows_, columns_;
};

/// Counts on the device: update() does not wait and may be part of a CUDA graph.
class ConfusionMatrix {
 public:
  /// ValueError unless `classes` is in 1..65535.
  explicit ConfusionMatrix(std::int64_t classes, const Device& device = {},
                           std::int64_t ignore_index = -100);
  ConfusionMatrix(ConfusionMatrix&&) = default;
  ConfusionMatrix& operator=(ConfusionMatrix&&) = default;

  /// `output`: floating-point scores [N, C] or [N, C, ...], or predicted classes [N, ...].
  /// `target`: classes [N, ...]; those equal to `ignore_index` are left out. A class out of range
  /// is an IndexError, on a CUDA device at the next point that waits, and the counts are then
  /// unspecified. ShapeError, DTypeError.
  void update(const Tensor& output, const Tensor& target);
  void reset();

  /// Waits for the device.
  ConfusionCounts value() const;
  /// int64 [C, C] on the device, one row per true class, for an all-reduce.
  Tensor counts() const { return matrix_; }

  /// "counts", a copy on the device.
  StateDict state_dict() const;
  /// ShapeError if it was saved with another number of classes.
  void load_state_dict(const StateDict& dict);

 private:
  std::int64_t classes_, ignore_index_;
  Tensor cells_;   // int64 [C * C + 1]; the last cell counts ignored samples
  Tensor matrix_;  // its view [C, C]
  Tensor ids_;     // int64 [C], 0, 1, ...: an index lookup here checks the range
  Tensor one_;     // int64 [1]
};

}  // namespace ferrite::metrics
