// What follows the products of an LSTM's step (Hochreiter and Schmidhuber 1997), and its gradient.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// gates [N, 4 * H] are, side by side, the sums of the input, forget, cell and output gate; they
/// are replaced by the gates: sigmoids, and tanh for the cell's. c = forget * c_prev + input * cell
/// and h = output * tanh(c), all [N, H]. All views are contiguous and of one floating dtype.
FERRITE_KERNEL(lstm_cell, const View& gates, const View& c_prev, const View& c, const View& h);

/// grad_sums [N, 4 * H] becomes the gradient of the sums. grad_c [N, H], of the type that sums are
/// made in, is the gradient of c on entry, without what comes by h, and that of c_prev afterwards.
/// The others are as lstm_cell() left them, and grad_h [N, H] is the gradient of h.
FERRITE_KERNEL(lstm_cell_backward, const View& grad_sums, const View& grad_c, const View& grad_h,
               const View& gates, const View& c_prev, const View& c);

}  // namespace ferrite::kernels
