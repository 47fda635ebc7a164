// Shared parts of the SVG pictures: a page with a title, colours for light and dark mode, text.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace ferrite::metrics {

/// Text escaped for XML: & < > " ' become entities; characters that XML does not allow and invalid
/// UTF-8 bytes are replaced by U+FFFD.
std::string xml_escaped(std::string_view text);

namespace detail {

/// Distinguishable, in this order, for most colour-blind readers, on white and on the dark
/// background.
inline constexpr std::array<const char*, 8> kLight = {"#1d5fd1", "#c2570c", "#0f7b4f", "#8b3fc7",
                                                      "#b4233c", "#0b7285", "#6b5b00", "#5f6b7a"};
inline constexpr std::array<const char*, 8> kDark = {"#6ea8ff", "#ff9a52", "#4fd197", "#cd94ff",
                                                     "#ff7d90", "#4cc9dc", "#d9c545", "#a9b4c2"};
inline constexpr double kTextWidth = 6.7;  // approximate, per character at 12 pixels

/// A page being written. Element classes: s0 to s7 are strokes in those colours, f0 to f7 fills; t
/// is primary text, m secondary text, n numbers, g the grid, a axes, b and h the background.
class SvgPage {
 protected:
  /// Call first. `left` is the x position of the title.
  void head(std::string_view title, int width, double height, double left, std::size_t colours);
  void text(double x, double y, std::string_view content, std::string_view kind,
            std::string_view anchor);
  void line(double x1, double y1, double x2, double y2, bool axis);

  std::string out_;
};

}  // namespace detail

}  // namespace ferrite::metrics
