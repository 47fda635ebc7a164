#include <cmath>
#include <limits>

#include "kernels/cpu/pool.h"
#include "kernels/cpu/pool_loops.h"

namespace ferrite::kernels::cpu {

namespace {

using Windows = std::vector<PoolAxis::Window>;

/// Calls f.operator()<Code>() with the type of `code`.
template <class F>
void with_code(const View& code, F&& f) {
  dispatch_types<std::uint8_t, std::int32_t>(code.dtype, "max_pool2d", std::forward<F>(f));
}

/// The running maxima of up to kLanes windows and their places.
template <class T>
struct Maxima {
  using C = Compute<T>;
  C best[kLanes];
  std::int32_t place[kLanes];

  void start(std::int32_t first_place) {
    std::fill_n(best, kLanes, -std::numeric_limits<C>::infinity());
    std::fill_n(place, kLanes, first_place);
  }
  /// Lane l (of begin to end) sees p[(l - begin) * step].
  template <class Step>
  void see(std::int64_t begin, std::int64_t end, const T* p, Step step, std::int32_t at) {
    for (std::int64_t l = begin; l < end; ++l) {
      const C v = static_cast<C>(p[(l - begin) * step]);
      // A NaN is taken by the second comparison, and never given up but for another.
      const bool take = (v > best[l]) | (v != v);
      best[l] = take ? v : best[l];
      place[l] = take ? at : place[l];
    }
  }
  void store(T* out, const View& code, std::int64_t at, std::int64_t count) const {
    for (std::int64_t l = 0; l < count; ++l) out[at + l] = static_cast<T>(best[l]);
    if (!code.data) return;
    if (code.dtype == kUInt8) {
      std::uint8_t* c = code.as<std::uint8_t>() + at;
      for (std::int64_t l = 0; l < count; ++l) c[l] = static_cast<std::uint8_t>(place[l]);
    } else {
      std::copy_n(place, count, code.as<std::int32_t>() + at);
    }
  }
};

template <class T>
void max_channels_last(const Pool2d& p, T* out, const View& code, const T* in) {
  const Windows hs = windows_of(p.h), ws = windows_of(p.w);
  const std::int64_t c_all = p.channels, kw = p.w.widest();
  const std::int64_t dh = p.h.dilation, dw = p.w.dilation;
  const std::int64_t work = p.w.output * c_all * p.h.widest() * kw;
  parallel_for(p.batch * p.h.output, grain_of(work), [&](std::int64_t begin, std::int64_t end) {
    Maxima<T> m;
    for (std::int64_t row = begin; row < end; ++row) {
      const auto& h = hs[static_cast<std::size_t>(row % p.h.output)];
      const T* image = in + row / p.h.output * p.h.input * p.w.input * c_all;
      for (std::int64_t ow = 0; ow < p.w.output; ++ow) {
        const auto& w = ws[static_cast<std::size_t>(ow)];
        for (std::int64_t c = 0; c < c_all; c += kLanes) {
          const std::int64_t lanes = std::min<std::int64_t>(kLanes, c_all - c);
          m.start(static_cast<std::int32_t>(h.skip * kw + w.skip));
          for (std::int64_t i = 0; i < h.count; ++i)
            for (std::int64_t j = 0; j < w.count; ++j)
              m.see(0, lanes,
                    image + ((h.first + i * dh) * p.w.input + w.first + j * dw) * c_all + c,
                    std::integral_constant<int, 1>(),
                    static_cast<std::int32_t>((h.skip + i) * kw + w.skip + j));
          m.store(out, code, (row * p.w.output + ow) * c_all + c, lanes);
        }
      }
    }
  });
}

/// One row of results in NCHW, lanes being its columns. `plane` is the input's.
template <class T>
void max_row(const Pool2d& p, const PoolAxis::Window& h, const T* plane, T* out, const View& code,
             std::int64_t out_at) {
  Maxima<T> m;
  const std::int64_t s = p.w.stride;
  for (std::int64_t first = 0; first < p.w.output; first += kLanes) {
    const std::int64_t lanes = std::min<std::int64_t>(kLanes, p.w.output - first);
    m.start(static_cast<std::int32_t>(h.skip * p.w.kernel));
    for (std::int64_t l = 0; l < lanes; ++l)
      m.place[l] += static_cast<std::int32_t>(p.w.window(first + l).skip);
    for (std::int64_t i = 0; i < h.count; ++i) {
      const T* row = plane + (h.first + i * p.h.dilation) * p.w.input;
      for (std::int64_t j = 0; j < p.w.kernel; ++j) {
        // The lanes whose column number j lies inside: 0 <= (first + l) * s + off < input.
        const std::int64_t off = j * p.w.dilation - p.w.padding;
        const std::int64_t low = off < 0 ? (-off + s - 1) / s : 0;
        const std::int64_t high = off < p.w.input ? (p.w.input - off + s - 1) / s : 0;
        const std::int64_t begin = std::max<std::int64_t>(low - first, 0);
        const std::int64_t end = std::min(high - first, lanes);
        if (begin >= end) continue;
        const T* cells = row + (first + begin) * s + off;
        const auto at = static_cast<std::int32_t>((h.skip + i) * p.w.kernel + j);
        if (s == 1)
          m.see(begin, end, cells, std::integral_constant<int, 1>(), at);
        else if (s == 2)
          m.see(begin, end, cells, std::integral_constant<int, 2>(), at);
        else
          m.see(begin, end, cells, s, at);
      }
    }
    m.store(out, code, out_at + first, lanes);
  }
}

/// The same, a window at a time: windows of many widths, or few and wide ones.
template <class T>
void max_row_of_windows(const Pool2d& p, const PoolAxis::Window& h, const Windows& ws,
                        std::int64_t kw, const T* plane, T* out, const View& code,
                        std::int64_t out_at) {
  Maxima<T> m;
  for (std::int64_t ow = 0; ow < p.w.output; ++ow) {
    const auto& w = ws[static_cast<std::size_t>(ow)];
    m.start(static_cast<std::int32_t>(h.skip * kw + w.skip));
    for (std::int64_t i = 0; i < h.count; ++i) {
      const T* cells = plane + (h.first + i * p.h.dilation) * p.w.input + w.first;
      for (std::int64_t j = 0; j < w.count; ++j)
        m.see(0, 1, cells + j * p.w.dilation, std::integral_constant<int, 1>(),
              static_cast<std::int32_t>((h.skip + i) * kw + w.skip + j));
    }
    m.store(out, code, out_at + ow, 1);
  }
}

template <class T>
void max_contiguous(const Pool2d& p, T* out, const View& code, const T* in) {
  const Windows hs = windows_of(p.h), ws = windows_of(p.w);
  const std::int64_t kw = p.w.widest();
  const bool by_window = p.w.adaptive || p.w.output < 4;
  const std::int64_t work = p.w.output * p.h.widest() * kw;
  parallel_for(p.batch * p.channels * p.h.output, grain_of(work),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   const auto& h = hs[static_cast<std::size_t>(row % p.h.output)];
                   const T* plane = in + row / p.h.output * p.h.input * p.w.input;
                   if (by_window)
                     max_row_of_windows(p, h, ws, kw, plane, out, code, row * p.w.output);
                   else
                     max_row(p, h, plane, out, code, row * p.w.output);
                 }
               });
}

/// The maximum of four values and its place, as Maxima has them.
inline float max_of_4(float a, float b, float c, float d, std::int32_t& place) {
  const float low = -std::numeric_limits<float>::infinity();
  float best = (a > low) | (a != a) ? a : low;
  place = 0;
  const auto see = [&](float v, std::int32_t at) {
    const bool take = (v > best) | (v != v);
    best = take ? v : best;
    place = take ? at : place;
  };
  see(b, 1);
  see(c, 2);
  see(d, 3);
  return best;
}

void max_halving(const Pool2d& p, float* out, const View& code, const float* in) {
  const std::int64_t c_all = p.channels, ow = p.w.output;
  const std::int64_t in_row = p.w.input * (p.channels_last ? c_all : 1);
  std::uint8_t* codes = code.as<std::uint8_t>();
  // `step` cells from one lane to the next, `right` from the left column to the right one.
  const auto lanes = [&](std::int64_t n, const float* top, std::int64_t right, auto step, float* o,
                         std::uint8_t* c) {
    const float* bottom = top + in_row;
    for_blocks(n, [=](std::int64_t first, auto width) {
      std::int32_t place[width];
      for (int l = 0; l < width; ++l) {
        const std::int64_t at = (first + l) * step;
        o[first + l] = max_of_4(top[at], top[at + right], bottom[at], bottom[at + right], place[l]);
      }
      if (c)
        for (int l = 0; l < width; ++l) c[first + l] = static_cast<std::uint8_t>(place[l]);
    });
  };
  for_each_halving_row(p, [&](std::int64_t at, std::int64_t from) {
    if (!p.channels_last)
      return lanes(ow, in + from, 1, std::integral_constant<int, 2>(), out + at,
                   codes ? codes + at : nullptr);
    for (std::int64_t i = 0; i < ow; ++i)
      lanes(c_all, in + from + 2 * i * c_all, c_all, std::integral_constant<int, 1>(),
            out + at + i * c_all, codes ? codes + at + i * c_all : nullptr);
  });
}

void max_halving_backward(const Pool2d& p, float* grad_in, const float* grad_out,
                          const std::uint8_t* codes) {
  const std::int64_t c_all = p.channels, ow = p.w.output;
  const std::int64_t in_row = p.w.input * (p.channels_last ? c_all : 1);
  const auto lanes = [&](std::int64_t n, float* top, std::int64_t right, auto step, const float* g,
                         const std::uint8_t* c) {
    float* bottom = top + in_row;
    for_blocks(n, [=](std::int64_t first, auto width) {
      std::int32_t place[width];
      float v[width];
      for (int l = 0; l < width; ++l) place[l] = c[first + l], v[l] = g[first + l];
      for (int l = 0; l < width; ++l) {
        const std::int64_t at = (first + l) * step;
        top[at] = place[l] == 0 ? v[l] : 0;
        top[at + right] = place[l] == 1 ? v[l] : 0;
        bottom[at] = place[l] == 2 ? v[l] : 0;
        bottom[at + right] = place[l] == 3 ? v[l] : 0;
      }
    });
  };
  for_each_halving_row_backward(p, grad_in, [&](std::int64_t at, std::int64_t to) {
    if (!p.channels_last)
      return lanes(ow, grad_in + to, 1, std::integral_constant<int, 2>(), grad_out + at,
                   codes + at);
    for (std::int64_t i = 0; i < ow; ++i)
      lanes(c_all, grad_in + to + 2 * i * c_all, c_all, std::integral_constant<int, 1>(),
            grad_out + at + i * c_all, codes + at + i * c_all);
  });
}

/// Each input cell gathers from the windows that hold it.
template <class T, class Code>
void max_channels_last_backward(const Pool2d& p, T* grad_in, const T* grad_out, const Code* code) {
  using C = Compute<T>;
  const Holders hs(p.h), ws(p.w);
  const std::int64_t c_all = p.channels, kw = p.w.widest();
  parallel_for(p.batch * p.h.input, grain_of(p.w.input * c_all * 2),
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
                           const std::int64_t at =
                               (outputs + h.output * p.w.output + w.output) * c_all + c;
                           const auto place = static_cast<std::int32_t>(h.place * kw + w.place);
                           for (std::int64_t l = 0; l < lanes; ++l)
                             sum[l] += static_cast<std::int32_t>(code[at + l]) == place
                                           ? static_cast<C>(grad_out[at + l])
                                           : C(0);
                         }
                       T* to = grad_in + (row * p.w.input + iw) * c_all + c;
                       for (std::int64_t l = 0; l < lanes; ++l) to[l] = static_cast<T>(sum[l]);
                     }
                 }
               });
}

/// Each input row gathers from the rows of windows that hold it.
template <class T, class Code>
void max_contiguous_backward(const Pool2d& p, T* grad_in, const T* grad_out, const Code* code) {
  using C = Compute<T>;
  const Holders hs(p.h);
  const Windows ws = windows_of(p.w);
  const std::int64_t kw = p.w.widest(), dw = p.w.dilation;
  parallel_for(p.batch * p.channels * p.h.input, grain_of(2 * p.w.input),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<C> sum(static_cast<std::size_t>(p.w.input));
                 for (std::int64_t row = begin; row < end; ++row) {
                   std::fill(sum.begin(), sum.end(), C(0));
                   const std::int64_t outputs = row / p.h.input * p.h.output * p.w.output;
                   for (const auto& h : hs[row % p.h.input]) {
                     const std::int64_t at = outputs + h.output * p.w.output;
                     for (std::int64_t ow = 0; ow < p.w.output; ++ow) {
                       const auto& w = ws[static_cast<std::size_t>(ow)];
                       const std::int64_t place = code[at + ow] - h.place * kw;
                       if (place >= 0 && place < kw)
                         sum[static_cast<std::size_t>(w.first + (place - w.skip) * dw)] +=
                             static_cast<C>(grad_out[at + ow]);
                     }
                   }
                   std::transform(sum.begin(), sum.end(), grad_in + row * p.w.input,
                                  [](C v) { return static_cast<T>(v); });
                 }
               });
}

/// Calls f(i, plane cell, offset of that cell in the input) for each result i.
template <class F>
void for_each_chosen(const Pool2d& p, const View& code, F&& f) {
  const Windows hs = windows_of(p.h), ws = windows_of(p.w);
  const std::int64_t c_all = p.channels, kw = p.w.widest();
  const std::int64_t outputs = p.h.output * p.w.output, inputs = p.h.input * p.w.input;
  with_code(code, [&]<class Code>() {
    const Code* codes = code.as<Code>();
    parallel_for(p.batch * c_all * outputs, 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t image = i / (c_all * outputs), rest = i % (c_all * outputs);
        const std::int64_t c = p.channels_last ? rest % c_all : rest / outputs;
        const std::int64_t o = p.channels_last ? rest / c_all : rest % outputs;
        const auto& h = hs[static_cast<std::size_t>(o / p.w.output)];
        const auto& w = ws[static_cast<std::size_t>(o % p.w.output)];
        const std::int64_t ih = h.first + (codes[i] / kw - h.skip) * p.h.dilation;
        const std::int64_t iw = w.first + (codes[i] % kw - w.skip) * p.w.dilation;
        const std::int64_t cell = ih * p.w.input + iw;
        f(i, cell,
          p.channels_last ? (image * inputs + cell) * c_all + c
                          : (image * c_all + c) * inputs + cell);
      }
    });
  });
}

}  // namespace

void max_pool2d(const Pool2d& p, const View& out, const View& code, const View& in) {
  if (in.dtype == kFloat32 && is_halving(p))
    return max_halving(p, out.as<float>(), code, in.as<float>());
  dispatch_floating(in.dtype, "max_pool2d", [&]<class T>() {
    if (p.channels_last)
      max_channels_last(p, out.as<T>(), code, in.as<T>());
    else
      max_contiguous(p, out.as<T>(), code, in.as<T>());
  });
}

void max_pool2d_backward(const Pool2d& p, const View& grad_in, const View& grad_out,
                         const View& code) {
  if (grad_in.dtype == kFloat32 && is_halving(p))
    return max_halving_backward(p, grad_in.as<float>(), grad_out.as<float>(),
                                code.as<std::uint8_t>());
  with_code(code, [&]<class Code>() {
    dispatch_floating(grad_in.dtype, "max_pool2d", [&]<class T>() {
      if (p.channels_last)
        max_channels_last_backward(p, grad_in.as<T>(), grad_out.as<T>(), code.as<Code>());
      else
        max_contiguous_backward(p, grad_in.as<T>(), grad_out.as<T>(), code.as<Code>());
    });
  });
}

void max_pool2d_gather(const Pool2d& p, const View& out, const View& in, const View& code) {
  dispatch_floating(in.dtype, "max_pool2d", [&]<class T>() {
    T* o = out.as<T>();
    const T* x = in.as<T>();
    for_each_chosen(p, code, [&](std::int64_t i, std::int64_t, std::int64_t at) { o[i] = x[at]; });
  });
}

void max_pool2d_indices(const Pool2d& p, const View& indices, const View& code) {
  std::int64_t* out = indices.as<std::int64_t>();
  for_each_chosen(p, code, [&](std::int64_t i, std::int64_t cell, std::int64_t) { out[i] = cell; });
}

}  // namespace ferrite::kernels::cpu
