// Fourier transforms: values and gradients recorded from PyTorch, every length, layout and error.
#include "ferrite/ops/fft.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <string>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/stft.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/ops/outcome.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using T = const Tensor&;
using Z = std::complex<double>;
using One = Tensor (*)(T, fft::Length, int, fft::Norm);
using Many = Tensor (*)(T, const Shape&, const Dims&, fft::Norm);

Tensor parts(T x) { return is_complex(x) ? view_as_real(x.detach()) : x.detach(); }

/// [n, n]: exp(-+ 2 pi i j k / n).
Tensor dft_matrix(std::int64_t n, bool inverse) {
  const Tensor k = arange(n, {.dtype = kFloat64});
  const Tensor turns = remainder(outer(k, k), n) * ((inverse ? 2 : -2) * std::numbers::pi / n);
  return complex(cos(turns), sin(turns));
}

struct Recorded {
  Golden golden{"fft"};
  Tensor z = view_as_complex(golden.get("inputs", "z")), x = golden.get("inputs", "x");

  void check(const std::string& name, bool of_real, const std::function<Tensor(T)>& f) const {
    CAPTURE(name);
    const Tensor in = (of_real ? x : z).clone().set_requires_grad();
    const Tensor out = f(in), grad = golden.get(name, "grad");
    check_close(parts(out), golden.get(name, "out"), 1e-12, 1e-13);
    out.backward(is_complex(out) ? view_as_complex(grad) : grad);
    check_close(parts(in.grad()), golden.get(name, "x_grad"), 1e-12, 1e-13);
  }
};

}  // namespace

TEST_CASE("fft: values and gradients are PyTorch's") {
  const Recorded recorded;
  const std::vector<std::pair<std::string, One>> one{{"fft", fft::fft},   {"ifft", fft::ifft},
                                                     {"rfft", fft::rfft}, {"irfft", fft::irfft},
                                                     {"hfft", fft::hfft}, {"ihfft", fft::ihfft}};
  for (const auto& [name, f] : one) {
    const bool of_real = name == "rfft" || name == "ihfft";
    for (const char* norm : {"backward", "ortho", "forward"})
      recorded.check(name + "_" + norm, of_real, [&f = f, norm](T t) { return f(t, {}, 1, norm); });
    for (const int n : {1, 2, 6, 7})
      recorded.check(name + "_" + std::to_string(n), of_real,
                     [&f = f, n](T t) { return f(t, n, 1, {}); });
  }
  struct Several {
    std::string name;
    Many two, many;
  };
  for (const auto& [name, two, many] : {Several{"fft", fft::fft2, fft::fftn},
                                        {"ifft", fft::ifft2, fft::ifftn},
                                        {"rfft", fft::rfft2, fft::rfftn},
                                        {"irfft", fft::irfft2, fft::irfftn},
                                        {"hfft", fft::hfft2, fft::hfftn},
                                        {"ihfft", fft::ihfft2, fft::ihfftn}}) {
    const bool of_real = name == "rfft" || name == "ihfft";
    recorded.check(name + "2", of_real, [f = two](T t) { return f(t, {}, {-2, -1}, "ortho"); });
    recorded.check(name + "2_sizes", of_real, [f = two](T t) { return f(t, {7, 2}, {2, 0}, {}); });
    recorded.check(name + "n", of_real, [f = many](T t) { return f(t, {}, {}, {}); });
    recorded.check(name + "n_sizes", of_real, [f = many](T t) {
      return f(t, {6, -1}, {}, "forward");
    });
  }
  recorded.check("fft_of_real", true, [](T t) { return fft::fft(t); });
  recorded.check("fftshift", false, [](T t) { return fft::fftshift(t); });
  recorded.check("ifftshift", false, [](T t) { return fft::ifftshift(t, 1); });
  for (const int n : {1, 4, 5}) {
    const std::string name = "freq_" + std::to_string(n);
    check_close(fft::fftfreq(n, 0.3, {.dtype = kFloat64}), recorded.golden.get(name, "fftfreq"),
                1e-14, 0);
    check_close(fft::rfftfreq(n, 0.3, {.dtype = kFloat64}), recorded.golden.get(name, "rfftfreq"),
                1e-14, 0);
  }
  const Tensor prime = view_as_complex(recorded.golden.get("prime", "z"));
  CHECK(prime.dtype() == kComplex64);
  check_close(parts(fft::fft(prime)), recorded.golden.get("prime", "out"), 1e-5, 2e-5);
}

TEST_CASE("fft: every length agrees with the sum that defines it") {
  manual_seed(1);
  for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 25, 31, 64, 97, 120, 210}) {
    CAPTURE(n);
    const Tensor z = randn({3, n}, kComplex128), x = randn({3, n}, {.dtype = kFloat64});
    const double atol = 1e-14 * static_cast<double>(n);
    check_close(parts(fft::fft(z)), parts(matmul(z, dft_matrix(n, false))), 0, atol);
    check_close(parts(fft::ifft(z)), parts(matmul(z, dft_matrix(n, true)) / n), 0, atol);
    const Tensor half = fft::fft(x).slice(1, 0, n / 2 + 1);
    check_close(parts(fft::rfft(x)), parts(half), 0, atol);
    check_close(fft::irfft(fft::rfft(x), n), x, 0, atol);
    check_close(parts(fft::fft(z.to(kComplex64))), parts(fft::fft(z)), 0, 3e-5);
  }
}

TEST_CASE("fft: any layout, many batches, none") {
  manual_seed(2);
  const Tensor z = randn({6, 30, 40}, kComplex128);
  const Tensor expected = fft::fft(z.transpose(0, 1).contiguous(), {}, 0);
  check_close(parts(fft::fft(z.transpose(0, 1), {}, 0)), parts(expected), 0, 0);
  check_close(parts(fft::fft(z, {}, 1).transpose(0, 1)), parts(expected), 0, 0);
  check_close(parts(fft::fft(z.slice(2, 1, 40, 3))),
              parts(fft::fft(z.slice(2, 1, 40, 3).contiguous())), 0, 0);
  check_close(parts(fft::fft(z[0][0].expand({5, 40}))[4]), parts(fft::fft(z[0][0])), 1e-12, 1e-12);
  // The order of dimensions does not matter.
  check_close(parts(fft::fftn(z)), parts(fft::fft(fft::fft2(z), {}, 0)), 1e-12, 1e-11);
  CHECK(fft::fft(zeros({0, 4})).shape() == Shape{0, 4});
  CHECK(fft::rfft(zeros({3, 0}), 4).shape() == Shape{3, 3});
  // Parts that threads take give the same bits as one line alone.
  const Tensor many = randn({3000, 64}, kComplex64);
  CHECK(equal(fft::fft(many), fft::fft(many)));
  check_close(parts(fft::fft(many)[2999]), parts(fft::fft(many[2999])), 1e-5, 1e-5);
}

TEST_CASE("fft: gradients of gradients") {
  manual_seed(3);
  const auto check = [](const Shape& shape, const std::function<Tensor(T)>& f) {
    CHECK(autograd::gradcheck(
        [&](const std::vector<Tensor>& in) {
          const Tensor out = f(in[0]);
          const Tensor real_out = is_complex(out) ? view_as_real(out) : out;
          return real_out * real_out;
        },
        {randn(shape, {.dtype = kFloat64}).set_requires_grad()}, {.second_order = true}));
  };
  check({2, 5}, [](T x) { return fft::rfft(x); });
  check({2, 4}, [](T x) { return fft::rfft(x, 6, 1, "ortho"); });
  check({3, 2}, [](T x) { return fft::irfft(view_as_complex(x)); });
  check({4, 2}, [](T x) { return fft::irfft(view_as_complex(x), 5); });
  check({4, 2}, [](T x) { return fft::fft(view_as_complex(x), 3); });
  check({2, 3}, [](T x) { return fft::ifft2(x); });
  check({2, 3}, [](T x) { return fft::rfft2(x); });
  check({2, 3, 2}, [](T x) { return fft::irfft2(view_as_complex(x)); });
  check({3, 2}, [](T x) { return fft::hfft(view_as_complex(x)); });
  check({5}, [](T x) { return fft::ihfft(x); });
  check({2, 3, 2}, [](T x) { return fft::hfft2(view_as_complex(x)); });
  check({2, 3}, [](T x) { return fft::ihfftn(x, {3, 4}); });
}

TEST_CASE("stft, istft: values and gradients are PyTorch's") {
  const Recorded recorded;
  const Tensor window = recorded.golden.get("windows", "hann"),
               signal = recorded.golden.get("windows", "signal");
  check_close(hann_window(8, true, {.dtype = kFloat64}), window, 0, 1e-15);
  check_close(hamming_window(7, false, 0.54, 0.46, {.dtype = kFloat64}),
              recorded.golden.get("windows", "hamming"), 0, 1e-15);
  // SciPy's windows.
  const TensorOptions wide{.dtype = kFloat64};
  check_close(bartlett_window(6, false, wide), {0, 0.4, 0.8, 0.8, 0.4, 0}, 0, 1e-15);
  check_close(blackman_window(7, true, wide),
              {0, 0.09045342435412808, 0.45918295754596367, 0.9203636180999082, 0.9203636180999082,
               0.45918295754596367, 0.09045342435412808},
              0, 1e-15);
  check_close(kaiser_window(6, false, 4.5, wide),
              {0.05720440301484278, 0.4592189021057032, 0.9231947951302347, 0.9231947951302347,
               0.4592189021057032, 0.05720440301484278},
              0, 1e-15);
  check_close(kaiser_window(7, true, 12, wide).slice(0, 0, 2),
              {5.2773441320097665e-05, 0.03276828844175176}, 0, 1e-15);
  const auto run = [&](const std::string& name, T x, int n_fft, const StftOptions& there,
                       IstftOptions back) {
    const auto check = [&](const std::string& what, T in, const std::function<Tensor(T)>& f) {
      CAPTURE(what);
      const Tensor leaf = in.clone().set_requires_grad(), out = f(leaf);
      const Tensor grad = recorded.golden.get(what, "grad");
      check_close(parts(out), recorded.golden.get(what, "out"), 1e-11, 1e-12);
      out.backward(is_complex(out) ? view_as_complex(grad) : grad);
      check_close(parts(leaf.grad()), recorded.golden.get(what, "x_grad"), 1e-11, 1e-12);
    };
    check(name, x, [&](T t) { return stft(t, n_fft, there); });
    const Tensor spectrum = view_as_complex(recorded.golden.get(name, "out"));
    check("i" + name, spectrum, [&](T t) { return istft(t, n_fft, back); });
    back.length = 30;
    check("i" + name + "_length", spectrum, [&](T t) { return istft(t, n_fft, back); });
  };
  run("stft", signal, 8, {.window = window}, {.window = window});
  run("stft_plain", signal, 9, {.hop_length = 4, .center = false},
      {.hop_length = 4, .center = false});
  run("stft_short", signal[0], 12,
      {.hop_length = 3,
       .win_length = 8,
       .window = window,
       .pad_mode = PadMode::constant,
       .normalized = true},
      {.hop_length = 3, .win_length = 8, .window = window, .normalized = true});
  run("stft_complex", view_as_complex(stack({signal, flip(signal, 1)}, -1)), 8,
      {.hop_length = 3, .window = window, .onesided = false},
      {.hop_length = 3, .window = window, .onesided = false, .return_complex = true});

  // A real signal of all frequencies is that of the first half of them.
  const Tensor whole = view_as_complex(stack({signal, flip(signal, 1)}, -1)).narrow(1, 0, 32);
  const Tensor columns = whole.reshape({-1, 8, 4});
  check_close(istft(columns, 8, {.window = window, .onesided = false}),
              istft(columns.narrow(1, 0, 5), 8, {.window = window}), 0, 0);

  const auto refused = [](const std::string& type, const std::string& op, auto f) {
    const std::string result = outcome(f);
    CHECK_MESSAGE(is_error(result, type, op), result);
  };
  for (const PadMode mode : {PadMode::replicate, PadMode::circular}) {
    const Tensor x = signal.slice(1, 0, 4);  // as short as the padding
    const Tensor padded = pad(x, {4, 4}, mode);
    check_close(parts(stft(x, 8, {.pad_mode = mode})), parts(stft(padded, 8, {.center = false})), 0,
                0);
  }
  refused("ValueError", "stft", [&] { stft(signal.slice(1, 0, 4), 8); });
  refused("DTypeError", "hann_window", [&] { hann_window(8, true, {.dtype = kInt64}); });
  refused("DTypeError", "bartlett_window", [&] { bartlett_window(8, true, {.dtype = kInt64}); });
  refused("ValueError", "blackman_window", [&] { blackman_window(-1); });
  refused("ValueError", "kaiser_window", [&] { kaiser_window(8, true, -1); });
  refused("DTypeError", "hamming_window",
          [&] { hamming_window(1, true, 0.5, 0.5, {.dtype = kBool}); });
  refused("ValueError", "stft", [&] { stft(signal, 0); });
  refused("ValueError", "stft", [&] { stft(signal, 100); });
  refused("ValueError", "stft", [&] { stft(signal, 8, {.win_length = 9}); });
  refused("ShapeError", "stft", [&] { stft(signal, 8, {.window = ones({3})}); });
  refused("ShapeError", "stft", [&] { stft(signal.reshape({1, 2, 37}), 8); });
  refused("DTypeError", "istft", [&] { istft(signal, 8); });
  refused("ShapeError", "istft", [&] { istft(zeros({4, 4}, kComplex64), 8); });
  refused("ValueError", "istft", [&] {
    istft(zeros({5, 4}, kComplex64), 8,
          {.hop_length = 8, .window = hann_window(8), .center = false});
  });
}

TEST_CASE("fft: types and errors") {
  CHECK(fft::fft(arange(4)).dtype() == kComplex64);
  CHECK(fft::rfft(zeros({4}, {.dtype = kFloat64})).dtype() == kComplex128);
  CHECK(fft::irfft(zeros({4}, kComplex128)).dtype() == kFloat64);
  CHECK(fft::fftfreq(4).dtype() == kFloat32);
  for (const auto& freq : {fft::fftfreq, fft::rfftfreq}) {
    const Tensor f = freq(4, 1, {.requires_grad = true});
    CHECK(f.requires_grad());
    CHECK(f.is_leaf());
    CHECK(f[1].item<double>() == 0.25);
  }
  const Tensor x = zeros({2, 4}), z = zeros({2, 4}, kComplex64);
  const auto refused = [](const std::string& type, const std::string& op, auto f) {
    const std::string result = outcome(f);
    CHECK_MESSAGE(is_error(result, type, op), result);
  };
  refused("DTypeError", "fft", [&] { fft::fft(x.to(kFloat16)); });
  refused("DTypeError", "rfft", [&] { fft::rfft(x.to(kBFloat16)); });
  refused("DTypeError", "rfft", [&] { fft::rfft(z); });
  refused("DTypeError", "ihfft", [&] { fft::ihfft(z); });
  refused("DTypeError", "ihfft2", [&] { fft::ihfft2(z); });
  refused("DTypeError", "hfftn", [&] { fft::hfftn(x.to(kFloat16)); });
  refused("ShapeError", "hfftn", [&] { fft::hfftn(zeros({})); });
  refused("ValueError", "hfft2", [&] { fft::hfft2(x, {}, {1, 1}); });
  refused("ValueError", "hfft2", [&] { fft::hfft2(zeros({2, 1}, kComplex64)); });
  refused("ValueError", "fft", [&] { fft::fft(x, 0); });
  refused("ValueError", "fft", [&] { fft::fft(x, -1); });
  refused("ValueError", "fft", [&] { fft::fft(zeros({2, 0})); });
  refused("ValueError", "irfft", [&] { fft::irfft(zeros({1}, kComplex64)); });
  refused("ValueError", "fft", [&] { fft::fft(x, {}, 0, "both"); });
  refused("IndexError", "fft", [&] { fft::fft(x, {}, 2); });
  refused("IndexError", "fft", [&] { fft::fft(zeros({})); });
  refused("ValueError", "fft2", [&] { fft::fft2(x, {}, {1, 1}); });
  refused("ShapeError", "fft2", [&] { fft::fft2(x, {2, 2, 2}); });
  refused("ShapeError", "fftn", [&] { fft::fftn(x, {2, 2, 2}); });
  refused("ShapeError", "rfftn", [&] { fft::rfftn(zeros({})); });
  refused("IndexError", "fft2", [&] { fft::fft2(zeros({3})); });
  refused("ValueError", "fftfreq", [&] { fft::fftfreq(0); });
  refused("ValueError", "fft", [&] { fft::fft(Tensor()); });
}
