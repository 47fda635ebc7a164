// Image transforms, as in torchvision, on one image [C, H, W] of uint8 or float32 at a time, or on
// an image together with its mask, boxes and points:
//
//   const data::Transform augment = data::Compose{
//       data::RandomResizedCrop(224), data::RandomHorizontalFlip(), data::ToTensor()};
//   Tensor seen = augment(image, random);
//   data::Annotated all = augment(data::Annotated{image, mask, boxes}, random);
//
// Geometric transforms (crops, flips, scaling, rotation) change all of them alike, with the same
// random numbers; the others change the image only.
//
// A random transform draws from the generator it is given, or from transform_generator(). In a
// loader both depend only on its seed, the epoch and the sample's index: results do not depend on
// the number of workers.
#pragma once

#include <array>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"
#include "ferrite/data/warp.h"

namespace ferrite::data {

/// What a transform draws from if it is called without a generator. Within get() of a data set that
/// a loader reads, the sample's own: results depend on the seed, the epoch and the index, and not
/// on the number of workers. Elsewhere the host's default generator (manual_seed), as PyTorch's
/// transforms.
Generator& transform_generator();

/// The interface of a transform. Called from several threads at once.
class TransformBase {
 public:
  virtual ~TransformBase() = default;
  /// Maps a host image [C, H, W] to another. It must not write to the input, which may be the data
  /// set's own memory, but may return it.
  virtual Tensor apply(const Tensor& image, Generator& random) const = 0;
  /// Whether an output value depends only on its channel and its input value. Runs of such
  /// transforms are turned into a table of 256 values per channel.
  virtual bool pointwise() const { return false; }

  /// Maps an image with what belongs to it; by default the image alone.
  virtual Annotated apply_all(const Annotated& sample, Generator& random) const;

  /// The transformed sample.
  Tensor operator()(const Tensor& image, Generator& random) const { return apply(image, random); }
  Annotated operator()(const Annotated& sample, Generator& random) const {
    return apply_all(sample, random);
  }
  /// With transform_generator().
  Tensor operator()(const Tensor& image) const { return apply(image, transform_generator()); }
  Annotated operator()(const Annotated& sample) const {
    return apply_all(sample, transform_generator());
  }
};

/// A transform that moves pixels. Derived classes say where to.
class GeometricTransform : public TransformBase {
 public:
  Tensor apply(const Tensor& image, Generator& random) const override;
  Annotated apply_all(const Annotated& sample, Generator& random) const override;

 protected:
  /// The name in errors.
  virtual std::string_view op() const = 0;
  /// The change of an image of this size.
  virtual Warp draw(std::int64_t height, std::int64_t width, Generator& random) const = 0;
};

/// Any transform, by value: one of those below, a lambda `Tensor(const Tensor&)`, or
/// `Tensor(const Tensor&, Generator&)`, or one that also takes what belongs to the image,
/// `Annotated(const Annotated&, Generator&)`. Default: leaves the image as it is.
class Transform {
 public:
  Transform() = default;
  template <std::derived_from<TransformBase> T>
  Transform(T transform) : impl_(std::make_shared<const T>(std::move(transform))) {}
  template <class F>
  requires(std::invocable<const F&, const Tensor&> ||
           std::invocable<const F&, const Tensor&, Generator&> ||
           std::invocable<const F&, const Annotated&, Generator&>) &&
      (!std::derived_from<F, TransformBase>)&&(!std::same_as<F, Transform>)Transform(F f)
      : impl_(std::make_shared<const Function<F>>(std::move(f))) {}

  /// The transformed sample.
  Tensor operator()(const Tensor& image, Generator& random) const {
    return impl_ ? impl_->apply(image, random) : image;
  }
  Tensor operator()(const Tensor& image) const { return (*this)(image, transform_generator()); }
  Annotated operator()(const Annotated& sample, Generator& random) const {
    return impl_ ? impl_->apply_all(sample, random) : sample;
  }
  Annotated operator()(const Annotated& sample) const {
    return (*this)(sample, transform_generator());
  }
  /// Whether it treats each value alone.
  bool pointwise() const { return !impl_ || impl_->pointwise(); }
  /// The transforms it is composed of; itself if it is a single one.
  std::vector<Transform> parts() const;

 private:
  template <class F>
  struct Function final : TransformBase {
    explicit Function(F f) : f(std::move(f)) {}
    Tensor apply(const Tensor& image, Generator& random) const override {
      if constexpr (kJoint)
        return f(Annotated{image}, random).image;
      else if constexpr (std::invocable<const F&, const Tensor&, Generator&>)
        return f(image, random);
      else
        return f(image);
    }
    Annotated apply_all(const Annotated& sample, Generator& random) const override {
      if constexpr (kJoint)
        return f(sample, random);
      else
        return TransformBase::apply_all(sample, random);
    }
    static constexpr bool kJoint = !std::invocable<const F&, const Tensor&> &&
                                   !std::invocable<const F&, const Tensor&, Generator&>;
    F f;
  };

  std::shared_ptr<const TransformBase> impl_;
};

/// Applies transforms in sequence.
///
///   data::Compose transform({data::RandomHorizontalFlip(), data::ToTensor()});
class Compose : public TransformBase {
 public:
  Compose(const std::vector<Transform>& transforms);
  Compose(std::initializer_list<Transform> transforms)
      : Compose(std::vector<Transform>(transforms)) {}
  Tensor apply(const Tensor& image, Generator& random) const override;
  Annotated apply_all(const Annotated& sample, Generator& random) const override;
  /// Whether it treats each value alone.
  bool pointwise() const override;
  /// The transforms, in order.
  const std::vector<Transform>& parts() const { return parts_; }

 private:
  std::vector<Transform> parts_;
};

/// uint8 0..255 to float32 [0, 1]; float32 images stay as they are. DTypeError for other types.
class ToTensor : public TransformBase {
 public:
  Tensor apply(const Tensor& image, Generator& random) const override;
  /// Whether it treats each value alone.
  bool pointwise() const override { return true; }
};

/// (value - mean[c]) / std[c] of float32 images; a single value applies to all channels. ValueError
/// for a deviation that is not above 0 or lists of different lengths, ShapeError if the image has
/// another number of channels, DTypeError for uint8 (put ToTensor first).
class Normalize : public TransformBase {
 public:
  Normalize(std::vector<double> mean, std::vector<double> std);
  Normalize(double mean, double std) : Normalize(std::vector{mean}, std::vector{std}) {}
  Tensor apply(const Tensor& image, Generator& random) const override;
  /// Whether it treats each value alone.
  bool pointwise() const override { return true; }

 private:
  std::vector<float> mean_, std_;
};

/// Scales the image to `height` x `width`, or its shorter side to `size` with the other side in
/// proportion, rounded down. Bilinear as in Pillow and torchvision, with antialiasing: when
/// shrinking, the filter covers all source pixels of a result pixel. uint8 images give the same
/// bits as Pillow; float32 ones are not rounded. ValueError for a size below 1.
class Resize : public GeometricTransform {
 public:
  explicit Resize(std::int64_t size);
  Resize(std::int64_t height, std::int64_t width);

 private:
  std::string_view op() const override { return "resize"; }
  Warp draw(std::int64_t height, std::int64_t width, Generator& random) const override;

  std::int64_t height_, width_;  // width_ 0: height_ is that of the shorter side
};

/// The central `size` x `size` (or `height` x `width`) of the image, padded with zeros if the image
/// is smaller.
class CenterCrop : public GeometricTransform {
 public:
  explicit CenterCrop(std::int64_t size) : CenterCrop(size, size) {}
  CenterCrop(std::int64_t height, std::int64_t width);

 private:
  std::string_view op() const override { return "center_crop"; }
  Warp draw(std::int64_t height, std::int64_t width, Generator& random) const override;

  std::int64_t height_, width_;
};

struct RandomResizedCropOptions {
  std::array<double, 2> scale = {0.08, 1};         ///< fraction of the area
  std::array<double, 2> ratio = {3. / 4, 4. / 3};  ///< width / height, log-uniform
};

/// A random part of the image, scaled to `size` x `size` (or `height` x `width`) like Resize
/// (Szegedy et al., "Going Deeper with Convolutions", 2014). If ten tries give none inside the
/// image, the largest central part of an allowed ratio.
class RandomResizedCrop : public GeometricTransform {
 public:
  explicit RandomResizedCrop(std::int64_t size, const RandomResizedCropOptions& options = {})
      : RandomResizedCrop(size, size, options) {}
  RandomResizedCrop(std::int64_t height, std::int64_t width,
                    const RandomResizedCropOptions& options = {});

 private:
  std::string_view op() const override { return "random_resized_crop"; }
  Warp draw(std::int64_t height, std::int64_t width, Generator& random) const override;

  std::int64_t height_, width_;
  RandomResizedCropOptions options_;
};

/// A random window of `size` x `size` (or `height` x `width`) of the image with `padding` zeros
/// around it. ShapeError if the padded image is smaller than the window.
class RandomCrop : public GeometricTransform {
 public:
  explicit RandomCrop(std::int64_t size, std::int64_t padding = 0)
      : RandomCrop(size, size, padding) {}
  RandomCrop(std::int64_t height, std::int64_t width, std::int64_t padding);

 private:
  std::string_view op() const override { return "random_crop"; }
  Warp draw(std::int64_t height, std::int64_t width, Generator& random) const override;

  std::int64_t height_, width_, padding_;
};

/// Flips horizontally with probability `p`.
class RandomHorizontalFlip : public GeometricTransform {
 public:
  explicit RandomHorizontalFlip(double p = 0.5);

 private:
  std::string_view op() const override { return "random_horizontal_flip"; }
  Warp draw(std::int64_t height, std::int64_t width, Generator& random) const override;

  double p_;
};

/// Rotates the image about its centre by a uniform angle in -degrees..degrees (counter-clockwise is
/// positive), or low..high; bilinear (torchvision's default is the nearest pixel), zeros outside,
/// same size.
class RandomRotation : public GeometricTransform {
 public:
  explicit RandomRotation(double degrees);
  RandomRotation(double low, double high);

 private:
  std::string_view op() const override { return "random_rotation"; }
  Warp draw(std::int64_t height, std::int64_t width, Generator& random) const override;

  double low_, high_;
};

struct RandomErasingOptions {
  double p = 0.5;                              ///< the probability
  std::array<double, 2> scale = {0.02, 0.33};  ///< erased fraction of the area
  std::array<double, 2> ratio = {0.3, 3.3};    ///< height / width, log-uniform
  double value = 0;                            ///< clipped to 0..255 in uint8 images
};

/// With probability p sets a random rectangle to a value (Zhong et al., "Random Erasing Data
/// Augmentation", 2017).
class RandomErasing : public TransformBase {
 public:
  explicit RandomErasing(const RandomErasingOptions& options = {});
  Tensor apply(const Tensor& image, Generator& random) const override;

 private:
  RandomErasingOptions options_;
};

}  // namespace ferrite::data
