#include "ferrite/optim/amp/options.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "ferrite/core/error.h"

namespace ferrite::optim::amp {

namespace {

constexpr std::string_view kNames[] = {"O0", "O1", "O2", "O3"};
constexpr std::string_view kDescriptions[] = {
    "pure float32 training.",
    "float32 weights, operations in the precision of their policy.",
    "16-bit training with float32 batch norm and float32 master weights.",
    "pure 16-bit training.",
};

bool has_16_bits(DType dtype) { return dtype == kFloat16 || dtype == kBFloat16; }

Properties properties_of(OptLevel level, DType dtype) {
  const LossScale scale = dtype == kFloat16 ? dynamic : LossScale(1.0);
  switch (level) {
    case O0:
      return {.opt_level = level, .cast_model_type = kFloat32};
    case O1:
      return {.opt_level = level, .autocast = true, .loss_scale = scale, .dtype = dtype};
    case O2:
      return {.opt_level = level,
              .cast_model_type = dtype,
              .keep_batchnorm_fp32 = true,
              .master_weights = true,
              .loss_scale = scale,
              .dtype = dtype};
    case O3:
      break;
  }
  return {
      .opt_level = level, .cast_model_type = dtype, .keep_batchnorm_fp32 = false, .dtype = dtype};
}

std::string text(std::optional<bool> value) { return value ? (*value ? "True" : "False") : "None"; }

}  // namespace

OptLevel opt_level(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (text == kNames[i]) return static_cast<OptLevel>(i);
  fail<ValueError>(
      "amp", "'{}' is no opt level; expected O0, O1, O2 or O3 (the letter, not a zero)", text);
}

std::string_view name(OptLevel level) { return kNames[static_cast<std::size_t>(level)]; }

LossScale::LossScale(double value) : value_(value) {
  FERRITE_CHECK(std::isfinite(value) && value > 0, ValueError, "amp",
                "expected a finite loss scale above 0, got {}", value);
}

LossScale::LossScale(std::string_view text) {
  if (text == "dynamic") return;
  const std::string number(text);
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  FERRITE_CHECK(!number.empty() && *end == '\0', ValueError, "amp",
                "expected a loss scale of 'dynamic' or a number, got '{}'", text);
  *this = LossScale(value);
}

std::string LossScale::str() const { return is_dynamic() ? "dynamic" : fmt::format("{}", value_); }

Properties properties_of(const Options& o) {
  FERRITE_CHECK(has_16_bits(o.dtype), ValueError, "amp", "expected float16 or bfloat16, got {}",
                o.dtype);
  FERRITE_CHECK(o.num_losses >= 1, ValueError, "amp", "expected one loss or more, got {}",
                o.num_losses);
  FERRITE_CHECK(o.min_loss_scale >= 0 && o.min_loss_scale <= o.max_loss_scale, ValueError, "amp",
                "expected 0 <= min_loss_scale <= max_loss_scale, got {} and {}", o.min_loss_scale,
                o.max_loss_scale);
  FERRITE_CHECK(is_floating(o.cast_model_outputs), ValueError, "amp",
                "outputs cannot be converted to {}", o.cast_model_outputs);
  if (!o.enabled) return {.enabled = false, .opt_level = o.opt_level};
  Properties p = properties_of(o.opt_level, o.dtype);
  const bool casts = p.cast_model_type && *p.cast_model_type != kFloat32;
  FERRITE_CHECK(!o.keep_batchnorm_fp32 || casts, ValueError, "amp",
                "keep_batchnorm_fp32 is for O2 and O3; at {} the model is float32",
                name(o.opt_level));
  FERRITE_CHECK(!o.master_weights || !*o.master_weights || casts, ValueError, "amp",
                "master_weights are for O2 and O3; at {} the weights are float32",
                name(o.opt_level));
  if (o.keep_batchnorm_fp32) p.keep_batchnorm_fp32 = o.keep_batchnorm_fp32;
  if (o.master_weights) p.master_weights = *o.master_weights;
  if (o.loss_scale) p.loss_scale = *o.loss_scale;
  return p;
}

std::string Properties::str() const {
  if (!enabled) return "Mixed precision is off.\n";
  return fmt::format(
      "Opt level {}: {}\n"
      "  dtype               : {}\n"
      "  cast_model_type     : {}\n"
      "  autocast            : {}\n"
      "  keep_batchnorm_fp32 : {}\n"
      "  master_weights      : {}\n"
      "  loss_scale          : {}\n",
      name(opt_level), kDescriptions[static_cast<std::size_t>(opt_level)], dtype,
      cast_model_type ? fmt::format("{}", *cast_model_type) : "None", text(autocast),
      text(keep_batchnorm_fp32), text(master_weights), loss_scale.str());
}

}  // namespace ferrite::optim::amp
