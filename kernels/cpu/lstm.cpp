#include "ferrite/kernels/lstm.h"

#include <type_traits>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/simd_math.h"

namespace ferrite::kernels::cpu {

namespace {

using simd::all;

constexpr std::int64_t kGrain = 1024;  // elements worth a thread's while

template <class V>
V sigmoid(const V& x) {
  return all<V>(1) / (all<V>(1) + simd::exp(-x));
}

/// The first `count` elements, in the type of sums.
template <class T>
Vector<Compute<T>> read(const T* from, std::int64_t count) {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, C>) {
    return count == kLanes<C> ? load(from) : load_partial(from, count);
  } else {
    Vector<C> v{};
    for (std::int64_t i = 0; i < count; ++i) v[i] = static_cast<C>(from[i]);
    return v;
  }
}

template <class T>
void write(T* to, const Vector<Compute<T>>& v, std::int64_t count) {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, C>) {
    count == kLanes<C> ? store(to, v) : store_partial(to, v, count);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(v[i]);
  }
}

/// f(first element of [N, H], the input gate's in [N, 4 * H], H, elements) for vectors of all rows.
template <class C, class F>
void for_each_vector(const View& state, F f) {
  const std::int64_t rows = state.sizes[0], h = state.sizes[1];
  parallel_for(rows, std::max<std::int64_t>(1, kGrain / h),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t n = begin; n < end; ++n)
                   for (std::int64_t j = 0; j < h; j += kLanes<C>)
                     f(n * h + j, n * 4 * h + j, h, std::min<std::int64_t>(kLanes<C>, h - j));
               });
}

}  // namespace

void lstm_cell(const View& gates, const View& c_prev, const View& c, const View& h) {
  dispatch_floating(gates.dtype, "lstm_cell", [&]<class T>() {
    using V = Vector<Compute<T>>;
    for_each_vector<Compute<T>>(
        c, [&](std::int64_t at, std::int64_t gate, std::int64_t step, std::int64_t count) {
          T* const g = gates.as<T>() + gate;
          const V in = sigmoid(read(g, count)), forget = sigmoid(read(g + step, count)),
                  cell = simd::tanh(read(g + 2 * step, count)),
                  out = sigmoid(read(g + 3 * step, count));
          const V next = forget * read(c_prev.as<T>() + at, count) + in * cell;
          write(g, in, count);
          write(g + step, forget, count);
          write(g + 2 * step, cell, count);
          write(g + 3 * step, out, count);
          write(c.as<T>() + at, next, count);
          write(h.as<T>() + at, V(out * simd::tanh(next)), count);
        });
  });
}

void lstm_cell_backward(const View& grad_sums, const View& grad_c, const View& grad_h,
                        const View& gates, const View& c_prev, const View& c) {
  dispatch_floating(gates.dtype, "lstm_cell", [&]<class T>() {
    using C = Compute<T>;
    using V = Vector<C>;
    for_each_vector<C>(c, [&](std::int64_t at, std::int64_t gate, std::int64_t step,
                              std::int64_t count) {
      const T* const g = gates.as<T>() + gate;
      const V one = all<V>(1), in = read(g, count), forget = read(g + step, count),
              cell = read(g + 2 * step, count), out = read(g + 3 * step, count),
              bent = simd::tanh(read(c.as<T>() + at, count)),
              by_h = read(grad_h.as<T>() + at, count),
              by_c = read(grad_c.as<C>() + at, count) + by_h * out * (one - bent * bent);
      T* const to = grad_sums.as<T>() + gate;
      write(to, V(by_c * cell * in * (one - in)), count);
      write(to + step, V(by_c * read(c_prev.as<T>() + at, count) * forget * (one - forget)), count);
      write(to + 2 * step, V(by_c * in * (one - cell * cell)), count);
      write(to + 3 * step, V(by_h * bent * out * (one - out)), count);
      write(grad_c.as<C>() + at, V(by_c * forget), count);
    });
  });
}

}  // namespace ferrite::kernels::cpu
