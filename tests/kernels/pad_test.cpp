#include "ferrite/kernels/pad.h"

#include <doctest/doctest.h>

#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using kernels::PadMode;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;
using kit::Side;

namespace {

struct Padding {
  Shape x, out, before;
  PadMode mode;
};

/// Valid sizes and amounts for the mode.
Padding draw_padding(KernelCase& c) {
  Padding p;
  p.mode = c.pick({PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular});
  p.x = c.shape(5, 1500);
  const bool constant = p.mode == PadMode::constant;
  for (std::int64_t& n : p.x)
    if (!constant) n = std::max<std::int64_t>(n, 1);
  p.out = p.before = p.x;
  for (int d = 0; d < p.x.size(); ++d) {
    const std::int64_t n = p.x[d];
    std::int64_t most = 4, least = 0;
    if (p.mode == PadMode::reflect) most = std::min<std::int64_t>(4, n - 1);
    if (p.mode == PadMode::circular) most = std::min<std::int64_t>(4, n);
    if (constant) least = -std::min<std::int64_t>(3, n / 2);
    if (c.coin()) most = least = 0;
    p.before[d] = c.integer(least, most);
    p.out[d] = n + p.before[d] + c.integer(least, most);
  }
  return p;
}

/// The specification in the headers, element by element.
std::vector<double> padded(const std::vector<double>& x, const Padding& p, double value) {
  std::vector<double> out;
  const std::int64_t numel = p.out.numel();
  for (std::int64_t e = 0; e < numel; ++e) {
    std::int64_t rest = e, from = 0, step = 1;
    bool inside = true;
    for (int d = p.x.size() - 1; d >= 0; --d) {
      const std::int64_t n = p.x[d], at = rest % p.out[d] - p.before[d];
      rest /= p.out[d];
      std::int64_t source = at;
      if (p.mode == PadMode::replicate) source = std::clamp<std::int64_t>(at, 0, n - 1);
      if (p.mode == PadMode::circular) source = (at % n + n) % n;
      if (p.mode == PadMode::reflect) source = n - 1 - std::abs(n - 1 - std::abs(at));
      inside = inside && source >= 0 && source < n;
      from += source * step;
      step *= n;
    }
    out.push_back(inside ? x[static_cast<std::size_t>(from)] : value);
  }
  return out;
}

}  // namespace

TEST_CASE("padding and cropping in every mode, layout and dtype") {
  kit::for_each_case("pad", 150, [](KernelCase& c) {
    const DType dtype = c.pick(
        {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool});
    const Padding p = draw_padding(c);
    const Operand x = c.input(p.x, dtype, {.layout = Layout::any});
    const Operand out = c.output(p.out, dtype, {.layout = Layout::any});
    c.run([&](const Stream& stream, const Side& at) {
      kernels::pad(stream, at(out), at(x), p.before, p.mode, 1);
    });
    c.check_values(out, padded(c.result(x).to_vector<double>(), p, 1), {.rtol = 0});
  });
}

TEST_CASE("images are padded in wide words, channels last") {
  kit::for_each_case("pad images", 40, [](KernelCase& c) {
    Padding p;
    p.mode = c.pick({PadMode::constant, PadMode::reflect});
    p.x = {c.integer(1, 2), c.pick({4, 8, 3, 16}), 9, c.pick({8, 10})};
    p.before = {0, 0, 2, 1};
    p.out = {p.x[0], p.x[1], 13, p.x[3] + 2};
    const Layout layout = c.pick({Layout::channels_last, Layout::contiguous});
    const DType dtype = c.pick({kFloat32, kFloat16, kUInt8, kFloat64});
    const Operand x = c.input(p.x, dtype, {.layout = layout, .misalignment = 0});
    const Operand out = c.output(p.out, dtype, {.layout = layout, .misalignment = 0});
    c.run([&](const Stream& stream, const Side& at) {
      kernels::pad(stream, at(out), at(x), p.before, p.mode, 2);
    });
    c.check_values(out, padded(c.result(x).to_vector<double>(), p, 2), {.rtol = 0});
  });
}

TEST_CASE("the gradient of padding adds gradients of repeated reads") {
  kit::for_each_case("pad_backward", 80, [](KernelCase& c) {
    Padding p;
    while (p.x.size() == 0 || p.mode == PadMode::constant) p = draw_padding(c);
    const int dim = static_cast<int>(c.integer(0, p.x.size() - 1));
    const Shape shape = [&] {
      Shape s = p.x;
      s[dim] = p.out[dim];
      return s;
    }();
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const Operand grad = c.input(shape, dtype, {.layout = Layout::any});
    const Operand grad_x = c.output(p.x, dtype, {.layout = Layout::any});
    c.run([&](const Stream& stream, const Side& at) {
      kernels::pad_backward(stream, at(grad_x), at(grad), dim, p.before[dim], p.mode);
    });
    // Padding the element numbers shows which element each gradient belongs to.
    Padding along = p;
    along.out = shape;
    for (int d = 0; d < p.x.size(); ++d)
      if (d != dim) along.before[d] = 0;
    std::vector<double> numbers(static_cast<std::size_t>(p.x.numel())), sums(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
    const std::vector<double> readers = padded(numbers, along, 0),
                              g = c.result(grad).to_vector<double>();
    for (std::size_t i = 0; i < g.size(); ++i) sums[static_cast<std::size_t>(readers[i])] += g[i];
    // Up to 5 terms of either sign, of at most 2.
    c.check_values(grad_x, sums, {.atol = dtype == kFloat64 ? 1e-14 : 1e-6});
  });
}
