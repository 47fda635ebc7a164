#include "ferrite/metrics/bar_chart.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <regex>
#include <string>
#include <vector>

#include "ferrite/tests/data/files.h"

using namespace ferrite;
using metrics::BarChart;

namespace {

struct Rect {
  double x, width;
  std::string colour;
};

/// Bars, in drawing order, without the blocks of legends.
std::vector<Rect> bars(const std::string& svg) {
  static const std::regex pattern(
      "<rect class=\"(f[0-7])\" x=\"([0-9.]+)\" y=\"[0-9.]+\" width=\"([0-9.]+)\" height=\"16\"");
  std::vector<Rect> found;
  for (std::sregex_iterator i(svg.begin(), svg.end(), pattern), end; i != end; ++i)
    found.push_back({std::stod((*i)[2]), std::stod((*i)[3]), (*i)[1]});
  return found;
}

}  // namespace

TEST_CASE("bars are as long as their values, and parts follow each other") {
  BarChart chart("A & B");
  chart.panel("images a second").bar("one", {100}, 90, 110).bar("two", {200});
  chart.panel("milliseconds", {"compute", "exposed"}).bar("two", {30, 10}).bar("three", {20, 20});
  const std::string svg = chart.svg();
  CHECK(svg == chart.svg());
  CHECK(test::contains(svg, "<title>A &amp; B</title>"));
  CHECK(svg.ends_with("</svg>\n"));
  const std::vector<Rect> rects = bars(svg);
  REQUIRE(rects.size() == 6);
  CHECK(rects[1].width == doctest::Approx(2 * rects[0].width).epsilon(0.01));
  CHECK(rects[0].x == rects[1].x);
  CHECK(rects[2].width == doctest::Approx(3 * rects[3].width).epsilon(0.01));
  CHECK(rects[3].x == doctest::Approx(rects[2].x + rects[2].width).epsilon(0.001));
  CHECK(rects[2].colour == "f0");
  CHECK(rects[3].colour == "f1");
  // 90 to 110 around the end of the bar of 100.
  std::smatch whisker;
  REQUIRE(std::regex_search(svg, whisker,
                            std::regex("M([0-9.]+) [0-9.]+V[0-9.]+M\\1 [0-9.]+H([0-9.]+)")));
  const double from = std::stod(whisker[1]), to = std::stod(whisker[2]);
  CHECK((from + to) / 2 == doctest::Approx(rects[0].x + rects[0].width).epsilon(0.001));
  CHECK(to - from == doctest::Approx(rects[0].width / 5).epsilon(0.02));
}

TEST_CASE("bars without a length, notes, headings and charts without anything") {
  BarChart chart("odd");
  auto& panel = chart.panel("p", {"a", "b"});
  panel.group("heading <1>")
      .bar("negative", {10, -2})
      .bar("unknown", {std::nan(""), 3})
      .bar("endless", {std::numeric_limits<double>::infinity(), 1})
      .note("broken", "rank 1: \"gone\"");
  const std::string svg = chart.svg();
  CHECK(bars(svg).size() == 3);
  CHECK(test::contains(svg, "heading &lt;1&gt;"));
  CHECK(test::contains(svg, "rank 1: &quot;gone&quot;"));
  CHECK(test::contains(svg, ">8.00<"));  // the sum is unchanged
  CHECK_FALSE(test::contains(svg, "nan"));
  CHECK_FALSE(test::contains(svg, "inf"));

  BarChart empty("nothing");
  CHECK(test::contains(empty.svg(), "</svg>"));
  empty.panel("none");
  CHECK(test::contains(empty.svg(), "no data"));
  CHECK_THROWS_AS(panel.bar("few", {1}), ShapeError);
  CHECK_THROWS_AS(BarChart("narrow", {.width = 100}), ValueError);

  const test::TempDir folder;
  chart.write(folder / "bars.svg");
  CHECK(test::read_file(folder / "bars.svg") == svg);
  CHECK_THROWS_AS(chart.write(folder / "no" / "bars.svg"), IoError);
}
