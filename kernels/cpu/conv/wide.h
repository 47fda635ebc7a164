// Convolutions of 16-bit types by those of float32: values are converted once, where direct sums do
// so for every tap, and the fastest algorithm there is takes them.
#pragma once

#include "ferrite/kernels/cpu/conv/engines.h"
#include "ferrite/kernels/cpu/half_runs.h"
#include "ferrite/kernels/cpu/loops.h"
#include "ferrite/kernels/cpu/pack.h"

namespace ferrite::kernels::cpu::wide {

/// Memory for a view of S as float32, images in NHWC or NCHW as they lie; no view for no view.
template <class S>
class Floats {
 public:
  explicit Floats(const View& of) : view_(of) {
    view_.dtype = kFloat32;
    if (!of.data) return;
    values_ = Scratch<float>(of.numel);
    view_.data = values_.data();
    const bool by_pixels = of.ndim == 4 && of.strides[1] == 1;
    std::int64_t step = 1;
    if (by_pixels) view_.strides[1] = step, step *= of.sizes[1];
    for (int d = of.ndim - 1; d >= 0; --d) {
      if (by_pixels && d == 1) continue;
      view_.strides[d] = step;
      step *= of.sizes[d];
    }
  }
  const View& view() const { return view_; }

  /// Reads the values of `from`, which was the constructor's.
  const View& load(const View& from) const {
    if (!from.data) return view_;
    convert<float, S>(view_, from,
                      [](float* to, const S* run, std::int64_t n) { widen(to, run, n); });
    return view_;
  }
  /// Writes them.
  void store(const View& to) const {
    if (!to.data) return;
    convert<S, float>(to, view_,
                      [](S* run, const float* from, std::int64_t n) { narrow(run, from, n); });
  }

 private:
  template <class To, class From, class Run>
  static void convert(const View& to, const View& from, Run run) {
    for_each_run<2>({&to, &from}, [&](const auto& at, const auto& step, std::int64_t n) {
      To* out = to.as<To>() + at[0];
      const From* in = from.as<From>() + at[1];
      if (step[0] == 1 && step[1] == 1) return run(out, in, n);
      for (std::int64_t i = 0; i < n; ++i) out[i * step[0]] = To(float(in[i * step[1]]));
    });
  }

  View view_;
  Scratch<float> values_;
};

template <class S>
void conv2d(const View& out, const View& input, const View& weight, const View& bias,
            const ConvParams& params) {
  const Floats<S> y(out), x(input), w(weight), b(bias);
  own::conv2d(y.view(), x.load(input), w.load(weight), b.load(bias), params);
  y.store(out);
}

template <class S>
void conv2d_data(const View& grad_input, const View& grad, const View& weight, const View& bias,
                 const ConvParams& params) {
  const Floats<S> gx(grad_input), gy(grad), w(weight), b(bias);
  own::conv2d_data(gx.view(), gy.load(grad), w.load(weight), b.load(bias), params);
  gx.store(grad_input);
}

template <class S>
void conv2d_weight(const View& grad_weight, const View& grad_bias, const View& input,
                   const View& grad, const ConvParams& params) {
  const Floats<S> gw(grad_weight), gb(grad_bias), x(input), gy(grad);
  own::conv2d_weight(gw.view(), gb.view(), x.load(input), gy.load(grad), params);
  gw.store(grad_weight);
  gb.store(grad_bias);
}

}  // namespace ferrite::kernels::cpu::wide
