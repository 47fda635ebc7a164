// Transforms of colors and sharpness, with torchvision's names, formulas and rounding, of images
// [C, H, W] of uint8 or float32 (in [0, 1]), on the host. Images of one channel have no saturation
// and no hue; other numbers of channels than 1 and 3 are a ShapeError where gray is needed.
#pragma once

#include <array>
#include <cstdint>

#include "ferrite/data/transforms.h"

namespace ferrite::data {

// ---- With given parameters, of which 1 (of adjust_hue: 0) changes nothing
/// The gray image of one of 3 channels, by the weights of ITU-R 601: [num_output_channels, H, W] of
/// [3, H, W], or of a gray one [1, H, W] (ShapeError for other images). ValueError unless 1 or 3
/// channels are asked for. DTypeError unless uint8 or float32, and DeviceError unless on the host,
/// as for all functions here.
Tensor rgb_to_grayscale(const Tensor& image, std::int64_t num_output_channels = 1);
/// factor * image, clipped to the range of its values, in its shape and dtype: 0 is black, 1 the
/// image. ValueError for a factor below 0.
///
///   Tensor brighter = data::adjust_brightness(image, 1.5);
Tensor adjust_brightness(const Tensor& image, double factor);
/// The image mixed with the mean of its gray values: factor * image + (1 - factor) * mean, clipped.
/// 0 is one gray, 1 the image. ValueError for a factor below 0.
Tensor adjust_contrast(const Tensor& image, double factor);
/// The image mixed with its gray image: 0 is gray, 1 the image. ValueError for a factor below 0.
Tensor adjust_saturation(const Tensor& image, double factor);
/// The image mixed with a smoothed one: 0 is smooth, 1 the image, 2 sharper. ValueError for a
/// factor below 0.
Tensor adjust_sharpness(const Tensor& image, double factor);
/// Turns the hue by `factor` of the circle. ValueError unless it is in [-0.5, 0.5].
Tensor adjust_hue(const Tensor& image, double factor);
/// Keeps the upper `bits` bits of uint8 values, and of others the multiples of 1 / 2^bits below 1.
/// ValueError unless bits is 0 to 8.
Tensor posterize(const Tensor& image, int bits);
/// Inverts the values that are not below `threshold`.
Tensor solarize(const Tensor& image, double threshold);
/// Stretches each channel's values over the whole range.
Tensor autocontrast(const Tensor& image);
/// Makes each channel's histogram flat: that of its values as uint8.
Tensor equalize(const Tensor& image);
/// The image convolved with a Gaussian kernel of `kernel_size` x `kernel_size`, with its border
/// reflected. ValueError for sizes that are even or below 1 and sigmas that are not above 0;
/// ShapeError for images that are not larger than half of the kernel.
Tensor gaussian_blur(const Tensor& image, std::int64_t kernel_size, double sigma);

// ---- Transforms
/// Gray images of coloured ones, by the weights of ITU-R 601.
class Grayscale : public TransformBase {
 public:
  /// ValueError unless 1 or 3 channels.
  explicit Grayscale(std::int64_t num_output_channels = 1);
  Tensor apply(const Tensor& image, Generator& random) const override;

 private:
  std::int64_t channels_;
};

/// Grey, with as many channels as before, with probability `p`.
class RandomGrayscale : public TransformBase {
 public:
  explicit RandomGrayscale(double p = 0.1);
  Tensor apply(const Tensor& image, Generator& random) const override;

 private:
  double p_;
};

/// Factors are uniform in max(0, 1 - x) to 1 + x, and for the hue in -x to x.
struct ColorJitterOptions {
  /// By how much the brightness changes at random: by a factor from 1 - x to 1 + x.
  double brightness = 0;
  /// By how much the contrast changes at random: by a factor from 1 - x to 1 + x.
  double contrast = 0;
  /// By how much the saturation changes at random: by a factor from 1 - x to 1 + x.
  double saturation = 0;
  /// By how much the hue changes at random: from -x to x, as a part of the circle; at most 0.5.
  double hue = 0;
};

/// Changes those that are not 0, in a random order. ValueError for values below 0 and a hue above
/// 0.5.
class ColorJitter : public TransformBase {
 public:
  explicit ColorJitter(const ColorJitterOptions& options);
  explicit ColorJitter(double brightness, double contrast = 0, double saturation = 0,
                       double hue = 0)
      : ColorJitter(ColorJitterOptions{brightness, contrast, saturation, hue}) {}
  Tensor apply(const Tensor& image, Generator& random) const override;

 private:
  ColorJitterOptions options_;
};

/// gaussian_blur() with a sigma from the range.
class GaussianBlur : public TransformBase {
 public:
  explicit GaussianBlur(std::int64_t kernel_size, std::array<double, 2> sigma = {0.1, 2});
  Tensor apply(const Tensor& image, Generator& random) const override;

 private:
  std::int64_t kernel_size_;
  std::array<double, 2> sigma_;
};

}  // namespace ferrite::data
