// A progress line for loops: redrawn in place on a terminal, an occasional plain line elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "ferrite/metrics/timer.h"

namespace ferrite::metrics {

/// What a bar is drawn with: ASCII, or Unicode's eighths of a block, which the terminal must
/// support.
enum class BarStyle : std::uint8_t { ascii, blocks };
/// One line of at most `columns` columns: "label |bar| 25% status left detail". If it is too long,
/// the bar is shortened, then dropped; then the end is cut off.
std::string progress_line(const std::string& label, double fraction, const std::string& status,
                          const std::string& left, int columns, BarStyle style,
                          const std::string& detail = "");

/// "epoch  3/10", "step  20/500": of the same width for all of a run.
std::string progress_label(const std::string& name, std::int64_t number, std::int64_t total);

/// What is printed of a pass over training data, without what is not given:
///   epoch  1/10  train loss 0.5945 accuracy 0.7805  19996 images/s
std::string train_line(const std::string& label, std::optional<double> loss,
                       std::optional<double> accuracy = {}, const std::string& more = "");
/// The same for test data, below it:
///                test  loss 0.4812 accuracy 0.8234
std::string test_line(const std::string& label, std::optional<double> loss,
                      std::optional<double> accuracy = {}, const std::string& more = "");

class ProgressBar {
 public:
  /// `label` comes first ("epoch 1/10"); `total` is the number of steps.
  ProgressBar(std::string label, std::int64_t total);
  /// Clears the bar, if it is shown.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Whether it is redrawn in place.
  bool redraws() const { return terminal_; }

  /// Whether update() would print now: check it before computing the status.
  bool due(std::int64_t step) const;
  /// Shows the state after `step` of the total: bar, `status` (loss, accuracy...), the time left,
  /// and `detail`, which is cut first on a narrow terminal.
  void update(std::int64_t step, const std::string& status, const std::string& detail = "");
  /// Replaces the bar by `line`. A later update() draws it again, below.
  void finish(const std::string& line);

  /// Seconds since the start.
  double seconds() const { return timer_.seconds(); }

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  std::int64_t total_;
  bool terminal_, shown_ = false;
  Timer timer_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace ferrite::metrics
