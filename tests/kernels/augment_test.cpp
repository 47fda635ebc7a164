#include "ferrite/kernels/augment.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/ops/creation.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using kernels::AugmentArgs;
using kernels::ImageWindow;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;
using kit::Side;

namespace {

/// The reference, pixel by pixel. Fused as the header says, so that float32 has the same bits.
std::vector<double> augmented(const std::vector<double>& x, const Shape& in, const Shape& out,
                              const AugmentArgs& args, PhiloxState state) {
  std::vector<double> result;
  for (std::int64_t n = 0; n < out[0]; ++n) {
    const ImageWindow window =
        kernels::image_window(state, n, in[2] + 2 * args.padding - out[2] + 1,
                              in[3] + 2 * args.padding - out[3] + 1, args.random, args.flip);
    for (std::int64_t c = 0; c < out[1]; ++c)
      for (std::int64_t i = 0; i < out[2]; ++i)
        for (std::int64_t j = 0; j < out[3]; ++j) {
          const std::int64_t row = window.top + i - args.padding,
                             column = window.left + (window.mirrored ? out[3] - 1 - j : j) -
                                      args.padding;
          const bool inside = row >= 0 && row < in[2] && column >= 0 && column < in[3];
          const double value =
              inside ? x[static_cast<std::size_t>(((n * in[1] + c) * in[2] + row) * in[3] + column)]
                     : 0;
          result.push_back(std::fma(static_cast<float>(value), args.scale[c], args.shift[c]));
        }
  }
  return result;
}

}  // namespace

TEST_CASE("images are cropped, mirrored and normalized in every layout and type") {
  kit::for_each_case("augment", 120, [](KernelCase& c) {
    const DType from = c.pick({kUInt8, kFloat32}), to = c.pick({kFloat32, kFloat16, kBFloat16});
    AugmentArgs args{.padding = c.integer(0, 3),
                     .random = c.integer(0, 3) > 0,
                     .flip = c.pick({0.F, 0.5F, 1.F})};
    for (int i = 0; i < kernels::kMaxImageChannels; ++i) {
      args.scale[i] = static_cast<float>(0.5 + c.random().next_double());
      args.shift[i] = static_cast<float>(c.random().next_double() - 0.5);
    }
    const Shape in{c.integer(0, 5), c.pick({1, 3, 4, 32}), c.integer(1, 12), c.integer(1, 16)};
    const Shape out{in[0], in[1], c.integer(1, in[2] + 2 * args.padding),
                    c.coin() ? in[3] : c.integer(1, in[3] + 2 * args.padding)};
    const PhiloxState state{c.random().next_u64(), static_cast<std::uint64_t>(c.integer(0, 99))};
    const Operand x =
        c.input(in, from, {.layout = Layout::any, .high = from == kUInt8 ? 255. : 2.});
    const Operand y =
        c.output(out, to, {.layout = c.pick({Layout::contiguous, Layout::channels_last})});
    c.run([&](const Stream& stream,
              const Side& at) { kernels::augment(stream, at(y), at(x), args, state); },
          [](const Stream&, const Side&) {});
    c.check_values(
        y, augmented(c.result(x).to_vector<double>(), in, out, args, state),
        {.rtol = to == kFloat32 ? 0 : test::rounding_of(to), .atol = to == kFloat32 ? 0 : 1e-7});
  });
}

TEST_CASE("windows are spread evenly, and depend on the image alone") {
  const PhiloxState state{7, 100};
  std::vector<int> tops(5), lefts(3);
  int mirrored = 0;
  bool agree = true;
  for (std::int64_t i = 0; i < 6000; ++i) {
    const ImageWindow w = kernels::image_window(state, i, 5, 3, true, 0.25F);
    ++tops.at(static_cast<std::size_t>(w.top));
    ++lefts.at(static_cast<std::size_t>(w.left));
    mirrored += w.mirrored;
    const ImageWindow same = kernels::image_window({7, 101}, i - 1, 5, 3, true, 0.25F);
    agree = agree &&
            (i == 0 || (same.top == w.top && same.left == w.left && same.mirrored == w.mirrored));
  }
  CHECK(agree);
  for (int n : tops) CHECK(std::abs(n - 1200) < 150);  // five deviations
  for (int n : lefts) CHECK(std::abs(n - 2000) < 185);
  CHECK(std::abs(mirrored - 1500) < 170);
  const ImageWindow middle = kernels::image_window(state, 3, 5, 4, false, 1);
  CHECK(middle.top == 2);
  CHECK(middle.left == 2);
  CHECK(!middle.mirrored);
}
