// Averages over the steps of a run, named as in PyTorch's training scripts.
//
//   metrics::DeviceAverageMeter losses(device, "Loss", ":.4f");
//   for (auto& [images, labels] : loader) {
//     Tensor loss = step(images, labels);
//     losses.update(loss, images.size(0));      // does not wait
//     if (bar.due(done)) bar.update(done, losses.value().str());
//   }
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"

namespace ferrite::metrics {

/// The AverageMeter of PyTorch's ImageNet example, plus TensorBoard's smoothing: all are 0 before
/// the first update. A NaN among the values makes sum, average and smoothed value NaN.
class AverageMeter {
 public:
  /// `format` is how str() shows a number, as in the ImageNet example: ":.4f", ":6.2f", ":.4e"
  /// (ValueError for others). `smoothing` in [0, 1) is the weight of the past in ema(); 0 for none.
  explicit AverageMeter(std::string name = "", std::string format = ":.4f", double smoothing = 0);

  /// `val` is the mean of `n` values.
  void update(double val, std::int64_t n = 1);
  void reset();

  const std::string& name() const { return name_; }
  double val() const { return val_; }  ///< of the last update
  double sum() const { return sum_; }  ///< of val * n
  std::int64_t count() const { return count_; }
  double avg() const;  ///< sum / count
  /// The exponential moving average over updates, regardless of their n, with bias correction: the
  /// mean if `smoothing` is near 1 and updates are few.
  double ema() const;
  /// The share of the old average that is kept.
  double smoothing() const { return smoothing_; }

  /// "Loss 0.6931 (0.7012)": the last value and the average.
  std::string str() const;

  /// One float64 number each: "val", "sum", "count", "ema", "ema_weight".
  StateDict state_dict() const;
  /// IndexError if one is missing, ShapeError if it is not a single number; nothing is changed
  /// then.
  void load_state_dict(const StateDict& dict);

 private:
  friend class DeviceAverageMeter;

  std::string name_, format_;
  double smoothing_;
  double val_ = 0, sum_ = 0;
  std::int64_t count_ = 0;
  double ema_ = 0, ema_weight_ = 0;
};

/// AverageMeter for values on a device: update() queues a few small operations there, value()
/// waits. All state is float64 at fixed addresses, so update() may be part of a CUDA graph, and
/// each replay counts.
class DeviceAverageMeter {
 public:
  explicit DeviceAverageMeter(const Device& device, std::string name = "",
                              std::string format = ":.4f", double smoothing = 0);
  DeviceAverageMeter(DeviceAverageMeter&&) = default;
  DeviceAverageMeter& operator=(DeviceAverageMeter&&) = default;

  /// `val`: one number of any dtype on this device, on or off the tape; ShapeError.
  void update(const Tensor& val, std::int64_t n = 1);
  void update(double val, std::int64_t n = 1);
  void reset();

  /// The AverageMeter that the same updates would give. Waits for the device.
  AverageMeter value() const;
  /// Waits for the device.
  std::string str() const { return value().str(); }

  const std::string& name() const { return empty_.name(); }
  /// float64 [2] on the device: sum and count, for an all-reduce.
  const Tensor& totals() const { return totals_; }

  /// As AverageMeter's, copies on the device.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& dict);

 private:
  AverageMeter empty_;               // name, format, smoothing
  Tensor last_, totals_, smoothed_;  // float64 [2]: val and 1; sum and count; ema and its weight
};

/// torchvision's SmoothedValue: statistics of the last values, and the average of all.
class SmoothedValue {
 public:
  /// ValueError if `window_size` is not above 0. `format` may use {median}, {avg}, {global_avg},
  /// {max} and {value} (ValueError for others).
  explicit SmoothedValue(std::size_t window_size = 20,
                         std::string format = "{median:.4f} ({global_avg:.4f})");

  void update(double value, std::int64_t n = 1);
  void reset();

  // Over the window, regardless of the updates' n; 0 before the first update. The median of an even
  // number of values is the lower one, as in torch.median.
  /// The median of the last values.
  double median() const;
  /// The mean of the last values.
  double avg() const;
  /// The largest of the last values.
  double max() const;
  double value() const;  ///< the last value
  // Over all updates.
  /// The mean of all values.
  double global_avg() const;
  double total() const { return total_; }
  std::int64_t count() const { return count_; }

  /// The text that `format` describes.
  std::string str() const;

  /// "window" (float64, one element per value), "total" and "count".
  StateDict state_dict() const;
  void load_state_dict(const StateDict& dict);

 private:
  std::size_t window_size_;
  std::string format_;
  std::deque<double> window_;
  double total_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace ferrite::metrics
