#include "ferrite/kernels/resize.h"

#include <algorithm>
#include <span>
#include <vector>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/simd.h"

namespace ferrite::kernels::cpu {

namespace {

std::int64_t grain_of(std::int64_t work) {
  return std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, work));
}

/// What all results along an axis are made of.
std::vector<ResizeAxis::Source> sources_of(const ResizeAxis& axis, ResizeFilter filter) {
  std::vector<ResizeAxis::Source> sources;
  sources.reserve(static_cast<std::size_t>(axis.output));
  for (std::int32_t o = 0; o < axis.output; ++o)
    sources.push_back(filter == ResizeFilter::nearest ? axis.source<ResizeFilter::nearest>(o)
                                                      : axis.source<ResizeFilter::linear>(o));
  return sources;
}

/// The results that each cell along an axis has a part in, in rising order.
class Shares {
 public:
  struct Share {
    std::int64_t output;
    double weight;
  };

  Shares(const ResizeAxis& axis, ResizeFilter filter)
      : begin_(static_cast<std::size_t>(axis.input) + 1) {
    const auto sources = sources_of(axis, filter);
    for (const auto& s : sources) {
      ++begin_[static_cast<std::size_t>(s.first) + 1];
      if (s.weight > 0) ++begin_[static_cast<std::size_t>(s.second) + 1];
    }
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    shares_.resize(begin_.back());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (std::size_t o = 0; o < sources.size(); ++o) {
      const auto& s = sources[o];
      const auto output = static_cast<std::int64_t>(o);
      shares_[next[static_cast<std::size_t>(s.first)]++] = {output, 1 - s.weight};
      if (s.weight > 0) shares_[next[static_cast<std::size_t>(s.second)]++] = {output, s.weight};
    }
  }

  std::span<const Share> operator[](std::int64_t input) const {
    const auto i = static_cast<std::size_t>(input);
    return std::span(shares_).subspan(begin_[i], begin_[i + 1] - begin_[i]);
  }

 private:
  std::vector<std::size_t> begin_;
  std::vector<Share> shares_;
};

template <class C, class V>
V mix(const V& a, const V& b, C weight) {
  return weight == 0 ? a : (1 - weight) * a + weight * b;
}

/// Calls f(row of results, its source rows' numbers, weight) for all rows, several at a time.
template <class F>
void for_each_row(const Resize2d& r, std::int64_t planes, std::int64_t width, F&& f) {
  const auto rows = sources_of(r.h, r.filter);
  parallel_for(planes * r.h.output, grain_of(4 * width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const auto& h = rows[static_cast<std::size_t>(row % r.h.output)];
      const std::int64_t plane = row / r.h.output * r.h.input;
      f(row, plane + h.first, plane + h.second, h.weight);
    }
  });
}

template <class T>
void forward_contiguous(const Resize2d& r, T* out, const T* in) {
  using C = Compute<T>;
  const auto columns = sources_of(r.w, r.filter);
  const std::int64_t width = r.w.output;
  for_each_row(
      r, r.batch * r.channels, width,
      [&](std::int64_t row, std::int64_t upper, std::int64_t lower, double weight) {
        const T* const a = in + upper * r.w.input;
        const T* const b = in + lower * r.w.input;
        T* const to = out + row * width;
        const auto across = [](const T* cells, const ResizeAxis::Source& w) {
          return mix(static_cast<C>(cells[w.first]), static_cast<C>(cells[w.second]),
                     static_cast<C>(w.weight));
        };
        for (std::int64_t o = 0; o < width; ++o) {
          const auto& w = columns[static_cast<std::size_t>(o)];
          to[o] = static_cast<T>(
              weight == 0 ? across(a, w) : mix(across(a, w), across(b, w), static_cast<C>(weight)));
        }
      });
}

template <class T>
void forward_channels_last(const Resize2d& r, T* out, const T* in) {
  using C = Compute<T>;
  const auto columns = sources_of(r.w, r.filter);
  const std::int64_t channels = r.channels;
  for_each_row(r, r.batch, r.w.output * channels,
               [&](std::int64_t row, std::int64_t upper, std::int64_t lower, double weight) {
                 for (std::int64_t o = 0; o < r.w.output; ++o) {
                   const auto& w = columns[static_cast<std::size_t>(o)];
                   const auto cell = [&](std::int64_t line, std::int64_t column) {
                     return in + (line * r.w.input + column) * channels;
                   };
                   const T *const a = cell(upper, w.first), *const b = cell(upper, w.second);
                   const T *const c = cell(lower, w.first), *const d = cell(lower, w.second);
                   T* const to = out + (row * r.w.output + o) * channels;
                   const C right = static_cast<C>(w.weight), down = static_cast<C>(weight);
                   for_blocks(0, channels, [&](std::int64_t k, auto n) {
                     const auto top = mix(load<n>(a + k), load<n>(b + k), right);
                     if (down == 0)
                       store<n>(to + k, top);
                     else
                       store<n>(to + k, mix(top, mix(load<n>(c + k), load<n>(d + k), right), down));
                   });
                 }
               });
}

template <class T>
void backward_contiguous(const Resize2d& r, T* grad_in, const T* grad_out) {
  using C = Compute<T>;
  const Shares rows(r.h, r.filter), columns(r.w, r.filter);
  const std::int64_t work = std::max<std::int64_t>(1, r.h.output / r.h.input) * r.w.output;
  parallel_for(r.batch * r.channels * r.h.input, grain_of(2 * work + r.w.input),
               [&](std::int64_t begin, std::int64_t end) {
                 // The results' rows that hold the cells' row added up, then their columns.
                 std::vector<C> sums(static_cast<std::size_t>(r.w.output));
                 for (std::int64_t row = begin; row < end; ++row) {
                   const T* const plane = grad_out + row / r.h.input * r.h.output * r.w.output;
                   std::fill(sums.begin(), sums.end(), C(0));
                   for (const auto& h : rows[row % r.h.input]) {
                     const T* const from = plane + h.output * r.w.output;
                     const C weight = static_cast<C>(h.weight);
                     for (std::size_t o = 0; o < sums.size(); ++o)
                       sums[o] += weight * static_cast<C>(from[o]);
                   }
                   T* const to = grad_in + row * r.w.input;
                   for (std::int64_t i = 0; i < r.w.input; ++i) {
                     C sum = 0;
                     for (const auto& w : columns[i])
                       sum += static_cast<C>(w.weight) * sums[static_cast<std::size_t>(w.output)];
                     to[i] = static_cast<T>(sum);
                   }
                 }
               });
}

template <class T>
void backward_channels_last(const Resize2d& r, T* grad_in, const T* grad_out) {
  using C = Compute<T>;
  const Shares rows(r.h, r.filter), columns(r.w, r.filter);
  const std::int64_t channels = r.channels;
  const std::int64_t work = std::max<std::int64_t>(1, r.h.output / r.h.input) * r.w.output;
  parallel_for(
      r.batch * r.h.input, grain_of((2 * work + r.w.input) * channels),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t results = row / r.h.input * r.h.output;
          for (std::int64_t i = 0; i < r.w.input; ++i)
            for_blocks(0, channels, [&](std::int64_t c, auto n) {
              Lanes<C, n> sum{};
              for (const auto& h : rows[row % r.h.input])
                for (const auto& w : columns[i])
                  sum += static_cast<C>(h.weight * w.weight) *
                         load<n>(grad_out +
                                 ((results + h.output) * r.w.output + w.output) * channels + c);
              store<n>(grad_in + (row * r.w.input + i) * channels + c, sum);
            });
        }
      });
}

// ---- Along one dimension

/// The windows and weights of all elements that a line makes.
template <class C>
struct Table {
  std::vector<ResizeLine::Taps> taps;
  std::vector<C> weights;
  std::size_t width;

  explicit Table(const ResizeLine& line)
      : taps(static_cast<std::size_t>(line.axis.output)),
        weights(taps.size() * static_cast<std::size_t>(line.most_cells())),
        width(static_cast<std::size_t>(line.most_cells())) {
    for (std::size_t o = 0; o < taps.size(); ++o)
      taps[o] = line.taps(static_cast<std::int32_t>(o), &weights[o * width]);
    if (line.transposed) transpose(static_cast<std::size_t>(line.axis.input));
  }

  const C* weights_of(std::int64_t i) const {
    return &weights[static_cast<std::size_t>(i) * width];
  }

 private:
  void transpose(std::size_t cells) {
    std::vector<ResizeLine::Taps> shares(cells, {0, 0});
    std::int32_t most = 1;
    const auto size = static_cast<std::int32_t>(taps.size());
    for (std::int32_t o = 0; o < size; ++o)
      for (std::int32_t k = 0; k < taps[static_cast<std::size_t>(o)].count; ++k) {
        auto& share = shares[static_cast<std::size_t>(taps[static_cast<std::size_t>(o)].first + k)];
        if (share.count == 0) share.first = o;
        share.count = o - share.first + 1;
        most = std::max(most, share.count);
      }
    const auto wide = static_cast<std::size_t>(most);
    std::vector<C> to(cells * wide);
    for (std::size_t o = 0; o < taps.size(); ++o)
      for (std::size_t k = 0; k < static_cast<std::size_t>(taps[o].count); ++k) {
        const std::size_t i = static_cast<std::size_t>(taps[o].first) + k;
        to[i * wide + o - static_cast<std::size_t>(shares[i].first)] = weights[o * width + k];
      }
    taps = std::move(shares);
    weights = std::move(to);
    width = wide;
  }
};

// A sum of one element begins with -0, which leaves -0 as it is.

/// The elements of a row lie next to each other.
template <class In, class Out>
void resize_rows(const ResizeLine& line, const Table<Compute<In>>& table, Out* out, const In* in) {
  using C = Compute<In>;
  const std::int64_t from = line.from(), to = line.to();
  const std::int64_t work = from + to * static_cast<std::int64_t>(table.width);
  parallel_for(line.outer, grain_of(work), [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> cells(static_cast<std::size_t>(from));
    for (std::int64_t row = begin; row < end; ++row) {
      const In* const x = in + row * from;
      for_blocks(0, from, [&](std::int64_t i, auto n) {
        store<n>(&cells[static_cast<std::size_t>(i)], load<n>(x + i));
      });
      for (std::int64_t o = 0; o < to; ++o) {
        const auto& taps = table.taps[static_cast<std::size_t>(o)];
        const C* const weights = table.weights_of(o);
        C sum = taps.count == 1 ? C(-0.0) : C(0);
        for (std::int32_t k = 0; k < taps.count; ++k)
          if (weights[k] != 0) sum += weights[k] * cells[static_cast<std::size_t>(taps.first + k)];
        out[row * to + o] = static_cast<Out>(sum);
      }
    }
  });
}

/// Each element is a row of `inner` numbers.
template <class In, class Out>
void resize_columns(const ResizeLine& line, const Table<Compute<In>>& table, Out* out,
                    const In* in) {
  using C = Compute<In>;
  const std::int64_t from = line.from(), to = line.to(), inner = line.inner;
  const std::int64_t work = inner * (static_cast<std::int64_t>(table.width) + 1);
  parallel_for(line.outer * to, grain_of(work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const auto& taps = table.taps[static_cast<std::size_t>(row % to)];
      const C* const weights = table.weights_of(row % to);
      const In* const x = in + (row / to * from + taps.first) * inner;
      for_blocks(0, inner, [&](std::int64_t c, auto n) {
        Lanes<C, n> sum{};
        if (taps.count == 1) sum = -sum;
        for (std::int32_t k = 0; k < taps.count; ++k)
          if (weights[k] != 0) sum += weights[k] * load<n>(x + k * inner + c);
        store<n>(out + row * inner + c, sum);
      });
    }
  });
}

}  // namespace

void resize2d(const Resize2d& r, const View& out, const View& in) {
  dispatch_floating(in.dtype, "interpolate", [&]<class T>() {
    if (r.channels_last)
      forward_channels_last(r, out.as<T>(), in.as<T>());
    else
      forward_contiguous(r, out.as<T>(), in.as<T>());
  });
}

void resize2d_backward(const Resize2d& r, const View& grad_in, const View& grad_out) {
  dispatch_floating(grad_in.dtype, "interpolate", [&]<class T>() {
    if (r.channels_last)
      backward_channels_last(r, grad_in.as<T>(), grad_out.as<T>());
    else
      backward_contiguous(r, grad_in.as<T>(), grad_out.as<T>());
  });
}

void resize_line(const ResizeLine& line, const View& out, const View& in) {
  if (out.numel == 0) return;
  dispatch_line(in.dtype, out.dtype, [&]<class In, class Out>() {
    const Table<Compute<In>> table(line);
    if (line.inner == 1)
      resize_rows(line, table, out.as<Out>(), in.as<In>());
    else
      resize_columns(line, table, out.as<Out>(), in.as<In>());
  });
}

}  // namespace ferrite::kernels::cpu
