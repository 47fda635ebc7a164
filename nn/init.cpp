#include "ferrite/nn/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/record.h"
#include "ferrite/ops/creation.h"

namespace ferrite::nn::init {

namespace {

thread_local bool skipping = false;

Generator* or_default(Generator* generator) {
  return generator ? generator : &default_generator(Device());
}

/// Calls draw(tensor) on `t`, or on a tensor on the host that is then copied into `t`.
template <class Draw>
const Tensor& draw_on_host(const Tensor& t, Draw&& draw) {
  if (skipping) return t;
  NoGradGuard guard;
  if (t.device().is_host()) {
    draw(t);
  } else {
    const Tensor host = empty(t.shape(), {.dtype = t.dtype(), .device = kCPU});
    draw(host);
    t.copy_(host);
  }
  return t;
}

/// Before as many values are computed as `t` has elements, of which several may be one in memory.
void check_writable(const Tensor& t, const char* op) {
  NoGradGuard guard;
  autograd::check_inplace(t, op);
}

const Tensor& assign(const Tensor& t, const std::vector<double>& values) {
  NoGradGuard guard;
  t.copy_(from_vector(values, t.shape()));
  return t;
}

double kaiming_std(const Tensor& t, double a, FanMode mode, Nonlinearity nonlinearity) {
  const Fans fans = calculate_fans(t);
  const auto fan = static_cast<double>(mode == FanMode::fan_in ? fans.in : fans.out);
  return calculate_gain(nonlinearity, a) / std::sqrt(fan);
}

double xavier_std(const Tensor& t, double gain) {
  const Fans fans = calculate_fans(t);
  return gain * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out));
}

/// The distribution function of the normal distribution and its inverse; the latter by Newton's
/// method from the logistic approximation, in the tail from a bound, within the range of |x| that
/// doubles can resolve.
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

double normal_quantile(double p) {
  if (p > 0.5) return -normal_quantile(1 - p);
  if (p <= 0) return -38;
  double x = p < 1e-3 ? -std::sqrt(-2 * std::log(p)) : std::log(p / (1 - p)) / 1.702;
  for (int i = 0; i < 50; ++i) {
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    // Newton's method on the logarithm, which is concave, so that steps cannot overshoot in the
    // tail.
    const double cdf = normal_cdf(x), step = cdf * std::log(cdf / p) / density;
    if (cdf == 0) break;  // below the smallest number: as near as it gets
    x -= step;
    if (std::abs(step) < 1e-14 * (1 + std::abs(x))) break;
  }
  return x;
}

}  // namespace

SkipGuard::SkipGuard() : previous_(std::exchange(skipping, true)) {}
SkipGuard::~SkipGuard() { skipping = previous_; }

Fans calculate_fans(const Tensor& weight) {
  FERRITE_CHECK(weight.dim() >= 2, ShapeError, "init",
                "fan in and fan out need 2 or more dimensions, got {}", weight.shape());
  std::int64_t receptive = 1;
  for (int d = 2; d < weight.dim(); ++d) receptive *= weight.size(d);
  return {.in = weight.size(1) * receptive, .out = weight.size(0) * receptive};
}

double calculate_gain(Choice<Nonlinearity> nonlinearity, double negative_slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      return 1;
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::numbers::sqrt2;
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + negative_slope * negative_slope));
    case Nonlinearity::selu:
      return 0.75;
  }
  return 1;
}

const Tensor& uniform_(const Tensor& t, double low, double high, Generator* generator) {
  return draw_on_host(
      t, [&](const Tensor& x) { ferrite::uniform_(x, low, high, or_default(generator)); });
}

const Tensor& normal_(const Tensor& t, double mean, double std, Generator* generator) {
  return draw_on_host(
      t, [&](const Tensor& x) { ferrite::normal_(x, mean, std, or_default(generator)); });
}

const Tensor& trunc_normal_(const Tensor& t, double mean, double std, double low, double high,
                            Generator* generator) {
  FERRITE_CHECK(low < high && std > 0, ValueError, "trunc_normal_",
                "expected low < high and std > 0, got [{}, {}] and {}", low, high, std);
  if (skipping) return t;
  check_writable(t, "trunc_normal_");
  // Above the mean the distribution function is next to 1, and has no digits left for the tail:
  // there the mirrored interval is drawn from.
  const double side = low > mean ? -1 : 1;
  const double one_end = normal_cdf(side * (low - mean) / std),
               other_end = normal_cdf(side * (high - mean) / std);
  std::vector<double> values(static_cast<std::size_t>(t.numel()));
  for (double& v : values) {
    const double u = one_end + (other_end - one_end) * or_default(generator)->next_double();
    v = std::clamp(mean + side * std * normal_quantile(u), low, high);
  }
  return assign(t, values);
}

const Tensor& constant_(const Tensor& t, double value) {
  NoGradGuard guard;
  return t.fill_(value);
}
const Tensor& zeros_(const Tensor& t) { return constant_(t, 0); }
const Tensor& ones_(const Tensor& t) { return constant_(t, 1); }

const Tensor& eye_(const Tensor& t) {
  FERRITE_CHECK(t.dim() == 2, ShapeError, "eye_", "expected 2 dimensions, got {}", t.shape());
  zeros_(t);
  ones_(t.detach().diagonal());
  return t;
}

const Tensor& dirac_(const Tensor& t, std::int64_t groups) {
  FERRITE_CHECK(t.dim() >= 3 && t.dim() <= 5, ShapeError, "dirac_",
                "expected a weight [out, in, *kernel] of 3 to 5 dimensions, got {}", t.shape());
  FERRITE_CHECK(groups > 0 && t.size(0) % groups == 0, ValueError, "dirac_",
                "expected groups that divide {} outputs, got {}", t.size(0), groups);
  zeros_(t);
  Tensor middle = t.detach();
  while (middle.dim() > 2) middle = middle.select(2, middle.size(2) / 2);
  const std::int64_t outputs = t.size(0) / groups;
  for (std::int64_t g = 0; g < groups; ++g)
    ones_(middle.narrow(0, g * outputs, outputs).diagonal());
  return t;
}

const Tensor& sparse_(const Tensor& t, double sparsity, double std, Generator* generator) {
  FERRITE_CHECK(t.dim() == 2, ShapeError, "sparse_", "expected 2 dimensions, got {}", t.shape());
  FERRITE_CHECK(sparsity >= 0 && sparsity <= 1, ValueError, "sparse_",
                "expected a part of the elements in [0, 1], got {}", sparsity);
  return draw_on_host(t, [&](const Tensor& x) {
    ferrite::normal_(x, 0, std, or_default(generator));
    const auto count =
        static_cast<std::int64_t>(std::ceil(sparsity * static_cast<double>(x.size(0))));
    for (std::int64_t column = 0; column < x.size(1); ++column) {
      const Tensor rows = randperm(x.size(0), {.device = kCPU}, or_default(generator));
      x.select(1, column).index_fill_(0, rows.narrow(0, 0, count), 0);
    }
  });
}

const Tensor& xavier_uniform_(const Tensor& t, double gain, Generator* generator) {
  const double bound = std::numbers::sqrt3 * xavier_std(t, gain);
  return init::uniform_(t, -bound, bound, generator);
}

const Tensor& xavier_normal_(const Tensor& t, double gain, Generator* generator) {
  return init::normal_(t, 0, xavier_std(t, gain), generator);
}

const Tensor& kaiming_uniform_(const Tensor& t, double a, Choice<FanMode> mode,
                               Choice<Nonlinearity> nonlinearity, Generator* generator) {
  if (t.numel() == 0) return t;
  const double bound = std::numbers::sqrt3 * kaiming_std(t, a, mode, nonlinearity);
  return init::uniform_(t, -bound, bound, generator);
}

const Tensor& kaiming_normal_(const Tensor& t, double a, Choice<FanMode> mode,
                              Choice<Nonlinearity> nonlinearity, Generator* generator) {
  if (t.numel() == 0) return t;
  return init::normal_(t, 0, kaiming_std(t, a, mode, nonlinearity), generator);
}

const Tensor& orthogonal_(const Tensor& t, double gain, Generator* generator) {
  FERRITE_CHECK(t.dim() >= 2, ShapeError, "orthogonal_", "needs 2 or more dimensions, got {}",
                t.shape());
  if (t.numel() == 0 || skipping) return t;
  check_writable(t, "orthogonal_");
  const auto rows = static_cast<std::size_t>(t.size(0)),
             cols = static_cast<std::size_t>(t.numel()) / rows;
  // `count` vectors of length `length`, made orthonormal by the Gram-Schmidt method, applied twice
  // to each (Giraud et al. 2005: enough for full accuracy).
  const std::size_t count = std::min(rows, cols), length = std::max(rows, cols);
  std::vector<double> q(count * length);
  for (double& v : q) v = or_default(generator)->next_normal();
  for (std::size_t i = 0; i < count; ++i) {
    double* x = q.data() + i * length;
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t j = 0; j < i; ++j) {
        const double* y = q.data() + j * length;
        double dot = 0;
        for (std::size_t k = 0; k < length; ++k) dot += x[k] * y[k];
        for (std::size_t k = 0; k < length; ++k) x[k] -= dot * y[k];
      }
    double square = 0;
    for (std::size_t k = 0; k < length; ++k) square += x[k] * x[k];
    const double scale = 1 / std::sqrt(square);
    for (std::size_t k = 0; k < length; ++k) x[k] *= scale;
  }
  std::vector<double> values(rows * cols);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c)
      values[r * cols + c] = gain * (rows <= cols ? q[r * length + c] : q[c * length + r]);
  return assign(t, values);
}

}  // namespace ferrite::nn::init
