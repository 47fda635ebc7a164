// Running an op of the table forward and backward, for tests that compare devices.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "ferrite/core/deterministic.h"
#include "ferrite/core/stream.h"
#include "ferrite/tests/ops/op_table.h"

namespace ferrite::test {

/// Memory of the device is NaN until it is written.
class Poisoned {
 public:
  explicit Poisoned(const Device& device);
  ~Poisoned();
  Poisoned(const Poisoned&) = delete;
  Poisoned& operator=(const Poisoned&) = delete;

 private:
  Device device_;
};

/// Deterministic algorithms, as long as it lives.
class Deterministic {
 public:
  explicit Deterministic(bool on = true) { use_deterministic_algorithms(on); }
  ~Deterministic() { use_deterministic_algorithms(false); }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;
};

struct OpRun {
  std::vector<Tensor> outputs, grads;
};

/// Makes those of `inputs` leaves that may be differentiated.
std::vector<Tensor> as_leaves(const Op& op, std::vector<Tensor> inputs);
/// Inputs of `op`, its numbers leaves where they may be differentiated.
std::vector<Tensor> make_leaves(const Op& op, DType dtype, const Device& device);

/// What backward starts from, for outputs as `out`.
Tensor make_weight(const Tensor& out, const Device& device);

/// Seeds all devices, calls the op, and runs backward through all of its outputs. Give `weights` to
/// keep them from being made, and moved to the device, meanwhile: that would wait for it.
OpRun run_op(const Op& op, const std::vector<Tensor>& leaves, const Device& device,
             const std::vector<Tensor>& weights = {});
/// The same without seeding.
OpRun run_unseeded(const Op& op, const std::vector<Tensor>& leaves, const Device& device,
                   const std::vector<Tensor>& weights = {});

/// "" where `actual`, from one device, is what `expected`, from another, is, strides included. Both
/// round their results to the dtype, and cancellation may show what was rounded within: hence
/// `factor` times the dtype's rounding, also of the largest element, or of `largest` where numbers
/// of that size went into them; a factor of 0 asks for equal values.
std::string compare(const Tensor& actual, const Tensor& expected, double factor = 1,
                    double largest = 0);
/// The same for all outputs and gradients of two runs, which are named.
std::string compare(const OpRun& actual, const OpRun& expected, double factor = 1,
                    double largest = 0);

/// Work at the head of a stream that holds up the rest until open(), or for a few seconds at most.
class TimedGate {
 public:
  explicit TimedGate(const Stream& stream);
  ~TimedGate() { open(); }
  /// Whether nobody had to wait for the stream until now.
  bool open();
  std::exception_ptr error() const { return error_; }

 private:
  Stream stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, timed_out_ = false;
  std::exception_ptr error_;
};

}  // namespace ferrite::test
