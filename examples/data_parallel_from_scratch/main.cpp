// Training on several devices from scratch, with nothing but tensors: the chapter of that name in
// "Dive into Deep Learning" (Zhang, Lipton, Li, Smola; d2l.ai), to be read from top to bottom.
//
//   data_parallel_from_scratch --dataset fashion-mnist --data data-sets
//
// Data parallelism: every device holds all parameters and processes a part of each batch. It
// computes the gradient of its part; the gradients are added up, every device gets the sum, and all
// take the same step. parallel::DataParallel and parallel::DistributedDataParallel do the same,
// faster.
#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/common/dataset.h"

namespace {

using namespace ferrite;

using Params = std::vector<Tensor>;

// ---- A toy network
//
// A LeNet as a function of its parameters. Several copies of the network then are just several
// copies of the parameters.

Params initial_params() {
  const double scale = 0.01;
  return {randn({20, 1, 3, 3}) * scale,  zeros({20}),   // W1, b1
          randn({50, 20, 5, 5}) * scale, zeros({50}),   // W2, b2
          randn({800, 128}) * scale,     zeros({128}),  // W3, b3
          randn({128, 10}) * scale,      zeros({10})};  // W4, b4
}

Tensor lenet(const Tensor& X, const Params& params) {
  const Tensor h1 = avg_pool2d(relu(conv2d(X, params[0], params[1])), 2);
  const Tensor h2 = avg_pool2d(relu(conv2d(h1, params[2], params[3])), 2);
  const Tensor h3 = relu(matmul(h2.flatten(1), params[4]) + params[5]);
  return matmul(h3, params[6]) + params[7];
}

// ---- What devices exchange
//
// First, the parameters: each device gets a copy with its own gradient. The gradient starts as
// zeros, which is the contribution of a device that receives no part of a small batch.

Params get_params(const Params& params, const Device& device) {
  Params copies;
  for (const Tensor& p : params) {
    copies.push_back(p.to(device).clone().set_requires_grad());
    copies.back().set_grad(zeros_like(copies.back().detach()));
  }
  return copies;
}

// Then, at every step, the gradients: tensors of one shape, one on each device. The first device
// adds up those of the others, and all receive the sum.

void allreduce(std::span<const Tensor> tensors) {
  const Tensor& first = tensors[0];
  for (std::size_t i = 1; i < tensors.size(); ++i) first.add_(tensors[i].to(first.device()));
  for (std::size_t i = 1; i < tensors.size(); ++i) tensors[i].copy_(first);
}

// ---- The parts of a batch
//
// A batch is split into parts, of equal size if the number of images allows it, and each part is
// sent to its device.

std::vector<Tensor> scatter(const Tensor& batch, const std::vector<Device>& devices) {
  std::vector<Tensor> parts = chunk(batch, static_cast<std::int64_t>(devices.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = parts[i].to(devices[i], non_blocking);
  return parts;
}

std::pair<std::vector<Tensor>, std::vector<Tensor>> split_batch(
    const Tensor& images, const Tensor& labels, const std::vector<Device>& devices) {
  return {scatter(images, devices), scatter(labels, devices)};
}

// ---- A step of training
//
// This function starts no threads, but the devices work at the same time. An operation on a
// device's tensors only adds work to that device's queue and returns before it is done. The first
// loop queues the forward pass of every device without waiting; so does the second with the
// backward passes. A device waits when it needs the result of another one, in allreduce. The
// program waits when it reads a number, which it does not do here.
//
// The losses are sums over a part's images, not means: allreduce then adds up to the gradient of
// the whole batch, for any split, and the step itself divides by the number of images.

Tensor loss_of(const Tensor& outputs, const Tensor& labels) {
  return cross_entropy(outputs, labels, {.reduction = Reduction::sum});
}

void sgd(const Params& params, double lr, std::int64_t batch_size) {
  for (const Tensor& p : params) {
    p.sub_(p.grad(), lr / static_cast<double>(batch_size));
    p.grad().zero_();
  }
}

/// The losses of the parts, each on its device.
std::vector<Tensor> train_batch(const Tensor& images, const Tensor& labels,
                                const std::vector<Params>& device_params,
                                const std::vector<Device>& devices, double lr) {
  const auto [image_parts, label_parts] = split_batch(images, labels, devices);
  std::vector<Tensor> losses;
  for (std::size_t i = 0; i < image_parts.size(); ++i)
    losses.push_back(loss_of(lenet(image_parts[i], device_params[i]), label_parts[i]));
  for (const Tensor& loss : losses) loss.backward();

  const NoGradGuard guard;
  for (std::size_t p = 0; p < device_params[0].size(); ++p) {
    std::vector<Tensor> gradients;
    for (const Params& params : device_params) gradients.push_back(params[p].grad());
    allreduce(gradients);
  }
  // The same gradients and the same step: the copies of the parameters stay equal.
  for (const Params& params : device_params) sgd(params, lr, images.size(0));
  return losses;
}

// ---- Training
//
// The rest is as with one device. Since all copies are equal, the first is the one that is
// evaluated.

double evaluate_accuracy(const Params& params, data::DataLoader<>& loader, const Device& device) {
  const NoGradGuard guard;
  metrics::Accuracy accuracy(device);
  for (auto& [images, labels] : loader)
    accuracy.update(lenet(images.to(device), params), labels.to(device));
  return accuracy.value();
}

struct Options {
  examples::TrainingOptions data;  // --dataset, --data and --seed
  std::int64_t epochs = 10, batch_size = 256, max_steps = 0;
  double lr = 0.2;
  std::vector<int> num_devices = {1, 2};
  std::string device = "auto";
};

Device device_number(int i, const std::string& type) {
  return Device(type == "cuda" ? DeviceType::cuda : DeviceType::cpu, i);
}

void train(int num_devices, std::int64_t batch_size, double lr, const examples::Splits& data,
           const Options& options) {
  manual_seed(options.data.seed);  // the same parameters and batches for any number of devices
  data::DataLoader train_loader(
      data.train,
      {.batch_size = batch_size, .shuffle = true, .num_workers = 1, .pin_memory = true});
  data::DataLoader test_loader(data.test, {.batch_size = 1000, .num_workers = 1});
  std::vector<Device> devices;
  for (int i = 0; i < num_devices; ++i) devices.push_back(device_number(i, options.device));
  const Params params = initial_params();
  std::vector<Params> device_params;
  for (const Device& device : devices) device_params.push_back(get_params(params, device));

  metrics::Timer timer;
  timer.pause();
  double accuracy = 0;
  for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    std::vector<Tensor> totals;  // sums of the losses, on their devices
    for (const Device& device : devices) totals.push_back(zeros({}, {.device = device}));
    std::int64_t seen = 0, steps = 0;
    timer.resume();
    for (auto& [images, labels] : train_loader) {
      const auto losses = train_batch(images, labels, device_params, devices, lr);
      for (std::size_t i = 0; i < losses.size(); ++i) totals[i].add_(losses[i].detach());
      for (const Device& device : devices)
        synchronize(device);  // bounds how far the host runs ahead
      seen += images.size(0);
      if (++steps == options.max_steps) break;
    }
    double loss = 0;
    for (const Tensor& total : totals) loss += total.item<double>();
    timer.pause();
    accuracy = evaluate_accuracy(device_params[0], test_loader, devices[0]);
    const std::string label = metrics::progress_label("epoch", epoch, options.epochs);
    fmt::print("{}\n{}\n", metrics::train_line(label, loss / static_cast<double>(seen)),
               metrics::test_line(label, {}, accuracy));
  }
  fmt::print("test accuracy {:.4f}, {:.1f} s per epoch on [{}]\n\n", accuracy,
             timer.seconds() / static_cast<double>(options.epochs), fmt::join(devices, ", "));
}

int data_parallel_from_scratch(int argc, char** argv) {
  examples::CommandLine app(
      "Trains with data parallelism written from scratch, as in \"Dive into Deep Learning\".",
      {"data_parallel_from_scratch --dataset fashion-mnist --data data-sets",
       "data_parallel_from_scratch --device cpu --num-devices 1 2 4 --epochs 1"});
  Options o;
  o.data.dataset = "synthetic-digits";
  app.topic("Data");
  app.add_option("--dataset", o.data.dataset, "data set to train on")
      .check(examples::one_of({"synthetic-digits", "mnist", "fashion-mnist"}))
      .capture_default_str();
  app.add_option("--data", o.data.data,
                 "folder that holds the data set (default $FERRITE_DATA, else ./data-sets)");
  app.topic("Training");
  app.add_option("--epochs", o.epochs, "passes over the training set")
      .check(examples::whole<std::int64_t>(1))
      .capture_default_str();
  app.add_option("--max-steps", o.max_steps, "end each epoch after this many steps (0: no limit)")
      .check(examples::whole<std::int64_t>(0));
  app.add_option("--batch-size", o.batch_size, "images per step, in total over all devices")
      .check(examples::whole<std::int64_t>(1))
      .capture_default_str();
  app.add_option("--lr", o.lr, "learning rate").check(examples::above_zero()).capture_default_str();
  app.add_option("--seed", o.data.seed, "seed of parameters and shuffling")
      .check(examples::whole<std::uint64_t>(0))
      .capture_default_str();
  app.topic("Devices");
  app.add_option("--num-devices", o.num_devices, "numbers of devices to train on, in turn")
      .check(examples::whole(1, Device::kMaxIndex + 1))
      .capture_default_str();
  app.add_option("--device", o.device,
                 "kind of devices; cpu: virtual ones of one thread each; auto: cuda if available")
      .check(examples::one_of({"auto", "cpu", "cuda"}))
      .capture_default_str();
  if (const auto status = app.parse(argc, argv)) return *status;

  if (o.device == "auto") o.device = cuda::is_available() ? "cuda" : "cpu";
  if (o.device == "cuda" && cuda::device_count() == 1 && app.count("--num-devices") == 0) {
    fmt::print("training on the only CUDA device; --device cpu trains on two virtual devices\n\n");
    o.num_devices = {1};
  }
  if (o.device == "cpu") set_num_threads(1);  // more devices are more threads
  const examples::Splits data = examples::open_dataset(o.data);
  for (const int n : o.num_devices) train(n, o.batch_size, o.lr, data, o);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(data_parallel_from_scratch, argc, argv); }
