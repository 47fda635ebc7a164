// The CPU's convolutions: an implementation of our own, and oneDNN's where it is found.
#pragma once

#include "ferrite/kernels/conv.h"

namespace ferrite::kernels::cpu {

/// Ours (kernels/cpu/conv/run.cpp).
namespace own {
decltype(cpu::conv2d) conv2d;
decltype(cpu::conv2d_data) conv2d_data;
decltype(cpu::conv2d_weight) conv2d_weight;
}  // namespace own

/// oneDNN's (kernels/cpu/conv/onednn): false, and nothing done, where it has no kernel for the
/// views.
namespace onednn {
bool available();
bool conv2d(const View& out, const View& input, const View& weight, const View& bias,
            const ConvParams& params);
bool conv2d_data(const View& grad_input, const View& grad, const View& weight, const View& bias,
                 const ConvParams& params);
bool conv2d_weight(const View& grad_weight, const View& grad_bias, const View& input,
                   const View& grad, const ConvParams& params);
}  // namespace onednn

}  // namespace ferrite::kernels::cpu
