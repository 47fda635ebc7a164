#include "ferrite/examples/compare_parallel/planning/stragglers.h"

#include <charconv>
#include <cmath>
#include <numbers>
#include <vector>

#include "ferrite/core/error.h"

namespace ferrite::planning {

namespace {

constexpr const char* kStragglersOp = "stragglers";

/// Above 0 and below 1, the same for every standard library.
double uniform(std::mt19937_64& generator) {
  return (static_cast<double>(generator() >> 11) + 0.5) * 0x1p-53;
}

/// The n-th root of p, less than 1 even where it rounds to that.
double nth_root(double p, std::int64_t n) {
  return std::min(std::exp(std::log(p) / static_cast<double>(n)), 1 - 0x1p-53);
}

}  // namespace

double normal_quantile(double p) {
  FERRITE_CHECK(p > 0 && p < 1, ValueError, kStragglersOp,
                "expected a probability from 0 to 1, got {}", p);
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                          1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                          6.680131188771972e+01, -1.328068155288572e+01};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                          -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                          3.754408661907416e+00};
  const double tail = std::min(p, 1 - p);
  double x;
  if (tail < 0.02425) {
    const double q = std::sqrt(-2 * std::log(tail));
    x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
        ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
  } else {
    const double q = tail - 0.5, r = q * q;
    x = (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
        (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
  }
  const double error = 0.5 * std::erfc(-x / std::numbers::sqrt2) - tail;
  const double u = error * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
  x -= u / (1 + x * u / 2);
  return p <= 0.5 ? x : -x;
}

Stragglers Stragglers::parse(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(':', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<double> numbers;
  bool good = true;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    double value = 0;
    const auto [end, error] =
        std::from_chars(parts[i].data(), parts[i].data() + parts[i].size(), value);
    good = good && error == std::errc() && end == parts[i].data() + parts[i].size();
    numbers.push_back(value);
  }
  Stragglers result;
  if (parts[0] == "lognormal" && numbers.size() == 1)
    result = {.kind = Kind::log_normal, .sigma = numbers[0]};
  else if (parts[0] == "exponential" && numbers.size() == 1)
    result = {.kind = Kind::exponential, .mean = numbers[0]};
  else if (parts[0] == "occasional" && numbers.size() == 2)
    result = {.kind = Kind::occasional, .probability = numbers[0], .factor = numbers[1]};
  else
    good = good && parts[0] == "none" && numbers.empty();
  FERRITE_CHECK(
      good, ValueError, kStragglersOp,
      "expected none, lognormal:SIGMA, exponential:MEAN or occasional:PROBABILITY:FACTOR, "
      "got '{}'",
      text);
  result.check();
  return result;
}

std::string Stragglers::str() const {
  switch (kind) {
    case Kind::log_normal:
      return fmt::format("lognormal:{:.6g}", sigma);
    case Kind::exponential:
      return fmt::format("exponential:{:.6g}", mean);
    case Kind::occasional:
      return fmt::format("occasional:{:.6g}:{:.6g}", probability, factor);
    case Kind::none:
      break;
  }
  return "none";
}

void Stragglers::check() const {
  FERRITE_CHECK(sigma >= 0 && sigma <= 3, ValueError, kStragglersOp,
                "expected a sigma from 0 to 3, got {}", sigma);
  FERRITE_CHECK(mean >= 0 && std::isfinite(mean), ValueError, kStragglersOp,
                "expected a mean of 0 or more, got {}", mean);
  FERRITE_CHECK(probability >= 0 && probability <= 1, ValueError, kStragglersOp,
                "expected a probability from 0 to 1, got {}", probability);
  FERRITE_CHECK(factor >= 1 && std::isfinite(factor), ValueError, kStragglersOp,
                "expected a factor of 1 or more, got {}", factor);
}

double Stragglers::quantile(double p) const {
  FERRITE_CHECK(p >= 0 && p < 1, ValueError, kStragglersOp,
                "expected a share from 0 to below 1, got {}", p);
  switch (kind) {
    case Kind::log_normal:
      return p == 0 || sigma == 0 ? (sigma == 0 ? 1 : 0) : std::exp(sigma * normal_quantile(p));
    case Kind::exponential:
      return 1 - mean * std::log1p(-p);
    case Kind::occasional:
      return p < 1 - probability ? 1 : factor;
    case Kind::none:
      break;
  }
  return 1;
}

double Stragglers::draw(std::mt19937_64& generator) const { return quantile(uniform(generator)); }

double Stragglers::draw_max(std::mt19937_64& generator, std::int64_t n) const {
  FERRITE_CHECK(n > 0, ValueError, kStragglersOp, "expected 1 draw or more, got {}", n);
  return quantile(nth_root(uniform(generator), n));
}

Stragglers stragglers_of(double median, double spread) {
  FERRITE_CHECK(median > 0 && spread >= 0, ValueError, kStragglersOp,
                "expected a median above 0 and a spread of 0 or more, got {} +- {}", median,
                spread);
  return {.kind = Stragglers::Kind::log_normal, .sigma = std::min(3.0, spread / median / 0.6745)};
}

}  // namespace ferrite::planning
