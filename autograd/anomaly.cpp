#include "ferrite/autograd/anomaly.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/pass.h"
#include "ferrite/core/profiler/type_name.h"
#include "ferrite/kernels/reduce.h"

namespace ferrite::autograd {

namespace {

std::atomic<bool> checks_nan{true};

/// "function (program+0x1234)", of a return address.
std::string describe_frame(const void* address) {
  Dl_info found{};
  if (dladdr(address, &found) == 0 || !found.dli_fname) return fmt::format("{}", address);
  const auto offset =
      static_cast<const char*>(address) - static_cast<const char*>(found.dli_fbase) - 1;
  return fmt::format("{} ({}+{:#x})",
                     found.dli_sname ? profiler::detail::demangled(found.dli_sname) : "?",
                     found.dli_fname, offset);
}

/// Whether there is a NaN in `grad`, which the maximum would be.
bool has_nan(const Tensor& grad) {
  if (!is_floating(grad.dtype()) || grad.numel() == 0) return false;
  NoGradGuard guard;
  Shape one = grad.shape();
  std::ranges::fill(one, 1);
  const Tensor most = empty(one, {.dtype = grad.dtype(), .device = grad.device()});
  kernels::reduce(current_stream(grad.device()), kernels::ReduceOp::max, most, grad);
  return std::isnan(most.item<double>());
}

}  // namespace

void set_detect_anomaly(bool on, bool check_nan) {
  detail::keeps_call_stacks = on;
  checks_nan = check_nan;
}

bool is_anomaly_enabled() { return detail::keeps_call_stacks; }
bool is_anomaly_check_nan_enabled() { return checks_nan; }

DetectAnomalyGuard::DetectAnomalyGuard(bool check_nan)
    : was_on_(is_anomaly_enabled()), checked_nan_(is_anomaly_check_nan_enabled()) {
  set_detect_anomaly(true, check_nan);
}
DetectAnomalyGuard::~DetectAnomalyGuard() { set_detect_anomaly(was_on_, checked_nan_); }

void check_anomaly(const Node& node, const Gradients& results) {
  if (!is_anomaly_enabled() || !is_anomaly_check_nan_enabled()) return;
  for (std::size_t i = 0; i < results.size(); ++i)
    FERRITE_CHECK(!results[i].defined() || !has_nan(results[i]), AutogradError, node.name,
                  "its backward gave NaN in the gradient of input {}, {}", i,
                  results[i].describe());
}

void note_call_stack(Error& error, const Node& node) {
  if (node.call_stack.empty()) return;
  std::string text = fmt::format("{} was called from", node.name);
  for (const void* const address : node.call_stack) text += "\n  " + describe_frame(address);
  error.add_note(text);
}

std::vector<void*> detail::call_stack() {
  void* frames[64];
  const int count = backtrace(frames, static_cast<int>(std::size(frames)));
  // Without this function and the node's constructor.
  return std::vector<void*>(frames + std::min(count, 2), frames + count);
}

}  // namespace ferrite::autograd
