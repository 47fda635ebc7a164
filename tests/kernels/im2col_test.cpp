#include "ferrite/kernels/im2col.h"

#include <doctest/doctest.h>

#include "ferrite/tests/kit/doctest_context.h"
#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kernels::ConvParams;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;

namespace {

struct Problem {
  Shape image, columns;
  ConvParams p;
};

Problem draw(KernelCase& c) {
  Problem k;
  k.image = {c.integer(1, 3), c.integer(1, 5), 0, 0};
  k.columns = {k.image[0], k.image[1], c.integer(1, 3), c.integer(1, 4), 0, 0};
  for (int i = 0; i < 2; ++i) {
    const auto at = static_cast<std::size_t>(i);
    k.p.stride[at] = c.integer(1, 3);
    k.p.padding[at] = c.integer(0, 2);
    k.p.dilation[at] = c.integer(1, 2);
    const std::int64_t reach = k.p.dilation[at] * (k.columns[2 + i] - 1) + 1;
    k.image[2 + i] = std::max<std::int64_t>(1, reach - 2 * k.p.padding[at]) + c.integer(0, 12);
    k.columns[4 + i] = (k.image[2 + i] + 2 * k.p.padding[at] - reach) / k.p.stride[at] + 1;
  }
  return k;
}

/// Calls f(index into columns, index into the image or -1), both row-major.
template <class F>
void for_each_element(const Problem& k, F f) {
  const Shape &s = k.columns, &im = k.image;
  std::size_t at = 0;
  for (std::int64_t nc = 0; nc < s[0] * s[1]; ++nc)
    for (std::int64_t i = 0; i < s[2]; ++i)
      for (std::int64_t j = 0; j < s[3]; ++j)
        for (std::int64_t y = 0; y < s[4]; ++y)
          for (std::int64_t x = 0; x < s[5]; ++x) {
            const std::int64_t py = y * k.p.stride[0] - k.p.padding[0] + i * k.p.dilation[0];
            const std::int64_t px = x * k.p.stride[1] - k.p.padding[1] + j * k.p.dilation[1];
            const bool inside = py >= 0 && py < im[2] && px >= 0 && px < im[3];
            f(at++, inside ? (nc * im[2] + py) * im[3] + px : -1);
          }
}

const auto kNothing = [](const Stream&, const kit::Side&) {};

}  // namespace

TEST_CASE("columns of images of every dtype and layout") {
  kit::for_each_case("im2col", 80, [](KernelCase& c) {
    const Problem k = draw(c);
    const DType dtype =
        c.pick({kFloat32, kFloat16, kFloat64, kInt64, kInt16, kInt8, kUInt8, kBool});
    const Operand image = c.input(k.image, dtype, {.layout = Layout::any});
    const Operand columns =
        c.output(k.columns, dtype, {.layout = c.coin() ? Layout::contiguous : Layout::any});
    c.run([&](const Stream& stream,
              const kit::Side& at) { kernels::im2col(stream, at(columns), at(image), k.p); },
          kNothing);
    const std::vector<double> from = c.expected(image).to_vector<double>();
    std::vector<double> expected(static_cast<std::size_t>(k.columns.numel()));
    for_each_element(k, [&](std::size_t at, std::int64_t pixel) {
      expected[at] = pixel < 0 ? 0 : from[static_cast<std::size_t>(pixel)];
    });
    c.check_values(columns, expected, {.rtol = 0});
  });
}

TEST_CASE("images from columns of every floating dtype and layout") {
  kit::for_each_case("col2im", 80, [](KernelCase& c) {
    const Problem k = draw(c);
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const Operand columns = c.input(k.columns, dtype, {.layout = Layout::any});
    const Operand image = c.output(k.image, dtype, {.layout = Layout::any});
    c.run([&](const Stream& stream,
              const kit::Side& at) { kernels::col2im(stream, at(image), at(columns), k.p); },
          kNothing);
    const std::vector<double> from = c.expected(columns).to_vector<double>();
    std::vector<double> expected(static_cast<std::size_t>(k.image.numel()), 0.0);
    for_each_element(k, [&](std::size_t at, std::int64_t pixel) {
      if (pixel >= 0) expected[static_cast<std::size_t>(pixel)] += from[at];
    });
    // Up to 12 terms of magnitude 2, each rounded in float (double).
    c.check_values(image, expected, {.atol = dtype == kFloat64 ? 1e-14 : 6e-6});
  });
}

TEST_CASE("columns of no images, and images that no column reaches") {
  kit::for_each_case("empty columns", 4, [](KernelCase& c) {
    ConvParams p;
    const Operand none = c.input({0, 3, 5, 5}, kFloat32);
    const Operand no_columns = c.output({0, 3, 2, 2, 4, 4}, kFloat32);
    const Operand columns = c.input({2, 1, 2, 2, 0, 3}, kFloat32);
    const Operand image = c.output({2, 1, 4, 4}, kFloat32);
    c.run(
        [&](const Stream& stream, const kit::Side& at) {
          kernels::im2col(stream, at(no_columns), at(none), p);
          kernels::col2im(stream, at(image), at(columns), p);
        },
        kNothing);
    c.check_values(image, std::vector<double>(32, 0.0));
  });
}
