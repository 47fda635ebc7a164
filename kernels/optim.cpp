#include "ferrite/kernels/optim.h"

#include "ferrite/kernels/cpu/optim.h"
#include "ferrite/kernels/cuda/optim.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void sgd(const Stream& stream, const OptimBatch& batch, const SgdArgs& args) {
  launch(
      stream, "sgd", [=] { cpu::sgd(batch, args); }, [&] { cuda::sgd(stream, batch, args); });
}
void adam(const Stream& stream, const OptimBatch& batch, const AdamArgs& args) {
  launch(
      stream, "adam", [=] { cpu::adam(batch, args); }, [&] { cuda::adam(stream, batch, args); });
}
void rmsprop(const Stream& stream, const OptimBatch& batch, const RmspropArgs& args) {
  launch(
      stream, "rmsprop", [=] { cpu::rmsprop(batch, args); },
      [&] { cuda::rmsprop(stream, batch, args); });
}
void lars(const Stream& stream, const OptimBatch& batch, const LarsArgs& args) {
  launch(
      stream, "lars", [=] { cpu::lars(batch, args); }, [&] { cuda::lars(stream, batch, args); });
}
void lamb(const Stream& stream, const OptimBatch& batch, const LambArgs& args) {
  launch(
      stream, "lamb", [=] { cpu::lamb(batch, args); }, [&] { cuda::lamb(stream, batch, args); });
}

void zero_all(const Stream& stream, const FlatTensors& tensors) {
  launch(
      stream, "zero_all", [=] { cpu::zero_all(tensors); },
      [&] { cuda::zero_all(stream, tensors); });
}
void scale_all(const Stream& stream, const FlatTensors& tensors, const View& scale) {
  launch(
      stream, "scale_all", [=] { cpu::scale_all(tensors, scale); },
      [&] { cuda::scale_all(stream, tensors, scale); });
}
void clamp_all(const Stream& stream, const FlatTensors& tensors, double limit) {
  launch(
      stream, "clamp_all", [=] { cpu::clamp_all(tensors, limit); },
      [&] { cuda::clamp_all(stream, tensors, limit); });
}
void unscale_all(const Stream& stream, const FlatTensors& to, const FlatTensors& from,
                 const float* inv_scale, float* found_inf) {
  launch(
      stream, "unscale_all", [=] { cpu::unscale_all(to, from, inv_scale, found_inf); },
      [&] { cuda::unscale_all(stream, to, from, inv_scale, found_inf); });
}
void check_finite(const Stream& stream, const FlatTensors& tensors, float* found_inf) {
  launch(
      stream, "check_finite", [=] { cpu::check_finite(tensors, found_inf); },
      [&] { cuda::check_finite(stream, tensors, found_inf); });
}

void average_weight(const Stream& stream, std::int64_t* count, const View& weight,
                    const AverageArgs& args) {
  launch(
      stream, "average_weight", [=] { cpu::average_weight(count, weight, args); },
      [&] { cuda::average_weight(stream, count, weight, args); });
}
void average_all(const Stream& stream, const FlatTensors& averages, const FlatTensors& values,
                 const View& weight) {
  launch(
      stream, "average_all", [=] { cpu::average_all(averages, values, weight); },
      [&] { cuda::average_all(stream, averages, values, weight); });
}

void update_scale(const Stream& stream, const LossScale& scale,
                  const std::vector<float*>& found_inf, const UpdateScaleArgs& args) {
  launch(
      stream, "update_scale", [=] { cpu::update_scale(scale, found_inf, args); },
      [&] { cuda::update_scale(stream, scale, found_inf, args); });
}

void sum_of_powers(const Stream& stream, const FlatTensors& tensors, double p, const View& out) {
  launch(
      stream, "sum_of_powers", [=] { cpu::sum_of_powers(tensors, p, out); },
      [&] { cuda::sum_of_powers(stream, tensors, p, out); });
}
void norms(const Stream& stream, const FlatTensors& tensors, double p, const View& each,
           const View& all) {
  launch(
      stream, "norms", [=] { cpu::norms(tensors, p, each, all); },
      [&] { cuda::norms(stream, tensors, p, each, all); });
}
void clip_scale(const Stream& stream, const std::vector<const double*>& sums, double p,
                double max_norm, const View& norm, const View& scale, bool check) {
  launch(
      stream, "clip_scale", [=] { cpu::clip_scale(sums, p, max_norm, norm, scale, check); },
      [&] { cuda::clip_scale(stream, sums, p, max_norm, norm, scale, check); });
}

}  // namespace ferrite::kernels
