#include "ferrite/kernels/cpu/conv/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "ferrite/kernels/cpu/conv/copies.h"
#include "ferrite/kernels/cpu/conv/image.h"
#include "ferrite/kernels/cpu/conv/product.h"
#include "ferrite/kernels/cpu/conv/winograd/weight_gradient.h"

namespace ferrite::kernels::cpu {

namespace {

constexpr const char* kNames[] = {"depthwise",    "sparse",       "product",      "pairs",
                                  "float_copies", "pixel_copies", "direct",       "weight_blocks",
                                  "columns",      "planes",       "winograd_2x2", "winograd_4x4"};

/// Cycles for one vector of channels: of a tile into the points of Winograd's algorithm, of a tile
/// out of them, and of a filter into them (with the way there), by the tile's results and the taps.
struct Transforms {
  std::int64_t in, out, filter;
};
constexpr Transforms transforms_of(int results, int taps) {
  if (taps == 5) return {300, 130, 400};
  return results == 2 ? Transforms{120, 90, 120} : Transforms{300, 200, 250};
}
/// Calls of the inner kernel that are short, and everything that is once a call.
constexpr std::int64_t kMicroCall = 40, kCall = 20000;
/// Images that share the work on a filter. Not those of the call.
constexpr std::int64_t kImages = 32;
/// Products of a direct sum from which on tiles of six points a side are chosen: their maps round
/// more than those of four, which sums of so many hide (docs/cpu.md).
constexpr std::int64_t products_for_six(int taps) { return taps == 3 ? 9 * 64 : 25 * 32; }

/// What the engines cost for one group of a call. `to` are the images whose channels are a vector's
/// lanes, those of the results or by the weights of `out`; `from` are the others.
class Costs {
 public:
  explicit Costs(const ConvCall& call)
      : call_(call),
        lanes_(kVectorBytes / (call.out.dtype == kFloat64 ? 8 : 4)),
        taps_(call.weight.sizes[2] * call.weight.sizes[3]),
        to_(call.pass == ConvPass::data ? call.input : call.out, 0,
            channels_of(call.pass != ConvPass::data)),
        from_(call.pass == ConvPass::data ? call.out : call.input, 0,
              channels_of(call.pass == ConvPass::data)) {}

  /// Whether it is depthwise: with a group for every channel.
  bool is_depthwise() const {
    return call_.params.groups > 1 && call_.weight.sizes[1] == 1 &&
           call_.weight.sizes[0] == call_.params.groups;
  }
  bool lies_in_pixels() const { return call_.input.strides[1] == 1 && call_.out.strides[1] == 1; }
  /// The cost of depthwise sums of images in NHWC, over all groups. (It was measured on an EPYC
  /// with AVX2, as what follows of depthwise convolutions.)
  std::int64_t depthwise() const {
    return to_.height * to_.width * taps_ * vectors(call_.params.groups) * images() / steps() * 5 /
           4;
  }
  /// The same with copies of the images that do not lie so.
  std::int64_t depthwise_copies() const {
    std::int64_t copied = 0;
    for (const View* v : {&call_.input, &call_.out})
      if (v->strides[1] != 1) copied += v->sizes[1] * v->sizes[2] * v->sizes[3];
    return depthwise() + copied * images() * 5 / 2;
  }

  std::int64_t direct() const { return plane_by_plane(products() + layout()); }

  /// Where there are many sums of few pixels, the direct ones leave the cache between images.
  bool has_many_sums() const {
    const std::int64_t pixels = sums_by_rows(call_) ? to_.width : to_.height * to_.width;
    return call_.pass == ConvPass::weight && from_.channels >= 32 && to_.channels >= lanes_ &&
           taps_ * from_.channels * to_.channels >= pixels * 2048;
  }

  std::int64_t columns() const {
    return plane_by_plane(from_.height * from_.width * vectors(taps_ * to_.channels) *
                              (from_.channels + 4) +
                          layout());
  }

  bool lies_in_planes() const {
    const auto& stride = call_.params.stride;
    return stride[1] == 1 && (stride[0] == 1 || call_.pass != ConvPass::data) &&
           to_.pixel_step == 1 && from_.pixel_step == 1 &&
           (to_.channels == 1 || to_.channel_step != 1);
  }
  /// Every row of results reads all weights again: beyond a near cache that takes half as long
  /// again. The planes are copied, which counts where they serve one tap or one sum.
  std::int64_t planes() const {
    constexpr std::int64_t kNearBytes = 64 << 10;
    const std::int64_t weights = taps_ * from_.channels * to_.channels;
    const std::int64_t cost = to_.height * vectors(to_.width) * weights * images();
    const std::int64_t pixels = from_.height * from_.width * images();
    if (is_depthwise()) return plane_by_plane(cost + pixels * 5 / 2);
    const std::int64_t far = weights * kVectorBytes > kNearBytes * lanes_ ? cost / 2 : 0;
    return cost + far + (taps_ == 1 ? 6 * pixels * from_.channels : 0);
  }

  bool fits_winograd() const {
    const ConvParams& p = call_.params;
    const std::int64_t* taps = call_.weight.sizes + 2;
    return (taps[0] == 3 || taps[0] == 5) && taps[1] == taps[0] && p.stride[0] == 1 &&
           p.stride[1] == 1 && p.dilation[0] == 1 && p.dilation[1] == 1 && from_.channels > 0 &&
           to_.count * to_.height * to_.width > 0;
  }
  /// Taps a side, and the results that a side of a tile can have.
  int taps() const { return static_cast<int>(call_.weight.sizes[2]); }
  std::vector<int> winograd_results() const {
    if (!fits_winograd()) return {};
    return taps() == 5 ? std::vector{2} : std::vector{2, 4};
  }
  /// With tiles of `results` x `results` results. Whether their rounding suits the length of the
  /// sums is for fine_enough() to say.
  std::int64_t winograd(int results) const {
    if (call_.pass == ConvPass::weight) {
      const std::int64_t cost = call_.out.dtype == kFloat64 ? winograd_weight<double>(results)
                                                            : winograd_weight<float>(results);
      return cost + cost / 4 + layout();
    }
    const auto ceil = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    const Transforms each = transforms_of(results, taps());
    const std::int64_t points = (results + taps() - 1) * (results + taps() - 1);
    const std::int64_t tiles = kImages * ceil(to_.height, results) * ceil(to_.width, results);
    const std::int64_t ins = from_.channels, outs = vectors(to_.channels);
    const std::int64_t products = points * tiles * ins * outs;
    const std::int64_t calls = points * ceil(tiles, 14) * ceil(outs, 2);
    const std::int64_t transforms =
        tiles * (each.in * vectors(ins) + each.out * outs) + each.filter * ins * outs;
    return (products + products / 16 + calls * kMicroCall + transforms + kCall) / kImages +
           layout();
  }
  bool fine_enough(int results) const {
    const std::int64_t sums = call_.pass == ConvPass::weight ? to_.count * to_.height * to_.width
                                                             : taps_ * from_.channels;
    return results + taps() == 5 || sums >= products_for_six(taps());
  }

  /// The cost of converting images that lie plane by plane to another layout: an element takes
  /// about as long as two products.
  std::int64_t layout() const {
    if (to_.channel_step == 1 && from_.channel_step == 1) return 0;
    return 2 *
           (to_.height * to_.width * to_.channels + from_.height * from_.width * from_.channels) *
           images();
  }

  /// The way of 16-bit images into float32 and back.
  std::int64_t copies() const {
    return 12 * vectors(from_.height * from_.width * from_.channels) * images() + copies_of_out();
  }
  /// Direct sums by pairs of channels, and the way of their results from float32; or by pairs of
  /// images, which are brought together.
  std::int64_t pairs() const {
    if (call_.pass != ConvPass::weight) return direct() / 2 + copies_of_out();
    const std::int64_t sums = direct() / to_.count * ((to_.count + 1) / 2);
    return sums + (has_many_sums() ? sums / 4 : 0) + copies() / 2;
  }

 private:
  /// `cost` of an engine that computes one group after another, with what each of these calls costs
  /// where it has one plane. Gradients in phases take about twice as long.
  std::int64_t plane_by_plane(std::int64_t cost) const {
    if (!is_depthwise()) return cost;
    const bool weight = call_.pass == ConvPass::weight;
    cost += (weight ? 500 + 20 * taps_ : 500) * images();
    return steps() > 1 ? 2 * cost : cost;
  }
  std::int64_t copies_of_out() const {
    return 12 * vectors(to_.height * to_.width * to_.channels) * images();
  }
  std::int64_t channels_of(bool outs) const {
    return outs ? call_.out.sizes[1] / call_.params.groups : call_.weight.sizes[1];
  }
  std::int64_t vectors(std::int64_t count) const { return (count + lanes_ - 1) / lanes_; }
  std::int64_t images() const { return call_.pass == ConvPass::weight ? to_.count : 1; }
  /// Pixels of the input that share a pixel of the gradient: each gets a part of the taps.
  std::int64_t steps() const {
    return call_.pass == ConvPass::data ? call_.params.stride[0] * call_.params.stride[1] : 1;
  }
  std::int64_t products() const {
    return to_.height * to_.width * taps_ * from_.channels * vectors(to_.channels) * images() /
           steps();
  }
  template <class T>
  std::int64_t winograd_weight(int results) const {
    return winograd::weight_gradient_cost(Images<const T>(call_.input, 0, from_.channels),
                                          Images<const T>(call_.out, 0, to_.channels), results,
                                          taps());
  }

  const ConvCall& call_;
  std::int64_t lanes_, taps_;
  Images<const float> to_, from_;  // of any type: for sizes and steps
};

/// Whether the window that all taps span has many times the pixels that can meet in it. Copies of
/// it would not fit the memory, and its size need not fit 64 bits. Ordinary windows are about as
/// large as the image, or have no more pixels than results have taps.
bool is_sparse(const ConvCall& c) {
  constexpr double kSmallWindow = 1 << 16, kMost = 16;
  double window = 1, pixels = 1, products = 1;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t in = c.input.sizes[i + 2], out = c.out.sizes[i + 2];
    const std::int64_t taps = c.weight.sizes[i + 2];
    const std::int64_t span =
        (out - 1) * c.params.stride[i] + (taps - 1) * c.params.dilation[i] + 1;
    window *= static_cast<double>(std::max(span, in + c.params.padding[i]));
    pixels *= static_cast<double>(in);
    products *= static_cast<double>(out) * static_cast<double>(taps);
  }
  return window > kSmallWindow && window > kMost * (pixels + products);
}

std::int64_t cheapest(const ConvPlan& plan) {
  std::int64_t cost = INT64_MAX;
  for (const auto& candidate : plan.candidates) cost = std::min(cost, candidate.cost);
  return cost;
}

/// Whether conv_algorithm() allows tiles of `results` x `results` results.
bool allows_winograd(const Costs& costs, int results) {
  switch (conv_algorithm()) {
    case ConvAlgorithm::direct:
      return false;
    case ConvAlgorithm::winograd_2x2:
      return results == 2;
    case ConvAlgorithm::winograd_4x4:
      return results == 4;
    case ConvAlgorithm::automatic:
      break;
  }
  return costs.fine_enough(results);
}

bool asks_for_winograd() {
  return conv_algorithm() == ConvAlgorithm::winograd_2x2 ||
         conv_algorithm() == ConvAlgorithm::winograd_4x4;
}

/// Whether an instruction for pairs takes as long as one for float32: on AMD's Zen 4 and 5; on
/// Intel Xeons with AMX it takes three times as long (measured by direct sums).
bool pairs_are_fast() {
#if defined(__x86_64__)
  static const bool fast = pair_products() && !__builtin_cpu_is("intel");
  return fast;
#else
  return pair_products();
#endif
}

}  // namespace

bool sums_pairs(const ConvCall& c) {
  const auto even = [](std::int64_t i) { return i % 2 == 0; };
  const auto dense = [](const View& v) {
    return v.numel > 0 && v.strides[1] == 1 && v.strides[3] == v.sizes[1] &&
           v.strides[2] == v.sizes[3] * v.strides[3] && v.strides[0] == v.sizes[2] * v.strides[2];
  };
  if (!pairs_are_fast() || c.out.dtype != kBFloat16) return false;
  if (asks_for_winograd()) return false;
  if (c.pass == ConvPass::weight) return dense(c.input) && dense(c.out);
  const View& from = c.pass == ConvPass::forward ? c.input : c.out;
  return even(from.sizes[1] / c.params.groups) && from.strides[1] == 1 &&
         even(from.strides[0] | from.strides[2] | from.strides[3]) && dense(c.weight);
}

bool sums_by_rows(const ConvCall& c) {
  constexpr std::int64_t kNearBytes = 256 << 10;
  const std::int64_t bytes =
      c.input.sizes[2] * static_cast<std::int64_t>(itemsize(c.out.dtype)) *
      (c.input.sizes[3] * c.weight.sizes[1] + c.out.sizes[3] * (c.out.sizes[1] / c.params.groups));
  const auto splits = [](const View& v) {
    return v.strides[1] == 1 && v.strides[0] == v.sizes[2] * v.strides[2];
  };
  return c.weight.sizes[2] * c.weight.sizes[3] == 1 && c.params.stride[0] == 1 &&
         c.params.padding[0] == 0 && c.input.sizes[2] == c.out.sizes[2] && bytes > kNearBytes &&
         splits(c.input) && splits(c.out);
}

std::vector<Axis> axes_of(const ConvCall& call, int axis) {
  const auto i = static_cast<std::size_t>(axis);
  const ConvParams& p = call.params;
  const std::int64_t kernel = call.weight.sizes[i + 2];
  if (call.pass != ConvPass::data)
    return {forward_axis(call.out.sizes[i + 2], kernel, p.stride[i], p.padding[i], p.dilation[i])};
  return backward_axes(call.input.sizes[i + 2], kernel, p.stride[i], p.padding[i], p.dilation[i]);
}

ConvCall without_skipped_pixels(ConvCall call) {
  ConvParams& p = call.params;
  const bool padded = p.padding[0] != 0 || p.padding[1] != 0;
  if (call.pass == ConvPass::data || itemsize(call.out.dtype) == 2 || padded ||
      call.weight.sizes[2] * call.weight.sizes[3] != 1)
    return call;
  for (const int d : {2, 3}) {
    call.input.sizes[d] = call.out.sizes[d];
    call.input.strides[d] *= p.stride[static_cast<std::size_t>(d - 2)];
  }
  call.input.numel =
      call.input.sizes[0] * call.input.sizes[1] * call.input.sizes[2] * call.input.sizes[3];
  p.stride = {1, 1};
  return call;
}

ConvPlan plan_of(const ConvCall& call) {
  const Costs costs(call);
  ConvPlan plan;
  if (is_sparse(call)) {
    plan.candidates.push_back({ConvMethod::sparse, costs.direct() * call.params.groups});
    plan.method = ConvMethod::sparse;
    return plan;
  }
  const auto add = [&](ConvMethod method, std::int64_t cost) {
    plan.candidates.push_back({method, cost * call.params.groups});
  };
  const bool half = itemsize(call.out.dtype) == 2;
  const bool depthwise = costs.is_depthwise() && costs.lies_in_pixels();
  if (depthwise)
    plan.candidates.push_back({ConvMethod::depthwise, costs.depthwise()});
  else if (costs.is_depthwise() && !asks_for_winograd())
    plan.candidates.push_back({ConvMethod::pixel_copies, costs.depthwise_copies()});
  if (pair_products() && is_product(call)) add(ConvMethod::product, costs.direct() / 2);
  if (sums_pairs(call)) add(ConvMethod::pairs, costs.pairs());
  if (half) {
    ConvCall wide = call;
    for (View* v : {&wide.input, &wide.weight, &wide.out}) v->dtype = kFloat32;
    plan.candidates.push_back(
        {ConvMethod::float_copies,
         cheapest(plan_of(without_skipped_pixels(wide))) + costs.copies() * call.params.groups});
    if (pairs_are_fast() && call.out.dtype == kBFloat16 && costs.layout() > 0 &&
        !costs.is_depthwise()) {
      // Copies that stay 16-bit take twice as long as those within an engine of float32.
      ConvCall pixels = call;
      for (View* v : {&pixels.input, &pixels.weight, &pixels.out}) *v = in_pixels(*v);
      plan.candidates.push_back(
          {ConvMethod::pixel_copies,
           cheapest(plan_of(pixels)) + 2 * costs.layout() * call.params.groups});
    }
  } else {
    // Sums that leave the cache between images take about a quarter longer.
    const bool many_sums = costs.has_many_sums();
    const std::int64_t direct = costs.direct();
    add(ConvMethod::direct, many_sums ? direct + direct / 4 : direct);
    if (many_sums) add(ConvMethod::weight_blocks, direct);
    if (call.pass == ConvPass::data) add(ConvMethod::columns, costs.columns());
    if (costs.lies_in_planes()) add(ConvMethod::planes, costs.planes());
    for (const int results : costs.winograd_results())
      if (allows_winograd(costs, results))
        add(results == 2 ? ConvMethod::winograd_2x2 : ConvMethod::winograd_4x4,
            costs.winograd(results));
  }
  const bool any = conv_algorithm() != ConvAlgorithm::automatic && !depthwise;
  const auto taken = std::min_element(
      plan.candidates.begin(), plan.candidates.end(), [&](const auto& a, const auto& b) {
        const auto rank = [&](const ConvPlan::Candidate& c) {
          return any && is_winograd(c.method) ? std::int64_t{-1} : c.cost;
        };
        return rank(a) < rank(b);
      });
  plan.method = taken->method;
  return plan;
}

std::string to_string(const ConvCall& call, const ConvPlan& plan) {
  constexpr const char* kPasses[] = {"forward", "data", "weight"};
  const auto sizes = [](const View& v) {
    return fmt::format("[{}, {}, {}, {}]", v.sizes[0], v.sizes[1], v.sizes[2], v.sizes[3]);
  };
  const auto name_of = [](ConvMethod m) { return kNames[static_cast<std::size_t>(m)]; };
  std::string costs;
  for (const auto& [method, cost] : plan.candidates)
    costs +=
        fmt::format("{}{} {}", costs.empty() ? "" : ", ", name_of(method), (cost + 999) / 1000);
  return fmt::format("conv2d {} {} {} * {} -> {}: {} ({})",
                     kPasses[static_cast<std::size_t>(call.pass)], name(call.out.dtype),
                     sizes(call.input), sizes(call.weight), sizes(call.out), name_of(plan.method),
                     costs);
}

}  // namespace ferrite::kernels::cpu
