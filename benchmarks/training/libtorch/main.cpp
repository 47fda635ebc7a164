// Trains on batches held in memory, or evaluates them, and reports the speed: libtorch's side of
// ../compare.py, built if libtorch's headers are found.
#include <torch/torch.h>

#include <stdexcept>
#include <vector>

#include "ferrite/benchmarks/training/libtorch/networks.h"
#include "ferrite/benchmarks/training/protocol.h"

namespace {

using namespace bench;

class Trainer {
 public:
  explicit Trainer(const Options& options)
      : device_(options.device), network_(make_network(*find_task(options.model))) {
    const at::MemoryFormat format = options.layout == "channels_last"
                                        ? at::MemoryFormat::ChannelsLast
                                        : at::MemoryFormat::Contiguous;
    for (std::int64_t i = 0; i < options.batches; ++i) {
      const Batch host = make_batch(*find_task(options.model), i, options.batch);
      batches_.push_back({host.images.contiguous(format).to(device_), host.labels.to(device_)});
    }
    network_->to(device_);
    parameters_ = network_->parameters();
    for (torch::Tensor& p : parameters_)  // Module::to takes no memory format here
      if (p.dim() == 4) p.set_data(p.detach().contiguous(format));
    sgd_ = std::make_unique<torch::optim::SGD>(
        parameters_, torch::optim::SGDOptions(options.lr).momentum(options.momentum));
  }

  void run(Mode mode, std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i)
      mode == Mode::train ? train(next()) : forward(next(), i == 0);
  }

  void synchronize() {
    if (device_.is_cuda()) torch::cuda::synchronize();
  }

  double loss() {
    const torch::NoGradGuard no_grad;
    return (loss_.defined() ? loss_ : torch::cross_entropy_loss(output_, labels_)).item<double>();
  }

  void reset_peak_memory() { reset_process_peak(); }

  nlohmann::json peak_memory() {
    // On a GPU, tensor memory is available only through an API outside the C++ frontend.
    return {{"peak_bytes", device_.is_cpu() ? process_memory("VmHWM") : 0}};
  }

 private:
  struct Batch {
    torch::Tensor images, labels;
  };

  static Batch make_batch(const Task& task, std::int64_t number, std::int64_t size) {
    const torch::Tensor images = torch::empty({size, task.channels, task.size, task.size}),
                        labels = torch::empty({size}, torch::kLong);
    for (std::int64_t n = 0; n < size; ++n)
      labels.data_ptr<std::int64_t>()[n] =
          make_image(task, number, n, images.data_ptr<float>() + n * task.pixels());
    return {images, labels};
  }

  const Batch& next() { return batches_[next_++ % batches_.size()]; }

  void train(const Batch& batch) {
    network_->train();
    for (const torch::Tensor& p : parameters_) p.mutable_grad().reset();  // as set_to_none does
    loss_ = torch::cross_entropy_loss(network_->forward(batch.images), batch.labels);
    loss_.backward();
    sgd_->step();
  }

  void forward(const Batch& batch, bool first) {
    const torch::NoGradGuard no_grad;
    if (first) network_->eval();
    output_ = network_->forward(batch.images);
    labels_ = batch.labels;
    loss_.reset();
  }

  torch::Device device_;
  std::shared_ptr<Network> network_;
  std::vector<torch::Tensor> parameters_;
  std::vector<Batch> batches_;
  std::unique_ptr<torch::optim::SGD> sgd_;
  torch::Tensor loss_;             // of the last step, if it trained
  torch::Tensor output_, labels_;  // else its output
  std::size_t next_ = 0;
};

nlohmann::json describe() {
  return {{"framework", "libtorch"}, {"version", TORCH_VERSION}, {"compiler", __VERSION__}};
}

nlohmann::json probe() {
  nlohmann::json info = describe();
  info["lacks"] = {{"amp", "the C++ frontend has no autocast"}};
  if (!torch::cuda::is_available()) info["lacks"]["cuda"] = "this libtorch sees no CUDA device";
  return info;
}

void measure(const Options& options) {
  if (options.precision == "amp" || options.execution != "eager")
    throw std::invalid_argument("the C++ frontend has neither autocast nor graphs");
  if (find_task(options.model)->is_text())
    throw std::invalid_argument("libtorch's program has only the networks of images");
  torch::set_num_threads(options.threads);
  torch::manual_seed(0);
  at::globalContext().setAllowTF32CuBLAS(options.precision == "tf32");
  at::globalContext().setAllowTF32CuDNN(options.precision == "tf32");
  at::globalContext().setBenchmarkCuDNN(options.cudnn_benchmark);
  Trainer trainer(options);
  serve(trainer, options, describe());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(kAbout);
  Options options;
  add_options(app, options);
  return serve_main(argc, argv, options, app, probe, [&] { measure(options); });
}
