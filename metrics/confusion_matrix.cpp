#include "ferrite/metrics/confusion_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/error.h"
#include "ferrite/core/terminal.h"
#include "ferrite/metrics/text.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"

namespace ferrite::metrics {

namespace {

using terminal::Align;

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::size_t widest(const std::vector<std::string>& names, std::size_t least) {
  for (const std::string& name : names) least = std::max(least, terminal::text_columns(name));
  return least;
}

}  // namespace

// ---- ConfusionCounts

ConfusionCounts::ConfusionCounts(std::int64_t classes, std::vector<std::int64_t> counts)
    : classes_(classes), counts_(std::move(counts)) {
  FERRITE_CHECK(classes > 0 && static_cast<std::int64_t>(counts_.size()) == classes * classes,
                ShapeError, "ConfusionCounts", "expected {0} * {0} counts, got {1}", classes,
                counts_.size());
  const auto c = static_cast<std::size_t>(classes);
  rows_.resize(c);
  columns_.resize(c);
  for (std::size_t i = 0; i < c; ++i)
    for (std::size_t j = 0; j < c; ++j) {
      const std::int64_t n = counts_[i * c + j];
      rows_[i] += n;
      columns_[j] += n;
      total_ += n;
    }
}

std::int64_t ConfusionCounts::at(std::int64_t true_class, std::int64_t predicted_class) const {
  for (const std::int64_t c : {true_class, predicted_class})
    FERRITE_CHECK(c >= 0 && c < classes_, IndexError, "ConfusionCounts",
                  "expected classes of 0 to {}, got {}", classes_ - 1, c);
  return counts_[static_cast<std::size_t>(true_class * classes_ + predicted_class)];
}

std::vector<double> ConfusionCounts::normalized(NormalizeBy by) const {
  std::vector<double> shares(counts_.begin(), counts_.end());
  if (by == NormalizeBy::none) return shares;
  const auto c = static_cast<std::size_t>(classes_);
  for (std::size_t i = 0; i < shares.size(); ++i)
    shares[i] =
        ratio(shares[i], static_cast<double>(by == NormalizeBy::true_class        ? rows_[i / c]
                                             : by == NormalizeBy::predicted_class ? columns_[i % c]
                                                                                  : total_));
  return shares;
}

double ConfusionCounts::accuracy() const { return micro().recall; }

ClassScores ConfusionCounts::of(std::int64_t class_index) const {
  const auto hits = static_cast<double>(at(class_index, class_index));
  ClassScores scores;
  scores.support = rows_[static_cast<std::size_t>(class_index)];
  scores.predicted = columns_[static_cast<std::size_t>(class_index)];
  scores.precision = ratio(hits, static_cast<double>(scores.predicted));
  scores.recall = ratio(hits, static_cast<double>(scores.support));
  scores.f1 = ratio(2 * hits, static_cast<double>(scores.support + scores.predicted));
  return scores;
}

template <class Weight>
ClassScores ConfusionCounts::mean(Weight&& weight) const {
  ClassScores sum;
  double weights = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    const ClassScores one = of(c);
    const double w = weight(one);
    weights += w;
    sum.precision += w * one.precision;
    sum.recall += w * one.recall;
    sum.f1 += w * one.f1;
  }
  return {ratio(sum.precision, weights), ratio(sum.recall, weights), ratio(sum.f1, weights), total_,
          total_};
}

ClassScores ConfusionCounts::macro() const {
  return mean([](const ClassScores& s) { return s.support + s.predicted > 0 ? 1.0 : 0.0; });
}

ClassScores ConfusionCounts::weighted() const {
  return mean([](const ClassScores& s) { return static_cast<double>(s.support); });
}

ClassScores ConfusionCounts::micro() const {
  std::int64_t hits = 0;
  for (std::int64_t c = 0; c < classes_; ++c) hits += at(c, c);
  const double share = ratio(static_cast<double>(hits), static_cast<double>(total_));
  return {share, share, share, total_, total_};
}

std::vector<std::string> ConfusionCounts::checked(std::span<const std::string> names) const {
  FERRITE_CHECK(names.empty() || static_cast<std::int64_t>(names.size()) == classes_, ValueError,
                "ConfusionCounts", "expected {} names, got {}", classes_, names.size());
  if (!names.empty()) return {names.begin(), names.end()};
  std::vector<std::string> numbers;
  for (std::int64_t c = 0; c < classes_; ++c) numbers.push_back(std::to_string(c));
  return numbers;
}

std::string ConfusionCounts::str(std::span<const std::string> given, NormalizeBy by) const {
  const std::vector<std::string> names = checked(given);
  const std::vector<double> cells = normalized(by);
  std::vector<std::string> texts;
  for (const double cell : cells)
    texts.push_back(by == NormalizeBy::none ? fmt::format("{:.0f}", cell)
                                            : fmt::format("{:.1f}", 100 * cell));
  const std::string corner = by == NormalizeBy::none ? "true \\ predicted" : "true \\ predicted, %";
  const std::size_t first = widest(names, corner.size());
  // Columns are as narrow as their numbers, with truncated names above them.
  const std::size_t column =
      std::max<std::size_t>(std::min(widest(names, 0), std::size_t{7}), widest(texts, 0));
  std::vector<terminal::Table::Column> columns = {{corner, Align::left, first}};
  for (const std::string& name : names)
    columns.push_back({terminal::text_cut(name, column), Align::right, column});
  terminal::Table table(columns);
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<std::string> row = {names[i]};
    for (std::size_t j = 0; j < names.size(); ++j) row.push_back(texts[i * names.size() + j]);
    table.add(std::move(row));
  }
  return table.str();
}

std::string ConfusionCounts::report(std::span<const std::string> given) const {
  const std::vector<std::string> names = checked(given);
  const std::size_t first = widest(names, std::string_view("weighted mean").size());
  terminal::Table table({{"class", Align::left, first},
                         {"precision", Align::right, 9},
                         {"recall", Align::right, 9},
                         {"f1", Align::right, 9},
                         {"support", Align::right, 9}});
  const auto add = [&](const std::string& name, const ClassScores& s) {
    table.add({name, fmt::format("{:.4f}", s.precision), fmt::format("{:.4f}", s.recall),
               fmt::format("{:.4f}", s.f1), fmt::format("{}", s.support)});
  };
  for (std::size_t c = 0; c < names.size(); ++c) add(names[c], of(static_cast<std::int64_t>(c)));
  table.add_gap();
  add("accuracy", micro());
  add("macro mean", macro());
  add("weighted mean", weighted());
  return table.str();
}

std::string ConfusionCounts::csv(std::span<const std::string> given, NormalizeBy by) const {
  const std::vector<std::string> names = checked(given);
  const std::vector<double> cells = normalized(by);
  std::string out = "true\\predicted";
  for (const std::string& name : names) out += ',' + csv_field(name);
  out += '\n';
  for (std::size_t i = 0; i < names.size(); ++i) {
    out += csv_field(names[i]);
    for (std::size_t j = 0; j < names.size(); ++j)
      out += fmt::format(",{}", cells[i * names.size() + j]);
    out += '\n';
  }
  return out;
}

// ---- ConfusionMatrix

ConfusionMatrix::ConfusionMatrix(std::int64_t classes, const Device& device,
                                 std::int64_t ignore_index)
    : classes_(classes), ignore_index_(ignore_index) {
  FERRITE_CHECK(classes > 0 && classes < 65536, ValueError, "ConfusionMatrix",
                "expected 1 to 65535 classes, got {}", classes);
  const TensorOptions integers{.dtype = kInt64, .device = device};
  cells_ = zeros({classes * classes + 1}, integers);
  matrix_ = cells_.slice(0, 0, -1).view({classes, classes});
  ids_ = arange(0, classes, 1, integers);
  one_ = ones({1}, integers);
}

void ConfusionMatrix::update(const Tensor& output, const Tensor& target) {
  NoGradGuard guard;
  FERRITE_CHECK(output.defined() && target.defined(), ValueError, "ConfusionMatrix",
                "the {} is undefined", output.defined() ? "target" : "output");
  FERRITE_CHECK(is_integral(target.dtype()), DTypeError, "ConfusionMatrix",
                "expected the target as integers, got {}", target.dtype());
  FERRITE_CHECK(!output.is_complex(), DTypeError, "ConfusionMatrix",
                "expected the output as scores or classes, got {}", output.dtype());
  Tensor predicted = output;
  if (is_floating(output.dtype())) {
    FERRITE_CHECK(output.dim() >= 2 && output.size(1) == classes_, ShapeError, "ConfusionMatrix",
                  "expected scores of {0} classes, [N, {0}, ...], got {1}", classes_,
                  output.describe());
    predicted = output.argmax(1);
  }
  FERRITE_CHECK(predicted.shape() == target.shape(), ShapeError, "ConfusionMatrix",
                "expected as many predictions as classes, got {} and {}", predicted.shape(),
                target.shape());
  if (target.numel() == 0) return;
  const Tensor left_out = eq(target, ignore_index_).reshape({-1});
  const auto checked = [&](const Tensor& classes) {
    return ids_.index_select(0, classes.to(kInt64).reshape({-1}).masked_fill(left_out, 0));
  };
  const Tensor at =
      (checked(target) * classes_ + checked(predicted)).masked_fill(left_out, classes_ * classes_);
  scatter_add_(cells_, 0, at, one_.expand(at.shape()));
}

void ConfusionMatrix::reset() { cells_.zero_(); }

ConfusionCounts ConfusionMatrix::value() const {
  return ConfusionCounts(classes_, matrix_.to_vector<std::int64_t>());
}

StateDict ConfusionMatrix::state_dict() const { return {{"counts", matrix_.clone()}}; }

void ConfusionMatrix::load_state_dict(const StateDict& dict) {
  const Tensor& counts = dict.at("counts");
  FERRITE_CHECK(counts.shape() == matrix_.shape() && counts.dtype() == kInt64, ShapeError,
                "ConfusionMatrix", "expected counts {}, got {}", matrix_.describe(),
                counts.describe());
  matrix_.copy_(counts);
}

}  // namespace ferrite::metrics
