// Two batch norms whose results are added, with the ReLU behind the sum.
#include "ferrite/kernels/cpu/batch_norm_terms.h"
#include "ferrite/kernels/cpu/channel_loops.h"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cpu {

namespace {

/// Both norms, and what they multiply with and add.
template <class T>
struct NormPair {
  using S = Compute<T>;
  const T *a, *b;
  const S *mean_a, *mean_b;
  std::vector<S> scales_a, scales_b, shifts;

  NormPair(const PairedNorm& of_a, const PairedNorm& of_b, std::int64_t channels)
      : a(of_a.in.as<T>()),
        b(of_b.in.as<T>()),
        mean_a(of_a.mean.as<S>()),
        mean_b(of_b.mean.as<S>()),
        scales_a(scales_of<S>(of_a.weight, of_a.invstd, channels)),
        scales_b(scales_of<S>(of_b.weight, of_b.invstd, channels)),
        shifts(values_of<S>(of_a.bias, channels, 0)) {
    const std::vector<S> others = values_of<S>(of_b.bias, channels, 0);
    for (std::size_t c = 0; c < shifts.size(); ++c) shifts[c] += others[c];
  }
};

/// What the ReLU gives for the deviations of both norms, as a T holds it, in forward and backward.
template <class T, int W, class P>
Lanes<Compute<T>, W> result(const Lanes<Compute<T>, W>& a, const P& scale_a,
                            const Lanes<Compute<T>, W>& b, const P& scale_b, const P& shift) {
  const Lanes<Compute<T>, W> v = affine(a, scale_a, affine(b, scale_b, shift));
  return rounded<T, W>(v < 0 ? Lanes<Compute<T>, W>{} : v);
}

}  // namespace

void batch_norm_pair_train(const ChannelLayout& layout, const View& out, const PairedNorm& a,
                           const PairedNorm& b, const BatchTraining& of_a,
                           const BatchTraining& of_b, const View& counters) {
  batch_norm_train(layout, View(), a.in, a.mean, a.invstd, of_a.batch, of_a.running, of_a.eps,
                   View(), View(), View(), NormActivation::none, counters);
  batch_norm_train(layout, View(), b.in, b.mean, b.invstd, of_b.batch, of_b.running, of_b.eps,
                   View(), View(), View(), NormActivation::none, View());
  dispatch_floating(out.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    const NormPair<T> pair(a, b, layout.channels);
    T* const y = out.as<T>();
    for_each_channel_run<S>(layout, [&](auto&& param, auto&& loop) {
      const auto mean_a = param(pair.mean_a), mean_b = param(pair.mean_b),
                 scale_a = param(pair.scales_a.data()), scale_b = param(pair.scales_b.data()),
                 shift = param(pair.shifts.data());
      loop([&](auto width, std::int64_t at, std::int64_t c) {
        store<width>(
            y + at, result<T, width>(load<width>(pair.a + at) - mean_a(width, c), scale_a(width, c),
                                     load<width>(pair.b + at) - mean_b(width, c), scale_b(width, c),
                                     shift(width, c)));
      });
    });
  });
}

void batch_norm_pair_backward_reduce(const ChannelLayout& layout, const PairSums& to,
                                     const View& dy, const PairedNorm& a, const PairedNorm& b,
                                     const View&) {
  dispatch_floating(dy.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    const std::int64_t channels = layout.channels;
    const NormPair<T> pair(a, b, channels);
    const T* const g = dy.as<T>();
    ChannelPieces pieces(layout, 3);
    pieces.compute<S>([&](const auto& part, auto&& put) {
      const auto mean_a = part.param(pair.mean_a), mean_b = part.param(pair.mean_b),
                 scale_a = part.param(pair.scales_a.data()),
                 scale_b = part.param(pair.scales_b.data()), shift = part.param(pair.shifts.data());
      put_sums(put, part.template sums<3>([&](auto width, int v, std::int64_t at, auto& sums) {
        const Lanes<S, width> d_a = load<width>(pair.a + at) - mean_a[v],
                              d_b = load<width>(pair.b + at) - mean_b[v];
        const Lanes<S, width> d = pass<Lanes<S, width>>(
            load<width>(g + at), result<T, width>(d_a, scale_a[v], d_b, scale_b[v], shift[v]));
        sums[0] += d;
        sums[1] += d * d_a;
        sums[2] += d * d_b;
      }));
    });
    for (const View& sum : {to.dy, to.dy_again}) put_total(sum.as<S>(), pieces, 0, channels);
    put_total(to.dy_xhat_a.as<S>(), pieces, 1, channels, a.invstd.as<S>());
    put_total(to.dy_xhat_b.as<S>(), pieces, 2, channels, b.invstd.as<S>());
  });
}

void batch_norm_pair_backward_apply(const ChannelLayout& layout, const View& dx_a, const View& dx_b,
                                    const View& dy, const PairedNorm& a, const PairedNorm& b,
                                    const PairSums& sums) {
  dispatch_floating(dy.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    const NormPair<T> pair(a, b, layout.channels);
    const auto n = static_cast<double>(layout.count());
    const Terms<S> terms_a = terms_of<S>(pair.scales_a, sums.dy, sums.dy_xhat_a, a.invstd, n),
                   terms_b = terms_of<S>(pair.scales_b, sums.dy, sums.dy_xhat_b, b.invstd, n);
    const T* const g = dy.as<T>();
    T *const to_a = dx_a.as<T>(), *const to_b = dx_b.as<T>();
    for_each_channel_run<S>(layout, [&](auto&& param, auto&& loop) {
      const auto mean_a = param(pair.mean_a), mean_b = param(pair.mean_b),
                 scale_a = param(pair.scales_a.data()), scale_b = param(pair.scales_b.data()),
                 shift = param(pair.shifts.data()), shift_a = param(terms_a.shifts.data()),
                 shift_b = param(terms_b.shifts.data()), slope_a = param(terms_a.slopes.data()),
                 slope_b = param(terms_b.slopes.data());
      loop([&](auto width, std::int64_t at, std::int64_t c) {
        const Lanes<S, width> d_a = load<width>(pair.a + at) - mean_a(width, c),
                              d_b = load<width>(pair.b + at) - mean_b(width, c);
        const Lanes<S, width> d = pass<Lanes<S, width>>(
            load<width>(g + at),
            result<T, width>(d_a, scale_a(width, c), d_b, scale_b(width, c), shift(width, c)));
        if (to_a)
          store<width>(to_a + at,
                       d * scale_a(width, c) - shift_a(width, c) - d_a * slope_a(width, c));
        if (to_b)
          store<width>(to_b + at,
                       d * scale_b(width, c) - shift_b(width, c) - d_b * slope_b(width, c));
      });
    });
  });
}

}  // namespace ferrite::kernels::cpu
