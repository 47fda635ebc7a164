// Convolutions of copies, where an engine that is faster wants other operands. 16-bit values are
// converted to float32 once, where direct sums would do so for every tap; images that lie plane by
// plane are brought to NHWC.
#pragma once

#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/cpu/conv/plan.h"
#include "ferrite/kernels/cpu/half_runs.h"
#include "ferrite/kernels/cpu/loops.h"
#include "ferrite/kernels/cpu/pack.h"

namespace ferrite::kernels::cpu {

/// Strides of images in NHWC, without gaps.
inline View in_pixels(View v) {
  v.strides[1] = 1;
  v.strides[3] = v.sizes[1];
  v.strides[2] = v.sizes[3] * v.strides[3];
  v.strides[0] = v.sizes[2] * v.strides[2];
  return v;
}

/// Memory for a view of S as float32, images in NHWC or NCHW as they lie; no view for no view.
template <class S>
class Floats {
 public:
  explicit Floats(const View& of) : view_(of) {
    view_.dtype = kFloat32;
    if (!of.data) return;
    values_ = Scratch<float>(of.numel);
    view_.data = values_.data();
    if (of.ndim == 4 && of.strides[1] == 1) {
      view_ = in_pixels(view_);
      return;
    }
    std::int64_t step = 1;
    for (int d = of.ndim - 1; d >= 0; --d) {
      view_.strides[d] = step;
      step *= of.sizes[d];
    }
  }
  const View& view() const { return view_; }

  /// Reads the values of `from`, which was the constructor's.
  void load(const View& from) const {
    if (!from.data) return;
    convert<float, S>(view_, from,
                      [](float* to, const S* run, std::int64_t n) { widen(to, run, n); });
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

/// Memory for a view of images in NHWC; the view itself if it lies so, or is no image.
class PixelImages {
 public:
  explicit PixelImages(const View& of) : view_(of) {
    if (of.ndim != 4 || of.strides[1] == 1) return;
    view_ = in_pixels(of);  // without memory too: a plan goes by the strides
    if (!of.data) return;
    values_ = Scratch<std::byte>(of.numel * static_cast<std::int64_t>(itemsize(of.dtype)));
    view_.data = values_.data();
  }
  const View& view() const { return view_; }
  void load(const View& from) const {
    if (values_) cpu::copy(view_, from);
  }
  void store(const View& to) const {
    if (values_) cpu::copy(to, view_);
  }

 private:
  View view_;
  Scratch<std::byte> values_;
};

/// Computes a call by copies of its operands: Floats or PixelImages.
template <class Copies>
void run_copied(const ConvCall& call) {
  const Copies input(call.input), weight(call.weight), out(call.out), bias(call.bias);
  if (call.pass != ConvPass::data) input.load(call.input);
  if (call.pass != ConvPass::forward) out.load(call.out);
  if (call.pass != ConvPass::weight) weight.load(call.weight), bias.load(call.bias);
  run_conv({call.pass, input.view(), weight.view(), out.view(), bias.view(), call.params});
  if (call.pass == ConvPass::forward) out.store(call.out);
  if (call.pass == ConvPass::data) input.store(call.input);
  if (call.pass == ConvPass::weight) weight.store(call.weight), bias.store(call.bias);
}

}  // namespace ferrite::kernels::cpu
