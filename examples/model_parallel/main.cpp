// Splits a network over two devices by hand, in two ways, beside the same network on one device:
//
//   by layers   The first layer is on one device and the second on the other; activations are moved
//               between them. One device waits while the other works. parallel/pipeline lets both
//               work, on parts of the batch.
//   by matrix   Each device has half of each layer's matrix (tensor parallelism). Both work at the
//               same time, and add up the outputs of the second layer once per pass.
//
//   model_parallel --dataset mnist --data data-sets
//
// All three start with the same weights and get the same batches, so they have the same losses.
#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/common/dataset.h"

namespace {

using namespace ferrite;

constexpr std::int64_t kPixels = 28 * 28, kClasses = 10;

class Whole : public nn::Cloneable<Whole> {
 public:
  Whole(std::int64_t hidden, const Device& device) : fc1(kPixels, hidden), fc2(hidden, kClasses) {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    to(device);
  }
  Tensor forward(const Tensor& images) override { return fc2(relu(fc1(images.flatten(1)))); }

  nn::Linear fc1, fc2;
};

class ByLayers : public nn::Cloneable<ByLayers> {
 public:
  ByLayers(std::int64_t hidden, const Device& first, const Device& second)
      : fc1(kPixels, hidden), fc2(hidden, kClasses), second_(second) {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    fc1.to(first);
    fc2.to(second);
  }
  /// `images` on the first device; the result is on the second. Backward moves gradients back
  /// automatically, because moving a tensor is a differentiable operation.
  Tensor forward(const Tensor& images) override {
    const Tensor h = relu(fc1(images.flatten(1)));
    return fc2(h.to(second_));
  }

  nn::Linear fc1, fc2;

 private:
  Device second_;
};

class ByMatrix : public nn::Cloneable<ByMatrix> {
 public:
  ByMatrix(std::int64_t hidden, const std::vector<Device>& devices)
      : fc1(kPixels, hidden, devices), fc2(hidden, kClasses, devices) {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  /// `images` and the result are on the first device. Each device computes half of the hidden
  /// units, from its rows of the first matrix; these are exactly the inputs of its columns of the
  /// second.
  Tensor forward(const Tensor& images) override {
    std::vector<Tensor> parts = fc1.forward_parts(images.flatten(1));
    for (Tensor& part : parts) part = relu(part);
    return fc2(parts);
  }

  parallel::ColumnSplitLinear fc1;
  parallel::RowSplitLinear fc2;
};

struct Options {
  examples::TrainingOptions data;  // --dataset, --data and --seed
  std::int64_t hidden = 512, steps = 100, batch_size = 128;
  double lr = 0.1;
  std::string device = "auto";
};

/// `input` and `output`: the devices of the network's images and logits.
void train(const std::string& name, nn::Module& net, const Device& input, const Device& output,
           const examples::Splits& data, const Options& options) {
  data::DataLoader loader(
      data.train, {.batch_size = options.batch_size, .shuffle = true, .seed = options.data.seed});
  optim::SGD sgd(net.parameters(), {.lr = options.lr, .momentum = 0.9});
  Tensor first, last;
  std::int64_t step = 0;
  metrics::ProgressBar bar(name, options.steps);
  const metrics::Timer timer;
  while (step < options.steps)
    for (auto& [images, labels] : loader) {
      last = cross_entropy(net(images.to(input, non_blocking)), labels.to(output, non_blocking));
      sgd.zero_grad();
      last.backward();
      sgd.step();
      if (step == 0) first = last;
      if (++step == options.steps) break;
      if (bar.due(step)) bar.update(step, fmt::format("step {}/{}", step, options.steps));
    }
  const double from = first.item<double>(), to = last.item<double>();
  synchronize(input), synchronize(output);
  const double seconds = timer.seconds();

  NoGradGuard guard;
  metrics::Accuracy accuracy(output);
  data::DataLoader test_loader(data.test, {.batch_size = 1000});
  for (auto& [images, labels] : test_loader)
    accuracy.update(net(images.to(input)), labels.to(output));
  bar.finish(fmt::format(
      "{:<10}  train loss {:.4f} to {:.4f}  test accuracy {:.4f}  {:.1f} ms per step", name, from,
      to, accuracy.value(), 1000 * seconds / static_cast<double>(options.steps)));
  for (const auto& [path, p] : net.named_parameters())
    fmt::print("    {:<12} {} on {}\n", path, p.shape(), p.device());
}

int model_parallel(int argc, char** argv) {
  examples::CommandLine app("Trains a network on two devices, split by layers and by matrices.",
                            {"model_parallel --dataset mnist --data data-sets",
                             "model_parallel --device cpu --hidden 2048    # two virtual devices"});
  Options o;
  o.data.dataset = "synthetic-digits";
  app.topic("Data");
  app.add_option("--dataset", o.data.dataset, "data set to train on")
      .check(examples::one_of({"synthetic-digits", "mnist", "fashion-mnist"}))
      .capture_default_str();
  app.add_option("--data", o.data.data,
                 "folder that holds the data set (default $FERRITE_DATA, else ./data-sets)");
  app.topic("Model and training");
  app.add_option("--hidden", o.hidden, "hidden units")
      .check(examples::whole<std::int64_t>(2))
      .capture_default_str();
  app.add_option("--steps", o.steps, "training steps")
      .check(examples::whole<std::int64_t>(1))
      .capture_default_str();
  app.add_option("--batch-size", o.batch_size, "images per step")
      .check(examples::whole<std::int64_t>(1))
      .capture_default_str();
  app.add_option("--lr", o.lr, "learning rate").check(examples::above_zero()).capture_default_str();
  app.add_option("--seed", o.data.seed, "seed of weights and shuffling")
      .check(examples::whole<std::uint64_t>(0))
      .capture_default_str();
  app.topic("Devices");
  app.add_option(
         "--device", o.device,
         "kind of devices; cpu: virtual ones of one thread each; auto: cuda if there are two")
      .check(examples::one_of({"auto", "cpu", "cuda"}))
      .capture_default_str();
  if (const auto status = app.parse(argc, argv)) return *status;

  const bool cuda = o.device == "cuda" || (o.device == "auto" && cuda::device_count() >= 2);
  if (!cuda) set_num_threads(1);  // more devices are more threads
  const DeviceType type = cuda ? DeviceType::cuda : DeviceType::cpu;
  const Device first(type, 0), second(type, 1);
  const examples::Splits data = examples::open_dataset(o.data);

  manual_seed(o.data.seed);
  Whole whole(o.hidden, first);
  train("one device", whole, first, first, data, o);
  manual_seed(o.data.seed);
  ByLayers by_layers(o.hidden, first, second);
  train("by layers", by_layers, first, second, data, o);
  manual_seed(o.data.seed);
  ByMatrix by_matrix(o.hidden, {first, second});
  train("by matrix", by_matrix, first, first, data, o);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(model_parallel, argc, argv); }
