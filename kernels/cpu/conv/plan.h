// How the CPU computes a convolution: the engines that can, what each is expected to cost, and the
// one that is taken. A plan follows from sizes, layouts and the machine's vectors alone. Those of
// the forward pass and of the gradient by the input do not depend on the number of images: what an
// image becomes must not depend on how many come with it.
#pragma once

#include <string>
#include <vector>

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/conv_axis.h"

namespace ferrite::kernels::cpu {

/// A call of conv2d, conv2d_data or conv2d_weight. Operands have the names of the forward pass; the
/// one that is computed is `out`, `input` or, with `bias`, `weight`.
struct ConvCall {
  ConvPass pass;
  View input, weight, out, bias;
  ConvParams params;
};

/// The engines, by the files of this folder. Of equal ones the first is taken.
enum class ConvMethod : std::uint8_t {
  depthwise,
  sparse,  ///< alone, where hardly any tap meets the image
  product,
  pairs,
  float_copies,  ///< of 16-bit operands, for the engine that is best for float32
  pixel_copies,  ///< in NHWC, for the engine that is best for it: bfloat16, and depthwise
  direct,        ///< correlate.h; by the weights weight.h
  weight_blocks,
  columns,
  planes,
  winograd_2x2,
  winograd_4x4,
};
constexpr bool is_winograd(ConvMethod m) { return m >= ConvMethod::winograd_2x2; }
/// Results a side of Winograd's tiles.
constexpr int results_of(ConvMethod m) { return m == ConvMethod::winograd_2x2 ? 2 : 4; }

struct ConvPlan {
  struct Candidate {
    ConvMethod method;
    std::int64_t cost;  ///< products of vectors, or cycles: of an image, by the weights of all
  };
  std::vector<Candidate> candidates;
  ConvMethod method = ConvMethod::direct;  ///< that is taken: the cheapest
};

/// A call with one tap that skips pixels, as one that reads all pixels of a smaller image: it has
/// none to copy that it does not need. Of 16-bit images, whose engines want them dense, as it is.
ConvCall without_skipped_pixels(ConvCall call);

ConvPlan plan_of(const ConvCall& call);

/// "conv2d forward float32 [8, 64, 28, 28] * [64, 64, 3, 3] -> [8, 64, 28, 28]: winograd_4x4
/// (direct 1807, winograd_2x2 1195, winograd_4x4 817)", costs in thousands.
std::string to_string(const ConvCall& call, const ConvPlan& plan);

/// Whether direct sums of a call can multiply pairs of bfloat16 (pairs.h).
bool sums_pairs(const ConvCall& call);

/// Whether a gradient by the weights takes each row for an image: sums of 1 x 1 taps in steps of 1
/// do not depend on what is an image, and a row stays in a near cache.
bool sums_by_rows(const ConvCall& call);

/// Computes a call of elements of type S, as planned.
template <class S>
void run_conv(const ConvCall& call, ConvMethod method);

/// The axes of what a call correlates, by the taps of each phase; 0: heights.
std::vector<Axis> axes_of(const ConvCall& call, int axis);

/// Plans a call and computes it.
void run_conv(const ConvCall& call);

}  // namespace ferrite::kernels::cpu
