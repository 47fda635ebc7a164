#include "ferrite/metrics/svg.h"

#include <fmt/format.h>

#include <algorithm>

#include "ferrite/core/utf8.h"

namespace ferrite::metrics {

std::string xml_escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [length, code] = first_utf8_character(text);
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

namespace detail {

void SvgPage::head(std::string_view plain_title, int width, double height, double left,
                   std::size_t colours) {
  const std::string title = xml_escaped(plain_title);
  out_ += fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1:g}\" viewBox=\"0 0 "
      "{0} "
      "{1:g}\" font-family=\"system-ui, 'DejaVu Sans', Arial, sans-serif\" font-size=\"12\" "
      "role=\"img\">\n<title>{2}</title>\n<style>\n.n {{ font-variant-numeric: tabular-nums; }}\n"
      "@media (prefers-color-scheme: dark) {{\n"
      "  .b {{ fill: #14181f; }} .t {{ fill: #eef1f5; }} .m {{ fill: #a4afbd; }}\n"
      "  .g {{ stroke: #2c333d; }} .a {{ stroke: #6b7685; }} .h {{ stroke: #14181f; }}\n",
      width, height, title);
  for (std::size_t i = 0; i < std::min(colours, kDark.size()); ++i)
    out_ += fmt::format("  .s{0} {{ stroke: {1}; }} .f{0} {{ fill: {1}; }}\n", i, kDark[i]);
  out_ +=
      fmt::format("}}\n</style>\n<rect class=\"b\" width=\"{}\" height=\"{:g}\" fill=\"#fff\"/>\n",
                  width, height);
  out_ += fmt::format(
      "<text class=\"t\" x=\"{:g}\" y=\"30\" fill=\"#12161c\" font-size=\"17\" "
      "font-weight=\"600\">{}</text>\n",
      left, title);
}

void SvgPage::text(double x, double y, std::string_view content, std::string_view kind,
                   std::string_view anchor) {
  out_ += fmt::format(
      "<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\" text-anchor=\"{}\">{}</text>\n",
      kind, x, y, kind == "t" ? "#12161c" : "#55606e", anchor, xml_escaped(content));
}

void SvgPage::line(double x1, double y1, double x2, double y2, bool axis) {
  out_ += fmt::format(
      "<path class=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"{}\" fill=\"none\"/>\n",
      axis ? "a" : "g", x1, y1, x2, y2, axis ? "#8a94a3" : "#e4e8ed");
}

}  // namespace detail

}  // namespace ferrite::metrics
