#include "ferrite/kernels/cpu/fold.h"
#include "ferrite/kernels/cpu/pool_loops.h"
#include "ferrite/kernels/pool.h"

namespace ferrite::kernels::cpu {

namespace {

/// What each window's sum is divided by, as the product of one factor a dimension.
struct Divisors {
  explicit Divisors(const Pool2d& p) : h(factors(p, p.h)), w(factors(p, p.w)) {
    if (!p.divisor_override) return;
    std::fill(h.begin(), h.end(), static_cast<double>(p.divisor_override));
    std::fill(w.begin(), w.end(), 1.0);
  }

  template <class C>
  C at(std::int64_t oh, std::int64_t ow) const {
    return static_cast<C>(h[index(oh)] * w[index(ow)]);
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

template <class T>
struct Forward {
  using C = Compute<T>;
  const Pool2d& pool;
  T* out;
  Divisors divisors{pool};

  template <int W>
  void reduce(const WindowRow<T>& window, std::int64_t step, std::int64_t at, std::int64_t oh,
              std::int64_t ow) const {
    Lanes<C, W> sum{}, row{};
    for_each_cell<W>(
        window, step, [&](const auto& v, std::int64_t) { row += v; },
        [&] {
          sum += row;
          row = Lanes<C, W>{};
        });
    store<W>(out + at, sum / divisors.template at<C>(oh, ow));
  }
};

template <class T>
struct Backward {
  using C = Compute<T>;
  const Pool2d& pool;
  const T* grad_out;
  Divisors divisors{pool};
  std::vector<PoolAxis::Window> hs = windows_of(pool.h), ws = windows_of(pool.w);

  template <int W>
  Lanes<C, W> gather(std::int64_t at, std::int64_t, std::int64_t oh, std::int64_t ow) const {
    return load<W>(grad_out + at) / divisors.template at<C>(oh, ow);
  }

  void scatter(C* sums, std::int64_t at) const {
    for (std::int64_t oh = 0; oh < pool.h.output; ++oh)
      for (std::int64_t ow = 0; ow < pool.w.output; ++ow, ++at) {
        const C g = static_cast<C>(grad_out[at]) / divisors.template at<C>(oh, ow);
        const auto &h = hs[index(oh)], &w = ws[index(ow)];
        const bool whole_rows = w.count == pool.w.input;  // which are one run
        const std::int64_t runs = whole_rows ? 1 : h.count;
        const std::int64_t length = whole_rows ? h.count * w.count : w.count;
        for (std::int64_t i = 0; i < runs; ++i) {
          C* to = sums + (h.first + i) * pool.w.input + w.first;
          for (std::int64_t j = 0; j < length; ++j) to[j] += g;
        }
      }
  }
};

/// Whether there is one window, which is the plane.
bool is_global(const Pool2d& p) {
  const auto whole = [](const PoolAxis& a) {
    return a.output == 1 && a.window(0).count == a.input && (a.adaptive || a.padding == 0);
  };
  return whole(p.h) && whole(p.w);
}

template <class T>
void global(const Pool2d& p, T* out, const T* in) {
  using C = Compute<T>;
  const std::int64_t cells = p.h.input * p.w.input;
  const C divisor = Divisors(p).at<C>(0, 0);
  parallel_for(p.batch * p.channels, grain_of(cells), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane)
      out[plane] = static_cast<T>(sum_of(in + plane * cells, cells) / divisor);
  });
}

float scale_of(const Pool2d& p) {
  return p.divisor_override ? 1 / static_cast<float>(p.divisor_override) : 0.25f;
}

template <class T>
void halving(const Pool2d& p, T* out, const T* in) {
  for_each_halving(p, [=, scale = scale_of(p)](std::int64_t at, std::int64_t cells, auto width,
                                               auto load, auto) {
    const Quad<width> v = load(in + cells);
    store<width>(out + at, ((v.a + v.b) + (v.c + v.d)) * scale);
  });
}

template <class T>
void halving_backward(const Pool2d& p, T* grad_in, const T* grad_out) {
  zero_unpooled(p, grad_in);
  for_each_halving(p, [=, scale = scale_of(p)](std::int64_t at, std::int64_t cells, auto width,
                                               auto, auto store) {
    const auto g = load<width>(grad_out + at) * scale;
    store(grad_in + cells, {g, g, g, g});
  });
}

}  // namespace

void avg_pool2d(const Pool2d& p, const View& out, const View& in) {
  dispatch_floating(in.dtype, "avg_pool2d", [&]<class T>() {
    if constexpr (std::is_same_v<Compute<T>, float>)
      if (is_halving(p)) return halving(p, out.as<T>(), in.as<T>());
    if (!p.channels_last && is_global(p)) return global(p, out.as<T>(), in.as<T>());
    const Forward<T> op{p, out.as<T>()};
    p.channels_last ? forward_channels_last(p, in.as<T>(), op)
                    : forward_contiguous(p, in.as<T>(), op);
  });
}

void avg_pool2d_backward(const Pool2d& p, const View& grad_in, const View& grad_out) {
  dispatch_floating(grad_in.dtype, "avg_pool2d", [&]<class T>() {
    if constexpr (std::is_same_v<Compute<T>, float>)
      if (is_halving(p)) return halving_backward(p, grad_in.as<T>(), grad_out.as<T>());
    const Backward<T> op{p, grad_out.as<T>()};
    p.channels_last ? backward_channels_last(p, grad_in.as<T>(), op)
                    : backward_contiguous(p, grad_in.as<T>(), op);
  });
}

}  // namespace ferrite::kernels::cpu
