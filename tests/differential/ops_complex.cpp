// Complex numbers, Fourier transforms and windows.
#include "ferrite/core/tensor_index.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/fft.h"
#include "ferrite/ops/stft.h"
#include "ferrite/tests/differential/ops.h"

namespace ferrite::differential {

namespace {

using In = const Tensors&;
using Args = const Json&;

fft::Length maybe_length(Args a, const char* name) { return maybe<std::int64_t>(a, name); }

void add_transforms(Table& t) {
  using One = Tensor (*)(const Tensor&, fft::Length, int, fft::Norm);
  using Many = Tensor (*)(const Tensor&, const Shape&, const Dims&, fft::Norm);
  using Shift = Tensor (*)(const Tensor&, const Dims&);
  const auto one = [&](const char* name, One f) {
    t[name] = [f](In x, Args a) {
      const auto norm = maybe<std::string>(a, "norm");
      return Tensors{f(x[0], maybe_length(a, "n"), a["dim"], norm)};
    };
  };
  const auto many = [&](const char* name, Many f) {
    t[name] = [f](In x, Args a) {
      const auto norm = maybe<std::string>(a, "norm");
      return Tensors{f(x[0], a["s"].is_null() ? Shape() : to_shape(a["s"]), to_dims(a), norm)};
    };
  };
  const auto shift = [&](const char* name, Shift f) {
    t[name] = [f](In x, Args a) { return Tensors{f(x[0], to_dims(a))}; };
  };
  one("fft", fft::fft), one("ifft", fft::ifft), one("rfft", fft::rfft), one("irfft", fft::irfft);
  one("hfft", fft::hfft), one("ihfft", fft::ihfft);
  many("fft2", fft::fft2), many("ifft2", fft::ifft2), many("rfft2", fft::rfft2);
  many("irfft2", fft::irfft2), many("fftn", fft::fftn), many("ifftn", fft::ifftn);
  many("rfftn", fft::rfftn), many("irfftn", fft::irfftn);
  many("hfft2", fft::hfft2), many("ihfft2", fft::ihfft2);
  many("hfftn", fft::hfftn), many("ihfftn", fft::ihfftn);
  shift("fftshift", fft::fftshift), shift("ifftshift", fft::ifftshift);
}

void add_windows(Table& t) {
  const auto type = [](Args a) { return TensorOptions{.dtype = *maybe_dtype(a)}; };
  t["fftfreq"] = [=](In, Args a) { return Tensors{fft::fftfreq(a["n"], a["d"], type(a))}; };
  t["rfftfreq"] = [=](In, Args a) { return Tensors{fft::rfftfreq(a["n"], a["d"], type(a))}; };
  t["hann_window"] = [=](In, Args a) {
    return Tensors{hann_window(a["n"], a["periodic"], type(a))};
  };
  t["hamming_window"] = [=](In, Args a) {
    return Tensors{hamming_window(a["n"], a["periodic"], 0.54, 0.46, type(a))};
  };
  t["stft"] = [](In x, Args a) {
    const std::string mode = a["mode"];
    return Tensors{stft(x[0], a["n_fft"],
                        {.hop_length = maybe_length(a, "hop"),
                         .win_length = maybe_length(a, "win"),
                         .window = optional_input(x, 1),
                         .center = a["center"],
                         .pad_mode = mode == "reflect"     ? PadMode::reflect
                                     : mode == "replicate" ? PadMode::replicate
                                                           : PadMode::constant,
                         .normalized = a["normalized"],
                         .onesided = maybe<bool>(a, "onesided"),
                         .return_complex = a["return_complex"]})};
  };
  t["istft"] = [](In x, Args a) {
    return Tensors{istft(x[0], a["n_fft"],
                         {.hop_length = maybe_length(a, "hop"),
                          .win_length = maybe_length(a, "win"),
                          .window = optional_input(x, 1),
                          .center = a["center"],
                          .normalized = a["normalized"],
                          .onesided = maybe<bool>(a, "onesided"),
                          .length = maybe_length(a, "length"),
                          .return_complex = a["return_complex"]})};
  };
}

}  // namespace

void add_complex(Table& t) {
  add_transforms(t);
  add_windows(t);
  const auto add = [&](const char* name, Tensor (*f)(const Tensor&)) {
    t[name] = [f](In x, Args) { return Tensors{f(x[0])}; };
  };
  add("view_as_real", view_as_real), add("view_as_complex", view_as_complex), add("real", real);
  add("imag", imag), add("conj", conj), add("angle", angle);
  t["from_parts"] = [](In x, Args) { return Tensors{complex(x[0], x[1])}; };
  t["polar"] = [](In x, Args) { return Tensors{polar(x[0], x[1])}; };
  t["is_complex"] = [](In x, Args) { return Tensors{tensor(is_complex(x[0]))}; };
  t["write_part_"] = [](In x, Args a) {
    (a["imag"] ? imag(x[0]) : real(x[0])).mul_(to_scalar(a["value"]));
    return Tensors{x[0]};
  };
  t["index_put_"] = [](In x, Args a) {
    return Tensors{x[0].index_put_({x[1]}, x[2], a["accumulate"])};
  };
}

}  // namespace ferrite::differential
