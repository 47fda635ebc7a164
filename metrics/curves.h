// Learning curves as an SVG picture, for browsers and papers.
//
//   metrics::Curves curves("LeNet-5 on Fashion-MNIST");
//   curves.panel("loss", metrics::Scale::log).add("train", epochs, train_loss);
//   curves.panel("accuracy").add("train", epochs, train).add("test", epochs, test);
//   curves.write("runs/a/curves.svg");
#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "ferrite/metrics/logger.h"
#include "ferrite/metrics/scale.h"
#include "ferrite/metrics/svg.h"

namespace ferrite::metrics {

struct CurvesOptions {
  /// What the x axis shows.
  std::string x_label = "epoch";
  int width = 760;         ///< in pixels, 320 or more (ValueError)
  int panel_height = 220;  ///< of a panel's axes, 80 or more
};

/// Panels one above the other, each with its own y axis, sharing the x axis. The same data gives
/// the same bytes. Colours follow the viewer's light or dark mode. Text may be any UTF-8.
class Curves {
 public:
  /// One set of axes.
  class Panel {
   public:
    /// One point for each x and y (ShapeError if their counts differ), drawn in the order of x.
    /// NaN, infinities, and in a logarithmic panel values not above 0, leave gaps. Series of the
    /// same name have the same colour in all panels.
    Panel& add(std::string name, std::vector<double> x, std::vector<double> y);
    Panel& add(std::string name, const LoggedSeries& series);

   private:
    friend class Curves;
    friend class CurvesPainter;
    struct Series {
      std::string name;
      std::vector<double> x, y;
    };
    Panel(std::string label, Scale scale) : label_(std::move(label)), scale_(scale) {}

    std::string label_;
    Scale scale_;
    std::vector<Series> series_;
  };

  explicit Curves(std::string title, const CurvesOptions& options = {});

  /// Adds a panel below the others; the reference stays valid.
  Panel& panel(std::string label, Scale scale = Scale::linear);

  std::string svg() const;
  /// Replaces the file atomically; IoError.
  void write(const std::filesystem::path& path) const;

 private:
  friend class CurvesPainter;

  std::string title_;
  CurvesOptions options_;
  std::deque<Panel> panels_;
};

}  // namespace ferrite::metrics
