#include "ferrite/metrics/bar_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ferrite/core/error.h"
#include "ferrite/core/terminal.h"
#include "ferrite/data/file.h"
#include "ferrite/metrics/ticks.h"

namespace ferrite::metrics {

namespace {

using detail::kLight, detail::kTextWidth;

std::string bar_end(double value) {
  const double size = std::abs(value);
  if (value == 0) return "0";
  if (size < 1e-3 || size >= 1e6) return fmt::format("{:.3g}", value);
  return fmt::format("{:.{}f}", value, size < 1 ? 3 : size < 10 ? 2 : size < 100 ? 1 : 0);
}

double length_of(double value) { return std::isfinite(value) ? std::max(value, 0.0) : 0; }

}  // namespace

BarChart::BarChart(std::string title, const BarChartOptions& options)
    : title_(std::move(title)), options_(options) {
  FERRITE_CHECK(options.width >= 320, ValueError, "BarChart",
                "expected a width of 320 or more, got {}", options.width);
}

BarChart::Panel& BarChart::panel(std::string label, std::vector<std::string> parts) {
  panels_.push_back(Panel(std::move(label), std::move(parts)));
  return panels_.back();
}

BarChart::Panel& BarChart::Panel::bar(std::string label, std::vector<double> values,
                                      std::optional<double> low, std::optional<double> high) {
  const std::size_t expected = std::max<std::size_t>(parts_.size(), 1);
  FERRITE_CHECK(values.size() == expected, ShapeError, "BarChart",
                "'{}': expected a value for each of {} parts, got {}", label, expected,
                values.size());
  lines_.push_back({std::move(label), "", std::move(values), low, high});
  return *this;
}

BarChart::Panel& BarChart::Panel::note(std::string label, std::string text) {
  lines_.push_back({std::move(label), std::move(text), {}, {}, {}});
  return *this;
}

BarChart::Panel& BarChart::Panel::group(std::string heading) {
  lines_.push_back({"", std::move(heading), {}, {}, {}});
  return *this;
}

/// Writes one picture.
class BarPainter : private detail::SvgPage {
 public:
  explicit BarPainter(const BarChart& chart) : chart_(chart) {
    std::size_t most = 0;
    for (const Panel& panel : chart.panels_)
      for (const Panel::Line& line : panel.lines_)
        most = std::max(most, terminal::text_columns(line.label));
    left_ =
        std::clamp(kTextWidth * static_cast<double>(most) + 20, 62.0, chart.options_.width / 2.0);
    width_ = chart.options_.width - left_ - kRight;
  }

  std::string paint() {
    double height = kTop + kBottom;
    std::size_t colours = 1;
    for (const Panel& panel : chart_.panels_) {
      height += kHead + bars_height(panel) + kAxis;
      colours = std::max(colours, panel.parts_.size());
    }
    if (!chart_.panels_.empty()) height += kGap * static_cast<double>(chart_.panels_.size() - 1);
    head(chart_.title_, chart_.options_.width, height, 20, colours);
    double top = kTop;
    for (const Panel& panel : chart_.panels_) {
      paint_panel(panel, top + kHead);
      top += kHead + bars_height(panel) + kAxis + kGap;
    }
    return out_ + "</svg>\n";
  }

 private:
  using Panel = BarChart::Panel;
  static constexpr double kTop = 52, kHead = 28, kGap = 26, kBottom = 24, kRight = 84;
  static constexpr double kBar = 16, kLine = 23, kAxis = 24;

  static double bars_height(const Panel& panel) {
    return kLine * static_cast<double>(std::max<std::size_t>(panel.lines_.size(), 1));
  }

  static Axis axis_of(const Panel& panel) {
    double most = 0;
    for (const Panel::Line& line : panel.lines_) {
      double end = 0;
      for (const double value : line.values) end += length_of(value);
      most = std::max({most, end, length_of(line.high.value_or(0))});
    }
    return make_axis(0, most > 0 ? most : 1, {.ticks = 6, .round = true});
  }

  void paint_panel(const Panel& panel, double top) {
    const Axis axis = axis_of(panel);
    const double bottom = top + bars_height(panel);
    paint_legend(panel, top - 10);
    for (const Tick& tick : axis.ticks) {
      const double x = left_ + axis.position(tick.value) * width_;
      line(x, top, x, bottom, false);
      text(x, bottom + 16, tick.label, "m n", "middle");
    }
    double y = top;
    for (const Panel::Line& one : panel.lines_) {
      paint_line(one, axis, y);
      y += kLine;
    }
    line(left_, top, left_, bottom, true);
    if (panel.lines_.empty()) text(left_ + width_ / 2, top + 15, "no data", "m", "middle");
  }

  void paint_legend(const Panel& panel, double at) {
    text(20, at, panel.label_, "t", "start");
    double x = left_ + width_;
    for (std::size_t i = panel.parts_.size(); i-- > 0;) {
      x -= kTextWidth * static_cast<double>(terminal::text_columns(panel.parts_[i]));
      text(x, at, panel.parts_[i], "m", "start");
      block(x - 18, at - 10, 12, 11, i);
      x -= 18 + 14;
    }
  }

  void paint_line(const Panel::Line& one, const Axis& axis, double y) {
    const double baseline = y + kLine / 2 + 4;
    if (one.values.empty() && one.label.empty()) {
      text(20, baseline, one.text, "t", "start");
      return;
    }
    text(left_ - 8, baseline, one.label, "m", "end");
    if (one.values.empty()) {
      text(left_ + 8, baseline, one.text, "m", "start");
      return;
    }
    double end = 0, sum = 0;
    for (std::size_t i = 0; i < one.values.size(); ++i) {
      const double from = left_ + axis.position(end) * width_;
      end += length_of(one.values[i]);
      sum += one.values[i];
      const double to = left_ + axis.position(end) * width_;
      if (to > from) block(from, y + (kLine - kBar) / 2, to - from, kBar, i);
    }
    double x = left_ + axis.position(end) * width_;
    if (one.low && one.high && std::isfinite(*one.low) && std::isfinite(*one.high))
      x = std::max(x, whisker(length_of(*one.low), length_of(*one.high), axis, y + kLine / 2));
    text(x + 7, baseline, std::isfinite(sum) ? bar_end(sum) : "-", "t n", "start");
  }

  void block(double x, double y, double width, double height, std::size_t part) {
    const std::size_t c = part % kLight.size();
    out_ += fmt::format(
        "<rect class=\"f{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:g}\" "
        "fill=\"{}\"/>\n",
        c, x, y, width, height, kLight[c]);
  }

  /// Returns the x coordinate of its end.
  double whisker(double low, double high, const Axis& axis, double y) {
    const double from = left_ + axis.position(low) * width_;
    const double to = left_ + axis.position(high) * width_;
    out_ += fmt::format(
        "<path class=\"a\" d=\"M{0:.1f} {2:.1f}V{3:.1f}M{0:.1f} {4:.1f}H{1:.1f}M{1:.1f} "
        "{2:.1f}V{3:.1f}\" stroke=\"#12161c\" stroke-width=\"1.3\" fill=\"none\"/>\n",
        from, to, y - 4, y + 4, y);
    return to;
  }

  const BarChart& chart_;
  double left_ = 0, width_ = 0;  // of the axes
};

std::string BarChart::svg() const { return BarPainter(*this).paint(); }

void BarChart::write(const std::filesystem::path& path) const {
  data::AtomicFile file(path, "BarChart");
  file.write(svg());
  file.commit();
}

}  // namespace ferrite::metrics
