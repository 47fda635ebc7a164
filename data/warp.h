// Geometric changes of an image and of what belongs to it: one description, drawn once, for pixels,
// masks, boxes and points.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ferrite/core/tensor.h"

namespace ferrite::data {

/// An image with what is marked in it. Undefined members stay so; the image is needed.
///
/// Coordinates count pixels from the image's upper left corner: x to the right, 0 to the width, y
/// downwards; the centre of the first pixel is (0.5, 0.5).
struct Annotated {
  Tensor image;        ///< [C, H, W], uint8 or float32
  Tensor mask = {};    ///< [H, W] or [K, H, W], of any type
  Tensor boxes = {};   ///< float32 [N, 4]: x1, y1, x2, y2
  Tensor points = {};  ///< float32 [N, 2]: x, y
};

/// A rectangle of pixels; it may extend beyond an image.
struct Window {
  std::int64_t top = 0;   ///< the upper edge, in pixels
  std::int64_t left = 0;  ///< the left edge, in pixels
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// Where each pixel of a result comes from: source = (xx, xy; yx, yy) (x, y) + (x0, y0), in pixels
/// from the image's centre, x to the right and y downwards.
struct Affine {
  double xx = 1;  ///< the factor of x in the source's x
  double xy = 0;  ///< the factor of y in the source's x
  double x0 = 0;  ///< the summand of the source's x, in pixels
  double yx = 0;  ///< the factor of x in the source's y
  double yy = 1;  ///< the factor of y in the source's y
  double y0 = 0;  ///< the summand of the source's y, in pixels
};
/// Turns by `radians`, clockwise, after shearing, scales, and moves, about a centre that is given
/// in pixels from the image's: torchvision's affine(), with its angles in radians.
struct AffineParameters {
  double radians = 0;      ///< the angle of the turn, clockwise
  double scale = 1;        ///< the factor of the size
  double translate_x = 0;  ///< the move to the right, in pixels
  double translate_y = 0;  ///< the move downwards, in pixels
  double shear_x = 0;      ///< the angle of the shear along x, in radians
  double shear_y = 0;      ///< the angle of the shear along y, in radians
  double centre_x = 0;     ///< the x of the turn's centre, in pixels from the image's
  double centre_y = 0;     ///< the y of the turn's centre, in pixels from the image's
};
/// The map from the result's pixels to the image's.
Affine inverse_affine(const AffineParameters& p);

/// What is outside an image: a value, or the image's own pixels. For a row "abcd":
enum class PaddingMode : std::uint8_t {
  constant,
  edge,       ///< aaa|abcd|ddd
  reflect,    ///< dcb|abcd|cba
  symmetric,  ///< cba|abcd|dcb
};

/// A window of an image, with `padding` outside the image, is scaled to `height` x `width`; then
/// mirrored left to right, and top to bottom, then moved by an affine map, with `fill` outside.
/// Masks have zeros where images have `fill`.
struct Warp {
  Window window;  ///< the part of the image that is kept
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool mirrored = false;              ///< whether left and right are swapped
  bool upside_down = false;           ///< whether top and bottom are swapped
  std::optional<Affine> affine = {};  ///< how the result is turned and moved, if at all
  bool nearest = false;  ///< whether the affine map takes the nearest pixel, not bilinear weights
  double fill = 0;
  /// That of the window, where it is not scaled. With reflect it may extend beyond the image by
  /// less than the image's size, with symmetric by no more than it.
  PaddingMode padding = PaddingMode::constant;
};
/// One that changes nothing in an image of this size.
inline Warp no_warp(std::int64_t height, std::int64_t width) {
  return {{0, 0, height, width}, height, width};
}

/// A dense image [C, H, W] of uint8 or float32: scaled like Resize. `fill` is clipped to 0..255 in
/// uint8 images. The image itself if the warp changes nothing. ShapeError for scaling an image
/// without pixels.
Tensor warp_image(const Tensor& image, const Warp& warp, std::string_view op);
/// A mask [H, W] or [K, H, W] of an image of `height` x `width` (ShapeError): each value is that of
/// the nearest pixel, as torchvision defines it.
Tensor warp_mask(const Tensor& mask, std::int64_t height, std::int64_t width, const Warp& warp,
                 std::string_view op);
/// Boxes, clipped to the result; of a turned one, the box around it. Boxes outside have no area but
/// stay in their place. ShapeError, DTypeError.
Tensor warp_boxes(const Tensor& boxes, const Warp& warp, std::string_view op);
/// Points, also those that fall outside. ShapeError, DTypeError.
Tensor warp_points(const Tensor& points, const Warp& warp, std::string_view op);

/// An image with all that belongs to it.
Annotated warp(const Annotated& sample, const Warp& warp, std::string_view op);

}  // namespace ferrite::data
