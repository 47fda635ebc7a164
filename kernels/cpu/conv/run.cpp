#include "ferrite/kernels/cpu/conv/engines.h"

namespace ferrite::kernels::cpu {

// In run_<type>.cpp.
template <class S>
void correlate_forward(const View& out, const View& input, const View& weight, const View& bias,
                       const ConvParams& params);
template <class S>
void correlate_backward(const View& grad_input, const View& grad, const View& weight,
                        const View& bias, const ConvParams& params);
template <class S>
void weight_gradient(const View& grad_weight, const View& grad_bias, const View& input,
                     const View& grad, const ConvParams& params);

void own::conv2d(const View& out, const View& input, const View& weight, const View& bias,
                 const ConvParams& params) {
  dispatch_floating(out.dtype, "conv2d",
                    [&]<class S>() { correlate_forward<S>(out, input, weight, bias, params); });
}

void own::conv2d_data(const View& grad_input, const View& grad, const View& weight,
                      const View& bias, const ConvParams& params) {
  dispatch_floating(grad.dtype, "conv2d", [&]<class S>() {
    correlate_backward<S>(grad_input, grad, weight, bias, params);
  });
}

void own::conv2d_weight(const View& grad_weight, const View& grad_bias, const View& input,
                        const View& grad, const ConvParams& params) {
  dispatch_floating(grad.dtype, "conv2d", [&]<class S>() {
    weight_gradient<S>(grad_weight, grad_bias, input, grad, params);
  });
}

}  // namespace ferrite::kernels::cpu
