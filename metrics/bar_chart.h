// A bar chart as an SVG picture: one line per case, with its parts and its uncertainty.
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

/// Panels one below the other, each with its own axis starting at 0. The same data gives the same
/// bytes. Colours follow the viewer's light or dark mode. Text may be any UTF-8.
class BarChart {
 public:
  /// One set of axes.
  class Panel {
   public:
    /// Adds a bar below the others, stacked from left to right from the values of the panel's parts
    /// (ShapeError if the count differs). Negative and non-finite values have no length. `low` and
    /// `high` are the uncertainty of the bar's end, drawn as a whisker.
    Panel& bar(std::string label, std::vector<double> values, std::optional<double> low = {},
               std::optional<double> high = {});
    /// A line of text in place of a bar.
    Panel& note(std::string label, std::string text);
    /// The following bars appear under this heading.
    Panel& group(std::string heading);

   private:
    friend class BarChart;
    friend class BarPainter;
    struct Line {
      std::string label, text;  // a heading has only the text
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

  /// Adds a panel below the others; the reference stays valid. `parts` names the segments of the
  /// bars; empty for bars of one value.
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
