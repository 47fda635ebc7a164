// BatchNorm1d to BatchNorm3d, InstanceNorm1d to InstanceNorm3d, LayerNorm, RMSNorm, GroupNorm,
// LocalResponseNorm.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>

#include "ferrite/nn/module.h"
#include "ferrite/ops/norm.h"

namespace ferrite::nn {

/// The options of BatchNorm1d to BatchNorm3d.
struct BatchNormOptions {
  double eps = 1e-5;
  /// Weight of a new batch in the running statistics. If unset, they are the mean over all batches.
  std::optional<double> momentum = 0.1;
  bool affine = true;  ///< whether there are a weight and a bias
  /// If false, evaluation uses the statistics of its batch.
  bool track_running_stats = true;
  bool bias = true;  ///< if false, there is no bias, even if affine
};

/// The parameters and statistics of batch and instance norms.
class NormBase : public Module {
 public:
  /// Weight 1, bias 0.
  void reset_parameters();
  /// Mean 0, variance 1.
  void reset_running_stats();

  /// [num_features]; undefined unless affine, the bias also without the option `bias`.
  Tensor weight, bias;
  Tensor running_mean, running_var;  ///< [num_features]; undefined unless tracked
  /// int64, 0-dimensional; that of instance norms stays 0, as PyTorch's.
  Tensor num_batches_tracked;

 protected:
  NormBase(std::int64_t num_features, bool affine, bool track_running_stats, bool with_bias);

  std::int64_t num_features_;
};

/// Batch normalisation (Ioffe and Szegedy 2015), the common base of BatchNorm1d to BatchNorm3d,
/// which differ in the inputs they accept (ShapeError for others).
class BatchNorm : public NormBase {
 public:
  Tensor forward(const Tensor& input) override;
  /// The same with the op's further features (ops/norm.h): the residual, ReLU and statistics of
  /// `options`; the module sets the other fields.
  Tensor forward(const Tensor& input, BatchNormFuncOptions options);
  /// What forward(x) would do as the option `shortcut` of another norm, in training; nothing where
  /// this cannot be said in advance (running statistics that are means over all batches, statistics
  /// of larger batches, evaluation). Not checked: `x`, of which `statistics` may be known.
  std::optional<BatchNormShortcut> as_shortcut(const Tensor& x,
                                               const ChannelStatistics& statistics) const;
  /// Whether the next forward() normalises by the statistics of its batch.
  bool uses_batch_statistics() const {
    return !is_identity_ && (is_training() || !running_mean.defined());
  }
  std::string extra_repr() const override;
  const BatchNormOptions& options() const { return options_; }
  /// Gives up parameters and statistics: from now on forward() returns its input, followed by the
  /// residual and ReLU of its options, and the module prints as Identity (nn/inference.h).
  void become_identity();
  /// Whether become_identity() was called, so that forward() returns its input.
  bool is_identity() const { return is_identity_; }
  /// Sets the share of the new statistics in the running ones; they are the mean over all batches
  /// if there is none.
  void set_momentum(std::optional<double> momentum) { options_.momentum = momentum; }
  /// Treats training batches as parts of larger batches, whose statistics are used; the module then
  /// prints as SyncBatchNorm (parallel/ddp/sync_batch_norm.h). Each forward() in training calls
  /// `source`, which returns null if the batch is complete. clone() copies it; an empty function
  /// removes it.
  using BatchPartsSource = std::function<std::shared_ptr<BatchParts>()>;
  /// For data parallelism: where the other parts of the batch are.
  void set_batch_parts(BatchPartsSource source) { batch_parts_ = std::move(source); }
  /// The other parts of a training batch; null if it is complete.
  std::shared_ptr<BatchParts> batch_parts() const {
    return batch_parts_ ? batch_parts_() : nullptr;
  }
  /// Whether training uses the statistics of larger batches, as SyncBatchNorm does.
  bool is_synchronized() const { return batch_parts_ != nullptr; }
  std::string name() const override;

 protected:
  BatchNorm(std::int64_t num_features, const BatchNormOptions& options);
  /// Throws ShapeError for inputs that the layer does not accept.
  virtual void check_input(const Tensor& input) const = 0;

 private:
  BatchNormOptions options_;
  BatchPartsSource batch_parts_;
  bool is_identity_ = false;
};

/// Normalises each channel of [N, C] or [N, C, L], as BatchNorm2d does. ShapeError for others.
class BatchNorm1d : public Cloneable<BatchNorm1d, BatchNorm> {
 public:
  explicit BatchNorm1d(std::int64_t num_features, const BatchNormOptions& options = {})
      : Cloneable(num_features, options) {}

 protected:
  void check_input(const Tensor& input) const override;
};

/// Normalises each channel of [N, C, H, W] by the mean and variance of the batch in training, by
/// the running ones in evaluation; then weight and bias are applied. ShapeError for inputs of other
/// ranks or numbers of channels.
///
///   nn::BatchNorm2d bn(64, {.momentum = 0.1});
///   Tensor y = bn(randn({8, 64, 56, 56}));
class BatchNorm2d : public Cloneable<BatchNorm2d, BatchNorm> {
 public:
  explicit BatchNorm2d(std::int64_t num_features, const BatchNormOptions& options = {})
      : Cloneable(num_features, options) {}

 protected:
  void check_input(const Tensor& input) const override;
};

/// Normalises each channel of [N, C, D, H, W], as BatchNorm2d does. ShapeError for others.
class BatchNorm3d : public Cloneable<BatchNorm3d, BatchNorm> {
 public:
  explicit BatchNorm3d(std::int64_t num_features, const BatchNormOptions& options = {})
      : Cloneable(num_features, options) {}

 protected:
  void check_input(const Tensor& input) const override;
};

/// The options of InstanceNorm1d to InstanceNorm3d.
struct InstanceNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;             ///< weight of a new batch in the running statistics
  bool affine = false;               ///< whether there are a weight and a bias
  bool track_running_stats = false;  ///< whether evaluation uses running statistics
  bool bias = true;                  ///< if false, there is no bias, even if affine
};

/// Normalises each channel of each element of a batch [N, C, *] in N dimensions, or of [C, *]
/// (Ulyanov et al. 2016): the common base of InstanceNorm1d to InstanceNorm3d. ShapeError for
/// inputs of other ranks, and of another number of channels where there are parameters or
/// statistics.
template <int N>
class InstanceNormNd : public NormBase {
 public:
  explicit InstanceNormNd(std::int64_t num_features, const InstanceNormOptions& options = {});
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  InstanceNormOptions options_;
};

extern template class InstanceNormNd<1>;
extern template class InstanceNormNd<2>;
extern template class InstanceNormNd<3>;

/// Normalises each channel of each element of a batch [N, C, L], or of [C, L], to mean 0 and
/// variance 1. By default there are no parameters (affine = false) and no running statistics
/// (track_running_stats = false). ShapeError for inputs of other ranks, and for another number of
/// channels than num_features where there are parameters or statistics.
class InstanceNorm1d : public Cloneable<InstanceNorm1d, InstanceNormNd<1>> {
 public:
  using Cloneable::Cloneable;
};

/// Normalises each channel of each element of a batch [N, C, H, W], or of [C, H, W], to mean 0 and
/// variance 1. By default there are no parameters (affine = false) and no running statistics
/// (track_running_stats = false). ShapeError for inputs of other ranks, and for another number of
/// channels than num_features where there are parameters or statistics.
class InstanceNorm2d : public Cloneable<InstanceNorm2d, InstanceNormNd<2>> {
 public:
  using Cloneable::Cloneable;
};

/// Normalises each channel of each element of a batch [N, C, D, H, W], or of [C, D, H, W], to mean
/// 0 and variance 1. By default there are no parameters (affine = false) and no running statistics
/// (track_running_stats = false). ShapeError for inputs of other ranks, and for another number of
/// channels than num_features where there are parameters or statistics.
class InstanceNorm3d : public Cloneable<InstanceNorm3d, InstanceNormNd<3>> {
 public:
  using Cloneable::Cloneable;
};

/// local_response_norm() as a module: divides each value by (k + alpha m)^beta, with m the mean of
/// the squares of `size` neighboring channels of [N, C, *] (Krizhevsky et al. 2012).
class LocalResponseNorm : public Cloneable<LocalResponseNorm> {
 public:
  explicit LocalResponseNorm(std::int64_t size, const LocalResponseNormOptions& options = {})
      : size_(size), options_(options) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  std::int64_t size_;
  LocalResponseNormOptions options_;
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;  ///< whether there are a weight and a bias
  bool bias = true;                ///< if false, there is no bias, even if elementwise_affine
};

/// Normalizes over the last dimensions, whose sizes must be `normalized_shape` (ShapeError), to
/// mean 0 and variance 1; then weight and bias are applied (Ba, Kiros and Hinton 2016).
///
///   nn::LayerNorm norm(512);
///   Tensor y = norm(randn({8, 20, 512}));
class LayerNorm : public Cloneable<LayerNorm> {
 public:
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  explicit LayerNorm(std::int64_t normalized_size, const LayerNormOptions& options = {})
      : LayerNorm(Shape{normalized_size}, options) {}
  explicit LayerNorm(std::initializer_list<std::int64_t> normalized_shape,
                     const LayerNormOptions& options = {})
      : LayerNorm(Shape(normalized_shape), options) {}
  /// Weight 1, bias 0.
  void reset_parameters();
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor>,
                                            std::span<const Tensor>) const override {
    return 0;
  }

  Tensor weight, bias;  ///< [*normalized_shape] or undefined

 private:
  Shape normalized_shape_;
  LayerNormOptions options_;
};

struct RMSNormOptions {
  std::optional<double> eps = {};  ///< default: the epsilon of the type that statistics have
  bool elementwise_affine = true;  ///< whether there is a weight
};

/// Divides by the root mean square over the last dimensions, whose sizes must be `normalized_shape`
/// (ShapeError), and multiplies with the weight (Zhang and Sennrich 2019).
///
///   nn::RMSNorm norm(512);
///   Tensor y = norm(randn({8, 20, 512}));
class RMSNorm : public Cloneable<RMSNorm> {
 public:
  explicit RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options = {});
  explicit RMSNorm(std::int64_t normalized_size, const RMSNormOptions& options = {})
      : RMSNorm(Shape{normalized_size}, options) {}
  explicit RMSNorm(std::initializer_list<std::int64_t> normalized_shape,
                   const RMSNormOptions& options = {})
      : RMSNorm(Shape(normalized_shape), options) {}
  /// Weight 1.
  void reset_parameters();
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor>,
                                            std::span<const Tensor>) const override {
    return 0;
  }

  Tensor weight;  ///< [*normalized_shape] or undefined

 private:
  Shape normalized_shape_;
  RMSNormOptions options_;
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;  ///< whether there are a weight and a bias
  bool bias = true;    ///< if false, there is no bias, even if affine
};

/// Normalizes each of `num_groups` groups of the channels of [N, C, *] to mean 0 and variance 1;
/// then weight and bias are applied (Wu and He 2018). ValueError unless num_groups divides
/// num_channels, ShapeError for inputs with other channels.
///
///   nn::GroupNorm norm(4, 32);
///   Tensor y = norm(randn({2, 32, 8, 8}));  // groups of 8 channels
class GroupNorm : public Cloneable<GroupNorm> {
 public:
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels,
            const GroupNormOptions& options = {});
  /// Weight 1, bias 0.
  void reset_parameters();
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  /// [num_channels]; undefined unless affine, the bias also without the option `bias`.
  Tensor weight, bias;

 private:
  std::int64_t num_groups_, num_channels_;
  GroupNormOptions options_;
};

}  // namespace ferrite::nn
