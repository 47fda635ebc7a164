#include "ferrite/kernels/augment.h"

#include <algorithm>
#include <cmath>

#include "ferrite/core/parallel_for.h"

namespace ferrite::kernels::cpu {

namespace {

constexpr std::int64_t kGrain = 16384;  // elements

/// One row of one channel: `inside` of it, from `first` on, is read, the rest is zeros.
struct Row {
  std::int64_t width, first, inside;
  float scale, shift;
};

template <class Out, class In>
void augment_row(Out* out, std::int64_t out_step, const In* in, std::int64_t in_step,
                 const Row& row) {
  const Out zero = Out(std::fma(0.F, row.scale, row.shift));
  for (std::int64_t j = 0; j < row.first; ++j) out[j * out_step] = zero;
  for (std::int64_t j = row.first + row.inside; j < row.width; ++j) out[j * out_step] = zero;
  out += row.first * out_step;
  for (std::int64_t j = 0; j < row.inside; ++j)
    out[j * out_step] = Out(std::fma(static_cast<float>(in[j * in_step]), row.scale, row.shift));
}

template <class Out, class In>
void augment_images(const View& out, const View& images, const AugmentArgs& args,
                    PhiloxState state) {
  const std::int64_t channels = out.sizes[1], height = out.sizes[2], width = out.sizes[3];
  const std::int64_t image_height = images.sizes[2], image_width = images.sizes[3];
  const std::int64_t tops = image_height + 2 * args.padding - height + 1,
                     lefts = image_width + 2 * args.padding - width + 1;
  const std::int64_t rows = out.numel / width;
  parallel_for(
      rows, std::max<std::int64_t>(1, kGrain / width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const std::int64_t i = r % height, c = r / height % channels, n = r / height / channels;
          const ImageWindow window = image_window(state, n, tops, lefts, args.random, args.flip);
          const std::int64_t y = window.top + i - args.padding;
          Row row{width, 0, 0, args.scale[c], args.shift[c]};
          // Position j reads column `start` + j, or - j.
          const std::int64_t step = window.mirrored ? -1 : 1;
          const std::int64_t start = window.left - args.padding + (window.mirrored ? width - 1 : 0);
          if (y >= 0 && y < image_height) {
            const std::int64_t from = window.mirrored ? start - (image_width - 1) : -start;
            const std::int64_t to = window.mirrored ? start : image_width - 1 - start;
            row.first = std::clamp<std::int64_t>(from, 0, width);
            row.inside = std::clamp<std::int64_t>(to + 1, row.first, width) - row.first;
          }
          const In* in = images.as<In>();
          if (row.inside > 0)
            in += n * images.strides[0] + c * images.strides[1] + y * images.strides[2] +
                  (start + step * row.first) * images.strides[3];
          augment_row(out.as<Out>() + n * out.strides[0] + c * out.strides[1] + i * out.strides[2],
                      out.strides[3], in, step * images.strides[3], row);
        }
      });
}

}  // namespace

void augment(const View& out, const View& images, const AugmentArgs& args, PhiloxState state) {
  if (out.numel == 0) return;
  dispatch_types<float, Half, BFloat16>(out.dtype, "augment", [&]<class Out>() {
    dispatch_types<std::uint8_t, float>(images.dtype, "augment", [&]<class In>() {
      augment_images<Out, In>(out, images, args, state);
    });
  });
}

}  // namespace ferrite::kernels::cpu
