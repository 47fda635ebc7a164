// In-place initialisation of parameters, not recorded on the tape, with PyTorch's names, arguments
// and defaults. All functions take floating tensors on any device.
//
// Numbers are drawn on the host and copied to the tensor's device, so that a seed gives the same
// weights on every device. `generator` defaults to the host's default generator.
#pragma once

#include <cstdint>

#include "ferrite/core/choice.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"

namespace ferrite::nn::init {

/// Whether the inputs or the outputs of a neuron are counted.
enum class FanMode : std::uint8_t { fan_in, fan_out };
/// The nonlinearity that follows the layer; `linear` also stands for convolutions and the identity.
enum class Nonlinearity : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };

}  // namespace ferrite::nn::init

namespace ferrite {
template <>
struct detail::ChoiceNames<nn::init::FanMode> {
  static constexpr const char* kOption = "mode";
  static constexpr std::pair<const char*, nn::init::FanMode> kNames[] = {
      {"fan_in", nn::init::FanMode::fan_in}, {"fan_out", nn::init::FanMode::fan_out}};
};
template <>
struct detail::ChoiceNames<nn::init::Nonlinearity> {
  static constexpr const char* kOption = "nonlinearity";
  static constexpr std::pair<const char*, nn::init::Nonlinearity> kNames[] = {
      {"linear", nn::init::Nonlinearity::linear},
      {"sigmoid", nn::init::Nonlinearity::sigmoid},
      {"tanh", nn::init::Nonlinearity::tanh},
      {"relu", nn::init::Nonlinearity::relu},
      {"leaky_relu", nn::init::Nonlinearity::leaky_relu},
      {"selu", nn::init::Nonlinearity::selu},
      {"conv1d", nn::init::Nonlinearity::linear},
      {"conv2d", nn::init::Nonlinearity::linear},
      {"conv3d", nn::init::Nonlinearity::linear},
      {"conv_transpose1d", nn::init::Nonlinearity::linear},
      {"conv_transpose2d", nn::init::Nonlinearity::linear},
      {"conv_transpose3d", nn::init::Nonlinearity::linear}};
};
}  // namespace ferrite

namespace ferrite::nn::init {

/// While one exists, functions of its thread that draw random numbers for a tensor leave the tensor
/// as it is: layers made meanwhile have weights of no defined values, at no cost, for those who
/// assign them afterwards, as with torch.nn.utils.skip_init. Constants are assigned.
class SkipGuard {
 public:
  SkipGuard();
  ~SkipGuard();
  SkipGuard(const SkipGuard&) = delete;
  SkipGuard& operator=(const SkipGuard&) = delete;

 private:
  bool previous_;
};

/// How many inputs and outputs a neuron has.
struct Fans {
  std::int64_t in;   ///< the number of inputs of a neuron
  std::int64_t out;  ///< the number of outputs of a neuron
};
/// The fans of a weight [out, in, *kernel]; ShapeError below 2 dimensions.
Fans calculate_fans(const Tensor& weight);
/// The factor that compensates for the decrease of the standard deviation by a nonlinearity;
/// `negative_slope` is that of leaky_relu.
double calculate_gain(Choice<Nonlinearity> nonlinearity, double negative_slope = 0.01);

/// Draws the elements of a floating tensor of any shape uniformly from [low, high), in place,
/// without recording it, and returns the tensor. The numbers come from `generator`, or from the
/// host's default generator. DTypeError for other dtypes, ValueError unless low <= high.
///
///   nn::init::uniform_(layer.weight, -0.1, 0.1);
const Tensor& uniform_(const Tensor& t, double low = 0, double high = 1,
                       Generator* generator = nullptr);
/// Draws the elements of a floating tensor of any shape from the normal distribution of this mean
/// and standard deviation, in place, without recording it, and returns the tensor. The generator is
/// as for uniform_(). DTypeError for other dtypes, ValueError for a negative standard deviation.
///
///   nn::init::normal_(layer.weight, 0, 0.02);
const Tensor& normal_(const Tensor& t, double mean = 0, double std = 1,
                      Generator* generator = nullptr);
/// The normal distribution truncated to [low, high], by the inverse of the distribution function.
/// ValueError unless low < high and std > 0.
const Tensor& trunc_normal_(const Tensor& t, double mean = 0, double std = 1, double low = -2,
                            double high = 2, Generator* generator = nullptr);
/// Sets every element of a tensor of any shape to `value`, in place, without recording it, and
/// returns the tensor.
const Tensor& constant_(const Tensor& t, double value);
/// Sets every element to 0, in place, without recording it, and returns the tensor.
const Tensor& zeros_(const Tensor& t);
/// Sets every element to 1, in place, without recording it, and returns the tensor.
const Tensor& ones_(const Tensor& t);

/// The identity: 1 at [i, i], else 0. ShapeError unless it has 2 dimensions.
const Tensor& eye_(const Tensor& t);
/// Makes a weight of convolutions [out, in, *kernel] pass its inputs on: 1 in the middle of the
/// kernel of output i and input i, else 0, in each of the `groups` of outputs. ShapeError below 3
/// dimensions and above 5, ValueError unless the groups divide the outputs.
const Tensor& dirac_(const Tensor& t, std::int64_t groups = 1);
/// Normal with standard deviation `std`, and 0 in the part `sparsity` of each column, rounded up
/// (Martens 2010). ShapeError unless it has 2 dimensions, ValueError for a part outside [0, 1].
const Tensor& sparse_(const Tensor& t, double sparsity, double std = 0.01,
                      Generator* generator = nullptr);

/// Uniform within +-gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010).
const Tensor& xavier_uniform_(const Tensor& t, double gain = 1, Generator* generator = nullptr);
/// Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)).
const Tensor& xavier_normal_(const Tensor& t, double gain = 1, Generator* generator = nullptr);
/// Uniform within +-gain sqrt(3 / fan) (He et al. 2015); `a` is the slope of leaky_relu.
const Tensor& kaiming_uniform_(const Tensor& t, double a = 0,
                               Choice<FanMode> mode = FanMode::fan_in,
                               Choice<Nonlinearity> nonlinearity = Nonlinearity::leaky_relu,
                               Generator* generator = nullptr);
/// Normal with standard deviation gain / sqrt(fan).
const Tensor& kaiming_normal_(const Tensor& t, double a = 0, Choice<FanMode> mode = FanMode::fan_in,
                              Choice<Nonlinearity> nonlinearity = Nonlinearity::leaky_relu,
                              Generator* generator = nullptr);
/// Makes the rows of the matrix [size(0), product of other sizes], or its columns if there are
/// fewer of them, orthogonal with length `gain` (Saxe et al. 2014). Runs on the host. ShapeError
/// below 2 dimensions.
const Tensor& orthogonal_(const Tensor& t, double gain = 1, Generator* generator = nullptr);

}  // namespace ferrite::nn::init

namespace ferrite {
/// The inputs of a neuron are counted.
inline constexpr nn::init::FanMode kFanIn = nn::init::FanMode::fan_in;
/// The outputs of a neuron are counted.
inline constexpr nn::init::FanMode kFanOut = nn::init::FanMode::fan_out;
}  // namespace ferrite
