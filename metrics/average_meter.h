// Averages over the steps of a run, by the names that PyTorch's training scripts give them.
//
//   metrics::DeviceAverageMeter losses(device, "Loss", ":.4f");
//   for (auto& [images, labels] : loader) {
//     Tensor loss = step(images, labels);
//     losses.update(loss, images.size(0));      // waits for nothing
//     if (bar.due(done)) bar.update(done, losses.value().str());
//   }
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"

namespace ferrite::metrics {

/// The AverageMeter of PyTorch's ImageNet example, with TensorBoard's smoothing beside it: all are
/// 0 before the first update. A NaN among the values makes sum, average and smoothed value NaN.
class AverageMeter {
 public:
  /// `format` is how str() shows a number, as in the ImageNet example: ":.4f", ":6.2f", ":.4e"
  /// (ValueError for others). `smoothing` in [0, 1) is the share of the past in ema(): 0 for none.
  explicit AverageMeter(std::string name = "", std::string format = ":.4f", double smoothing = 0);

  /// `val` is the mean of `n` values.
  void update(double val, std::int64_t n = 1);
  void reset();

  const std::string& name() const { return name_; }
  double val() const { return val_; }  ///< of the last update
  double sum() const { return sum_; }  ///< of val * n
  std::int64_t count() const { return count_; }
  double avg() const;  ///< sum / count
  /// The exponential moving average over updates, whatever their n, corrected for its start: the
  /// mean where `smoothing` is near 1 and updates are few.
  double ema() const;
  double smoothing() const { return smoothing_; }

  /// "Loss 0.6931 (0.7012)": the last value and the average.
  std::string str() const;

  /// One float64 number each: "val", "sum", "count", "ema", "ema_weight".
  StateDict state_dict() const;
  /// IndexError where one is missing, ShapeError where it is no single number; nothing is changed
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

/// The same of values that are on a device: update() queues a few small operations there, value()
/// waits. Everything is in float64 and stays where it is, so update() may be part of a CUDA graph,
/// each replay of which counts.
class DeviceAverageMeter {
 public:
  explicit DeviceAverageMeter(const Device& device, std::string name = "",
                              std::string format = ":.4f", double smoothing = 0);
  DeviceAverageMeter(DeviceAverageMeter&&) = default;
  DeviceAverageMeter& operator=(DeviceAverageMeter&&) = default;

  /// `val`: one number of any dtype, off the tape or on it, on this device; ShapeError.
  void update(const Tensor& val, std::int64_t n = 1);
  void update(double val, std::int64_t n = 1);
  void reset();

  /// What an AverageMeter with the same updates would hold. Waits for the device.
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

/// torchvision's SmoothedValue: the last values beside the average of all.
class SmoothedValue {
 public:
  /// ValueError where `window_size` is not above 0. `format` may use {median}, {avg}, {global_avg},
  /// {max} and {value} (ValueError for others).
  explicit SmoothedValue(std::size_t window_size = 20,
                         std::string format = "{median:.4f} ({global_avg:.4f})");

  void update(double value, std::int64_t n = 1);
  void reset();

  // Of the window, whatever the updates' n; 0 before the first update. The median of an even
  // number is the lower one, as torch.median's.
  double median() const;
  double avg() const;
  double max() const;
  double value() const;  ///< the last
  // Of all updates.
  double global_avg() const;
  double total() const { return total_; }
  std::int64_t count() const { return count_; }

  std::string str() const;

  /// "window" (float64, as many as there are), "total" and "count".
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
