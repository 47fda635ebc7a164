#include "ferrite/metrics/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include "ferrite/core/error.h"
#include "ferrite/core/terminal.h"
#include "ferrite/data/file.h"
#include "ferrite/metrics/ticks.h"

namespace ferrite::metrics {

namespace {

using detail::kLight, detail::kTextWidth;

constexpr double kLeft = 62, kRight = 70, kTop = 52, kHead = 26, kGap = 18, kBottom = 50;
constexpr std::size_t kMostMarks = 40;

bool drawable(double x, double y, Scale scale) {
  return std::isfinite(x) && std::isfinite(y) && (scale == Scale::linear || y > 0);
}

/// The label at the end of a line.
std::string short_number(double value) {
  const double size = std::abs(value);
  if (value == 0) return "0";
  if (size < 1e-3 || size >= 1e5) return fmt::format("{:.2g}", value);
  return fmt::format("{:.{}f}", value, size < 1 ? 4 : size < 10 ? 3 : size < 100 ? 2 : 1);
}

struct Point {
  double x, y;
};

/// Runs of points without a gap, in pixels.
using Lines = std::vector<std::vector<Point>>;

/// Keeps the first, lowest, highest and last of the points in each pixel column.
std::vector<Point> thinned(const std::vector<Point>& line) {
  std::vector<Point> out;
  for (std::size_t begin = 0; begin < line.size();) {
    std::size_t end = begin, low = begin, high = begin;
    for (; end < line.size() && std::floor(line[end].x) == std::floor(line[begin].x); ++end) {
      if (line[end].y < line[low].y) low = end;
      if (line[end].y > line[high].y) high = end;
    }
    std::array<std::size_t, 4> kept = {begin, std::min(low, high), std::max(low, high), end - 1};
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (i == 0 || kept[i] != kept[i - 1]) out.push_back(line[kept[i]]);
    begin = end;
  }
  return out;
}

}  // namespace

// ---- Curves

Curves::Curves(std::string title, const CurvesOptions& options)
    : title_(std::move(title)), options_(options) {
  FERRITE_CHECK(options.width >= 320 && options.panel_height >= 80, ValueError, "Curves",
                "expected a width of 320 and a panel_height of 80 or more, got {} and {}",
                options.width, options.panel_height);
}

Curves::Panel& Curves::panel(std::string label, Scale scale) {
  panels_.push_back(Panel(std::move(label), scale));
  return panels_.back();
}

Curves::Panel& Curves::Panel::add(std::string name, std::vector<double> x, std::vector<double> y) {
  FERRITE_CHECK(x.size() == y.size(), ShapeError, "Curves",
                "'{}': expected as many x as y, got {} and {}", name, x.size(), y.size());
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  Series series{std::move(name), {}, {}};
  for (const std::size_t i : order) {
    if (std::isnan(x[i])) continue;
    series.x.push_back(x[i]);
    series.y.push_back(y[i]);
  }
  series_.push_back(std::move(series));
  return *this;
}

Curves::Panel& Curves::Panel::add(std::string name, const LoggedSeries& series) {
  return add(std::move(name), series.steps, series.values);
}

/// Writes one picture.
class CurvesPainter : private detail::SvgPage {
 public:
  explicit CurvesPainter(const Curves& curves)
      : curves_(curves), width_(curves.options_.width - kLeft - kRight) {
    for (const Curves::Panel& panel : curves.panels_)
      for (const Panel::Series& series : panel.series_)
        if (std::ranges::find(names_, series.name) == names_.end()) names_.push_back(series.name);
    make_x_axis();
  }

  std::string paint() {
    const auto panels = static_cast<double>(curves_.panels_.size());
    const double height = kTop + panels * (kHead + curves_.options_.panel_height) +
                          std::max(panels - 1, 0.0) * kGap + kBottom;
    head(curves_.title_, curves_.options_.width, height, kLeft, names_.size());
    double top = kTop;
    for (const Curves::Panel& panel : curves_.panels_) {
      top += kHead;
      paint_panel(panel, top, &panel == &curves_.panels_.back());
      top += curves_.options_.panel_height + kGap;
    }
    text(kLeft + width_ / 2, height - 12, curves_.options_.x_label, "m", "middle");
    return out_ + "</svg>\n";
  }

 private:
  using Panel = Curves::Panel;

  std::size_t colour_of(const std::string& name) const {
    return static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin()) %
           kLight.size();
  }

  void make_x_axis() {
    double low = INFINITY, high = -INFINITY;
    bool whole = true;
    for (const Panel& panel : curves_.panels_)
      for (const Panel::Series& series : panel.series_)
        for (std::size_t i = 0; i < series.x.size(); ++i) {
          if (!drawable(series.x[i], series.y[i], panel.scale_)) continue;
          low = std::min(low, series.x[i]), high = std::max(high, series.x[i]);
          whole = whole && series.x[i] == std::floor(series.x[i]);
        }
    if (low > high) low = 0, high = 1;
    x_ =
        make_axis(low, high, {.ticks = std::max(2, static_cast<int>(width_ / 70)), .whole = whole});
  }

  Axis y_axis(const Panel& panel) const {
    double low = INFINITY, high = -INFINITY;
    for (const Panel::Series& series : panel.series_)
      for (std::size_t i = 0; i < series.x.size(); ++i)
        if (drawable(series.x[i], series.y[i], panel.scale_))
          low = std::min(low, series.y[i]), high = std::max(high, series.y[i]);
    if (low > high) return {};
    return make_axis(low, high, {.scale = panel.scale_, .ticks = 5, .round = true});
  }

  void paint_panel(const Panel& panel, double top, bool last) {
    const double bottom = top + curves_.options_.panel_height;
    const Axis y = y_axis(panel);
    paint_legend(panel, top - 9);
    for (const Tick& tick : y.ticks) {
      const double at = bottom - y.position(tick.value) * (bottom - top);
      line(kLeft, at, kLeft + width_, at, false);
      text(kLeft - 8, at + 4, tick.label, "m n", "end");
    }
    for (const Tick& tick : x_.ticks) {
      const double at = kLeft + x_.position(tick.value) * width_;
      line(at, bottom, at, bottom + 4, true);
      if (last) text(at, bottom + 18, tick.label, "m n", "middle");
    }
    line(kLeft, bottom, kLeft + width_, bottom, true);
    if (y.ticks.empty())
      text(kLeft + width_ / 2, (top + bottom) / 2, "no data", "m", "middle");
    else
      paint_series(panel, y, top, bottom);
  }

  void paint_legend(const Panel& panel, double at) {
    text(kLeft, at, panel.label_, "t", "start");
    double x = kLeft + width_;
    for (std::size_t i = panel.series_.size(); i-- > 0;) {
      const std::string& name = panel.series_[i].name;
      x -= kTextWidth * static_cast<double>(terminal::text_columns(name));
      text(x, at, name, "m", "start");
      const std::size_t c = colour_of(name);
      out_ += fmt::format(
          "<path class=\"s{}\" d=\"M{:.1f} {:.1f}h18\" stroke=\"{}\" stroke-width=\"2.5\"/>\n", c,
          x - 24, at - 4, kLight[c]);
      x -= 24 + 16;
    }
  }

  Lines lines_of(const Panel::Series& series, const Panel& panel, const Axis& y, double top,
                 double bottom) const {
    Lines lines(1);
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (drawable(series.x[i], series.y[i], panel.scale_))
        lines.back().push_back({kLeft + x_.position(series.x[i]) * width_,
                                bottom - y.position(series.y[i]) * (bottom - top)});
      else if (!lines.back().empty())
        lines.emplace_back();
    }
    if (lines.back().empty()) lines.pop_back();
    return lines;
  }

  void paint_series(const Panel& panel, const Axis& y, double top, double bottom) {
    struct End {
      double y;
      std::string label;
      std::size_t colour;
    };
    std::vector<End> ends;
    for (const Panel::Series& series : panel.series_) {
      const Lines lines = lines_of(series, panel, y, top, bottom);
      if (lines.empty()) continue;
      const std::size_t c = colour_of(series.name);
      paint_lines(lines, c, series);
      const Point& end = lines.back().back();
      circle(end, 3.5, c);
      // The label shows the last value drawn, even if NaNs follow.
      std::size_t at = series.y.size() - 1;
      while (!drawable(series.x[at], series.y[at], panel.scale_)) --at;
      ends.push_back({end.y, short_number(series.y[at]), c});
    }
    // Labels of lines that end close to each other are moved apart.
    constexpr double kApart = 14;
    std::ranges::stable_sort(ends, {}, &End::y);
    for (std::size_t i = 1; i < ends.size(); ++i)
      ends[i].y = std::max(ends[i].y, ends[i - 1].y + kApart);
    double most = bottom + 4;
    for (std::size_t i = ends.size(); i-- > 0; most -= kApart)
      ends[i].y = std::min(ends[i].y, most);
    for (const End& end : ends)
      out_ += fmt::format("<text class=\"f{} n\" x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n",
                          end.colour, kLeft + width_ + 9, end.y + 4, kLight[end.colour], end.label);
  }

  void paint_lines(const Lines& lines, std::size_t c, const Panel::Series& series) {
    std::string path;
    // Series dense enough to form a solid band get a thin stroke, and only the points that change
    // the picture.
    const bool dense = series.x.size() > 2 * static_cast<std::size_t>(width_);
    for (const std::vector<Point>& whole : lines) {
      const std::vector<Point> line = dense ? thinned(whole) : whole;
      for (std::size_t i = 0; i < line.size(); ++i)
        path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? 'M' : 'L', line[i].x, line[i].y);
    }
    out_ += fmt::format(
        "<path class=\"s{}\" d=\"{}\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\" "
        "stroke-linecap=\"round\" fill=\"none\"><title>{}</title></path>\n",
        c, path, kLight[c], dense ? "1.1" : "2", xml_escaped(series.name));
    // All points are marked if there are few; otherwise only those not connected by a line.
    const bool all = series.x.size() <= kMostMarks;
    for (const std::vector<Point>& line : lines)
      if (all || line.size() == 1)
        for (const Point& p : line) circle(p, 2.5, c);
  }

  void circle(const Point& p, double radius, std::size_t c) {
    out_ +=
        fmt::format("<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", c,
                    p.x, p.y, radius, kLight[c]);
  }

  const Curves& curves_;
  const double width_;  // of the axes
  std::vector<std::string> names_;
  Axis x_;
};

std::string Curves::svg() const { return CurvesPainter(*this).paint(); }

void Curves::write(const std::filesystem::path& path) const {
  data::AtomicFile file(path, "Curves");
  file.write(svg());
  file.commit();
}

}  // namespace ferrite::metrics
