#include <algorithm>

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/cpu/pool_loops.h"
#include "ferrite/kernels/pool.h"

namespace ferrite::kernels::cpu {

namespace {

/// Calls f.operator()<Code>() with the type of `code`.
template <class F>
void with_code(const View& code, F&& f) {
  dispatch_types<std::uint8_t, std::int32_t>(code.dtype, "max_pool2d", std::forward<F>(f));
}

template <class T>
struct Forward {
  T* out;
  View code;

  template <int W>
  void reduce(const WindowRow<T>& window, std::int64_t step, std::int64_t at, std::int64_t,
              std::int64_t) const {
    Maximum<Compute<T>, W> m(window.place);
    for_each_cell<W>(
        window, step, [&](const auto& v, std::int64_t place) { m.see(v, place); }, [] {});
    store<W>(out + at, m.best);
    m.store_place(code, at);
  }
};

template <class T, class Code>
struct Backward {
  const Pool2d& pool;
  const T* grad_out;
  const Code* code;
  const T* relu_out;  ///< null: nothing holds the gradient back

  template <int W>
  Lanes<Compute<T>, W> gather(std::int64_t at, std::int64_t place, std::int64_t,
                              std::int64_t) const {
    const Lanes<Compute<T>, W> g = chosen_gradients<W>(grad_out, code, at, place);
    if (!relu_out) return g;
    return load<W>(relu_out + at) <= 0 ? Lanes<Compute<T>, W>{} : g;
  }

  void scatter(Compute<T>* sums, std::int64_t at) const {
    if (relu_out)
      scatter_where(sums, at, [out = relu_out](std::int64_t i) {
        return !(static_cast<Compute<T>>(out[i]) <= 0);
      });
    else
      scatter_where(sums, at, [](std::int64_t) { return true; });
  }
  template <class Where>
  void scatter_where(Compute<T>* sums, std::int64_t at, Where where) const {
    const std::int64_t width = pool.w.output;
    const std::int64_t *left = lefts.data(), *cell = cells.data();
    const std::int64_t columns = pool.w.widest();
    const auto cell_of = [&](Code place) {
      if constexpr (kHasTable) return cell[place];
      return cell_at(pool, columns, place);
    };
    for (std::int64_t oh = 0; oh < pool.h.output; ++oh, at += width) {
      const PoolAxis::Window& h = hs[index(oh)];
      const std::int64_t row = (h.first - h.skip * pool.h.dilation) * pool.w.input;
      for (std::int64_t ow = 0; ow < width; ++ow)
        if (where(at + ow))
          sums[row + left[ow] + cell_of(code[at + ow])] +=
              static_cast<Compute<T>>(grad_out[at + ow]);
    }
  }

  /// Places of one byte are so few that a table is faster than divisions.
  static constexpr bool kHasTable = sizeof(Code) == 1;

  /// Where in the plane a place is, from its window's first cell (inside or not).
  static std::int64_t cell_at(const Pool2d& p, std::int64_t columns, std::int64_t place) {
    return place / columns * p.h.dilation * p.w.input + place % columns * p.w.dilation;
  }
  static std::vector<std::int64_t> cells_of(const Pool2d& p) {
    std::vector<std::int64_t> cells;
    if constexpr (kHasTable) {
      const std::int64_t rows = p.h.widest(), columns = p.w.widest();
      for (std::int64_t place = 0; place < rows * columns; ++place)
        cells.push_back(cell_at(p, columns, place));
    }
    return cells;
  }
  /// The first column (inside or not) of each window.
  static std::vector<std::int64_t> lefts_of(const PoolAxis& axis) {
    std::vector<std::int64_t> lefts;
    for (const PoolAxis::Window& w : windows_of(axis))
      lefts.push_back(w.first - w.skip * axis.dilation);
    return lefts;
  }
  std::vector<PoolAxis::Window> hs = windows_of(pool.h);
  std::vector<std::int64_t> lefts = lefts_of(pool.w), cells = cells_of(pool);
};

template <class T>
void halving(const Pool2d& p, T* out, const View& code, const T* in) {
  for_each_halving(p, [=](std::int64_t at, std::int64_t cells, auto width, auto load, auto) {
    const Quad<width> v = load(in + cells);
    Maximum<float, width> m(0);
    m.see(v.a, 0);
    m.see(v.b, 1);
    m.see(v.c, 2);
    m.see(v.d, 3);
    store<width>(out + at, m.best);
    m.store_place(code, at);
  });
}

template <class T>
void halving_backward(const Pool2d& p, T* grad_in, const T* grad_out, const std::uint8_t* code,
                      const T* relu_out) {
  zero_unpooled(p, grad_in);
  for_each_halving(p, [=](std::int64_t at, std::int64_t cells, auto width, auto, auto store) {
    const auto place = convert<std::int32_t, width, std::uint8_t>(load<width>(code + at));
    const Lanes<float, width> zero{};
    auto g = load<width>(grad_out + at);
    if (relu_out) g = load<width>(relu_out + at) <= 0 ? zero : g;
    store(grad_in + cells, {place == 0 ? g : zero, place == 1 ? g : zero, place == 2 ? g : zero,
                            place == 3 ? g : zero});
  });
}

/// Calls f(i, plane cell, offset of that cell in the input) for each result i.
template <class F>
void for_each_chosen(const Pool2d& p, const View& code, F&& f) {
  const auto hs = windows_of(p.h), ws = windows_of(p.w);
  const std::int64_t channels = p.channels, kw = p.w.widest();
  const std::int64_t outputs = p.h.output * p.w.output, inputs = p.h.input * p.w.input;
  with_code(code, [&]<class Code>() {
    const Code* codes = code.as<Code>();
    parallel_for(p.batch * channels * outputs, 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t image = i / (channels * outputs), rest = i % (channels * outputs);
        const std::int64_t c = p.channels_last ? rest % channels : rest / outputs;
        const std::int64_t o = p.channels_last ? rest / channels : rest % outputs;
        const auto& h = hs[index(o / p.w.output)];
        const auto& w = ws[index(o % p.w.output)];
        const std::int64_t ih = h.first + (codes[i] / kw - h.skip) * p.h.dilation;
        const std::int64_t iw = w.first + (codes[i] % kw - w.skip) * p.w.dilation;
        const std::int64_t cell = ih * p.w.input + iw;
        f(i, cell,
          p.channels_last ? (image * inputs + cell) * channels + c
                          : (image * channels + c) * inputs + cell);
      }
    });
  });
}

}  // namespace

void max_pool2d(const Pool2d& p, const View& out, const View& code, const View& in,
                const View& cleared) {
  if (cleared.data) std::fill_n(cleared.as<std::int32_t>(), cleared.numel, 0);
  dispatch_floating(in.dtype, "max_pool2d", [&]<class T>() {
    if constexpr (std::is_same_v<Compute<T>, float>)
      if (is_halving(p)) return halving(p, out.as<T>(), code, in.as<T>());
    const Forward<T> op{out.as<T>(), code};
    p.channels_last ? forward_channels_last(p, in.as<T>(), op)
                    : forward_contiguous(p, in.as<T>(), op);
  });
}

namespace {

void gradient_of_maxima(const Pool2d& p, const View& grad_in, const View& grad_out,
                        const View& code, const View& relu_out) {
  with_code(code, [&]<class Code>() {
    dispatch_floating(grad_in.dtype, "max_pool2d", [&]<class T>() {
      if constexpr (std::is_same_v<Compute<T>, float> && std::is_same_v<Code, std::uint8_t>)
        if (is_halving(p))
          return halving_backward(p, grad_in.as<T>(), grad_out.as<T>(), code.as<Code>(),
                                  relu_out.as<T>());
      const Backward<T, Code> op{p, grad_out.as<T>(), code.as<Code>(), relu_out.as<T>()};
      p.channels_last ? backward_channels_last(p, grad_in.as<T>(), op)
                      : backward_contiguous(p, grad_in.as<T>(), op);
    });
  });
}

}  // namespace

void max_pool2d_backward(const Pool2d& p, const View& grad_in, const View& grad_out,
                         const View& code, const View& relu_out, const View& channel_sums,
                         const View&) {
  gradient_of_maxima(p, grad_in, grad_out, code, relu_out);
  if (channel_sums.data) channel_sum(channel_sums, input_planes(p, grad_in));
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
