#include "ferrite/parallel/pipeline/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <unordered_map>

namespace ferrite::parallel::pipeline {

namespace {

std::vector<nn::NamedTensor> named_tensors(nn::Module& layer) {
  std::vector<nn::NamedTensor> tensors = layer.named_parameters();
  for (nn::NamedTensor& buffer : layer.named_buffers()) tensors.push_back(std::move(buffer));
  return tensors;
}

/// A tensor can only be on one device.
void check_not_shared(nn::Sequential& model, std::span<const PipelineStage> stages) {
  struct Place {
    std::size_t stage;
    std::string name;
  };
  std::unordered_map<const TensorImpl*, Place> places;
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (std::int64_t i = 0; i < stages[s].layers; ++i) {
      const std::int64_t layer = stages[s].first_layer + i;
      for (const auto& [name, tensor] : named_tensors(model[static_cast<std::size_t>(layer)])) {
        const std::string path = fmt::format("{}.{}", layer, name);
        const auto [at, fresh] = places.try_emplace(tensor.impl(), Place{s, path});
        FERRITE_CHECK(fresh || stages[at->second.stage].device == stages[s].device, ValueError,
                      "pipeline",
                      "{} (stage {} on {}) and {} (stage {} on {}) are one tensor, which "
                      "cannot be on two devices; give both stages one device",
                      at->second.name, at->second.stage, stages[at->second.stage].device, path, s,
                      stages[s].device);
      }
    }
}

std::vector<std::int64_t> equal_parts(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> parts(static_cast<std::size_t>(stages), layers / stages);
  for (std::int64_t i = 0; i < layers % stages; ++i) ++parts[static_cast<std::size_t>(i)];
  return parts;
}

/// The device of a layer; nothing if it has no tensors.
std::optional<Device> device_of(nn::Module& layer, std::size_t number) {
  std::optional<Device> device;
  for (const auto& [name, tensor] : named_tensors(layer)) {
    FERRITE_CHECK(!device || *device == tensor.device(), ValueError, "pipeline",
                  "layer {} ({}) is on {} and, with {}, on {}; a layer has one device", number,
                  layer.name(), *device, name, tensor.device());
    device = tensor.device();
  }
  return device;
}

template <class... Errors>
void rethrow_as(const std::string& where) {
  try {
    throw;
  } catch (const std::exception& e) {
    const auto text = [&] { return fmt::format("[pipeline] {}: {}", where, e.what()); };
    const auto as = [&]<class E>(const E*) {
      if (typeid(e) == typeid(E)) throw E(text());
    };
    (as(static_cast<const Errors*>(nullptr)), ...);
    throw;
  }
}

std::vector<PipelineStage> stages_on(nn::Sequential& model, std::span<const Device> devices,
                                     const std::vector<std::int64_t>& balance) {
  const auto layers = static_cast<std::int64_t>(model.size());
  const auto count = balance.empty() ? devices.size() : balance.size();
  FERRITE_CHECK(devices.size() >= count, ValueError, "pipeline",
                "the balance has {} stages, for which there are {} devices", count, devices.size());
  FERRITE_CHECK(layers >= static_cast<std::int64_t>(count), ValueError, "pipeline",
                "{} layers cannot be cut into {} stages", layers, count);
  const std::vector<std::int64_t> parts =
      balance.empty() ? equal_parts(layers, static_cast<std::int64_t>(count)) : balance;
  FERRITE_CHECK(std::ranges::min(parts) > 0, ValueError, "pipeline",
                "every stage of a balance must have a layer, got {}", std::ranges::min(parts));
  const std::int64_t sum = std::reduce(parts.begin(), parts.end());
  FERRITE_CHECK(sum == layers, ValueError, "pipeline",
                "the balance is of {} layers, the model has {}", sum, layers);
  std::vector<PipelineStage> stages;
  std::int64_t first = 0;
  for (std::size_t s = 0; s < count; first += parts[s++])
    stages.push_back({devices[s], first, parts[s]});
  check_not_shared(model, stages);
  return stages;
}

std::vector<PipelineStage> stages_as_placed(nn::Sequential& model,
                                            const std::vector<std::int64_t>& balance) {
  std::vector<PipelineStage> stages;
  std::int64_t without = 0;  // leading layers without a device
  for (std::size_t i = 0; i < model.size(); ++i) {
    const std::optional<Device> device = device_of(model[i], i);
    if (stages.empty() && !device) {
      ++without;
    } else if (stages.empty()) {
      stages.push_back({*device, 0, without + 1});
    } else if (!device || *device == stages.back().device) {
      ++stages.back().layers;
    } else {
      stages.push_back({*device, static_cast<std::int64_t>(i), 1});
    }
  }
  if (stages.empty()) stages.push_back({Device(), 0, without});
  FERRITE_CHECK(
      balance.empty() || std::ranges::equal(balance, stages, {}, {}, &PipelineStage::layers),
      ValueError, "pipeline",
      "layers are on devices of their own, in {} stages, which the balance of {} is not; "
      "name the devices to have layers moved",
      stages.size(), balance.size());
  return stages;
}

}  // namespace

std::vector<PipelineStage> stages_of(nn::Sequential& model, std::span<const Device> devices,
                                     const std::vector<std::int64_t>& balance) {
  FERRITE_CHECK(!model.empty(), ValueError, "pipeline", "the model has no layers");
  return devices.empty() ? stages_as_placed(model, balance) : stages_on(model, devices, balance);
}

std::vector<nn::Module*> layers_of(nn::Sequential& model, const PipelineStage& stage) {
  std::vector<nn::Module*> layers;
  for (std::int64_t i = 0; i < stage.layers; ++i)
    layers.push_back(&model[static_cast<std::size_t>(stage.first_layer + i)]);
  return layers;
}

std::string describe(const PipelineStage& stage, std::size_t number) {
  if (stage.layers == 1)
    return fmt::format("stage {} on {} (layer {})", number, stage.device, stage.first_layer);
  return fmt::format("stage {} on {} (layers {} to {})", number, stage.device, stage.first_layer,
                     stage.first_layer + stage.layers - 1);
}

void rethrow_from(const std::string& where) {
  rethrow_as<ShapeError, DTypeError, DeviceError, IndexError, ValueError, AutogradError, IoError,
             CudaError, DistributedError, OutOfMemoryError, Error, std::invalid_argument,
             std::out_of_range, std::domain_error, std::length_error, std::logic_error,
             std::overflow_error, std::range_error, std::runtime_error>(where);
  throw;
}

}  // namespace ferrite::parallel::pipeline
