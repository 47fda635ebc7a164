// What pooling of any kind shares: which windows there are, and the order in which they are
// visited. Lanes are neighbours in memory: channels in NHWC, columns in NCHW.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/simd.h"
#include "ferrite/kernels/pool.h"

namespace ferrite::kernels::cpu {

inline std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// How many items of `work` elements each make a chunk for the thread pool.
inline std::int64_t grain_of(std::int64_t work) {
  return std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, work));
}

/// All windows along one dimension.
inline std::vector<PoolAxis::Window> windows_of(const PoolAxis& axis) {
  std::vector<PoolAxis::Window> windows;
  windows.reserve(index(axis.output));
  for (std::int64_t o = 0; o < axis.output; ++o) windows.push_back(axis.window(o));
  return windows;
}

/// The windows that hold an input cell along one dimension, and its place in each.
class Holders {
 public:
  struct Holder {
    std::int64_t output;
    std::int64_t place;
  };

  explicit Holders(const PoolAxis& axis) : begin_(index(axis.input) + 1) {
    const auto windows = windows_of(axis);
    for (const auto& w : windows)
      for (std::int64_t k = 0; k < w.count; ++k) ++begin_[index(w.first + k * axis.dilation) + 1];
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    holders_.resize(begin_.back());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (std::int64_t o = 0; o < axis.output; ++o) {
      const auto& w = windows[index(o)];
      for (std::int64_t k = 0; k < w.count; ++k)
        holders_[next[index(w.first + k * axis.dilation)]++] = {o, w.skip + k};
    }
  }

  /// In rising order of output.
  std::span<const Holder> operator[](std::int64_t input) const {
    const std::size_t begin = begin_[index(input)];
    return std::span(holders_).subspan(begin, begin_[index(input) + 1] - begin);
  }

 private:
  std::vector<std::size_t> begin_;
  std::vector<Holder> holders_;
};

/// W windows that lie side by side in the lanes: `cells` is the first lane's cell of window column
/// 0, `step` the distance from lane to lane.
template <class T>
struct WindowRow {
  const T* cells;
  std::int64_t rows, row_stride;
  std::int64_t columns, column_stride;
  std::int64_t place, place_stride;  ///< of the first cell; from one row of the window to the next
};

/// NHWC forward: op.reduce<W>(window, step, at, oh, ow) computes the W results from element `at`.
template <class T, class Op>
void forward_channels_last(const Pool2d& p, const T* in, const Op& op) {
  const auto hs = windows_of(p.h), ws = windows_of(p.w);
  const std::int64_t channels = p.channels, places = p.w.widest();
  const std::int64_t work = p.w.output * channels * p.h.widest() * places;
  parallel_for(p.batch * p.h.output, grain_of(work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t oh = row % p.h.output;
      const auto& h = hs[index(oh)];
      const T* image = in + row / p.h.output * p.h.input * p.w.input * channels;
      for (std::int64_t ow = 0; ow < p.w.output; ++ow) {
        const auto& w = ws[index(ow)];
        WindowRow<T> window{image + (h.first * p.w.input + w.first) * channels,
                            h.count,
                            p.h.dilation * p.w.input * channels,
                            w.count,
                            p.w.dilation * channels,
                            h.skip * places + w.skip,
                            places};
        const T* cells = window.cells;
        for_blocks(0, channels, [&](std::int64_t c, auto width) {
          window.cells = cells + c;
          op.template reduce<width>(window, 1, (row * p.w.output + ow) * channels + c, oh, ow);
        });
      }
    }
  });
}

/// NCHW forward: the same, with lanes along the columns whose windows lie inside and are alike.
template <class T, class Op>
void forward_contiguous(const Pool2d& p, const T* in, const Op& op) {
  const auto hs = windows_of(p.h), ws = windows_of(p.w);
  const std::int64_t places = p.w.widest();
  const auto whole = [&](const PoolAxis::Window& w) {
    return !p.w.adaptive && w.skip == 0 && w.count == p.w.kernel;
  };
  std::int64_t left = 0, right = p.w.output;
  while (left < right && !whole(ws[index(left)])) ++left;
  while (right > left && !whole(ws[index(right - 1)])) --right;
  const std::int64_t work = p.w.output * p.h.widest() * places;
  parallel_for(p.batch * p.channels * p.h.output, grain_of(work),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   const std::int64_t oh = row % p.h.output;
                   const auto& h = hs[index(oh)];
                   const T* plane = in + row / p.h.output * p.h.input * p.w.input;
                   const auto one = [&](std::int64_t ow, auto width) {
                     const auto& w = ws[index(ow)];
                     const WindowRow<T> window{plane + h.first * p.w.input + w.first,
                                               h.count,
                                               p.h.dilation * p.w.input,
                                               w.count,
                                               p.w.dilation,
                                               h.skip * places + w.skip,
                                               places};
                     op.template reduce<width>(window, p.w.stride, row * p.w.output + ow, oh, ow);
                   };
                   for (std::int64_t ow = 0; ow < left; ++ow)
                     one(ow, std::integral_constant<int, 1>());
                   for_blocks(left, right, one);
                   for (std::int64_t ow = right; ow < p.w.output; ++ow)
                     one(ow, std::integral_constant<int, 1>());
                 }
               });
}

/// Calls see(cells of W lanes, place) for each cell of a window, and end_row() after each row.
template <int W, class T, class See, class EndRow>
void for_each_cell(const WindowRow<T>& w, std::int64_t step, See&& see, EndRow&& end_row) {
  const auto visit = [&](auto load_lanes) {
    for (std::int64_t i = 0; i < w.rows; ++i) {
      const T* cells = w.cells + i * w.row_stride;
      for (std::int64_t j = 0; j < w.columns; ++j)
        see(load_lanes(cells + j * w.column_stride), w.place + i * w.place_stride + j);
      end_row();
    }
  };
  if (W == 1 || step == 1)
    visit([](const T* q) { return load<W>(q); });
  else if (step == 2)
    visit([](const T* q) { return load_even<W>(q); });
  else
    visit([step](const T* q) {
      T lanes[W];
      for (int l = 0; l < W; ++l) lanes[l] = q[l * step];
      return load<W>(lanes);
    });
}

/// The running maximum of W windows and where it was.
template <class C, int W>
struct Maximum {
  using Value = Lanes<C, W>;
  using Place = Lanes<MaskOf<C>, W>;

  explicit Maximum(std::int64_t first_place)
      : best(Value{} - std::numeric_limits<C>::infinity()),
        place(Place{} + static_cast<MaskOf<C>>(first_place)) {}

  /// Where `v` are the maxima so far.
  auto see(const Value& v, std::int64_t at) {
    // A NaN is taken by the second comparison, and never given up but for another.
    const auto take = (v > best) | (v != v);
    best = take ? v : best;
    place = take ? Place{} + static_cast<MaskOf<C>>(at) : place;
    return take;
  }

  void store_place(const View& code, std::int64_t at) const {
    if (!code.data) return;
    if (code.dtype == kUInt8)
      store<W>(code.as<std::uint8_t>() + at, convert<std::uint8_t, W, MaskOf<C>>(place));
    else
      store<W>(code.as<std::int32_t>() + at, convert<std::int32_t, W, MaskOf<C>>(place));
  }

  Value best;
  Place place;
};

/// The gradients of the W windows from element `at` on whose maximum is at `place`, and 0 of
/// others.
template <int W, class T, class Code>
Lanes<Compute<T>, W> chosen_gradients(const T* grad_out, const Code* code, std::int64_t at,
                                      std::int64_t place) {
  using Mask = MaskOf<Compute<T>>;
  const auto chosen = convert<Mask, W, Code>(load<W>(code + at)) == static_cast<Mask>(place);
  return chosen ? load<W>(grad_out + at) : Lanes<Compute<T>, W>{};
}

/// NHWC backward: each input cell sums op.gather<W>(at, place, oh, ow) over the windows that hold
/// it, `at` being the first of the W results' elements, and receives op.result<W>(sum, cell, c), if
/// there is such a function.
template <class T, class Op>
void backward_channels_last(const Pool2d& p, T* grad_in, const Op& op) {
  const Holders hs(p.h), ws(p.w);
  const std::int64_t channels = p.channels, places = p.w.widest();
  // Asked in the loop, for its parameter `width`, clang++ 16 answers no in any case.
  constexpr bool kHasResult = requires(const Lanes<Compute<T>, 1>& sum) {
    op.template result<1>(sum, 0, 0);
  };
  struct Window {
    std::int64_t at, place, oh, ow;
  };
  parallel_for(p.batch * p.h.input, grain_of(2 * p.w.input * channels),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<Window> windows;
                 for (std::int64_t row = begin; row < end; ++row) {
                   const std::int64_t outputs = row / p.h.input * p.h.output * p.w.output;
                   for (std::int64_t iw = 0; iw < p.w.input; ++iw) {
                     windows.clear();
                     for (const auto& h : hs[row % p.h.input])
                       for (const auto& w : ws[iw])
                         windows.push_back({(outputs + h.output * p.w.output + w.output) * channels,
                                            h.place * places + w.place, h.output, w.output});
                     const std::int64_t cell = (row * p.w.input + iw) * channels;
                     for_blocks(0, channels, [&](std::int64_t c, auto width) {
                       Lanes<Compute<T>, width> sum{};
                       for (const Window& w : windows)
                         sum += op.template gather<width>(w.at + c, w.place, w.oh, w.ow);
                       if constexpr (kHasResult)
                         store<width>(grad_in + cell + c,
                                      op.template result<width>(sum, cell + c, c));
                       else
                         store<width>(grad_in + cell + c, sum);
                     });
                   }
                 }
               });
}

/// NCHW backward: op.scatter(plane sums, first result of the plane) adds to each plane in turn.
template <class T, class Op>
void backward_contiguous(const Pool2d& p, T* grad_in, const Op& op) {
  using C = Compute<T>;
  const std::int64_t cells = p.h.input * p.w.input, outputs = p.h.output * p.w.output;
  parallel_for(p.batch * p.channels, grain_of(cells), [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> buffer(is_half_type<T> ? index(cells) : 0);
    for (std::int64_t plane = begin; plane < end; ++plane) {
      T* to = grad_in + plane * cells;
      C* sums = nullptr;
      if constexpr (is_half_type<T>)
        sums = buffer.data();
      else
        sums = to;
      std::fill_n(sums, cells, C(0));
      op.scatter(sums, plane * outputs);
      if constexpr (is_half_type<T>)
        for (std::int64_t i = 0; i < cells; ++i) to[i] = static_cast<T>(sums[i]);
    }
  });
}

/// 2 x 2 windows side by side that all lie inside: the case of small networks, worth its own loops
/// for types that are computed in float.
inline bool is_halving(const Pool2d& p) {
  const auto halves = [](const PoolAxis& a) {
    return !a.adaptive && a.kernel == 2 && a.stride == 2 && a.padding == 0 && a.dilation == 1 &&
           2 * a.output <= a.input;
  };
  return halves(p.h) && halves(p.w);
}

/// The four cells of W windows.
template <int W>
struct Quad {
  Lanes<float, W> a, b, c, d;  ///< upper left, upper right, lower left, lower right
};

/// The halving case: calls f(at, cells, load, store) for W results from element `at`, whose cells
/// begin at element `cells` of the input. load(p) and store(p, quad) move the four of each from and
/// to memory where p is the address of `cells`. Several threads.
template <class F>
void for_each_halving(const Pool2d& p, F&& f) {
  const std::int64_t channels = p.channels_last ? p.channels : 1;
  const std::int64_t planes = p.channels_last ? p.batch : p.batch * p.channels;
  const std::int64_t in_row = p.w.input * channels, out_row = p.w.output * channels;
  parallel_for(planes, grain_of(p.h.input * in_row), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin * p.h.output; row < end * p.h.output; ++row) {
      const std::int64_t at = row * out_row;
      const std::int64_t cells = (row / p.h.output * p.h.input + row % p.h.output * 2) * in_row;
      if (!p.channels_last) {
        for_blocks(0, p.w.output, [&](std::int64_t i, auto width) {
          constexpr int W = decltype(width)::value;
          f(
              at + i, cells + 2 * i, width,
              [=](const auto* q) {
                return Quad<W>{load_even<W>(q), load_even<W>(q + 1), load_even<W>(q + in_row),
                               load_even<W>(q + in_row + 1)};
              },
              [=](auto* q, const Quad<W>& v) {
                store_interleaved<W>(q, v.a, v.b);
                store_interleaved<W>(q + in_row, v.c, v.d);
              });
        });
        continue;
      }
      for (std::int64_t i = 0; i < p.w.output; ++i)
        for_blocks(0, channels, [&](std::int64_t c, auto width) {
          constexpr int W = decltype(width)::value;
          f(
              at + i * channels + c, cells + 2 * i * channels + c, width,
              [=](const auto* q) {
                return Quad<W>{load<W>(q), load<W>(q + channels), load<W>(q + in_row),
                               load<W>(q + in_row + channels)};
              },
              [=](auto* q, const Quad<W>& v) {
                store<W>(q, v.a);
                store<W>(q + channels, v.b);
                store<W>(q + in_row, v.c);
                store<W>(q + in_row + channels, v.d);
              });
        });
    }
  });
}

/// The halving case backward: zeros in the last column and row where the sizes are odd.
template <class T>
void zero_unpooled(const Pool2d& p, T* grad_in) {
  const std::int64_t channels = p.channels_last ? p.channels : 1;
  const std::int64_t planes = p.channels_last ? p.batch : p.batch * p.channels;
  const std::int64_t row = p.w.input * channels, used = 2 * p.w.output * channels;
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    T* to = grad_in + plane * p.h.input * row;
    if (used < row)
      for (std::int64_t h = 0; h < 2 * p.h.output; ++h)
        std::fill(to + h * row + used, to + (h + 1) * row, T(0));
    std::fill(to + 2 * p.h.output * row, to + p.h.input * row, T(0));
  }
}

}  // namespace ferrite::kernels::cpu
