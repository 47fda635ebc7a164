// Trains LeNet on small gray images, evaluates it, saves its weights, and classifies pictures with
// them:
//   lenet --dataset fashion-mnist --data DIR --checkpoint-dir runs/lenet
//   lenet --predict shirt.png --checkpoint-dir runs/lenet
#include <ferrite.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <numbers>

#include "examples/common/folder.h"
#include "examples/common/optimizers.h"
#include "examples/common/progress.h"
#include "examples/common/report.h"
#include "examples/common/training_options.h"
#include "examples/lenet/dataset.h"
#include "examples/lenet/model.h"
#include "examples/lenet/predict.h"

namespace {

using namespace ferrite;

/// What a pass over a data set found.
struct Metrics {
  double loss = 0, accuracy = 0, images_per_second = 0;
  std::int64_t images = 0;
};

/// Sums on the device, so that a training step never waits for them.
class Meter {
 public:
  explicit Meter(const Device& device)
      : loss_(zeros({}, {.device = device})),
        correct_(zeros({}, {.dtype = kInt64, .device = device})) {}

  void add(const Tensor& loss, const Tensor& logits, const Tensor& labels) {
    NoGradGuard guard;
    loss_ += loss * logits.size(0);
    correct_ += logits.argmax(1).eq(labels).sum();
    images_ += logits.size(0);
  }
  Metrics result(double seconds) const {
    const auto n = static_cast<double>(std::max<std::int64_t>(images_, 1));
    return {loss_.item<double>() / n, correct_.item<double>() / n,
            static_cast<double>(images_) / seconds, images_};
  }

 private:
  Tensor loss_, correct_;
  std::int64_t images_ = 0;
};

struct Training {
  examples::TrainingOptions options;
  examples::Recipe recipe;
  Device device;
  std::int64_t step = 0, total_steps = 0;

  bool finished() const { return step >= total_steps; }

  /// Constant, or half a cosine from the recipe's learning rate to zero.
  double learning_rate() const {
    if (!recipe.cosine) return recipe.lr;
    const double progress = static_cast<double>(step) / static_cast<double>(total_steps);
    return 0.5 * recipe.lr * (1 + std::cos(std::numbers::pi * progress));
  }
};

Metrics train_epoch(Training& run, nn::Module& model, optim::Optimizer& optimizer,
                    data::DataLoader& loader, const std::string& label) {
  const auto steps = std::min(static_cast<std::int64_t>(loader.size()), run.total_steps - run.step);
  examples::Progress progress(label, steps);
  Meter meter(run.device);
  model.train();
  std::int64_t done = 0;
  for (auto& [images, labels] : loader) {
    const Tensor x = images.to(run.device, non_blocking);
    const Tensor y = labels.to(run.device, non_blocking);

    const Tensor logits = model(x);
    const Tensor loss = cross_entropy(logits, y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.set_lr(run.learning_rate());
    optimizer.step();

    meter.add(loss.detach(), logits.detach(), y);
    ++run.step;
    if (++done == steps) break;
    if (progress.due(done)) {
      const Metrics m = meter.result(progress.seconds());
      progress.update(done, fmt::format("loss {:.4f} accuracy {:.3f} {:.0f} images/s", m.loss,
                                        m.accuracy, m.images_per_second));
    }
  }
  const Metrics m = meter.result(progress.seconds());
  FERRITE_CHECK(std::isfinite(m.loss), ValueError, "lenet",
                "the loss is no longer finite after step {}: lower --lr", run.step);
  progress.finish(fmt::format("{}  train loss {:.4f} accuracy {:.4f}  {:.0f} images/s", label,
                              m.loss, m.accuracy, m.images_per_second));
  return m;
}

/// Accuracy by class, on the side of the usual metrics.
struct ClassCounts {
  std::vector<std::int64_t> correct, total;
};

Metrics evaluate(nn::Module& model, data::DataLoader& loader, const Device& device,
                 ClassCounts* counts = nullptr) {
  NoGradGuard guard;
  model.eval();
  Meter meter(device);
  const examples::Progress timer("", 1);
  for (auto& [images, labels] : loader) {
    const Tensor y = labels.to(device);
    const Tensor logits = model(images.to(device));
    meter.add(cross_entropy(logits, y), logits, y);
    if (!counts) continue;
    const auto predicted = logits.argmax(1).to_vector<std::int64_t>();
    const auto expected = labels.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto c = static_cast<std::size_t>(expected[i]);
      ++counts->total[c];
      counts->correct[c] += predicted[i] == expected[i];
    }
  }
  return meter.result(timer.seconds());
}

void print_classes(const ClassCounts& counts, const std::vector<std::string>& names) {
  fmt::print("\n  {:<14} {:>7} {:>9}\n", "class", "images", "accuracy");
  for (std::size_t c = 0; c < names.size(); ++c)
    fmt::print("  {:<14} {:>7} {:>9.4f}\n", names[c], counts.total[c],
               static_cast<double>(counts.correct[c]) /
                   static_cast<double>(std::max<std::int64_t>(counts.total[c], 1)));
}

nlohmann::json configuration(const Training& run, const nn::Module& model) {
  return {{"dataset", run.options.dataset},
          {"model", run.options.model},
          {"epochs", run.recipe.epochs},
          {"max_steps", run.options.max_steps},
          {"batch_size", run.recipe.batch_size},
          {"lr", run.recipe.lr},
          {"schedule", run.recipe.cosine ? "cosine" : "constant"},
          {"optimizer", run.recipe.optimizer},
          {"device", run.device.str()},
          {"threads", num_threads()},
          {"workers", run.options.workers},
          {"seed", run.options.seed},
          {"parameters", model.num_parameters()}};
}

void train(Training& run) {
  examples::Report report(run.options.report);
  if (!run.options.checkpoint_dir.empty())
    examples::make_writable_folder(run.options.checkpoint_dir, "--checkpoint-dir");
  const examples::Splits data = examples::open_dataset(run.options);
  const auto batch = run.recipe.batch_size;
  data::DataLoader train_loader(data.train, {.batch_size = batch,
                                             .shuffle = true,
                                             .workers = run.options.workers,
                                             .seed = run.options.seed});
  data::DataLoader test_loader(data.test, {.batch_size = 1000, .workers = run.options.workers});

  const auto model = examples::make_model(run.options.model);
  model->to(run.device);
  model->to(kChannelsLast);
  const auto optimizer = examples::make_optimizer(run.recipe.optimizer, model->parameters(),
                                                  run.recipe.lr, run.recipe.momentum);
  std::cout << *model << '\n';
  fmt::print("{} on {}: {} train and {} test images, {} thread(s)\n", run.options.dataset,
             run.device.str(), data.train->size(), data.test->size(), num_threads());

  run.total_steps = run.recipe.epochs * static_cast<std::int64_t>(train_loader.size());
  if (run.options.max_steps > 0) run.total_steps = std::min(run.total_steps, run.options.max_steps);
  report.set("configuration", configuration(run, *model));
  report.write();

  const examples::Progress total("", 1);
  Metrics test;
  ClassCounts counts{std::vector<std::int64_t>(data.classes.size()),
                     std::vector<std::int64_t>(data.classes.size())};
  for (std::int64_t epoch = 1; !run.finished(); ++epoch) {
    const std::string label = fmt::format("epoch {:>2}/{}", epoch, run.recipe.epochs);
    const Metrics m = train_epoch(run, *model, *optimizer, train_loader, label);
    test = evaluate(*model, test_loader, run.device, run.finished() ? &counts : nullptr);
    fmt::print("{:<{}}  test  loss {:.4f} accuracy {:.4f}\n", "", label.size(), test.loss,
               test.accuracy);
    report.add_epoch({{"epoch", epoch},
                      {"step", run.step},
                      {"train_loss", examples::number(m.loss)},
                      {"train_accuracy", m.accuracy},
                      {"images_per_second", m.images_per_second},
                      {"test_loss", examples::number(test.loss)},
                      {"test_accuracy", test.accuracy}});
  }
  fmt::print("\ntest accuracy {:.4f} after {} steps in {:.1f} s\n", test.accuracy, run.step,
             total.seconds());
  print_classes(counts, data.classes);
  report.set("test_accuracy", test.accuracy);
  report.set("seconds", total.seconds());
  report.write();
  if (!run.options.checkpoint_dir.empty())
    fmt::print("\nweights saved in {}\n", examples::save_weights(*model, run.options, data));
}

int lenet(int argc, char** argv) {
  CLI::App app("Trains LeNet on small gray images, and classifies pictures with its weights.");
  Training run;
  std::string picture;
  examples::add_training_options(app, run.options, {"lenet5", "d2l"},
                                 {"synthetic-digits", "mnist", "fashion-mnist"});
  app.add_option("--predict", picture,
                 "classify this PNG with the weights in --checkpoint-dir, and train nothing");
  CLI11_PARSE(app, argc, argv);

  run.device = examples::apply(run.options);
  if (!picture.empty()) {
    examples::predict(picture, run.options.checkpoint_dir, run.device);
    return 0;
  }
  run.recipe = examples::recipe_for(run.options);
  train(run);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(lenet, argc, argv); }
