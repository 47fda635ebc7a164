// Collectives over the ranks of a group, and over devices.
#include "ferrite/parallel/tensor_parallel/regions.h"

#include <numeric>
#include <utility>

#include "ferrite/autograd/record.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/tensor_parallel/groups.h"

namespace ferrite::parallel {

using autograd::Gradients;
using autograd::Needs;

namespace {

void check_input(const Tensor& input, const char* op, int dims) {
  FERRITE_CHECK(input.defined(), ValueError, op, "the tensor is undefined");
  FERRITE_CHECK(is_floating(input.dtype()), DTypeError, op,
                "expected a floating-point tensor, got {}", input.dtype());
  FERRITE_CHECK(input.dim() >= dims, ShapeError, op, "a tensor without dimensions does not split");
}

/// A dense copy of the values.
Tensor dense_copy(const Tensor& t) {
  const NoGradGuard guard;
  return t.detach().clone(kContiguous);
}

}  // namespace

// ---- Ranks

Tensor copy_to_tensor_model_parallel_region(const Tensor& input,
                                            std::shared_ptr<ProcessGroup> group) {
  check_input(input, "copy_to_tensor_model_parallel_region", 0);
  group = tensor_parallel::group_of_several(std::move(group));
  if (!group || !autograd::recording(input)) return input;
  const Tensor out = autograd::alias(input);
  autograd::record(out, "copy_to_tensor_model_parallel_region", {input},
                   [group](const Tensor& grad, Needs) -> Tensor {
                     return reduce_from_tensor_model_parallel_region(grad, group);
                   });
  autograd::mark_communicating(out);
  return out;
}

Tensor reduce_from_tensor_model_parallel_region(const Tensor& input,
                                                std::shared_ptr<ProcessGroup> group) {
  check_input(input, "reduce_from_tensor_model_parallel_region", 0);
  group = tensor_parallel::group_of_several(std::move(group));
  if (!group) return input;
  const Tensor out = dense_copy(input);
  group->all_reduce(out).wait();
  if (autograd::recording(input))
    autograd::record(out, "reduce_from_tensor_model_parallel_region", {input},
                     [group](const Tensor& grad, Needs) -> Tensor {
                       return copy_to_tensor_model_parallel_region(grad, group);
                     });
  return out;
}

Tensor scatter_to_tensor_model_parallel_region(const Tensor& input,
                                               std::shared_ptr<ProcessGroup> group) {
  check_input(input, "scatter_to_tensor_model_parallel_region", 1);
  group = tensor_parallel::group_of_several(std::move(group));
  if (!group) return input;
  const std::int64_t part = tensor_parallel::divided(
      input.size(-1), *group, "scatter_to_tensor_model_parallel_region", "the last dimension");
  const Tensor out = dense_copy(input.detach().narrow(-1, group->rank() * part, part));
  if (autograd::recording(input)) {
    autograd::record(out, "scatter_to_tensor_model_parallel_region", {input},
                     [group](const Tensor& grad, Needs) -> Tensor {
                       return gather_from_tensor_model_parallel_region(grad, group);
                     });
    autograd::mark_communicating(out);
  }
  return out;
}

Tensor gather_from_tensor_model_parallel_region(const Tensor& input,
                                                std::shared_ptr<ProcessGroup> group) {
  check_input(input, "gather_from_tensor_model_parallel_region", 1);
  group = tensor_parallel::group_of_several(std::move(group));
  if (!group) return input;
  const Tensor out = tensor_parallel::all_gather_parts(input, input.dim() - 1, *group);
  if (autograd::recording(input))
    autograd::record(out, "gather_from_tensor_model_parallel_region", {input},
                     [group](const Tensor& grad, Needs) -> Tensor {
                       return scatter_to_tensor_model_parallel_region(grad, group);
                     });
  return out;
}

std::function<void(const Tensor&)> largest_of_ranks(std::shared_ptr<ProcessGroup> group) {
  group = tensor_parallel::group_of_several(std::move(group));
  if (!group) return {};
  return [group](const Tensor& number) { group->all_reduce(number, ReduceOp::max).wait(); };
}

// ---- Devices

namespace {

bool is_half(DType dtype) { return dtype == kFloat16 || dtype == kBFloat16; }

void check_parts(std::span<const Tensor> parts, const char* op, int dims) {
  FERRITE_CHECK(!parts.empty(), ValueError, op, "expected one part or more");
  for (const Tensor& part : parts) {
    check_input(part, op, dims);
    FERRITE_CHECK(part.dtype() == parts[0].dtype(), DTypeError, op,
                  "parts have one dtype, got {} and {}", parts[0].dtype(), part.dtype());
  }
}

std::vector<Device> devices_of(std::span<const Tensor> tensors) {
  std::vector<Device> devices;
  for (const Tensor& t : tensors) devices.push_back(t.device());
  return devices;
}

/// Outputs on several devices share one node, whose gradients are added in a fixed order. Each
/// output also has a preceding node of its own, on its device, which adds its gradients if it is
/// used more than once.
template <class Backward>
void record_on_devices(std::vector<Tensor>& outs, const char* name, const Tensor& input,
                       Backward backward) {
  autograd::record_many(outs, name, std::span(&input, 1), std::move(backward));
  for (Tensor& out : outs) {
    const Tensor own = autograd::alias(out);
    autograd::record(own, name, {out}, [](const Tensor& grad, Needs) -> Tensor { return grad; });
    out = own;
  }
}

Tensor sum_on(std::span<const Tensor> parts, const Device& target) {
  const NoGradGuard guard;
  const DType dtype = parts[0].dtype(), sum_dtype = is_half(dtype) ? kFloat32 : dtype;
  Tensor sum = parts[0].detach().to(target).to(sum_dtype);
  if (sum.shares_storage(parts[0])) sum = sum.clone(kContiguous);
  for (const Tensor& part : parts.subspan(1)) sum.add_(part.detach().to(target));
  return sum.to(dtype);
}

}  // namespace

std::vector<Tensor> copy_to_devices(const Tensor& input, std::span<const Device> devices) {
  constexpr const char* op = "copy_to_devices";
  check_input(input, op, 0);
  FERRITE_CHECK(!devices.empty(), ValueError, op, "expected one device or more");
  std::vector<Tensor> outs;
  for (const Device& device : devices) outs.push_back(input.detach().to(device));
  if (autograd::recording(input))
    record_on_devices(outs, op, input,
                      [device = input.device()](Gradients& grads, Needs) -> Gradients {
                        std::vector<Tensor> defined;
                        for (const Tensor& grad : grads)
                          if (grad.defined()) defined.push_back(grad);
                        return {reduce_from_devices(defined, device)};
                      });
  return outs;
}

Tensor reduce_from_devices(std::span<const Tensor> parts, const Device& target) {
  constexpr const char* op = "reduce_from_devices";
  check_parts(parts, op, 0);
  for (const Tensor& part : parts)
    FERRITE_CHECK(part.shape() == parts[0].shape(), ShapeError, op,
                  "parts have one shape, got {} and {}", parts[0].shape(), part.shape());
  const Tensor out = sum_on(parts, target);
  if (autograd::recording(parts))
    autograd::record(out, op, parts,
                     [devices = devices_of(parts)](const Tensor& grad, Needs) -> Gradients {
                       const std::vector<Tensor> copies = copy_to_devices(grad, devices);
                       Gradients grads(copies.size());
                       for (std::size_t i = 0; i < copies.size(); ++i) grads[i] = copies[i];
                       return grads;
                     });
  return out;
}

namespace {

std::vector<Tensor> scatter_pieces(const Tensor& input, const std::vector<std::int64_t>& sizes,
                                   std::span<const Device> devices, const char* op) {
  std::vector<Tensor> outs;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < sizes.size(); begin += sizes[i++])
    outs.push_back(input.detach().narrow(-1, begin, sizes[i]).contiguous().to(devices[i]));
  if (!autograd::recording(input)) return outs;
  std::vector<Shape> shapes;
  for (const Tensor& out : outs) shapes.push_back(out.shape());
  record_on_devices(
      outs, op, input,
      [shapes, devices = devices_of(outs), dtype = input.dtype(), target = input.device()](
          Gradients& grads, Needs) -> Gradients {
        std::vector<Tensor> parts;
        for (std::size_t i = 0; i < shapes.size(); ++i)
          parts.push_back(grads[i].defined()
                              ? grads[i]
                              : zeros(shapes[i], {.dtype = dtype, .device = devices[i]}));
        return {gather_from_devices(parts, target)};
      });
  return outs;
}

}  // namespace

std::vector<Tensor> scatter_to_devices(const Tensor& input, std::span<const Device> devices) {
  constexpr const char* op = "scatter_to_devices";
  check_input(input, op, 1);
  FERRITE_CHECK(!devices.empty(), ValueError, op, "expected one device or more");
  return scatter_pieces(input, split_sizes(input.size(-1), devices.size()), devices, op);
}

Tensor gather_from_devices(std::span<const Tensor> parts, const Device& target) {
  constexpr const char* op = "gather_from_devices";
  check_parts(parts, op, 1);
  Tensor out;
  {
    const NoGradGuard guard;
    std::vector<Tensor> here;
    for (const Tensor& part : parts) here.push_back(part.detach().to(target));
    out = cat(here, -1);
  }
  if (!autograd::recording(parts)) return out;
  std::vector<std::int64_t> sizes;
  for (const Tensor& part : parts) sizes.push_back(part.size(-1));
  autograd::record(out, op, parts,
                   [sizes, devices = devices_of(parts)](const Tensor& grad, Needs) -> Gradients {
                     const auto pieces = scatter_pieces(grad, sizes, devices, op);
                     Gradients grads(pieces.size());
                     for (std::size_t i = 0; i < pieces.size(); ++i) grads[i] = pieces[i];
                     return grads;
                   });
  return out;
}

std::vector<std::int64_t> split_sizes(std::int64_t size, std::size_t parts) {
  FERRITE_CHECK(parts > 0, ValueError, "split_sizes", "expected one part or more");
  const auto n = static_cast<std::int64_t>(parts);
  std::vector<std::int64_t> sizes(parts, size / n);
  for (std::int64_t i = 0; i < size % n; ++i) ++sizes[static_cast<std::size_t>(i)];
  return sizes;
}

}  // namespace ferrite::parallel
