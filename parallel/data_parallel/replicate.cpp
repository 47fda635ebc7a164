#include "ferrite/parallel/data_parallel/replicate.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/parallel/data_parallel/replicate_tape.h"
#include "ferrite/parallel/ddp/bucket.h"

namespace ferrite::parallel {

namespace {

/// The copied objects. Checkpointed functions in them, which may be rerun, and their backward hooks
/// keep them alive.
using Copies = std::vector<std::unique_ptr<nn::Module>>;

/// A module's tensors without duplicates: parameters, then buffers.
struct ModuleTensors {
  explicit ModuleTensors(const nn::Module& module) {
    for (auto& [name, tensor] : module.named_parameters()) add(std::move(name), tensor);
    parameters = all.size();
    for (auto& [name, tensor] : module.named_buffers()) add(std::move(name), tensor);
  }
  void add(std::string name, const Tensor& tensor) {
    if (!number.try_emplace(tensor.impl(), all.size()).second) return;
    all.push_back(tensor);
    names.push_back(std::move(name));
  }

  std::vector<Tensor> all;
  std::vector<std::string> names;
  std::size_t parameters = 0;
  std::unordered_map<const TensorImpl*, std::size_t> number;
};

void check_devices(const ModuleTensors& tensors, const Device& root) {
  for (std::size_t i = 0; i < tensors.all.size(); ++i)
    FERRITE_CHECK(tensors.all[i].device() == root, DeviceError, "replicate",
                  "module must have its parameters and buffers on device {} (devices[0]), but "
                  "'{}' is on device {}; move it with to(\"{}\") first",
                  root, tensors.names[i], tensors.all[i].device(), root);
}

std::unique_ptr<nn::Module> copy_on(const nn::Module& module, const ModuleTensors& tensors,
                                    const std::vector<Tensor>& list) {
  try {
    return module.copy_with([&](const Tensor& t) { return list[tensors.number.at(t.impl())]; });
  } catch (const Error& e) {
    fail<Error>("replicate",
                "{} cannot be put on other devices, which takes copies of the objects: derive it, "
                "and all modules in it, from nn::Cloneable, and wrap the whole, not a part ({})",
                module.name(), e.what());
  }
}

/// Tensors of one bucket, in the order of their numbers.
std::vector<Tensor> pick(const std::vector<Tensor>& from, const std::vector<std::size_t>& numbers) {
  std::vector<Tensor> picked;
  for (const std::size_t i : numbers) picked.push_back(from[i]);
  return picked;
}

std::vector<std::vector<std::size_t>> buckets_of(const ModuleTensors& tensors, double cap_mb) {
  FERRITE_CHECK(cap_mb > 0, ValueError, "replicate", "bucket_cap_mb must be above 0, got {}",
                cap_mb);
  std::vector<std::size_t> order;
  for (std::size_t i = tensors.parameters; i-- > 0;)
    if (tensors.all[i].requires_grad()) order.push_back(i);
  constexpr double kMegabyte = 1 << 20;
  const auto bytes = static_cast<std::size_t>(std::min(cap_mb * kMegabyte, 1e15));
  // The first bucket starts the reductions, and the last has no work left to hide behind.
  const std::size_t first = std::min(bytes, std::size_t{1} << 20);
  return ddp::plan_buckets(tensors.all, order, {.first_bytes = first, .bytes = bytes});
}

}  // namespace

struct Replicas::State {
  nn::Module& module;
  std::shared_ptr<Copies> copies;
};

std::size_t Replicas::size() const { return state_->copies->size() + 1; }

nn::Module& Replicas::operator[](std::size_t replica) const {
  FERRITE_CHECK(replica < size(), IndexError, "replicas", "there is no replica {}, there are {}",
                replica, size());
  return replica == 0 ? state_->module : *(*state_->copies)[replica - 1];
}

std::shared_ptr<const void> Replicas::owner() const { return state_->copies; }

Replicas replicate(nn::Module& module, dp::DeviceComm& comm, const ReplicateOptions& options) {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "replicate");
  const ModuleTensors tensors(module);
  check_devices(tensors, comm.devices()[0]);
  const auto plan = buckets_of(tensors, options.bucket_cap_mb);
  auto state =
      std::make_shared<Replicas::State>(Replicas::State{module, std::make_shared<Copies>()});
  if (comm.devices().size() == 1) return Replicas(std::move(state));

  const std::vector<std::vector<Tensor>> lists = dp::broadcast_in_turn(comm, tensors.all);
  if (grad_enabled()) {
    std::shared_ptr<dp::DeviceComm> kept = comm.weak_from_this().lock();
    if (!kept) kept = {std::shared_ptr<void>(), &comm};
    for (std::size_t bucket = 0; bucket < plan.size(); ++bucket) {
      std::vector<std::vector<Tensor>> copies;
      for (const std::vector<Tensor>& list : lists) copies.push_back(pick(list, plan[bucket]));
      dp::record_bucket(kept, pick(tensors.all, plan[bucket]), copies, bucket);
    }
  }
  for (const std::vector<Tensor>& list : lists)
    state->copies->push_back(copy_on(module, tensors, list));
  return Replicas(std::move(state));
}

Replicas replicate(nn::Module& module, std::span<const Device> devices,
                   const ReplicateOptions& options) {
  return replicate(module, *dp::make_device_comm({devices.begin(), devices.end()}), options);
}

}  // namespace ferrite::parallel
