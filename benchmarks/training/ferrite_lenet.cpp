// Trains LeNet on batches held in memory and says how fast: Ferrite's side of compare.py. One
// measurement for every line on stdin, one line of JSON for each on stdout.
#include <ferrite.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nn/models/lenet.h"

namespace {

using namespace ferrite;

struct Options {
  std::string model = "lenet5";
  std::string layout = "channels_last";
  std::int64_t batch = 64, steps = 50, warmup = 20, batches = 16;
  int threads = 1;
  double lr = 0.05, momentum = 0.9;

  MemoryFormat format() const { return layout == "channels_last" ? kChannelsLast : kContiguous; }
};

struct Batch {
  Tensor images, labels;
};

/// A pattern for each of ten classes, and noise: something to learn, without reading a file.
std::vector<Batch> make_batches(const Options& options) {
  manual_seed(0);
  const Tensor patterns = randn({10, 1, 28, 28});
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < options.batches; ++i) {
    const Tensor labels = randint(10, {options.batch});
    const Tensor noise = randn({options.batch, 1, 28, 28});
    const Tensor images = patterns.index_select(0, labels) + noise;
    batches.push_back({images.contiguous(options.format()), labels});
  }
  return batches;
}

std::unique_ptr<nn::Module> make_model(const Options& options) {
  std::unique_ptr<nn::Module> model;
  if (options.model == "d2l")
    model = std::make_unique<nn::D2LLeNet>();
  else
    model = std::make_unique<nn::LeNet5>();
  model->to(options.format());
  return model;
}

class Trainer {
 public:
  explicit Trainer(const Options& options)
      : batches_(make_batches(options)),
        model_(make_model(options)),
        sgd_(model_->parameters(), {.lr = options.lr, .momentum = options.momentum}) {}

  void run(std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i) {
      const Batch& batch = batches_[next_++ % batches_.size()];
      loss_ = cross_entropy((*model_)(batch.images), batch.labels);
      sgd_.zero_grad();
      loss_.backward();
      sgd_.step();
    }
  }
  double loss() const { return loss_.item<double>(); }

 private:
  std::vector<Batch> batches_;
  std::unique_ptr<nn::Module> model_;
  optim::SGD sgd_;
  Tensor loss_;
  std::size_t next_ = 0;
};

void print(const nlohmann::json& json) { std::cout << json.dump() << std::endl; }

void serve(const Options& options) {
  using Clock = std::chrono::steady_clock;
  set_num_threads(options.threads);
  Trainer trainer(options);
  trainer.run(options.warmup);
  print({{"ready", true},
         {"framework", "Ferrite"},
         {"version", FERRITE_VERSION},
         {"compiler", __VERSION__},
         {"model", options.model},
         {"layout", options.layout},
         {"batch", options.batch},
         {"threads", options.threads}});
  for (std::string line; std::getline(std::cin, line);) {
    trainer.run(2);  // wakes the threads, fills the caches
    const Clock::time_point start = Clock::now();
    trainer.run(options.steps);
    const double loss = trainer.loss();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    print({{"images_per_second", static_cast<double>(options.steps * options.batch) / seconds},
           {"seconds", seconds},
           {"steps", options.steps},
           {"loss", loss}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains LeNet on batches held in memory. Every line on stdin starts one measurement "
      "and is answered by a line of JSON.");
  Options options;
  app.add_option("--model", options.model, "lenet5 or d2l")
      ->check(CLI::IsMember({"lenet5", "d2l"}))
      ->capture_default_str();
  app.add_option("--layout", options.layout, "contiguous (NCHW) or channels_last (NHWC)")
      ->check(CLI::IsMember({"contiguous", "channels_last"}))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "images a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--steps", options.steps, "steps a measurement")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warmup", options.warmup, "steps before the first measurement")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--batches", options.batches, "batches held in memory, used in turn")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--lr", options.lr)->capture_default_str();
  app.add_option("--momentum", options.momentum)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    serve(options);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
