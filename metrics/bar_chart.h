// Bars as an SVG picture: a line a case, with what it is divided into, and how sure it is.
//
//   metrics::BarChart chart("ResNet-18 on two devices");
//   chart.panel("images a second").bar("ddp", {412}, 405, 419).bar("dp", {330}, 310, 335);
//   chart.panel("milliseconds a step", {"compute", "communication"}).bar("ddp", {60, 17.5});
//   chart.write("compare.svg");
#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/metrics/svg.h"

namespace ferrite::metrics {

struct BarChartOptions {
  int width = 900;  ///< in pixels, 320 or more (ValueError)
};

/// Panels one above the other, each with an axis of its own from 0 on. The same data give the same
/// bytes. Colours follow the reader's light or dark mode. Text may be any UTF-8.
class BarChart {
 public:
  class Panel {
   public:
    /// Below the others, from left to right the values of the panel's parts (ShapeError where their
    /// number is another). What is negative or not finite has no length. `low` and `high` are where
    /// the end of the bar might be as well, drawn as a whisker.
    Panel& bar(std::string label, std::vector<double> values, std::optional<double> low = {},
               std::optional<double> high = {});
    /// A line of text in the place of a bar.
    Panel& note(std::string label, std::string text);
    /// The bars from here on stand under this heading.
    Panel& group(std::string heading);

   private:
    friend class BarChart;
    friend class BarPainter;
    struct Line {
      std::string label, text;  // of a heading the text alone
      std::vector<double> values;
      std::optional<double> low, high;
    };
    Panel(std::string label, std::vector<std::string> parts)
        : label_(std::move(label)), parts_(std::move(parts)) {}

    std::string label_;
    std::vector<std::string> parts_;
    std::vector<Line> lines_;
  };

  explicit BarChart(std::string title, const BarChartOptions& options = {});

  /// A panel below those there are; the reference stays valid. `parts` name what bars are divided
  /// into; nothing for bars of one value.
  Panel& panel(std::string label, std::vector<std::string> parts = {});

  std::string svg() const;
  /// Replaces the file atomically; IoError.
  void write(const std::filesystem::path& path) const;

 private:
  friend class BarPainter;

  std::string title_;
  BarChartOptions options_;
  std::deque<Panel> panels_;
};

}  // namespace ferrite::metrics
