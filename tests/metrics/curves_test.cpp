// Axes and learning curves.
#include "ferrite/metrics/curves.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ferrite/metrics/ticks.h"
#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::metrics;
using namespace ferrite::test;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> list;
  for (const Tick& tick : axis.ticks) list.push_back(tick.label);
  return list;
}
using Labels = std::vector<std::string>;

/// "" if `text` is well-formed XML, as far as needed for this picture: elements nest, attributes
/// are quoted, & begins an entity; otherwise the error.
std::string xml_error(std::string_view text) {
  std::vector<std::string> open;
  while (!text.empty()) {
    if (text[0] != '<') {
      const std::size_t end = std::min(text.find('<'), text.size());
      const std::string_view data = text.substr(0, end);
      for (std::size_t i = data.find('&'); i != data.npos; i = data.find('&', i + 1))
        if (data.find(';', i) == data.npos) return "a bare &";
      text.remove_prefix(end);
      continue;
    }
    std::size_t end = 1;
    bool quoted = false;
    for (; end < text.size() && (quoted || text[end] != '>'); ++end) {
      if (text[end] == '"') quoted = !quoted;
      if (text[end] == '<') return "< within a tag";
    }
    if (end == text.size()) return "a tag without an end";
    const std::string_view tag = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    const bool closes = tag[0] == '/', empty = tag.back() == '/';
    const std::string name(tag.substr(closes, tag.find_first_of(" /", 1) - closes));
    if (closes) {
      if (open.empty() || open.back() != name) return "unexpected </" + name + ">";
      open.pop_back();
    } else if (!empty) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// The d attribute of the series' path.
std::string path_of(const std::string& svg, const std::string& name) {
  const std::size_t end = svg.find("<title>" + name + "</title></path>");
  REQUIRE(end != svg.npos);
  const std::size_t begin = svg.rfind(" d=\"", end) + 4;
  return svg.substr(begin, svg.find('"', begin) - begin);
}

}  // namespace

TEST_CASE("linear axes have ticks at round numbers") {
  CHECK(labels(make_axis(0, 1)) == Labels{"0", "0.2", "0.4", "0.6", "0.8", "1.0"});
  CHECK(labels(make_axis(0.874, 0.921)) == Labels{"0.88", "0.89", "0.90", "0.91", "0.92"});
  CHECK(labels(make_axis(0, 23456)) == Labels{"0", "5k", "10k", "15k", "20k"});
  CHECK(labels(make_axis(0, 4.2e7)) == Labels{"0", "10M", "20M", "30M", "40M"});
  CHECK(labels(make_axis(-3e-5, 2e-5)) ==
        Labels{"-3e-05", "-2e-05", "-1e-05", "0", "1e-05", "2e-05"});
  CHECK(labels(make_axis(1, 3, {.ticks = 10, .whole = true})) == Labels{"1", "2", "3"});
  CHECK(labels(make_axis(7, 7, {.ticks = 5, .whole = true})) == Labels{"7"});
  const Axis rounded = make_axis(0.13, 2.31, {.round = true});
  CHECK(rounded.low == 0);
  CHECK(rounded.high == 2.5);
  CHECK(rounded.position(1.25) == 0.5);
  for (const double v : {0.0, 5.0, -2e-300, 1e300}) {
    const Axis axis = make_axis(v, v, {.round = true});
    CHECK(axis.low < v + (v == 0));
    CHECK(axis.high > v - (v == 0));
    CHECK(axis.ticks.size() < 20);
  }
}

TEST_CASE("logarithmic axes have ticks at powers of ten, and between where there is space") {
  const AxisOptions log{.scale = Scale::log};
  CHECK(labels(make_axis(1e-6, 1e6, log)) == Labels{"1e-06", "0.001", "1", "1000", "1e+06"});
  CHECK(labels(make_axis(0.001, 10, log)) == Labels{"0.001", "0.01", "0.1", "1", "10"});
  CHECK(labels(make_axis(0.04, 2.4, log)) == Labels{"0.05", "0.1", "0.2", "0.5", "1", "2"});
  CHECK(make_axis(0.3, 0.4, log).ticks.size() >= 3);
  CHECK(make_axis(3, 3, log).ticks.size() >= 2);
  const Axis axis = make_axis(1, 100, log);
  CHECK(axis.position(10) == doctest::Approx(0.5));
  CHECK(axis.position(1) > 0);
}

TEST_CASE("XML text") {
  CHECK(xml_escaped("a<b> & \"c\" 'd'") == "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  CHECK(xml_escaped("Größe \xe2\x82\xac \xf0\x9f\x98\x80\n") ==
        "Größe \xe2\x82\xac \xf0\x9f\x98\x80\n");
  const std::string bad = "\xef\xbf\xbd";
  for (const std::string text : {"\x01", "\xff", "\xc0", "\xed\xa0\x80" /* a surrogate */})
    CHECK(xml_escaped(text).starts_with(bad));
  CHECK(xml_escaped(std::string("\0", 1)) == bad);
  CHECK(xml_escaped("\xc3(") == bad + "(");
  CHECK(xml_escaped("\xef\xbf\xbf") == bad);
}

TEST_CASE("curves are one valid picture, the same each time") {
  Curves curves("LeNet-5 & <friends> on \"Größe\"", {.x_label = "epoch <1>"});
  curves.panel("loss", Scale::log)
      .add("train & more", {1, 2, 3}, {1.0, 0.1, 0.01})
      .add("test", {1, 2, 3}, {2.0, 0.0, 0.5});
  curves.panel("accuracy").add("test", {3, 1, 2}, {0.9, 0.7, 0.8});
  const std::string svg = curves.svg();
  CHECK(xml_error(svg) == "");
  CHECK(svg == curves.svg());
  CHECK(contains(svg, "LeNet-5 &amp; &lt;friends&gt; on &quot;Größe&quot;"));
  CHECK(contains(svg, "prefers-color-scheme: dark"));
  CHECK(contains(svg, ">epoch &lt;1&gt;</text>"));
  CHECK(contains(svg, ">0.01</text>"));
  CHECK(contains(svg, ">0.9000</text>"));
  // A zero leaves a gap in a logarithmic panel; x is sorted.
  CHECK(count(path_of(svg, "train &amp; more"), "M") == 1);
  CHECK(count(path_of(svg, "train &amp; more"), "L") == 2);
  const std::size_t second = svg.find(">accuracy</text>");
  CHECK(count(path_of(svg.substr(0, second), "test"), "M") == 2);
  const std::string accuracy = path_of(svg.substr(second), "test");
  CHECK(accuracy.starts_with("M62.0 "));
  CHECK(count(accuracy, "L") == 2);
  // The same name has the same colour in both panels.
  CHECK(count(svg, "<path class=\"s1\"") == 4);

  const TempDir dir;
  curves.write(dir / "curves.svg");
  CHECK(read_file(dir / "curves.svg") == svg);
  CHECK_THROWS_AS(curves.write(dir / "none/curves.svg"), IoError);
  CHECK_THROWS_AS(curves.panel("x").add("y", {1, 2}, {1}), ShapeError);
  CHECK_THROWS_AS(Curves("x", {.width = 100}), ValueError);
}

TEST_CASE("curves of nothing, of one point, of NaN and of many points") {
  CHECK(xml_error(Curves("nothing").svg()) == "");
  Curves curves("odd", {.x_label = "step"});
  curves.panel("empty").add("none", {}, {}).add("nan", {1, 2}, {kNaN, kNaN});
  curves.panel("one").add("point", {5}, {3.0});
  curves.panel("gaps").add("g", {1, 2, 3, 4, 5}, {1, kNaN, 2, INFINITY, 3});
  curves.panel("gone").add("x nan", {kNaN, 1, 2}, {1, 1, 1});
  std::vector<double> x, y;
  for (int i = 0; i < 20000; ++i) {
    x.push_back(i / 4000.0);
    y.push_back(i == 12345 ? 50 : std::sin(i * 0.01));
  }
  curves.panel("many").add("m", x, y);
  const std::string svg = curves.svg();
  CHECK(xml_error(svg) == "");
  CHECK(count(svg, ">no data</text>") == 1);
  CHECK(count(path_of(svg, "g"), "M") == 3);
  CHECK_FALSE(contains(svg, "nan "));
  CHECK_FALSE(contains(svg, "inf"));
  CHECK(count(path_of(svg, "x nan"), "L") == 1);
  const std::string many = path_of(svg, "m");
  CHECK(count(many, "L") < 4 * 700);
  // The spike is kept: it is its panel's highest point.
  double least = INFINITY;
  for (std::size_t at = 0; at != many.npos; at = many.find_first_of("ML", at + 1))
    least = std::min(least, std::stod(many.substr(many.find(' ', at) + 1)));
  double next = INFINITY;
  for (std::size_t at = 0; at != many.npos; at = many.find_first_of("ML", at + 1)) {
    const double v = std::stod(many.substr(many.find(' ', at) + 1));
    if (v > least) next = std::min(next, v);
  }
  CHECK(next > least + 100);
}

TEST_CASE("labels of lines that end together do not cover each other") {
  Curves curves("x");
  auto& panel = curves.panel("y");
  for (int i = 0; i < 6; ++i) panel.add("s" + std::to_string(i), {0, 1}, {1.0 * i, 5 + i * 1e-3});
  const std::string svg = curves.svg();
  std::vector<double> at;
  for (std::size_t i = svg.find(" n\" x="); i != svg.npos; i = svg.find(" n\" x=", i + 1))
    if (svg[svg.rfind('"', i) + 1] == 'f')
      at.push_back(std::stod(svg.substr(svg.find("y=\"", i) + 3)));
  REQUIRE(at.size() == 6);
  std::ranges::sort(at);
  for (std::size_t i = 1; i < at.size(); ++i) CHECK(at[i] - at[i - 1] >= 13.9);
}
