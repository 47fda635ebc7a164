#include "kernels/cpu/pool.h"
#include "kernels/cpu/pool_loops.h"

namespace ferrite::kernels::cpu {

namespace {

/// What each window's sum is divided by, as the product of one factor a dimension.
struct Divisors {
  explicit Divisors(const Pool2d& p) : h(factors(p, p.h)), w(factors(p, p.w)) {
    if (!p.divisor_override) return;
    std::fill(h.begin(), h.end(), static_cast<double>(p.divisor_override));
    std::fill(w.begin(), w.end(), 1.0);
  }
  std::vector<double> h, w;

 private:
  static std::vector<double> factors(const Pool2d& p, const PoolAxis& axis) {
    std::vector<double> f;
    for (std::int64_t o = 0; o < axis.output; ++o) {
      // The padding counts, but not what a window of ceil_mode has beyond it.
      const std::int64_t start = o * axis.stride - axis.padding;
      const std::int64_t padded = std::min(start + axis.kernel, axis.input + axis.padding) - start;
      f.push_back(static_cast<double>(
          p.count_include_pad && !axis.adaptive ? padded : axis.window(o).count));
    }
    return f;
  }
};

/// The sum of n neighbours, in an order that depends on n alone.
template <class T>
Compute<T> sum_of(const T* p, std::int64_t n) {
  using C = Compute<T>;
  C lanes[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) lanes[l] += static_cast<C>(p[i + l]);
  for (int l = 0; i + l < n; ++l) lanes[l] += static_cast<C>(p[i + l]);
  for (int half = 8; half; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

template <class T>
void avg_channels_last(const Pool2d& p, T* out, const T* in) {
  using C = Compute<T>;
  const auto hs = windows_of(p.h), ws = windows_of(p.w);
  const Divisors divisors(p);
  const std::int64_t c_all = p.channels;
  const std::int64_t work = p.w.output * c_all * p.h.widest() * p.w.widest();
  parallel_for(p.batch * p.h.output, grain_of(work), [&](std::int64_t begin, std::int64_t end) {
    C sum[kLanes], row_sum[kLanes];
    for (std::int64_t row = begin; row < end; ++row) {
      const auto oh = static_cast<std::size_t>(row % p.h.output);
      const T* image = in + row / p.h.output * p.h.input * p.w.input * c_all;
      for (std::int64_t i = 0; i < p.w.output; ++i) {
        const auto ow = static_cast<std::size_t>(i);
        const C divisor = static_cast<C>(divisors.h[oh] * divisors.w[ow]);
        for (std::int64_t c = 0; c < c_all; c += kLanes) {
          const std::int64_t lanes = std::min<std::int64_t>(kLanes, c_all - c);
          std::fill_n(sum, kLanes, C(0));
          for (std::int64_t h = 0; h < hs[oh].count; ++h) {
            const T* cells = image + ((hs[oh].first + h) * p.w.input + ws[ow].first) * c_all + c;
            std::fill_n(row_sum, kLanes, C(0));
            for (std::int64_t w = 0; w < ws[ow].count; ++w)
              for (std::int64_t l = 0; l < lanes; ++l)
                row_sum[l] += static_cast<C>(cells[w * c_all + l]);
            for (int l = 0; l < kLanes; ++l) sum[l] += row_sum[l];
          }
          T* to = out + (row * p.w.output + i) * c_all + c;
          for (std::int64_t l = 0; l < lanes; ++l) to[l] = static_cast<T>(sum[l] / divisor);
        }
      }
    }
  });
}

template <class T>
void avg_contiguous(const Pool2d& p, T* out, const T* in) {
  using C = Compute<T>;
  const auto hs = windows_of(p.h), ws = windows_of(p.w);
  const Divisors divisors(p);
  const std::int64_t work = p.w.output * p.h.widest() * p.w.widest();
  parallel_for(p.batch * p.channels * p.h.output, grain_of(work),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   const auto oh = static_cast<std::size_t>(row % p.h.output);
                   const T* cells = in + (row / p.h.output * p.h.input + hs[oh].first) * p.w.input;
                   for (std::int64_t i = 0; i < p.w.output; ++i) {
                     const auto ow = static_cast<std::size_t>(i);
                     C sum = 0;
                     for (std::int64_t h = 0; h < hs[oh].count; ++h)
                       sum += sum_of(cells + h * p.w.input + ws[ow].first, ws[ow].count);
                     out[row * p.w.output + i] =
                         static_cast<T>(sum / static_cast<C>(divisors.h[oh] * divisors.w[ow]));
                   }
                 }
               });
}

/// Each input cell gathers from the windows that hold it.
template <class T>
void avg_channels_last_backward(const Pool2d& p, T* grad_in, const T* grad_out) {
  using C = Compute<T>;
  const Holders hs(p.h), ws(p.w);
  const Divisors divisors(p);
  const std::int64_t c_all = p.channels;
  parallel_for(p.batch * p.h.input, grain_of(2 * p.w.input * c_all),
               [&](std::int64_t begin, std::int64_t end) {
                 C sum[kLanes];
                 for (std::int64_t row = begin; row < end; ++row) {
                   const std::int64_t outputs = row / p.h.input * p.h.output * p.w.output;
                   for (std::int64_t iw = 0; iw < p.w.input; ++iw)
                     for (std::int64_t c = 0; c < c_all; c += kLanes) {
                       const std::int64_t lanes = std::min<std::int64_t>(kLanes, c_all - c);
                       std::fill_n(sum, kLanes, C(0));
                       for (const auto& h : hs[row % p.h.input])
                         for (const auto& w : ws[iw]) {
                           const T* from =
                               grad_out + (outputs + h.output * p.w.output + w.output) * c_all + c;
                           const C divisor =
                               static_cast<C>(divisors.h[static_cast<std::size_t>(h.output)] *
                                              divisors.w[static_cast<std::size_t>(w.output)]);
                           for (std::int64_t l = 0; l < lanes; ++l)
                             sum[l] += static_cast<C>(from[l]) / divisor;
                         }
                       T* to = grad_in + (row * p.w.input + iw) * c_all + c;
                       for (std::int64_t l = 0; l < lanes; ++l) to[l] = static_cast<T>(sum[l]);
                     }
                 }
               });
}

/// Each input row gathers from the rows of windows that hold it.
template <class T>
void avg_contiguous_backward(const Pool2d& p, T* grad_in, const T* grad_out) {
  using C = Compute<T>;
  const Holders hs(p.h);
  const auto ws = windows_of(p.w);
  const Divisors divisors(p);
  parallel_for(
      p.batch * p.channels * p.h.input, grain_of(2 * p.w.input),
      [&](std::int64_t begin, std::int64_t end) {
        std::vector<C> sum(static_cast<std::size_t>(p.w.input));
        for (std::int64_t row = begin; row < end; ++row) {
          std::fill(sum.begin(), sum.end(), C(0));
          const std::int64_t outputs = row / p.h.input * p.h.output * p.w.output;
          for (const auto& h : hs[row % p.h.input])
            for (std::int64_t i = 0; i < p.w.output; ++i) {
              const auto ow = static_cast<std::size_t>(i);
              const C divisor =
                  static_cast<C>(divisors.h[static_cast<std::size_t>(h.output)] * divisors.w[ow]);
              const C g = static_cast<C>(grad_out[outputs + h.output * p.w.output + i]) / divisor;
              C* to = sum.data() + ws[ow].first;
              for (std::int64_t j = 0; j < ws[ow].count; ++j) to[j] += g;
            }
          std::transform(sum.begin(), sum.end(), grad_in + row * p.w.input,
                         [](C v) { return static_cast<T>(v); });
        }
      });
}

float quarter_of(const Pool2d& p) {
  return p.divisor_override ? 1 / static_cast<float>(p.divisor_override) : 0.25f;
}

void avg_halving(const Pool2d& p, float* out, const float* in) {
  const std::int64_t c_all = p.channels, ow = p.w.output;
  const std::int64_t in_row = p.w.input * (p.channels_last ? c_all : 1);
  const float scale = quarter_of(p);
  // `step` cells from one lane to the next, `right` from the left column to the right one.
  const auto lanes = [&](std::int64_t n, const float* top, std::int64_t right, auto step,
                         float* o) {
    const float* bottom = top + in_row;
    for_blocks(n, [=](std::int64_t first, auto width) {
      for (int l = 0; l < width; ++l) {
        const std::int64_t at = (first + l) * step;
        o[first + l] = ((top[at] + top[at + right]) + (bottom[at] + bottom[at + right])) * scale;
      }
    });
  };
  for_each_halving_row(p, [&](std::int64_t at, std::int64_t from) {
    if (!p.channels_last)
      return lanes(ow, in + from, 1, std::integral_constant<int, 2>(), out + at);
    for (std::int64_t i = 0; i < ow; ++i)
      lanes(c_all, in + from + 2 * i * c_all, c_all, std::integral_constant<int, 1>(),
            out + at + i * c_all);
  });
}

void avg_halving_backward(const Pool2d& p, float* grad_in, const float* grad_out) {
  const std::int64_t c_all = p.channels, ow = p.w.output;
  const std::int64_t in_row = p.w.input * (p.channels_last ? c_all : 1);
  const float scale = quarter_of(p);
  const auto lanes = [&](std::int64_t n, float* top, std::int64_t right, auto step,
                         const float* g) {
    float* bottom = top + in_row;
    for_blocks(n, [=](std::int64_t first, auto width) {
      for (int l = 0; l < width; ++l) {
        const std::int64_t at = (first + l) * step;
        const float v = g[first + l] * scale;
        top[at] = v;
        top[at + right] = v;
        bottom[at] = v;
        bottom[at + right] = v;
      }
    });
  };
  for_each_halving_row_backward(p, grad_in, [&](std::int64_t at, std::int64_t to) {
    if (!p.channels_last)
      return lanes(ow, grad_in + to, 1, std::integral_constant<int, 2>(), grad_out + at);
    for (std::int64_t i = 0; i < ow; ++i)
      lanes(c_all, grad_in + to + 2 * i * c_all, c_all, std::integral_constant<int, 1>(),
            grad_out + at + i * c_all);
  });
}

}  // namespace

void avg_pool2d(const Pool2d& p, const View& out, const View& in) {
  if (in.dtype == kFloat32 && is_halving(p)) return avg_halving(p, out.as<float>(), in.as<float>());
  dispatch_floating(in.dtype, "avg_pool2d", [&]<class T>() {
    if (p.channels_last)
      avg_channels_last(p, out.as<T>(), in.as<T>());
    else
      avg_contiguous(p, out.as<T>(), in.as<T>());
  });
}

void avg_pool2d_backward(const Pool2d& p, const View& grad_in, const View& grad_out) {
  if (grad_in.dtype == kFloat32 && is_halving(p))
    return avg_halving_backward(p, grad_in.as<float>(), grad_out.as<float>());
  dispatch_floating(grad_in.dtype, "avg_pool2d", [&]<class T>() {
    if (p.channels_last)
      avg_channels_last_backward(p, grad_in.as<T>(), grad_out.as<T>());
    else
      avg_contiguous_backward(p, grad_in.as<T>(), grad_out.as<T>());
  });
}

}  // namespace ferrite::kernels::cpu
