#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/conv/winograd/weight_gradient.h"

using namespace ferrite;
using namespace ferrite::kernels;
using cpu::Images;

namespace {

/// Layouts of images: channels last, planes, or part of larger ones with gaps everywhere.
enum class Lie { last, planes, part };

template <class T>
struct Array {
  std::vector<T> data;
  View view;

  Array(const std::vector<std::int64_t>& sizes, Lie lie) {
    const std::int64_t gap = lie == Lie::part ? 2 : 0;
    std::int64_t step = 1;
    view.ndim = 4;
    view.dtype = dtype_of<T>;
    view.numel = 1;
    const std::vector<int> order =
        lie == Lie::last ? std::vector{1, 3, 2, 0} : std::vector{3, 2, 1, 0};
    for (const int d : order) {
      view.sizes[d] = sizes[static_cast<std::size_t>(d)];
      view.strides[d] = step;
      step *= view.sizes[d] + gap;
      view.numel *= view.sizes[d];
    }
    data.assign(static_cast<std::size_t>(step), T(0));
    view.data = data.data();
  }
  T& at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    const auto* s = view.strides;
    return data[static_cast<std::size_t>(a * s[0] + b * s[1] + c * s[2] + d * s[3])];
  }
  /// Values in [-1, 1) determined by the seed.
  void fill(std::uint64_t seed) {
    for (T& value : data) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      value = static_cast<T>(static_cast<double>(seed >> 40) / (1 << 23) - 1);
    }
  }
};

struct Problem {
  std::int64_t n, c, h, w, o, pad_rows, pad_columns;
  int taps = 3;
  std::int64_t height() const { return h + 2 * pad_rows - taps + 1; }
  std::int64_t width() const { return w + 2 * pad_columns - taps + 1; }
};

template <class T>
struct Gradients {
  Array<T> weight, bias;
};

template <class T>
Gradients<T> gradients(const Problem& p, int side, Array<T>& input, Array<T>& grad, Lie lie) {
  Gradients<T> g{{{p.o, p.c, p.taps, p.taps}, lie}, {{1, 1, 1, p.o}, lie}};
  const Images<const T> in(input.view, 0, p.c), from(grad.view, 0, p.o);
  ConvParams params;
  params.padding = {p.pad_rows, p.pad_columns};
  cpu::winograd::weight_gradient<T>(side, p.taps, in, from, params, g.weight.data.data(),
                                    g.weight.view.strides, g.bias.data.data(),
                                    g.bias.view.strides[3]);
  return g;
}

template <class T>
void check(const Problem& p, int side, Lie lie) {
  INFO("images ", p.n, " x ", p.c, " x ", p.h, " x ", p.w, ", outputs ", p.o, ", side ", side,
       ", taps ", p.taps, ", layout ", static_cast<int>(lie));
  Array<T> input({p.n, p.c, p.h, p.w}, lie), grad({p.n, p.o, p.height(), p.width()}, lie);
  input.fill(1), grad.fill(2);
  Gradients<T> g = gradients(p, side, input, grad, lie);

  const auto terms = static_cast<double>(p.n * p.height() * p.width());
  const double tolerance = (sizeof(T) == 8 ? 2e-14 : 1e-5) * std::max(1., std::sqrt(terms) / 3);
  double worst = 0, worst_bias = 0;
  for (std::int64_t o = 0; o < p.o; ++o) {
    double bias = 0;
    for (std::int64_t n = 0; n < p.n; ++n)
      for (std::int64_t y = 0; y < p.height(); ++y)
        for (std::int64_t x = 0; x < p.width(); ++x)
          bias += static_cast<double>(grad.at(n, o, y, x));
    const double bias_error = std::abs(bias - static_cast<double>(g.bias.at(0, 0, 0, o)));
    worst_bias = std::max(worst_bias, std::isnan(bias_error) ? HUGE_VAL : bias_error);
    for (std::int64_t c = 0; c < p.c; ++c)
      for (std::int64_t i = 0; i < p.taps; ++i)
        for (std::int64_t j = 0; j < p.taps; ++j) {
          double sum = 0;
          const std::int64_t up = i - p.pad_rows, left = j - p.pad_columns;
          for (std::int64_t n = 0; n < p.n; ++n)
            for (std::int64_t y = std::max<std::int64_t>(0, -up);
                 y < std::min(p.height(), p.h - up); ++y)
              for (std::int64_t x = std::max<std::int64_t>(0, -left);
                   x < std::min(p.width(), p.w - left); ++x)
                sum += static_cast<double>(input.at(n, c, y + up, x + left)) *
                       static_cast<double>(grad.at(n, o, y, x));
          const double error = std::abs(sum - static_cast<double>(g.weight.at(o, c, i, j)));
          worst = std::max(worst, std::isnan(error) ? HUGE_VAL : error);
        }
  }
  CHECK(worst <= tolerance);
  CHECK(worst_bias <= tolerance);
}

/// Odd sizes, tiles cut off on every side, channel counts below a vector and above a block.
const Problem kProblems[] = {
    {1, 1, 3, 3, 1, 0, 0},   {1, 5, 4, 4, 3, 1, 1},  {2, 17, 7, 5, 6, 1, 0}, {3, 4, 6, 9, 19, 0, 2},
    {1, 33, 2, 1, 18, 1, 2}, {1, 70, 4, 5, 3, 1, 1}, {1, 3, 5, 4, 67, 2, 1}, {40, 4, 7, 8, 5, 1, 1},
};
const Problem kProblemsOfFive[] = {
    {1, 1, 5, 5, 1, 0, 0, 5},  {2, 17, 7, 6, 6, 1, 0, 5}, {3, 4, 6, 9, 19, 0, 2, 5},
    {1, 70, 4, 5, 3, 2, 2, 5}, {1, 3, 5, 4, 67, 4, 2, 5}, {40, 20, 9, 8, 50, 0, 0, 5},
};

}  // namespace

TEST_CASE("Winograd weight gradients agree with the direct sum") {
  for (const Problem& p : kProblems)
    for (const int side : {2, 4})
      for (const Lie lie : {Lie::last, Lie::planes, Lie::part}) check<float>(p, side, lie);
  for (const int side : {2, 4}) check<double>(kProblems[2], side, Lie::last);
  for (const Problem& p : kProblemsOfFive)
    for (const Lie lie : {Lie::last, Lie::planes, Lie::part}) check<float>(p, 2, lie);
  check<double>(kProblemsOfFive[2], 2, Lie::last);
}

TEST_CASE("bits of Winograd gradients do not depend on the number of threads") {
  const int before = num_threads();
  const Problem p{40, 20, 7, 8, 70, 1, 1};  // several chunks of the batch and blocks of channels
  Array<float> input({p.n, p.c, p.h, p.w}, Lie::last);
  Array<float> grad({p.n, p.o, p.height(), p.width()}, Lie::last);
  input.fill(3), grad.fill(4);
  set_num_threads(1);
  const Gradients<float> alone = gradients(p, 4, input, grad, Lie::planes);
  for (const int threads : {2, 3}) {
    set_num_threads(threads);
    const Gradients<float> g = gradients(p, 4, input, grad, Lie::planes);
    CHECK(g.weight.data == alone.weight.data);
    CHECK(g.bias.data == alone.bias.data);
  }
  set_num_threads(before);
}
