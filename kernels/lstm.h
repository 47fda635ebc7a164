// The steps of an LSTM's layer (Hochreiter and Schmidhuber 1997), and their gradient.
#pragma once

#include <algorithm>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// T steps of N sequences. All views are contiguous and of one floating dtype, and T, N and H are
/// above 0.
struct LstmSteps {
  View gates;            ///< [T, N, 4 * H]: the input, forget, cell and output gate, side by side
  View cells;            ///< [T, N, H]: the cells' states after each step
  View h, c;             ///< [N, H]: the states before the first step
  View weight;           ///< [4 * H, H], by which h is multiplied
  bool reverse = false;  ///< the last step of memory is the first in time

  std::int64_t count() const { return gates.sizes[0]; }
  /// The place in memory of the t-th step in time.
  std::int64_t place(std::int64_t t) const { return reverse ? count() - 1 - t : t; }
};

/// On entry `gates` are what the inputs and the biases add to the sums. Each step adds the product
/// of weight and the h before it, rounding as a product does, and replaces the sums by the gates:
/// sigmoids, and tanh for the cell's. Then c = forget * c + input * cell, and h = output gate *
/// tanh(c), which goes to `output` [T, N, H].
FERRITE_KERNEL(lstm_steps, const LstmSteps& steps, const View& output);

/// grad_sums [T, N, 4 * H] becomes the gradient of the sums; of `steps`, h is not read. grad_c
/// [N, H], of the type that sums are made in, is the gradient of the last c on entry, and that of
/// the first one afterwards. grad_output [T, N, H] is used up: what it holds afterwards means
/// nothing.
FERRITE_KERNEL(lstm_steps_backward, const LstmSteps& steps, const View& grad_sums,
               const View& grad_c, const View& grad_output);

/// One step, [N, columns], of [T, N, columns].
inline View step_at(const View& all, std::int64_t place) {
  View v = all;
  v.numel /= all.sizes[0];
  v.ndim = 2;
  v.data =
      static_cast<char*>(all.data) + place * v.numel * static_cast<std::int64_t>(itemsize(v.dtype));
  std::copy_n(all.sizes + 1, 2, v.sizes);
  std::copy_n(all.strides + 1, 2, v.strides);
  return v;
}

}  // namespace ferrite::kernels
