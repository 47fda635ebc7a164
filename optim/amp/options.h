// Apex's opt levels and their properties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ferrite/core/dtype.h"

namespace ferrite::optim::amp {

/// O0 float32, O1 by operation, O2 a 16-bit model with float32 master weights, O3 16 bits alone.
enum class OptLevel : std::uint8_t {
  O0,  ///< float32
  O1,  ///< float32 weights, operations by policy (ops/autocast.h)
  O2,  ///< 16-bit model except for batch norms, float32 master weights
  O3,  ///< 16 bits throughout
};
/// O0 float32, O1 by operation, O2 a 16-bit model with float32 master weights, O3 16 bits alone.
using enum OptLevel;

/// "O0" to "O3", as programs take it; ValueError for others.
OptLevel opt_level(std::string_view text);
std::string_view name(OptLevel level);

/// A level where its name may stand for it: `{.opt_level = "O1"}`.
struct OptLevelOrName {
  OptLevelOrName(OptLevel level) : level(level) {}
  OptLevelOrName(std::string_view text) : level(amp::opt_level(text)) {}
  OptLevelOrName(const char* text) : OptLevelOrName(std::string_view(text)) {}
  OptLevelOrName(const std::string& text) : OptLevelOrName(std::string_view(text)) {}
  operator OptLevel() const { return level; }

  /// O0 float32, O1 by operation, O2 a 16-bit model with float32 master weights, O3 16 bits alone.
  OptLevel level;
};

/// A constant number, or `dynamic`: 2^16 at first, halved after every overflow, doubled after every
/// 2000 steps in a row without one.
class LossScale {
 public:
  /// ValueError unless finite and above 0.
  LossScale(double value);
  /// "dynamic" or a number.
  LossScale(std::string_view text);
  LossScale(const char* text) : LossScale(std::string_view(text)) {}
  LossScale(const std::string& text) : LossScale(std::string_view(text)) {}
  /// A loss scale that adapts itself: 2^16 at first, halved after an overflow.
  static constexpr LossScale make_dynamic() { return LossScale(); }

  bool is_dynamic() const { return value_ == 0; }
  /// At first.
  double value() const { return is_dynamic() ? 65536 : value_; }
  /// "dynamic", or the number.
  std::string str() const;

  friend bool operator==(const LossScale&, const LossScale&) = default;

 private:
  constexpr LossScale() = default;
  double value_ = 0;
};
/// The loss scale that adapts itself, for Options::loss_scale.
inline constexpr LossScale dynamic = LossScale::make_dynamic();

struct Options {
  OptLevelOrName opt_level = O1;
  /// float16 or bfloat16. bfloat16 has float32's range: its loss scale is 1 unless given.
  DType dtype = kFloat16;
  /// Overrides of what the level says.
  std::optional<bool> keep_batchnorm_fp32 = {}, master_weights = {};
  std::optional<LossScale> loss_scale = {};
  /// What floating outputs of the model are converted to.
  DType cast_model_outputs = kFloat32;
  std::size_t num_losses = 1;  ///< with a scale each
  /// Bounds of a dynamic loss scale.
  double min_loss_scale = 0, max_loss_scale = 16777216;
  bool enabled = true;  ///< if not, nothing is changed: float32, without a scale
  int verbosity = 0;    ///< above 0: initialize() prints the properties
};

/// A level together with its overrides, under Apex's names.
struct Properties {
  bool enabled = true;  ///< whether mixed precision is on
  OptLevel opt_level = O0;
  std::optional<DType> cast_model_type = {};     ///< of the model and its inputs
  bool autocast = false;                         ///< Apex: patch_torch_functions
  std::optional<bool> keep_batchnorm_fp32 = {};  ///< whether batch norms stay in float32
  bool master_weights = false;  ///< whether the optimizer updates float32 copies of the weights
  LossScale loss_scale = 1.0;
  DType dtype = kFloat32;  ///< of operations that do not compute in float32

  /// A line each, as Apex prints them.
  std::string str() const;
};

/// ValueError where options contradict each other.
Properties properties_of(const Options& options);

}  // namespace ferrite::optim::amp
