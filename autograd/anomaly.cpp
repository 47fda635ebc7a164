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
#include "ferrite/core/views.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/multi_tensor.h"

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

/// Arrays of one dtype on one device.
struct GradientBatch {
  Device device;
  kernels::FlatTensors arrays;
};

bool batch_has_nan(const GradientBatch& batch) {
  const Tensor sum = empty({}, {.dtype = kFloat64, .device = batch.device});
  kernels::sum_of_powers(current_stream(batch.device), batch.arrays, 1, sum);
  return std::isnan(sum.item<double>());  // sums of infinite magnitudes are infinite
}

/// The elements of gradients, in a batch for each device and dtype.
class GradientElements {
 public:
  void add(const Tensor& grad) {
    if (!grad.defined() || !is_differentiable(grad.dtype()) || grad.numel() == 0) return;
    if (is_complex(grad.dtype())) return add(geometry::as_real(grad));
    Shape shape = grad.shape();  // without repetitions, as in the gradient of a sum
    std::int64_t reach = 1, numel = 1;
    for (int d = 0; d < shape.size(); ++d) {
      if (grad.strides()[d] == 0) shape[d] = 1;
      reach += (shape[d] - 1) * grad.strides()[d];
      numel *= shape[d];
    }
    Tensor dense = geometry::as_strided(grad, shape, grad.strides(), grad.storage_offset());
    if (reach != numel) {
      const Tensor copy = empty(shape, {.dtype = grad.dtype(), .device = grad.device()});
      kernels::copy(current_stream(grad.device()), copy, dense);
      dense = copy;
    }
    auto batch = std::ranges::find_if(batches_, [&](const GradientBatch& b) {
      return b.device == grad.device() && b.arrays.dtype == grad.dtype();
    });
    if (batch == batches_.end())
      batch = batches_.insert(batch, GradientBatch{grad.device(), {{}, grad.dtype()}});
    batch->arrays.arrays.push_back({dense.data_ptr(), numel});
    tensors_.push_back(std::move(dense));
  }
  /// Waits for the device, once unless there are several devices or dtypes.
  bool has_nan() const { return std::ranges::any_of(batches_, batch_has_nan); }

 private:
  std::vector<GradientBatch> batches_;
  std::vector<Tensor> tensors_;
};

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
  NoGradGuard guard;
  GradientElements all;
  for (const Tensor& result : results) all.add(result);
  if (!all.has_nan()) return;
  for (std::size_t i = 0; i < results.size(); ++i) {
    GradientElements one;
    one.add(results[i]);
    FERRITE_CHECK(!one.has_nan(), AutogradError, node.name,
                  "its backward gave NaN in the gradient of input {}, {}", i,
                  results[i].describe());
  }
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
