#include "ferrite/benchmarks/training/trainer.h"

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/benchmarks/training/machine.h"
#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/error.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/version.h"
#include "ferrite/kernels/vendor.h"
#include "ferrite/nn/inference.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/adam.h"
#include "ferrite/optim/sgd.h"

namespace bench {

using namespace ferrite;

namespace {

MemoryFormat format(const Options& options) {
  return options.layout == "channels_last" ? kChannelsLast : kContiguous;
}

std::vector<Batch> make_batches(const Options& options, const Device& device) {
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < options.batches; ++i) {
    const Batch host = make_batch(task(options.model), i, options.batch);
    const Tensor inputs =
        host.inputs.dim() == 4 ? host.inputs.contiguous(format(options)) : host.inputs;
    batches.push_back({inputs.to(device), host.labels.to(device)});
  }
  return batches;
}

std::unique_ptr<nn::Module> prepare_model(const Options& options, const Device& device) {
  std::unique_ptr<nn::Module> model = make_model(task(options.model), options.checkpoint);
  model->to(device).to(format(options));
  return model;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Options& options,
                                                 const std::vector<Tensor>& parameters) {
  if (task(options.model).is_text())
    return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = options.lr / 100});
  return std::make_unique<optim::SGD>(
      parameters, optim::SGDOptions{.lr = options.lr, .momentum = options.momentum});
}

/// Autocast and, for float16, a dynamic loss scale, as on PyTorch's side; otherwise nothing.
optim::amp::Options precision(const Options& options, const Device& device) {
  const bool half = options.amp_dtype.empty() ? device.is_cuda() : options.amp_dtype == "float16";
  return {.opt_level = optim::amp::O1,
          .dtype = half ? kFloat16 : kBFloat16,
          .enabled = options.precision == "amp"};
}

}  // namespace

Trainer::Trainer(const Options& options)
    : device_(options.device),
      batches_(make_batches(options, device_)),
      model_(prepare_model(options, device_)),
      optimizes_(options.execution == "optimized"),
      optimizer_(make_optimizer(options, model_->parameters())),
      amp_(optim::amp::initialize(*model_, *optimizer_, precision(options, device_))),
      step_([this](const Tensor& inputs, const Tensor& labels) {
        const Tensor loss = cross_entropy((*model_)(inputs), labels);
        optimizer_->zero_grad(/*set_to_none=*/true);
        amp_.scale(loss).backward();
        amp_.step(*optimizer_);
        return loss.detach();
      }) {
  if (options.execution == "graph")
    graphed_.emplace(*model_, step_, nn::GraphedStepOptions{.static_outputs = true});
}

nlohmann::json Trainer::flops() {
  return network_flops(*model_, batches_[0].inputs.slice(0, 0, 1));
}

const Batch& Trainer::next() { return batches_[next_++ % batches_.size()]; }

void Trainer::train(std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) {
    const Batch& batch = next();
    loss_ = graphed_ ? (*graphed_)(batch.inputs, batch.labels) : step_(batch.inputs, batch.labels);
  }
}

void Trainer::forward(std::int64_t steps) {
  const InferenceMode inference;
  model_->eval();
  if (optimizes_ && !optimized_)
    optimized_ = nn::optimize_for_inference(*model_, batches_[0].inputs);
  nn::Module& network = optimized_ ? *optimized_ : *model_;
  for (std::int64_t i = 0; i < steps; ++i) {
    const Batch& batch = next();
    output_ = network(batch.inputs);
    labels_ = batch.labels;
  }
  model_->train();
  loss_ = {};
}

void Trainer::run(Mode mode, std::int64_t steps) {
  mode == Mode::train ? train(steps) : forward(steps);
}

void Trainer::synchronize() const { ferrite::synchronize(device_); }

void Trainer::reset_peak_memory() {
  if (device_.is_cuda())
    reset_peak_memory_stats(device_);
  else
    reset_process_peak();
}

nlohmann::json Trainer::peak_memory() const {
  FERRITE_CHECK(!graphed_ || graphed_->stats().replayed > 0, Error, "bench_training",
                "no step was replayed");
  if (device_.is_cpu()) return {{"peak_bytes", process_memory("VmHWM")}};
  const MemoryStats stats = allocator(device_).stats();
  return {{"peak_bytes", stats.max_allocated}, {"reserved_bytes", stats.max_reserved}};
}

double Trainer::loss() const {
  const NoGradGuard no_grad;
  return (loss_.defined() ? loss_ : cross_entropy(output_, labels_)).item<double>();
}

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

}  // namespace bench
