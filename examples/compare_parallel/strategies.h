// What is compared: ways to run a training step on several devices.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/examples/compare_parallel/measurement.h"
#include "ferrite/examples/compare_parallel/options.h"

namespace examples::compare {

/// A strategy at work in this process, or as one of several ranks.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// One training step.
  virtual void step() = 0;
  /// The same without communication, all devices at the same time.
  virtual void step_alone() = 0;
  virtual Communication communication() const { return {}; }
  virtual void reset_counts() {}
  /// Waits until all ranks are here; nothing where there is just one.
  virtual void meet() {}
  /// The devices that this process, or rank, uses.
  const std::vector<ferrite::Device>& devices() const { return devices_; }

 protected:
  explicit Strategy(std::vector<ferrite::Device> devices) : devices_(std::move(devices)) {}

 private:
  const std::vector<ferrite::Device> devices_;
};

/// Number `index` of a strategy's devices. Ranks on the CPU are threads of the host itself, unless
/// several are in one process.
ferrite::Device device_of(const Options& options, int index, bool shares_process);

std::unique_ptr<Strategy> make_single(const Options& options, const Case& what);
/// For a rank of this thread's default group.
std::unique_ptr<Strategy> make_ddp(const Options& options, const Case& what);
std::unique_ptr<Strategy> make_data_parallel(const Options& options, const Case& what);

}  // namespace examples::compare
