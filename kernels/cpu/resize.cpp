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
std::vector<ResizeAxis::Source> sources_of(const ResizeAxis& axis, InterpolateMode mode) {
  std::vector<ResizeAxis::Source> sources;
  sources.reserve(static_cast<std::size_t>(axis.output));
  for (std::int32_t o = 0; o < axis.output; ++o)
    sources.push_back(mode == InterpolateMode::nearest ? axis.source<InterpolateMode::nearest>(o)
                                                       : axis.source<InterpolateMode::bilinear>(o));
  return sources;
}

/// The results that each cell along an axis has a part in, in rising order.
class Shares {
 public:
  struct Share {
    std::int64_t output;
    double weight;
  };

  Shares(const ResizeAxis& axis, InterpolateMode mode)
      : begin_(static_cast<std::size_t>(axis.input) + 1) {
    const auto sources = sources_of(axis, mode);
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
  const auto rows = sources_of(r.h, r.mode);
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
  const auto columns = sources_of(r.w, r.mode);
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
  const auto columns = sources_of(r.w, r.mode);
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
  const Shares rows(r.h, r.mode), columns(r.w, r.mode);
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
  const Shares rows(r.h, r.mode), columns(r.w, r.mode);
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

}  // namespace ferrite::kernels::cpu
