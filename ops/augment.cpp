#include "ferrite/ops/augment.h"

#include "ferrite/core/profiler/range.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/augment.h"

namespace ferrite {

namespace {

/// The images as [N, C, H, W].
Tensor planes(const Tensor& images, ImageLayout layout) {
  FERRITE_CHECK(images.defined() && images.dim() == 4, ShapeError, "augment",
                "expected images of 4 dimensions, got {}", images.describe());
  FERRITE_CHECK(images.dtype() == kUInt8 || images.dtype() == kFloat32, DTypeError, "augment",
                "expected images of uint8 or float32, got {}", images.describe());
  if (layout == ImageLayout::nchw) return images;
  return geometry::apply(images, geometry::permute(images, {0, 3, 1, 2}));
}

/// The value for channel `c` from a list with one per channel, one for all, or none.
double of_channel(const std::vector<double>& list, std::int64_t c, double otherwise) {
  if (list.empty()) return otherwise;
  return list.size() == 1 ? list[0] : list[static_cast<std::size_t>(c)];
}

void set_normalization(kernels::AugmentArgs& args, const AugmentOptions& options,
                       const Tensor& images) {
  const std::int64_t channels = images.shape()[1];
  for (const auto* list : {&options.mean, &options.std})
    FERRITE_CHECK(list->size() <= 1 || static_cast<std::int64_t>(list->size()) == channels,
                  ValueError, "augment", "{} means or deviations for {} channels", list->size(),
                  channels);
  for (double deviation : options.std)
    FERRITE_CHECK(deviation > 0, ValueError, "augment", "expected deviations above 0, got {}",
                  deviation);
  const double full = images.dtype() == kUInt8 ? 255 : 1;
  for (std::int64_t c = 0; c < channels; ++c) {
    const double mean = of_channel(options.mean, c, 0), deviation = of_channel(options.std, c, 1);
    args.scale[c] = static_cast<float>(1 / (full * deviation));
    args.shift[c] = static_cast<float>(-mean / deviation);
  }
}

}  // namespace

Tensor augment(const Tensor& images, const AugmentOptions& options, bool training,
               Generator* generator) {
  const profiler::OpRange range("augment", images);
  const Tensor x = planes(images, options.layout);
  FERRITE_CHECK(x.shape()[1] <= kernels::kMaxImageChannels, ShapeError, "augment",
                "images have {} channels, at most {} are possible", x.shape()[1],
                kernels::kMaxImageChannels);
  constexpr std::int64_t kMost = std::int64_t{1} << 24;  // pixels per side, so that products fit
  FERRITE_CHECK(options.padding >= 0 && options.padding <= kMost, ValueError, "augment",
                "expected a padding of 0 to {}, got {}", kMost, options.padding);
  FERRITE_CHECK(options.flip >= 0 && options.flip <= 1, ValueError, "augment",
                "expected a probability in [0, 1], got {}", options.flip);
  const std::int64_t height = options.height ? options.height : x.shape()[2],
                     width = options.width ? options.width : x.shape()[3];
  const auto fits = [&](std::int64_t window, std::int64_t size) {
    return window >= 0 && size <= kMost && window <= size + 2 * options.padding;
  };
  FERRITE_CHECK(fits(height, x.shape()[2]) && fits(width, x.shape()[3]) &&
                    x.shape()[1] * height * width <= INT32_MAX,
                ShapeError, "augment",
                "a window of {} x {} does not fit images of {} x {} with a padding of {}", height,
                width, x.shape()[2], x.shape()[3], options.padding);
  FERRITE_CHECK(
      options.dtype == kFloat32 || options.dtype == kFloat16 || options.dtype == kBFloat16,
      DTypeError, "augment", "expected a result of float32, float16 or bfloat16, got {}",
      options.dtype);
  kernels::AugmentArgs args{
      .padding = options.padding, .random = training, .flip = static_cast<float>(options.flip)};
  set_normalization(args, options, x);
  PhiloxState state;
  if (training) {
    Generator& g = generator ? *generator : default_generator(x.device());
    state = g.reserve(static_cast<std::uint64_t>(x.shape()[0]), current_stream(x.device()));
  }
  Tensor out =
      empty({x.shape()[0], x.shape()[1], height, width},
            {.dtype = options.dtype, .device = x.device(), .memory_format = options.memory_format});
  kernels::augment(current_stream(x.device()), out, x, args, state);
  return out;
}

}  // namespace ferrite
