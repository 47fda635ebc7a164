#include "ferrite/kernels/cpu/conv/planes.h"
#include "ferrite/kernels/cpu/conv/winograd/winograd.h"

namespace ferrite::kernels::cpu::winograd {

namespace {

/// Cycles for one vector of channels: of a tile into the points, of a tile out of them, and of a
/// filter into them (with the way there), for F(2 x 2) and F(4 x 4).
struct Transforms {
  std::int64_t in, out, filter;
};
constexpr Transforms kTransforms2{120, 90, 120}, kTransforms4{300, 200, 250};

/// Calls of the inner kernel that are short, and everything that is once a call.
constexpr std::int64_t kMicroCall = 40, kCall = 20000;

/// Images that share the work on a filter. Not those of the call: what an image becomes must not
/// depend on how many come with it.
constexpr std::int64_t kImages = 32;

template <class T>
std::int64_t cycles(const Problem<T>& p, int m) {
  const Transforms& each = m == 2 ? kTransforms2 : kTransforms4;
  const auto ceil = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t points = (m + 2) * (m + 2);
  const std::int64_t tiles = kImages * ceil(p.out.height, m) * ceil(p.out.width, m);
  const std::int64_t ins = p.in.channels, outs = ceil(p.out.channels, kLanes<T>);
  const std::int64_t products = points * tiles * ins * outs;
  const std::int64_t calls = points * ceil(tiles, 14) * ceil(outs, 2);
  const std::int64_t transforms =
      tiles * (each.in * ceil(ins, kLanes<T>) + each.out * outs) + each.filter * ins * outs;
  return (products + products / 16 + calls * kMicroCall + transforms + kCall) / kImages;
}

}  // namespace

bool fits(const View& weight, const ConvParams& p) {
  return weight.sizes[2] == 3 && weight.sizes[3] == 3 && p.stride[0] == 1 && p.stride[1] == 1 &&
         p.dilation[0] == 1 && p.dilation[1] == 1;
}

template <class T>
Plan plan(const Problem<T>& p) {
  const Plan two{2, cycles(p, 2)}, four{4, cycles(p, 4)};
  switch (conv_algorithm()) {
    case ConvAlgorithm::winograd_2x2:
      return two;
    case ConvAlgorithm::winograd_4x4:
      return four;
    default:
      return 9 * p.in.channels < kProductsFor4 || two.cycles < four.cycles ? two : four;
  }
}

template <class T>
bool pays(const Problem<T>& p, std::int64_t by_pixels, std::int64_t by_planes) {
  if (conv_algorithm() == ConvAlgorithm::direct || p.in.channels == 0) return false;
  if (conv_algorithm() != ConvAlgorithm::automatic) return true;
  const bool copied = p.in.channel_step != 1 || p.out.channel_step != 1;
  const std::int64_t layout = copied ? planes::cost_of_layout(p.in, p.out) : 0;
  return plan(p).cycles + layout < std::min(by_pixels + layout, by_planes);
}

template Plan plan(const Problem<float>&);
template Plan plan(const Problem<double>&);
template bool pays(const Problem<float>&, std::int64_t, std::int64_t);
template bool pays(const Problem<double>&, std::int64_t, std::int64_t);

}  // namespace ferrite::kernels::cpu::winograd
