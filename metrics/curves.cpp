#include "metrics/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include "core/error.h"
#include "data/file.h"
#include "metrics/text.h"

namespace ferrite::metrics {

namespace {

/// Told apart by most colour-blind readers in this order; on white, and on the dark ground.
constexpr std::array<const char*, 8> kLight = {"#1d5fd1", "#c2570c", "#0f7b4f", "#8b3fc7",
                                               "#b4233c", "#0b7285", "#6b5b00", "#5f6b7a"};
constexpr std::array<const char*, 8> kDark = {"#6ea8ff", "#ff9a52", "#4fd197", "#cd94ff",
                                              "#ff7d90", "#4cc9dc", "#d9c545", "#a9b4c2"};
constexpr double kLeft = 62, kRight = 70, kTop = 52, kHead = 26, kGap = 18, kBottom = 50;
constexpr double kTextWidth = 6.7;  // of a character of 12 pixels, about
constexpr std::size_t kMostMarks = 40;

bool drawable(double x, double y, Scale scale) {
  return std::isfinite(x) && std::isfinite(y) && (scale == Scale::linear || y > 0);
}

/// What stands at the end of a line.
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

/// Of the points that share a column of pixels the first, the lowest, the highest and the last.
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

/// The length of the valid UTF-8 sequence at the front of `text` (Unicode 15, table 3-7), and its
/// character; 0 where there is none.
struct Character {
  std::size_t length = 0;
  std::uint32_t code = 0;
};
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])) : 0u;
  };
  const std::uint32_t b = byte(0);
  if (b < 0x80) return {1, b};
  const std::size_t length = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2;
  std::uint32_t code = b & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (b < 0xc2 || b > 0xf4 || code < kLeast[length] || code > 0x10ffff || surrogate) return {};
  return {length, code};
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [length, code] = first_character(text);
    const bool control = code < 0x20 && code != '\t' && code != '\n' && code != '\r';
    if (length == 0 || control || code == 0xfffe || code == 0xffff)
      out += "\xef\xbf\xbd";
    else if (code == '&')
      out += "&amp;";
    else if (code == '<')
      out += "&lt;";
    else if (code == '>')
      out += "&gt;";
    else if (code == '"')
      out += "&quot;";
    else if (code == '\'')
      out += "&#39;";
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

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
class CurvesPainter {
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
    head(height);
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

  void head(double height) {
    const std::string title = xml_escaped(curves_.title_);
    out_ += fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1:g}\" viewBox=\"0 0 "
        "{0} "
        "{1:g}\" font-family=\"system-ui, 'DejaVu Sans', Arial, sans-serif\" font-size=\"12\" "
        "role=\"img\">\n<title>{2}</title>\n<style>\n.n {{ font-variant-numeric: tabular-nums; }}\n"
        "@media (prefers-color-scheme: dark) {{\n"
        "  .b {{ fill: #14181f; }} .t {{ fill: #eef1f5; }} .m {{ fill: #a4afbd; }}\n"
        "  .g {{ stroke: #2c333d; }} .a {{ stroke: #6b7685; }} .h {{ stroke: #14181f; }}\n",
        curves_.options_.width, height, title);
    for (std::size_t i = 0; i < std::min(names_.size(), kDark.size()); ++i)
      out_ += fmt::format("  .s{0} {{ stroke: {1}; }} .f{0} {{ fill: {1}; }}\n", i, kDark[i]);
    out_ += fmt::format(
        "}}\n</style>\n<rect class=\"b\" width=\"{}\" height=\"{:g}\" fill=\"#fff\"/>\n",
        curves_.options_.width, height);
    out_ += fmt::format(
        "<text class=\"t\" x=\"{:g}\" y=\"30\" fill=\"#12161c\" font-size=\"17\" "
        "font-weight=\"600\">{}</text>\n",
        kLeft, title);
  }

  /// `kind`: t for what is read first, m for the rest, n for numbers.
  void text(double x, double y, std::string_view content, std::string_view kind,
            std::string_view anchor) {
    out_ += fmt::format(
        "<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\" text-anchor=\"{}\">{}</text>\n",
        kind, x, y, kind == "t" ? "#12161c" : "#55606e", anchor, xml_escaped(content));
  }

  void line(double x1, double y1, double x2, double y2, bool axis) {
    out_ += fmt::format(
        "<path class=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"{}\" fill=\"none\"/>\n",
        axis ? "a" : "g", x1, y1, x2, y2, axis ? "#8a94a3" : "#e4e8ed");
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
      x -= kTextWidth * static_cast<double>(text_columns(name));
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
      // What was drawn last is what the label says, even where NaNs follow.
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
    // So many that they would be a solid band are drawn thin, and as few as look the same.
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
    // Few points are marked; among many, those that no line would show.
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
  std::string out_;
};

std::string Curves::svg() const { return CurvesPainter(*this).paint(); }

void Curves::write(const std::filesystem::path& path) const {
  data::AtomicFile file(path, "Curves");
  file.write(svg());
  file.commit();
}

}  // namespace ferrite::metrics
