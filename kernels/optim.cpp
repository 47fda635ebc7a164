#include "kernels/optim.h"

#include "kernels/cpu/optim.h"

namespace ferrite::kernels {

void sgd(const Stream& stream, OptimBatch batch, const SgdArgs& args) {
  launch(stream, "sgd", [batch = std::move(batch), args] { cpu::sgd(batch, args); });
}
void adam(const Stream& stream, OptimBatch batch, const AdamArgs& args) {
  launch(stream, "adam", [batch = std::move(batch), args] { cpu::adam(batch, args); });
}
void rmsprop(const Stream& stream, OptimBatch batch, const RmspropArgs& args) {
  launch(stream, "rmsprop", [batch = std::move(batch), args] { cpu::rmsprop(batch, args); });
}

void sum_of_powers(const Stream& stream, FlatTensors tensors, double p, const View& out) {
  launch(stream, "clip_grad_norm_",
         [tensors = std::move(tensors), p, out] { cpu::sum_of_powers(tensors, p, out); });
}
void clip_scale(const Stream& stream, std::vector<const double*> sums, double p, double max_norm,
                const View& norm, const View& scale) {
  launch(stream, "clip_grad_norm_",
         [=, sums = std::move(sums)] { cpu::clip_scale(sums, p, max_norm, norm, scale); });
}
void scale_all(const Stream& stream, FlatTensors tensors, const View& scale) {
  launch(stream, "clip_grad_norm_",
         [tensors = std::move(tensors), scale] { cpu::scale_all(tensors, scale); });
}
void clamp_all(const Stream& stream, FlatTensors tensors, double limit) {
  launch(stream, "clip_grad_value_",
         [tensors = std::move(tensors), limit] { cpu::clamp_all(tensors, limit); });
}

}  // namespace ferrite::kernels
