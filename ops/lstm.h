// An LSTM (Hochreiter and Schmidhuber 1997): one step, and a sequence of them as one operation.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite::detail {

/// The states of N sequences, [N, H] each.
struct LstmStates {
  Tensor h, c;
};

/// Weights of a layer: [4 * H, I], [4 * H, H], and the sum of both biases, [4 * H] or undefined;
/// with PyTorch's order of gates, input, forget, cell, output.
struct LstmWeights {
  Tensor ih, hh, bias;
};

/// `projected` [N, 4 * H] is the contribution of the input and the biases.
LstmStates lstm_step(const Tensor& projected, const Tensor& weight_hh, const LstmStates& states);

struct LstmSequence {
  Tensor output;    ///< [T, N, H]
  LstmStates last;  ///< after the last step
};

/// The steps of x [T, N, I], T above 0, in order or in reverse, all of one floating dtype. The tape
/// has one node for them: the gradients of weights are products over all steps, and no step's
/// gradient is copied into that of the sequence.
LstmSequence lstm_sequence(const Tensor& x, const LstmWeights& weights, const LstmStates& initial,
                           bool reverse);

}  // namespace ferrite::detail
