#include "benchmarks/training/trainer.h"

#include <fstream>

#include "core/allocator.h"
#include "core/cuda.h"
#include "core/error.h"
#include "core/parallel_for.h"
#include "core/stream.h"
#include "kernels/vendor.h"
#include "ops/loss.h"

namespace ferrite::bench {

namespace {

std::vector<Batch> make_batches(const Options& options, const Device& device) {
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < options.batches; ++i) {
    const Batch host = make_batch(task(options.model), i, options.batch);
    batches.push_back(
        {host.images.contiguous(options.format()).to(device), host.labels.to(device)});
  }
  return batches;
}

std::unique_ptr<nn::Module> prepare_model(const Options& options, const Device& device) {
  std::unique_ptr<nn::Module> model = make_model(task(options.model), options.checkpoint);
  model->to(device).to(options.format());
  return model;
}

/// Autocast and, for float16, a dynamic loss scale, as PyTorch's side has them; else nothing.
optim::amp::Options precision(const Options& options, const Device& device) {
  const bool half = options.amp_dtype.empty() ? device.is_cuda() : options.amp_dtype == "float16";
  return {.opt_level = optim::amp::O1,
          .dtype = half ? kFloat16 : kBFloat16,
          .enabled = options.precision == "amp"};
}

/// A line of /proc/self/status, in bytes; 0 where there is none.
std::uint64_t process_memory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stoull(line.substr(key.size() + 1)) * 1024;
  return 0;
}

}  // namespace

Trainer::Trainer(const Options& options)
    : device_(options.device),
      batches_(make_batches(options, device_)),
      model_(prepare_model(options, device_)),
      sgd_(model_->parameters(), {.lr = options.lr, .momentum = options.momentum}),
      amp_(optim::amp::initialize(*model_, sgd_, precision(options, device_))),
      step_([this](const Tensor& images, const Tensor& labels) {
        const Tensor loss = cross_entropy((*model_)(images), labels);
        sgd_.zero_grad(/*set_to_none=*/true);
        amp_.scale(loss).backward();
        amp_.step(sgd_);
        return loss.detach();
      }) {
  if (options.execution == "graph")
    graphed_.emplace(*model_, step_, cuda::GraphedStepOptions{.static_outputs = true});
}

void Trainer::run(std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) {
    const Batch& batch = batches_[next_++ % batches_.size()];
    loss_ = graphed_ ? (*graphed_)(batch.images, batch.labels) : step_(batch.images, batch.labels);
  }
}

void Trainer::synchronize() const { ferrite::synchronize(device_); }

double Trainer::loss() const { return loss_.item<double>(); }

void apply(const Options& options) {
  set_num_threads(options.threads);
  const bool tf32 = options.precision == "tf32";
  cublas::set_allow_tf32(tf32);
  cudnn::set_allow_tf32(tf32);
  cudnn::set_benchmark(options.cudnn_benchmark);
}

nlohmann::json describe(const Device& device) {
  nlohmann::json info = {
      {"framework", "Ferrite"}, {"version", FERRITE_VERSION}, {"compiler", __VERSION__}};
  if (device.is_cuda()) {
    const cuda::Versions versions = cuda::versions();
    info["device"] = cuda::properties(device.index()).name;
    info["cuda"] = versions.runtime;
    info["driver"] = versions.driver;
    info["cublas"] = cublas::is_available() ? cublas::version() : "none";
    info["cudnn"] = cudnn::is_available() ? cudnn::version() : "none";
  }
  return info;
}

nlohmann::json lacks() {
  nlohmann::json reasons = nlohmann::json::object();
  if (const std::string why = cuda::why_unavailable(); !why.empty()) reasons["cuda"] = why;
  return reasons;
}

void reset_peak_memory(const Device& device) {
  if (device.is_cuda())
    reset_peak_memory_stats(device);
  else
    std::ofstream("/proc/self/clear_refs") << 5;  // the mark of the highest resident size
}

nlohmann::json peak_memory(const Device& device) {
  if (!device.is_cuda()) return {{"peak_bytes", process_memory("VmHWM")}};
  const MemoryStats stats = allocator(device).stats();
  return {{"peak_bytes", stats.max_allocated}, {"reserved_bytes", stats.max_reserved}};
}

}  // namespace ferrite::bench
