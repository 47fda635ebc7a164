#include "ferrite/kernels/lstm.h"

#include <type_traits>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/micro.h"
#include "ferrite/kernels/cpu/pack.h"
#include "ferrite/kernels/cpu/simd_math.h"

namespace ferrite::kernels::cpu {

namespace {

using simd::all;
using simd::sigmoid;

constexpr std::int64_t kDepth = 384;         // of a product at a time
constexpr std::int64_t kTaskWork = 1 << 18;  // multiplications worth a thread's while

/// The first `count` elements, in the type of sums.
template <class T>
Vector<Compute<T>> read(const T* from, std::int64_t count) {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, C>) {
    return count == kLanes<C> ? load(from) : load_partial(from, count);
  } else {
    alignas(Vector<C>) C values[kLanes<C>] = {};
    widen(values, from, count);
    return load(values);
  }
}

template <class T>
void write(T* to, const Vector<Compute<T>>& v, std::int64_t count) {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, C>) {
    count == kLanes<C> ? store(to, v) : store_partial(to, v, count);
  } else {
    alignas(Vector<C>) C values[kLanes<C>];
    store(values, v);
    narrow(to, values, count);
  }
}

/// As a product stores it: rounded to T.
template <class T>
Vector<Compute<T>> rounded(const Compute<T>* from) {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, C>) {
    return load(from);
  } else {
    T values[kLanes<C>];
    narrow(values, from, kLanes<C>);
    return read(values, kLanes<C>);
  }
}

/// The right operand of a product that every step makes, packed once: panels of two vectors of
/// columns, which may come from two places.
template <class T>
class Panels {
  using C = Compute<T>;

 public:
  static constexpr std::int64_t kLane = kLanes<C>, kWidth = 2 * kLane;

  Panels(std::int64_t count, std::int64_t depth) : depth_(depth), data_(count * depth * kWidth) {}

  /// Half (0 or 1) of a panel: `columns` of them, up to kLane, from `first` on.
  void pack(std::int64_t panel, std::int64_t half, const T* first, std::int64_t row_step,
            std::int64_t column_step, std::int64_t columns) {
    C* const to = data_.data() + panel * depth_ * kWidth + half * kLane;
    copy_matrix(to, kWidth, first, row_step, column_step, depth_, columns);
    for (std::int64_t k = 0; columns < kLane && k < depth_; ++k)
      std::fill(to + k * kWidth + std::max<std::int64_t>(columns, 0), to + k * kWidth + kLane,
                C(0));
  }

  /// sums (sums_step apart) += a [rows, depth] times a panel.
  void add_product(C* sums, std::int64_t sums_step, const C* a, std::int64_t rows,
                   std::int64_t panel) const {
    const std::int64_t block = even_share(depth_, kDepth), tile = even_share(rows, max_rows(2));
    for (std::int64_t k = 0; k < depth_; k += block)
      for (std::int64_t i = 0; i < rows; i += tile) {
        const Micro<C> m{.a = a + i * depth_ + k,
                         .a_step = depth_,
                         .b = data_.data() + (panel * depth_ + k) * kWidth,
                         .b_step = kWidth,
                         .run = std::min(block, depth_ - k),
                         .c = sums + i * sums_step,
                         .c_step = sums_step,
                         .columns = kWidth,
                         .accumulate = true};
        run_micro(m, static_cast<int>(std::min(tile, rows - i)), 2, Rows::apart);
      }
  }

 private:
  std::int64_t depth_;
  Scratch<C> data_;
};

/// Calls f(block) for all of a step's blocks, each of which takes this many multiplications.
template <class F>
void for_each_block(std::int64_t blocks, std::int64_t work, F f) {
  parallel_for(blocks, std::max<std::int64_t>(1, kTaskWork / work),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t block = begin; block < end; ++block) f(block);
               });
}

/// A step's left operand in the type of sums: where it lies, or in `wide`.
template <class T>
const Compute<T>* in_sums(const T* values, std::int64_t count, Scratch<Compute<T>>& wide) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    return values;
  } else {
    if (!wide) wide = Scratch<Compute<T>>(count);
    widen(wide.data(), values, count);
    return wide.data();
  }
}

/// The sums, gates and states of one step's units from `unit` on, as many as a vector has.
template <class T>
struct Forward {
  using C = Compute<T>;
  static constexpr std::int64_t kLane = kLanes<C>;
  const Panels<T>& weights;
  std::int64_t rows, width;

  void operator()(std::int64_t block, T* gates, const C* h, const T* c, T* next_c,
                  T* next_h) const {
    const std::int64_t unit = block * kLane, count = std::min(kLane, width - unit);
    const Scratch<C> sums(rows * 4 * kLane);
    for (std::int64_t n = 0; n < rows; ++n)
      for (std::int64_t g = 0; g < 4; ++g)
        store(sums.data() + (n * 4 + g) * kLane, read(gates + (n * 4 + g) * width + unit, count));
    for (std::int64_t half = 0; half < 2; ++half)
      weights.add_product(sums.data() + half * 2 * kLane, 4 * kLane, h, rows, 2 * block + half);
    for (std::int64_t n = 0; n < rows; ++n) {
      const C* const s = sums.data() + n * 4 * kLane;
      T* const g = gates + n * 4 * width + unit;
      const std::int64_t at = n * width + unit;
      using V = Vector<C>;
      const V in = sigmoid(rounded<T>(s)), forget = sigmoid(rounded<T>(s + kLane)),
              cell = simd::tanh(rounded<T>(s + 2 * kLane)),
              out = sigmoid(rounded<T>(s + 3 * kLane));
      const V next = forget * read(c + at, count) + in * cell;
      write(g, in, count);
      write(g + width, forget, count);
      write(g + 2 * width, cell, count);
      write(g + 3 * width, out, count);
      write(next_c + at, next, count);
      write(next_h + at, V(out * simd::tanh(next)), count);
    }
  }
};

/// What a step's gradient is made of, from element `at` of [N, H] and `gate` of [N, 4 * H] on.
template <class T>
void gradient(T* grad_sums, Compute<T>* grad_c, const Vector<Compute<T>>& by_h, const T* gates,
              const T* before, const T* after, std::int64_t width, std::int64_t count) {
  using C = Compute<T>;
  using V = Vector<C>;
  const V one = all<V>(1), in = read(gates, count), forget = read(gates + width, count),
          cell = read(gates + 2 * width, count), out = read(gates + 3 * width, count),
          bent = simd::tanh(read(after, count)),
          by_c = read(grad_c, count) + by_h * out * (one - bent * bent);
  write(grad_sums, V(by_c * cell * in * (one - in)), count);
  write(grad_sums + width, V(by_c * read(before, count) * forget * (one - forget)), count);
  write(grad_sums + 2 * width, V(by_c * in * (one - cell * cell)), count);
  write(grad_sums + 3 * width, V(by_h * bent * out * (one - out)), count);
  write(grad_c, V(by_c * forget), count);
}

}  // namespace

void lstm_steps(const LstmSteps& s, const View& output) {
  dispatch_floating(output.dtype, "lstm", [&]<class T>() {
    using C = Compute<T>;
    constexpr std::int64_t kLane = kLanes<C>;
    const std::int64_t rows = s.h.sizes[0], width = s.h.sizes[1],
                       blocks = (width + kLane - 1) / kLane;
    const T* const weight = s.weight.as<T>();
    // For each unit: the input and forget gates, then the cell's and the output's.
    Panels<T> panels(2 * blocks, width);
    for_each_block(blocks, 16 * width * kLane, [&](std::int64_t block) {
      const std::int64_t unit = block * kLane, count = std::min(kLane, width - unit);
      for (std::int64_t g = 0; g < 4; ++g)
        panels.pack(2 * block + g / 2, g % 2, weight + (g * width + unit) * width, 1, width, count);
    });
    const Forward<T> step{panels, rows, width};
    Scratch<C> wide;
    const T *h = s.h.as<T>(), *c = s.c.as<T>();
    for (std::int64_t t = 0; t < s.count(); ++t) {
      const std::int64_t at = s.place(t) * rows * width;
      T *const next_c = s.cells.as<T>() + at, *const next_h = output.as<T>() + at;
      const C* const left = in_sums(h, rows * width, wide);
      for_each_block(blocks, rows * width * 4 * kLane, [&](std::int64_t block) {
        step(block, s.gates.as<T>() + 4 * at, left, c, next_c, next_h);
      });
      h = next_h;
      c = next_c;
    }
  });
}

void lstm_steps_backward(const LstmSteps& s, const View& grad_sums, const View& grad_c,
                         const View& grad_output) {
  dispatch_floating(grad_output.dtype, "lstm", [&]<class T>() {
    using C = Compute<T>;
    constexpr std::int64_t kLane = kLanes<C>, kWidth = 2 * kLane;
    const std::int64_t rows = s.c.sizes[0], width = s.c.sizes[1],
                       blocks = (width + kWidth - 1) / kWidth, step = rows * width;
    Panels<T> panels(blocks, 4 * width);
    for_each_block(blocks, 16 * width * kLane, [&](std::int64_t block) {
      for (std::int64_t half = 0; half < 2; ++half) {
        const std::int64_t unit = block * kWidth + half * kLane;
        panels.pack(block, half, s.weight.as<T>() + unit, width, 1,
                    std::clamp<std::int64_t>(width - unit, 0, kLane));
      }
    });
    Scratch<C> wide;
    for (std::int64_t t = s.count() - 1; t >= 0; --t) {
      const std::int64_t at = s.place(t) * step;
      const T* const before = t > 0 ? s.cells.as<T>() + s.place(t - 1) * step : s.c.as<T>();
      const C* left = nullptr;  // the gradient of the sums of the step after
      if (t + 1 < s.count())
        left = in_sums(grad_sums.as<T>() + s.place(t + 1) * 4 * step, 4 * step, wide);
      for_each_block(blocks, rows * width * 4 * kWidth, [&](std::int64_t block) {
        const std::int64_t first = block * kWidth, end = std::min(first + kWidth, width);
        const Scratch<C> by_h(rows * kWidth);
        for (std::int64_t n = 0; n < rows; ++n)
          for (std::int64_t unit = first; unit < first + kWidth; unit += kLane)
            store(by_h.data() + n * kWidth + unit - first,
                  read(grad_output.as<T>() + at + n * width + unit,
                       std::clamp<std::int64_t>(end - unit, 0, kLane)));
        if (left) panels.add_product(by_h.data(), kWidth, left, rows, block);
        for (std::int64_t n = 0; n < rows; ++n)
          for (std::int64_t unit = first; unit < end; unit += kLane) {
            const std::int64_t element = n * width + unit, gate = 4 * n * width + unit;
            gradient(grad_sums.as<T>() + 4 * at + gate, grad_c.as<C>() + element,
                     rounded<T>(by_h.data() + n * kWidth + unit - first),
                     s.gates.as<T>() + 4 * at + gate, before + element,
                     s.cells.as<T>() + at + element, width, std::min(kLane, end - unit));
          }
      });
    }
  });
}

}  // namespace ferrite::kernels::cpu
