#include "ferrite/metrics/average_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/error.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"

namespace ferrite::metrics {

namespace {

const TensorOptions kNumber{.dtype = kFloat64, .device = kCPU};

double number(const StateDict& dict, const char* name) { return dict.at(name).item<double>(); }

std::string formatted(const std::string& format, double value) {
  return fmt::format(fmt::runtime("{" + format + "}"), value);
}

/// Reports a bad format at construction, before hours of training depend on it.
template <class F>
void check_format(const char* op, const std::string& format, F&& show) {
  try {
    show();
  } catch (const fmt::format_error& error) {
    fail<ValueError>(op, "cannot show numbers by the format '{}': {}", format, error.what());
  }
}

}  // namespace

// ---- AverageMeter

AverageMeter::AverageMeter(std::string name, std::string format, double smoothing)
    : name_(std::move(name)), format_(std::move(format)), smoothing_(smoothing) {
  FERRITE_CHECK(smoothing >= 0 && smoothing < 1, ValueError, "AverageMeter",
                "expected a smoothing of 0 to below 1, got {}", smoothing);
  FERRITE_CHECK(format_.empty() || format_[0] == ':', ValueError, "AverageMeter",
                "expected a format such as ':.4f', got '{}'", format_);
  check_format("AverageMeter", format_, [&] { formatted(format_, 0); });
}

void AverageMeter::update(double val, std::int64_t n) {
  val_ = val;
  sum_ += val * static_cast<double>(n);
  count_ += n;
  ema_ = smoothing_ * ema_ + (1 - smoothing_) * val;
  ema_weight_ = smoothing_ * ema_weight_ + (1 - smoothing_);
}

void AverageMeter::reset() {
  val_ = sum_ = ema_ = ema_weight_ = 0;
  count_ = 0;
}

double AverageMeter::avg() const { return count_ ? sum_ / static_cast<double>(count_) : 0; }

double AverageMeter::ema() const { return ema_weight_ > 0 ? ema_ / ema_weight_ : 0; }

std::string AverageMeter::str() const {
  return fmt::format("{}{}{} ({})", name_, name_.empty() ? "" : " ", formatted(format_, val_),
                     formatted(format_, avg()));
}

StateDict AverageMeter::state_dict() const {
  return {{"val", tensor(val_, kNumber)},
          {"sum", tensor(sum_, kNumber)},
          {"count", tensor(static_cast<double>(count_), kNumber)},
          {"ema", tensor(ema_, kNumber)},
          {"ema_weight", tensor(ema_weight_, kNumber)}};
}

void AverageMeter::load_state_dict(const StateDict& dict) {
  const double val = number(dict, "val"), sum = number(dict, "sum"), count = number(dict, "count"),
               ema = number(dict, "ema"), weight = number(dict, "ema_weight");
  FERRITE_CHECK(count >= 0 && count < 0x1p63, ValueError, "AverageMeter",
                "expected a count of 0 or more, got {}", count);
  val_ = val, sum_ = sum, count_ = static_cast<std::int64_t>(count);
  ema_ = ema, ema_weight_ = weight;
}

// ---- DeviceAverageMeter

DeviceAverageMeter::DeviceAverageMeter(const Device& device, std::string name, std::string format,
                                       double smoothing)
    : empty_(std::move(name), std::move(format), smoothing),
      last_(zeros({2}, {.dtype = kFloat64, .device = device})),
      totals_(zeros_like(last_)),
      smoothed_(zeros_like(last_)) {
  last_[1].fill_(1);
}

void DeviceAverageMeter::update(const Tensor& val, std::int64_t n) {
  FERRITE_CHECK(val.defined() && val.numel() == 1, ShapeError, "DeviceAverageMeter",
                "expected one number, got {}", val.describe());
  NoGradGuard guard;
  last_[0].copy_(val.reshape({}));
  totals_.add_(last_, n);
  if (empty_.smoothing_ == 0) return;
  smoothed_.mul_(empty_.smoothing_);
  smoothed_.add_(last_, 1 - empty_.smoothing_);
}

void DeviceAverageMeter::update(double val, std::int64_t n) {
  update(full({}, val, {.dtype = kFloat64, .device = last_.device()}), n);
}

void DeviceAverageMeter::reset() {
  last_[0].zero_();
  totals_.zero_();
  smoothed_.zero_();
}

AverageMeter DeviceAverageMeter::value() const {
  AverageMeter meter = empty_;
  const std::vector<double> totals = totals_.to_vector<double>(), last = last_.to_vector<double>();
  meter.val_ = last[0];
  meter.sum_ = totals[0];
  meter.count_ = static_cast<std::int64_t>(totals[1]);
  meter.ema_ = last[0];
  meter.ema_weight_ = meter.count_ ? 1 : 0;
  if (meter.smoothing_ > 0) {
    const std::vector<double> smoothed = smoothed_.to_vector<double>();
    meter.ema_ = smoothed[0], meter.ema_weight_ = smoothed[1];
  }
  return meter;
}

StateDict DeviceAverageMeter::state_dict() const {
  const Tensor& smoothed = empty_.smoothing_ > 0 ? smoothed_ : last_;
  return {{"val", last_[0].clone()},
          {"sum", totals_[0].clone()},
          {"count", totals_[1].clone()},
          {"ema", smoothed[0].clone()},
          {"ema_weight", smoothed[1].clone()}};
}

void DeviceAverageMeter::load_state_dict(const StateDict& dict) {
  AverageMeter loaded = empty_;
  loaded.load_state_dict(dict);  // checks everything before anything changes
  last_[0].fill_(loaded.val_);
  totals_[0].fill_(loaded.sum_);
  totals_[1].fill_(loaded.count_);
  smoothed_[0].fill_(loaded.ema_);
  smoothed_[1].fill_(loaded.ema_weight_);
}

// ---- SmoothedValue

SmoothedValue::SmoothedValue(std::size_t window_size, std::string format)
    : window_size_(window_size), format_(std::move(format)) {
  FERRITE_CHECK(window_size > 0, ValueError, "SmoothedValue",
                "expected a window of 1 value or more, got 0");
  check_format("SmoothedValue", format_, [&] { static_cast<void>(str()); });
}

void SmoothedValue::update(double value, std::int64_t n) {
  window_.push_back(value);
  if (window_.size() > window_size_) window_.pop_front();
  count_ += n;
  total_ += value * static_cast<double>(n);
}

void SmoothedValue::reset() {
  window_.clear();
  total_ = 0;
  count_ = 0;
}

double SmoothedValue::median() const {
  if (window_.empty()) return 0;
  if (std::ranges::any_of(window_, [](double v) { return v != v; }))
    return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> sorted(window_.begin(), window_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

double SmoothedValue::avg() const {
  if (window_.empty()) return 0;
  return std::accumulate(window_.begin(), window_.end(), 0.0) / static_cast<double>(window_.size());
}

double SmoothedValue::max() const { return window_.empty() ? 0 : std::ranges::max(window_); }

double SmoothedValue::value() const { return window_.empty() ? 0 : window_.back(); }

double SmoothedValue::global_avg() const {
  return count_ ? total_ / static_cast<double>(count_) : 0;
}

std::string SmoothedValue::str() const {
  return fmt::format(fmt::runtime(format_), fmt::arg("median", median()), fmt::arg("avg", avg()),
                     fmt::arg("global_avg", global_avg()), fmt::arg("max", max()),
                     fmt::arg("value", value()));
}

StateDict SmoothedValue::state_dict() const {
  return {{"window", tensor(std::vector<double>(window_.begin(), window_.end()), kNumber)},
          {"total", tensor(total_, kNumber)},
          {"count", tensor(count_, {.dtype = kInt64, .device = kCPU})}};
}

void SmoothedValue::load_state_dict(const StateDict& dict) {
  const std::vector<double> window = dict.at("window").to_vector<double>();
  const double total = number(dict, "total");
  count_ = dict.at("count").item<std::int64_t>();
  total_ = total;
  const std::size_t kept = std::min(window.size(), window_size_);
  window_.assign(window.end() - static_cast<std::ptrdiff_t>(kept), window.end());
}

}  // namespace ferrite::metrics
