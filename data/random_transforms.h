// More image transforms of torchvision's: flips and affine maps, and transforms made of others.
// They change masks, boxes and points alike, as those of data/transforms.h do.
#pragma once

#include <array>
#include <vector>

#include "ferrite/data/transforms.h"

namespace ferrite::data {

/// Flips top to bottom with probability `p`.
class RandomVerticalFlip : public GeometricTransform {
 public:
  explicit RandomVerticalFlip(double p = 0.5);

 private:
  std::string_view op() const override { return "random_vertical_flip"; }
  Warp draw(std::int64_t height, std::int64_t width, Generator& random) const override;

  double p_;
};

/// Adds pixels around the image, of the value `fill` or by a mode: everywhere as many, or {left and
/// right, top and bottom}, or {left, top, right, bottom}, where negative numbers crop. A mode holds
/// for masks too; boxes and points stay at their pixels. ShapeError if nothing is left, and if more
/// pixels are reflected than there are.
class Pad : public GeometricTransform {
 public:
  explicit Pad(std::int64_t padding, double fill = 0)
      : padding_{padding, padding, padding, padding}, fill_(fill) {}
  template <std::size_t N>
  requires(N == 2 || N == 4) explicit Pad(const std::int64_t (&padding)[N], double fill = 0)
      : padding_{padding[0], padding[1], padding[N - 2], padding[N - 1]}, fill_(fill) {}
  Pad(std::int64_t padding, PaddingMode mode) : Pad(padding) { mode_ = mode; }
  template <std::size_t N>
  requires(N == 2 || N == 4) Pad(const std::int64_t (&padding)[N], PaddingMode mode)
      : Pad(padding) {
    mode_ = mode;
  }

 private:
  std::string_view op() const override { return "pad"; }
  Warp draw(std::int64_t height, std::int64_t width, Generator& random) const override;

  std::array<std::int64_t, 4> padding_;
  double fill_ = 0;
  PaddingMode mode_ = PaddingMode::constant;
};

struct RandomAffineOptions {
  std::array<double, 2> translate = {0, 0};    ///< at most these fractions of width and height
  std::array<double, 2> scale = {1, 1};        ///< from, to
  std::array<double, 4> shear = {0, 0, 0, 0};  ///< degrees: x from, to, y from, to
  bool nearest = true;  ///< the nearest pixel, torchvision's default; else bilinear
  double fill = 0;
};

/// Turns by an angle from -degrees to degrees, translates by whole pixels, scales and shears, about
/// the centre. ValueError for fractions outside 0..1 and scales that are not above 0.
class RandomAffine : public GeometricTransform {
 public:
  explicit RandomAffine(double degrees, const RandomAffineOptions& options = {});

 private:
  std::string_view op() const override { return "random_affine"; }
  Warp draw(std::int64_t height, std::int64_t width, Generator& random) const override;

  double degrees_;
  RandomAffineOptions options_;
};

/// A transform that runs others, on images and on what belongs to them.
class TransformOfTransforms : public TransformBase {
 public:
  Tensor apply(const Tensor& image, Generator& random) const override;
  Annotated apply_all(const Annotated& sample, Generator& random) const override;

 protected:
  explicit TransformOfTransforms(std::vector<Transform> transforms)
      : transforms_(std::move(transforms)) {}
  /// The numbers of the transforms to run, in order.
  virtual std::vector<std::size_t> choose(Generator& random) const = 0;

  std::vector<Transform> transforms_;
};

/// All of them, with probability `p`; else none.
class RandomApply : public TransformOfTransforms {
 public:
  explicit RandomApply(std::vector<Transform> transforms, double p = 0.5);

 private:
  std::vector<std::size_t> choose(Generator& random) const override;
  double p_;
};

/// One of them, with equal probabilities or with those given (which need not sum to 1). ValueError
/// for no transforms, another number of probabilities, or probabilities below 0.
class RandomChoice : public TransformOfTransforms {
 public:
  explicit RandomChoice(std::vector<Transform> transforms, std::vector<double> p = {});

 private:
  std::vector<std::size_t> choose(Generator& random) const override;
  std::vector<double> p_;
};

/// All of them, in a random order.
class RandomOrder : public TransformOfTransforms {
 public:
  explicit RandomOrder(std::vector<Transform> transforms)
      : TransformOfTransforms(std::move(transforms)) {}

 private:
  std::vector<std::size_t> choose(Generator& random) const override;
};

/// A function of an image as a transform, which lambdas are without it.
template <class F>
Transform Lambda(F f) {
  return Transform(std::move(f));
}

/// To float32 in [0, 1], or to uint8. DTypeError for other types.
class ConvertImageDtype : public TransformBase {
 public:
  explicit ConvertImageDtype(DType dtype = kFloat32);
  Tensor apply(const Tensor& image, Generator& random) const override;
  bool pointwise() const override { return dtype_ == kFloat32; }

 private:
  DType dtype_;
};

}  // namespace ferrite::data
