// Ops of complex numbers, which come in and go out as pairs of real ones, and Fourier transforms.
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/fft.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/renamed.h"
#include "ferrite/ops/stft.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/ops/op_table.h"

namespace ferrite::test {

namespace {

using C = const Call&;
using T = const Tensor&;

Tensor parts(T x) { return is_complex(x) ? view_as_real(x) : x; }

/// f as a row: with pairs for complex numbers, and with errors of one name.
template <class F>
auto named(const char* name, F f) {
  return [name, f](C c) { return ops::renamed(name, [&] { return parts(f(c)); }); };
}

void add_of_pairs(std::vector<Op>& table) {
  const Arg pairs{{3, 4, 2}};
  const Adder add{table, Takes::wide};
  const auto one = [&](auto f) {
    add("view_as_complex", {pairs},
        named("view_as_complex", [f](C c) { return f(view_as_complex(c[0])); }));
  };
  const auto two = [&](auto f) {
    add("view_as_complex", {pairs, pairs}, named("view_as_complex", [f](C c) {
          const Tensor a = view_as_complex(c[0]);
          return f(a, view_as_complex(c[1]));
        }));
  };
  one([](T z) { return conj(z); });
  one([](T z) { return real(z) * imag(z); });
  one([](T z) { return angle(z); });
  one([](T z) { return abs(z); });
  one([](T z) { return neg(z); });
  one([](T z) { return sgn(z); });
  one([](T z) { return exp(z); });
  one([](T z) { return reciprocal(z); });
  one([](T z) { return sum(z, 0); });
  one([](T z) { return mean(z); });
  one([](T z) { return isfinite(z); });
  one([](T z) { return z * 2 + std::complex<double>(1, -3); });
  one([](T z) { return (2 - z) / 3; });
  one([](T z) { return z.index({Slice(), arange(2, {.dtype = kInt64, .device = z.device()})}); });
  one([](T z) { return cat({z, z.slice(0, 1, 3)}, 0); });
  one([](T z) { return z.masked_fill(gt(real(z), 0), 1); });
  one([](T z) { return z.clone().transpose(0, 1).contiguous(); });
  one([](T z) { return zeros_like(z) + ones_like(z) * z; });
  two([](T a, T b) { return a + b; });
  two([](T a, T b) { return a - b; });
  two([](T a, T b) { return a * b; });
  two([](T a, T b) { return a / b; });
  two([](T a, T b) { return eq(a, b); });
  two([](T a, T b) { return matmul(a, b.transpose(0, 1)); });
  two([](T a, T b) { return a.clone().mul_(b).div_(a + 3).add_(b).sub_(2); });
}

void add_of_parts(std::vector<Op>& table) {
  const Adder add{table, Takes::wide, {{{3, 5}}, {{5}}}};
  add("complex", named("complex", [](C c) { return complex(c[0], c[1]); }));
  add("polar", named("polar", [](C c) { return polar(c[0], c[1]); }));
  add("angle", Takes::any, {{{3, 5}}}, [](T x) { return angle(x); });
}

void add_transforms(std::vector<Op>& table) {
  using namespace ferrite::fft;
  const Adder add{table, Takes::no_half, {{{3, 5, 4}}}};
  const auto one = [&](const char* name, Tensor (*f)(T, Length, int, Norm)) {
    add(name, named(name, [f](C c) { return f(c[0], {}, -1, {}); }));
    add(name, named(name, [f](C c) { return f(c[0], 6, 1, "ortho"); }));
  };
  const auto many = [&](const char* name, Tensor (*f)(T, const Shape&, const Dims&, Norm)) {
    add(name, named(name, [f](C c) { return f(c[0], {}, {-2, -1}, "forward"); }));
    add(name, named(name, [f](C c) { return f(c[0], {4, 3}, {0, 2}, {}); }));
  };
  one("fft", fft::fft), one("ifft", ifft), one("rfft", rfft), one("irfft", irfft);
  one("hfft", hfft), one("ihfft", ihfft);
  many("fft2", fft2), many("ifft2", ifft2), many("rfft2", rfft2), many("irfft2", irfft2);
  many("fftn", fftn), many("ifftn", ifftn), many("rfftn", rfftn), many("irfftn", irfftn);
  many("hfft2", hfft2), many("ihfft2", ihfft2), many("hfftn", hfftn), many("ihfftn", ihfftn);
  add("fftshift", Takes::any, [](T x) { return fftshift(x); });
  add("ifftshift", Takes::any, [](T x) { return ifftshift(x, {0}); });
  const Adder bins{table, Takes::floating, {{{3, 4}}}};
  bins("fftfreq", named("fftfreq", [](C c) { return c[0] + fftfreq(4, 1, c[0].options()); }));
  bins("bartlett_window", named("bartlett_window", [](C c) {
         return c[0] + bartlett_window(4, true, c[0].options());
       }));
  bins("blackman_window", named("blackman_window", [](C c) {
         return c[0] + blackman_window(4, false, c[0].options());
       }));
  bins(
      "kaiser_window",
      named("kaiser_window", [](C c) { return c[0] + kaiser_window(4, true, 12, c[0].options()); }))
      .on_host = true;
  bins("rfftfreq", named("rfftfreq", [](C c) { return c[0] + rfftfreq(6, 0.5, c[0].options()); }));
}

void add_short_time(std::vector<Op>& table) {
  const Adder add{table, Takes::wide, {{{2, 20}}}};
  add("stft", named("stft", [](C c) {
        const Tensor window = hann_window(6, true, c[0].options());
        return stft(c[0], 6, {.hop_length = 2, .window = window});
      }));
  add("istft", {{{2, 4, 5, 2}}},
      named("istft",
            [](C c) {
              const Tensor window = hamming_window(6, true, 0.54, 0.46, c[0].options());
              return istft(view_as_complex(c[0]), 6, {.hop_length = 2, .window = window});
            }))
      .on_host = true;
}

}  // namespace

void add_complex_ops(std::vector<Op>& table) {
  add_of_pairs(table);
  add_of_parts(table);
  add_transforms(table);
  add_short_time(table);
}

}  // namespace ferrite::test
