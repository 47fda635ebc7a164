// Anomaly mode: which operation's backward makes a NaN, and where its forward was called.
//
//   {
//     autograd::DetectAnomalyGuard guard;
//     criterion(net(x), y).backward();  // AutogradError: in fc: [log] its backward ...
//   }
//
// For debugging only: every operation on the tape keeps its call stack, and every gradient is
// read, for which the host waits.
#pragma once

namespace ferrite::autograd {

/// torch.autograd.set_detect_anomaly, for all threads. While it is on, operations that are recorded
/// keep their call stacks, which errors of their backward show: function names where the program
/// exports them (link it with -rdynamic), and addresses for addr2line. With `check_nan`, a backward
/// that gives a NaN is an AutogradError.
void set_detect_anomaly(bool on, bool check_nan = true);
/// Whether it is on.
bool is_anomaly_enabled();
/// Whether NaN in a gradient is an error.
bool is_anomaly_check_nan_enabled();

/// torch.autograd.detect_anomaly(): on in the scope of the guard, then as before.
class DetectAnomalyGuard {
 public:
  explicit DetectAnomalyGuard(bool check_nan = true);
  ~DetectAnomalyGuard();
  DetectAnomalyGuard(const DetectAnomalyGuard&) = delete;
  DetectAnomalyGuard& operator=(const DetectAnomalyGuard&) = delete;

 private:
  const bool was_on_, checked_nan_;
};

}  // namespace ferrite::autograd
