// Trains LeNet on small gray images, evaluates it, saves its weights, and classifies pictures with
// them:
//   lenet --dataset fashion-mnist --data DIR --checkpoint-dir runs/lenet
//   lenet --device cuda --graph
//   lenet --predict shirt.png --checkpoint-dir runs/lenet
#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <iostream>

#include "ferrite/core/terminal.h"
#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/common/dataset.h"
#include "ferrite/examples/common/device_use.h"
#include "ferrite/examples/common/folder.h"
#include "ferrite/examples/common/lines.h"
#include "ferrite/examples/common/optimizers.h"
#include "ferrite/examples/common/profiling.h"
#include "ferrite/examples/common/report.h"
#include "ferrite/examples/common/training_options.h"
#include "ferrite/examples/lenet/model.h"
#include "ferrite/examples/lenet/predict.h"
#include "ferrite/examples/lenet/training.h"

namespace {

using namespace ferrite;

/// The configuration of a run, from the command line and the machine.
struct Run {
  examples::TrainingOptions options;
  examples::lenet::Recipe recipe;
  Device device;
};

nlohmann::json configuration(const Run& run, const nn::Module& model) {
  return {{"dataset", run.options.dataset},
          {"model", run.options.model},
          {"epochs", run.recipe.epochs},
          {"max_steps", run.options.max_steps},
          {"batch_size", run.recipe.batch_size},
          {"lr", run.recipe.lr},
          {"schedule", run.recipe.cosine ? "cosine" : "constant"},
          {"optimizer", run.recipe.optimizer},
          {"device", run.device.str()},
          {"graph", run.options.graph},
          {"threads", num_threads()},
          {"workers", run.options.workers},
          {"seed", run.options.seed},
          {"parameters", model.num_parameters()}};
}

nlohmann::json epoch_report(std::int64_t epoch, const examples::lenet::Trainer& trainer,
                            const examples::lenet::Metrics& train,
                            const examples::lenet::Metrics& test, const Device& device) {
  nlohmann::json report = {{"epoch", epoch},
                           {"step", trainer.steps()},
                           {"train_loss", examples::number(train.loss)},
                           {"train_accuracy", train.accuracy},
                           {"images_per_second", train.images_per_second},
                           {"waiting_for_data", train.waiting_for_data},
                           {"test_loss", examples::number(test.loss)},
                           {"test_accuracy", test.accuracy}};
  if (device.is_cuda()) report["device"] = examples::device_use_report(device);
  return report;
}

/// Runs all epochs; returns the last test accuracy.
double train_epochs(const Run& run, nn::Module& model, examples::lenet::Trainer& trainer,
                    data::DataLoader<>& train_loader, data::DataLoader<>& test_loader,
                    metrics::ConfusionMatrix& confusion, examples::Report& report) {
  examples::lenet::Metrics test;
  for (std::int64_t epoch = 1; !trainer.finished(); ++epoch) {
    const std::string label = metrics::progress_label("epoch", epoch, run.recipe.epochs);
    const examples::lenet::Metrics m = trainer.epoch(train_loader, label);
    test = examples::lenet::evaluate(model, test_loader, trainer.finished() ? &confusion : nullptr);
    fmt::print("{}\n", metrics::test_line(label, test.loss, test.accuracy));
    report.add_epoch(epoch_report(epoch, trainer, m, test, run.device));
  }
  if (const nn::GraphedStepStats* stats = trainer.graph_stats()) {
    fmt::print(
        "\ngraph: launched for {} steps; {} steps ran without it, to warm up or with other "
        "shapes\n",
        stats->replayed, stats->eager);
    report.set(
        "graph",
        {{"replayed", stats->replayed}, {"eager", stats->eager}, {"captures", stats->captures}});
  }
  return test.accuracy;
}

void train(const Run& run) {
  examples::Report report(examples::report_files(run.options));
  if (!run.options.checkpoint_dir.empty())
    examples::make_writable_folder(run.options.checkpoint_dir, "--checkpoint-dir");
  const examples::Splits data = examples::open_dataset(run.options);
  data::DataLoader train_loader(data.train, {.batch_size = run.recipe.batch_size,
                                             .shuffle = true,
                                             .num_workers = run.options.workers,
                                             .seed = run.options.seed,
                                             .device = run.device});
  data::DataLoader test_loader(
      data.test, {.batch_size = 1000, .num_workers = run.options.workers, .device = run.device});

  const auto model = examples::lenet::make_model(run.options.model);
  model->to(run.device);
  model->to(kChannelsLast);
  const auto optimizer =
      examples::make_optimizer(run.recipe.optimizer, model->parameters(),
                               {.lr = run.recipe.lr, .momentum = run.recipe.momentum});
  std::cout << *model << '\n';
  fmt::print("{} on {}: {} train and {} test images, {}\n", run.options.dataset, run.device.str(),
             data.train->size(), data.test->size(), terminal::counted(num_threads(), "thread"));

  std::int64_t steps = run.recipe.epochs * train_loader.size();
  if (run.options.max_steps > 0) steps = std::min(steps, run.options.max_steps);
  examples::lenet::Trainer trainer(
      *model, *optimizer, {.lr = run.recipe.lr, .cosine = run.recipe.cosine, .steps = steps},
      run.device, run.options.graph);
  trainer.set_profile(examples::make_profile(run.options.profile, *model));
  report.set("configuration", configuration(run, *model));
  report.write();

  const metrics::Timer total;
  metrics::ConfusionMatrix confusion(static_cast<std::int64_t>(data.classes.size()), run.device);
  const double accuracy =
      train_epochs(run, *model, trainer, train_loader, test_loader, confusion, report);
  fmt::print("\n{}\n", examples::finished_line(accuracy, trainer.steps(), total.seconds()));
  fmt::print("\n{}", terminal::with_heading(confusion.value().report(data.classes)));
  report.set("test_accuracy", accuracy);
  report.set("seconds", total.seconds());
  report.write();
  if (!report.files().curves.empty()) fmt::print("\ncurves in {}\n", report.files().curves);
  if (!run.options.checkpoint_dir.empty())
    fmt::print("\nweights saved in {}\n", examples::lenet::save_weights(*model, run.options, data));
}

int lenet(int argc, char** argv) {
  examples::CommandLine app(
      "Trains LeNet on small gray images, and classifies pictures with its weights.",
      {"lenet                                        # digits that it draws itself",
       "lenet --dataset fashion-mnist --data data-sets --checkpoint-dir runs/lenet",
       "lenet --predict shirt.png --checkpoint-dir runs/lenet",
       "lenet --device cuda --graph                  # each step is one launch of a CUDA graph"});
  Run run;
  std::string picture;
  examples::add_training_options(app, run.options, {"lenet5", "d2l"},
                                 {"synthetic-digits", "mnist", "fashion-mnist"});
  app.add_option("--predict", picture,
                 "classify this PNG with the weights in --checkpoint-dir instead of training");
  if (const auto status = app.parse(argc, argv)) return *status;

  run.device = examples::apply(run.options);
  if (!picture.empty()) {
    examples::lenet::predict(picture, run.options.checkpoint_dir, run.device);
    return 0;
  }
  run.recipe = examples::lenet::recipe_for(run.options);
  train(run);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(lenet, argc, argv); }
