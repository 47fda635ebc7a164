// The random part of ops/creation.h.
#include "ferrite/kernels/random.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/renamed.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

namespace {

void require_floating(DType dtype, const char* op) {
  FERRITE_CHECK(is_floating(dtype), DTypeError, op, "expected a floating-point dtype, got {}",
                dtype);
}
/// For distributions that both parts of complex numbers may have.
void require_floating_or_complex(DType dtype, const char* op) {
  FERRITE_CHECK(is_differentiable(dtype), DTypeError, op,
                "expected a floating-point or complex dtype, got {}", dtype);
}
double largest(DType dtype) {
  if (dtype == kFloat16) return 65504;
  if (dtype == kBFloat16) return 0x1.fep127;
  return dtype == kFloat32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}
/// The dtype has both ends, and what lies between them.
void check_uniform(double low, double high, DType dtype, const char* op) {
  const double most = largest(dtype);
  FERRITE_CHECK(
      low <= high && low >= -most && high <= most && high - low <= most, ValueError, op,
      "expected low <= high, both and their difference finite numbers of {}, got {} and {}", dtype,
      low, high);
}
void check_normal(double std, const char* op) {
  FERRITE_CHECK(std >= 0, ValueError, op, "expected a standard deviation of 0 or more, got {}",
                std);
}
void check_probability(double p, const char* op) {
  FERRITE_CHECK(p >= 0 && p <= 1, ValueError, op, "expected a probability in [0, 1], got {}", p);
}

/// Those of other devices are not looked at, which would wait for the device.
void check_probabilities(const Tensor& p, const char* op) {
  if (!p.device().is_host()) return;
  dispatch_floating(p.dtype(), op, [&]<class T>() {
    const std::span<const T> all(p.data<T>(), static_cast<std::size_t>(p.numel()));
    bool good = true;  // without a branch for each, so that the loop is vectorized
    for (const Compute<T> v : all) good &= (v >= 0) & (v <= 1);
    if (good) return;
    for (const Compute<T> v : all) check_probability(static_cast<double>(v), op);
  });
}

PhiloxState take(Generator* generator, const Device& device, std::int64_t numel, DType dtype) {
  Generator& g = generator ? *generator : default_generator(device);
  return g.reserve(kernels::random_blocks(numel, dtype), current_stream(device));
}

/// Calls draw(stream, contiguous tensor) for `self`: numbers are assigned in row-major order,
/// whatever the strides.
template <class Draw>
void draw_into(const Tensor& self, Draw&& draw) {
  const Stream stream = current_stream(self.device());
  if (self.is_contiguous()) return draw(stream, self);
  const Tensor row_major = empty(self.shape(), {.dtype = self.dtype(), .device = self.device()});
  draw(stream, row_major);
  kernels::copy(stream, self, row_major);
}

template <class Draw>
const Tensor& draw_inplace(const Tensor& self, const char* op, Draw&& draw) {
  autograd::check_inplace(self, op);
  draw_into(self, draw);
  autograd::changed_inplace(self, op);
  if (autograd::recording(self))
    autograd::record_inplace(self, op, {self},
                             [](const Tensor&, autograd::Needs) { return Tensor(); });
  return self;
}

void draw_uniform(const Tensor& out, double low, double high, Generator* generator) {
  if (out.is_complex())
    return no_grad([&] { draw_uniform(view_as_real(out), low, high, generator); });
  const PhiloxState state = take(generator, out.device(), out.numel(), out.dtype());
  draw_into(out, [&](const Stream& stream, const Tensor& t) {
    kernels::uniform(stream, t, state, low, high);
  });
}

void draw_normal(const Tensor& out, double mean, double std, Generator* generator) {
  if (out.is_complex())  // each part has half of the variance
    return no_grad(
        [&] { draw_normal(view_as_real(out), mean, std * std::numbers::sqrt2 / 2, generator); });
  const PhiloxState state = take(generator, out.device(), out.numel(), out.dtype());
  draw_into(out, [&](const Stream& stream, const Tensor& t) {
    kernels::normal(stream, t, state, mean, std);
  });
}

/// Whether a dtype holds every integer of [low, last].
bool holds(DType dtype, std::int64_t low, std::int64_t last) {
  switch (dtype) {
    case DType::uint8:
      return low >= 0 && last <= 255;
    case DType::int8:
      return low >= -128 && last <= 127;
    case DType::int16:
      return low >= -32768 && last <= 32767;
    case DType::int32:
      return low >= std::numeric_limits<std::int32_t>::min() &&
             last <= std::numeric_limits<std::int32_t>::max();
    case DType::boolean:
      return low >= 0 && last <= 1;
    case DType::float16:
      return low >= -65504 && last <= 65504;
    default:
      return true;
  }
}

}  // namespace

Tensor rand(const Shape& shape, const TensorOptions& options, Generator* generator) {
  const profiler::OpRange range("rand");
  require_floating_or_complex(options.dtype, "rand");
  Tensor out = detail::blank(shape, options);
  draw_uniform(out, 0, 1, generator);
  return detail::with_grad(std::move(out), options);
}

Tensor randn(const Shape& shape, const TensorOptions& options, Generator* generator) {
  const profiler::OpRange range("randn");
  require_floating_or_complex(options.dtype, "randn");
  Tensor out = detail::blank(shape, options);
  draw_normal(out, 0, 1, generator);
  return detail::with_grad(std::move(out), options);
}

Tensor rand_like(const Tensor& like, Generator* generator) {
  const profiler::OpRange range("rand_like", like);
  FERRITE_CHECK(like.defined(), ValueError, "rand_like", "the tensor is undefined");
  require_floating_or_complex(like.dtype(), "rand_like");
  Tensor out = empty_like(like);
  draw_uniform(out, 0, 1, generator);
  return out;
}

Tensor randn_like(const Tensor& like, Generator* generator) {
  const profiler::OpRange range("randn_like", like);
  FERRITE_CHECK(like.defined(), ValueError, "randn_like", "the tensor is undefined");
  require_floating_or_complex(like.dtype(), "randn_like");
  Tensor out = empty_like(like);
  draw_normal(out, 0, 1, generator);
  return out;
}

Tensor normal(double mean, double std, const Shape& shape, const TensorOptions& options,
              Generator* generator) {
  const profiler::OpRange range("normal");
  require_floating(options.dtype, "normal");
  check_normal(std, "normal");
  Tensor out = detail::blank(shape, options);
  draw_normal(out, mean, std, generator);
  return detail::with_grad(std::move(out), options);
}

Tensor normal(const Tensor& mean, const Tensor& std, Generator* generator) {
  return ops::composite(
      "normal",
      [&] {
        const NoGradGuard guard;
        const DType dtype = ops::result_type(mean, std);
        require_floating(dtype, "normal");
        FERRITE_CHECK(!std.device().is_host() || !any(std < 0).item<bool>(), ValueError, "normal",
                      "expected standard deviations of 0 or more, got {}",
                      std.min().item<double>());
        const Tensor noise = randn(broadcast_shapes(mean.shape(), std.shape(), "normal"),
                                   {.dtype = dtype, .device = mean.device()}, generator);
        return noise.mul_(std).add_(mean);
      },
      mean, std);
}
Tensor normal(const Tensor& mean, double std, Generator* generator) {
  check_normal(std, "normal");
  return ops::composite(
      "normal",
      [&] {
        const NoGradGuard guard;
        return randn_like(mean, generator).mul_(std).add_(mean);
      },
      mean);
}
Tensor normal(double mean, const Tensor& std, Generator* generator) {
  return normal(full({}, mean, {.dtype = std.dtype(), .device = std.device()}), std, generator);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, const TensorOptions& given,
               Generator* generator) {
  const profiler::OpRange range("randint");
  const TensorOptions options = detail::or_dtype(given, kInt64);
  const DType dtype = options.dtype;
  FERRITE_CHECK(low < high, ValueError, "randint", "[{}, {}) holds no number", low, high);
  FERRITE_CHECK(holds(dtype, low, high - 1), ValueError, "randint",
                "{} does not hold the numbers of [{}, {})", dtype, low, high);
  Tensor out = detail::blank(shape, options);
  const PhiloxState state = take(generator, out.device(), out.numel(), kInt64);
  draw_into(out, [&](const Stream& stream, const Tensor& t) {
    kernels::random_integers(stream, t, state, low, high);
  });
  return detail::with_grad(std::move(out), options);
}
Tensor randint(std::int64_t high, const Shape& shape, const TensorOptions& options,
               Generator* generator) {
  return randint(0, high, shape, options, generator);
}

Tensor randperm(std::int64_t n, const TensorOptions& options, Generator* generator) {
  const profiler::OpRange range("randperm");
  const DType dtype = options.dtype.value_or(kInt64);
  FERRITE_CHECK(n >= 0, ValueError, "randperm", "expected a length of 0 or more, got {}", n);
  FERRITE_CHECK(dtype != kBool && holds(dtype, 0, n - 1), ValueError, "randperm",
                "{} does not hold the numbers below {}", dtype, n);
  const Tensor out = empty({n}, {.dtype = kInt64, .device = options.device});
  kernels::permutation(current_stream(out.device()), out, take(generator, out.device(), n, kInt64));
  return detail::with_grad(out.to(dtype), options);
}

Tensor randint_like(const Tensor& like, std::int64_t low, std::int64_t high, Generator* generator) {
  return ops::composite(
      "randint_like",
      [&] {
        return randint(low, high, like.shape(), {.dtype = like.dtype(), .device = like.device()},
                       generator);
      },
      like);
}
Tensor randint_like(const Tensor& like, std::int64_t high, Generator* generator) {
  return randint_like(like, 0, high, generator);
}

Tensor bernoulli(const Tensor& p, Generator* generator) {
  const profiler::OpRange range("bernoulli", p);
  FERRITE_CHECK(p.defined(), ValueError, "bernoulli", "the probabilities are undefined");
  require_floating(p.dtype(), "bernoulli");
  NoGradGuard guard;
  Tensor out = empty_like(p);
  const Tensor row_major = p.contiguous();
  check_probabilities(row_major, "bernoulli");
  const PhiloxState state = take(generator, out.device(), out.numel(), kFloat32);
  draw_into(out, [&](const Stream& stream, const Tensor& t) {
    kernels::bernoulli(stream, t, state, row_major);
  });
  return out;
}

// ---- In place

const Tensor& uniform_(const Tensor& self, double low, double high, Generator* generator) {
  const profiler::OpRange range("uniform_", self);
  FERRITE_CHECK(self.defined(), ValueError, "uniform_", "the tensor is undefined");
  require_floating(self.dtype(), "uniform_");
  check_uniform(low, high, self.dtype(), "uniform_");
  return draw_inplace(self, "uniform_", [&](const Stream&, const Tensor& t) {
    draw_uniform(t, low, high, generator);
  });
}

const Tensor& normal_(const Tensor& self, double mean, double std, Generator* generator) {
  const profiler::OpRange range("normal_", self);
  FERRITE_CHECK(self.defined(), ValueError, "normal_", "the tensor is undefined");
  require_floating(self.dtype(), "normal_");
  check_normal(std, "normal_");
  return draw_inplace(self, "normal_", [&](const Stream&, const Tensor& t) {
    draw_normal(t, mean, std, generator);
  });
}

const Tensor& bernoulli_(const Tensor& self, double p, Generator* generator) {
  const profiler::OpRange range("bernoulli_", self);
  FERRITE_CHECK(self.defined(), ValueError, "bernoulli_", "the tensor is undefined");
  check_probability(p, "bernoulli_");
  const PhiloxState state = take(generator, self.device(), self.numel(), kFloat32);
  return draw_inplace(self, "bernoulli_", [&](const Stream& stream, const Tensor& t) {
    kernels::bernoulli(stream, t, state, p);
  });
}

namespace {

/// Numbers of a distribution: f of numbers that are uniform in [0, 1).
template <class F>
const Tensor& distribute(const Tensor& self, const char* op, F&& f) {
  const profiler::OpRange range(op, self);
  FERRITE_CHECK(self.defined(), ValueError, op, "the tensor is undefined");
  require_floating(self.dtype(), op);
  return draw_inplace(self, op, [&](const Stream&, const Tensor& t) {
    const DType wide = t.dtype() == kFloat64 ? kFloat64 : kFloat32;
    const Tensor u = empty(t.shape(), {.dtype = wide, .device = t.device()});
    draw_uniform(u, 0, 1, nullptr);
    no_grad([&] { t.copy_(f(u)); });
  });
}

}  // namespace

const Tensor& InPlaceMethods::exponential_(double lambd) const {
  FERRITE_CHECK(lambd > 0, ValueError, "exponential_", "expected a lambd above 0, got {}", lambd);
  return distribute(self(), "exponential_", [&](const Tensor& u) {
    // Zeros would make quotients infinite, by whose maximum tokens are drawn.
    const double least = u.dtype() == kFloat64 ? 0x1p-54 : 0x1p-25;
    return (-u).log1p().clamp_max(-least) / -lambd;
  });
}
const Tensor& InPlaceMethods::log_normal_(double mean, double std) const {
  check_normal(std, "log_normal_");
  return distribute(self(), "log_normal_", [&](const Tensor& u) {
    draw_normal(u, mean, std, nullptr);
    return u.exp();
  });
}
const Tensor& InPlaceMethods::cauchy_(double median, double sigma) const {
  FERRITE_CHECK(sigma > 0, ValueError, "cauchy_", "expected a sigma above 0, got {}", sigma);
  return distribute(self(), "cauchy_", [&](const Tensor& u) {
    return ((u - 0.5) * std::numbers::pi).tan() * sigma + median;
  });
}
const Tensor& InPlaceMethods::geometric_(double p) const {
  FERRITE_CHECK(p > 0 && p < 1, ValueError, "geometric_", "expected 0 < p < 1, got {}", p);
  return distribute(self(), "geometric_", [&](const Tensor& u) {
    return ((-u).log1p() / std::log1p(-p)).ceil().clamp_min(1);
  });
}
const Tensor& InPlaceMethods::random_(std::int64_t low, std::int64_t high) const {
  const Tensor& x = self();
  FERRITE_CHECK(x.defined(), ValueError, "random_", "the tensor is undefined");
  return draw_inplace(x, "random_", [&](const Stream&, const Tensor& t) {
    const NoGradGuard no_grad;
    ops::renamed("random_", [&] {
      t.copy_(randint(low, high, t.shape(), {.dtype = t.dtype(), .device = t.device()}));
    });
  });
}

const Tensor& Tensor::uniform_(double low, double high) const {
  return ::ferrite::uniform_(*this, low, high);
}
const Tensor& Tensor::normal_(double mean, double std) const {
  return ::ferrite::normal_(*this, mean, std);
}
const Tensor& Tensor::bernoulli_(double p) const { return ::ferrite::bernoulli_(*this, p); }

}  // namespace ferrite
