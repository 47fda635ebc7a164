// A convolutional network learns to read handwritten digits: the first program to read.
//
//   mnist --data data-sets --epochs 3
//   mnist --device cuda --save mnist.safetensors
//
// It trains on MNIST, from --data, else FERRITE_DATA, else ./data-sets; if these do not exist, on
// digits that it draws itself.
#include <ferrite/core/terminal.h>
#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

using namespace ferrite;

class Net : public nn::Cloneable<Net> {
 public:
  Net() {
    register_module("conv1", conv1_);
    register_module("conv2", conv2_);
    register_module("fc1", fc1_);
    register_module("fc2", fc2_);
  }

  Tensor forward(const Tensor& images) override {  // [N, 1, 28, 28]
    Tensor x = max_pool2d(relu(conv1_(images)), 2);
    x = max_pool2d(relu(conv2_(x)), 2);
    x = relu(fc1_(x.flatten(1)));
    return fc2_(x);  // a score for each digit
  }

 private:
  nn::Conv2d conv1_{1, 16, 5, {.padding = 2}};
  nn::Conv2d conv2_{16, 32, 5, {.padding = 2}};
  nn::Linear fc1_{32 * 7 * 7, 128};
  nn::Linear fc2_{128, 10};
};

std::shared_ptr<data::Dataset> open_digits(const std::string& folder, data::Split split) {
  const data::Compose transform{data::ToTensor(),
                                data::Normalize(data::MNIST::kMean, data::MNIST::kStd)};
  const char* const environment = std::getenv("FERRITE_DATA");
  const std::string root = !folder.empty() ? folder : environment ? environment : "data-sets";
  try {
    return std::make_shared<data::MNIST>(root, split, transform);
  } catch (const IoError&) {
    if (!folder.empty()) throw;
    const bool train = split == data::Split::train;
    fmt::print("no MNIST in '{}': drawing {} digits instead\n", root, train ? "training" : "test");
    return std::make_shared<data::SyntheticDigits>(train ? 10000 : 2000, train ? 0 : 1, transform);
  }
}

double train_epoch(nn::Module& net, data::DataLoader<>& loader, optim::Optimizer& optimizer,
                   metrics::ProgressBar& bar) {
  net.train();
  metrics::DeviceAverageMeter losses(loader.options().device);
  std::int64_t done = 0;
  for (auto& [images, labels] : loader) {
    const Tensor loss = cross_entropy(net(images), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.update(loss, images.size(0));
    if (bar.due(++done)) bar.update(done, fmt::format("loss {:.4f}", losses.value().avg()));
  }
  return losses.value().avg();
}

double evaluate(nn::Module& net, data::DataLoader<>& loader) {
  const NoGradGuard no_grad;
  net.eval();
  metrics::Accuracy accuracy(loader.options().device);
  for (auto& [images, labels] : loader) accuracy.update(net(images), labels);
  return accuracy.value();
}

int main(int argc, char** argv) try {
  terminal::flush_lines();
  std::string folder, save_path, device_name = cuda::is_available() ? "cuda" : "cpu";
  int epochs = 3;
  CLI::App app("Trains a convolutional network on MNIST.", "mnist");
  terminal::set_up_cli(app, {"mnist --data data-sets --epochs 3 --save mnist.safetensors"});
  app.option_defaults()->group("Files");
  app.add_option("--data", folder, "folder with the MNIST files");
  app.add_option("--save", save_path, "write the trained weights to this .safetensors file");
  app.option_defaults()->group("Training");
  app.add_option("--device", device_name, "cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--epochs", epochs, "passes over the training images")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  manual_seed(1);
  const Device device(device_name);
  const auto train = open_digits(folder, data::Split::train);
  const auto test = open_digits(folder, data::Split::test);
  data::DataLoader train_loader(
      train, {.batch_size = 128, .shuffle = true, .num_workers = 1, .device = device});
  data::DataLoader test_loader(test, {.batch_size = 1000, .num_workers = 1, .device = device});

  Net net;
  net.to(device);
  optim::Adam adam(net.parameters(), {.lr = 1e-3});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const std::string label = metrics::progress_label("epoch", epoch, epochs);
    metrics::ProgressBar bar(label, train_loader.size());
    bar.finish(metrics::train_line(label, train_epoch(net, train_loader, adam, bar)));
    fmt::print("{}\n", metrics::test_line(label, {}, evaluate(net, test_loader)));
  }
  if (!save_path.empty()) save(net.state_dict(), save_path);
} catch (const std::exception& e) {
  fmt::print(stderr, "{}", terminal::error_line(e.what()));
  return 1;
}
