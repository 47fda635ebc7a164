#include "ferrite/kernels/cuda/batch_norm_map.cuh"
#include "ferrite/kernels/cuda/batch_norm_train.cuh"
#include "ferrite/kernels/cuda/channel_map.cuh"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cuda {

namespace {

template <int kPack, class T>
bool is_aligned(const Apply<T>& f) {
  return cuda::is_aligned(f.in, kPack) && cuda::is_aligned(f.residual, kPack) &&
         cuda::is_aligned(f.out, kPack);
}

}  // namespace

void batch_norm_apply(const Stream& stream, const ChannelLayout& layout, const View& out,
                      const View& in, const View& mean, const View& invstd, const View& weight,
                      const View& bias, const View& residual, NormActivation activation) {
  dispatch_floating(in.dtype, "batch_norm", [&]<class T>() {
    constexpr int kPack = pack_size<T>();
    const Apply<T> f = apply_of<T>(out, in, mean, invstd, weight, bias, residual, activation);
    map_channels<Apply<T>, kPack>(stream, "batch_norm_apply", f, layout, sizeof(T),
                                  is_aligned<kPack>(f),
                                  params_aligned(f.mean, f.invstd, f.weight, f.bias));
  });
}

void batch_norm_train(const Stream& stream, const ChannelLayout& layout, const View& out,
                      const View& in, const View& mean, const View& invstd,
                      const BatchStatistics& batch, const RunningStatistics& running, double eps,
                      const View& weight, const View& bias, const View& residual,
                      NormActivation activation, const View& counters) {
  dispatch_floating(in.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    constexpr int kPack = pack_size<T>();
    const BatchTraining training{batch, running, eps};
    const Apply<T> f = apply_of<T>(out, in, mean, invstd, weight, bias, residual, activation);
    const ChannelMatrix m = channel_matrix(layout, sizeof(T), kPack, is_aligned<kPack>(f), 1);
    if (f.out != nullptr && trains_in_one<S>(layout, m, training)) {
      return train_channels<Apply<T>, kPack>(
          stream, "batch_norm_train", f, layout, m, params_aligned(f.weight, f.bias),
          {{Training<S>(layout, mean, invstd, training, counters)}});
    }
    finish_statistics<S>(stream, layout, mean, invstd, training, counters);
    if (f.out != nullptr)
      cuda::batch_norm_apply(stream, layout, out, in, mean, invstd, weight, bias, residual,
                             activation);
  });
}

void batch_norm_backward_apply(const Stream& stream, const ChannelLayout& layout, const View& dx,
                               const View& dy, const View& in, const View& mean, const View& invstd,
                               const View& weight, const View& sum_dy, const View& sum_dy_xhat,
                               const View& count, std::int64_t n, const ReluMask& mask) {
  dispatch_floating(dy.dtype, "batch_norm", [&]<class T>() {
    constexpr int kPack = pack_size<T>();
    const BackwardApply<T> f =
        backward_apply_of<T>(dx, dy, in, mean, invstd, weight, sum_dy, sum_dy_xhat, count, n, mask);
    map_channels<BackwardApply<T>, kPack>(
        stream, "batch_norm_backward_apply", f, layout, sizeof(T),
        is_aligned(f.dy, kPack) && is_aligned(f.in, kPack) && is_aligned(f.out, kPack) &&
            is_aligned(f.dx, kPack),
        params_aligned(f.mean, f.invstd, f.weight, f.bias, f.sum_dy, f.sum_dy_xhat));
  });
}

}  // namespace ferrite::kernels::cuda
