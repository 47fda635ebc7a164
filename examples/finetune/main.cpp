// A ResNet-18 that was trained on other images learns to tell yours apart: transfer learning.
//
//   finetune --weights resnet18.pth --data photos --save photos.safetensors
//   finetune --weights resnet18.pth --data photos --freeze "conv1, bn1, layer1, layer2" --device
//   cuda
//
// The weights have torchvision's names, in a file of torch.save() or in safetensors. `photos` has
// the folders train and val, and in each a folder of images for every class.
#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/common/training_options.h"

using namespace ferrite;

namespace {

/// The network with a new head, and everything below it from the file.
nn::ResNet18 load_network(const std::string& weights, std::int64_t classes) {
  nn::ResNet18 net(classes);
  const auto report = nn::load_state_dict(
      net, load(weights), nn::NameMap().unwrap().drop("fc[.].*"), {.strict = false});
  for (const std::string& name : report.missing)  // files before PyTorch 0.4.1 have no counters
    FERRITE_CHECK(name.starts_with("fc.") || name.ends_with(".num_batches_tracked"), ValueError,
                  "--weights", "'{}' is not a torchvision ResNet-18: it has no '{}'", weights,
                  name);
  FERRITE_CHECK(report.unexpected.empty(), ValueError, "--weights",
                "'{}' is not a torchvision ResNet-18: it has '{}'", weights,
                report.unexpected.empty() ? "" : report.unexpected[0].from);
  fmt::print("{} tensors of {}; the head is new, for {} classes\n", report.matched.size(), weights,
             classes);
  return net;
}

/// Norms whose weights are frozen also keep their statistics.
void train_mode(nn::Module& net) {
  net.train();
  for (nn::BatchNorm2d* norm : net.modules<nn::BatchNorm2d>())
    if (!norm->weight.requires_grad()) norm->eval();
}

double train_epoch(nn::Module& net, data::DataLoader<>& loader, optim::Optimizer& optimizer,
                   metrics::ProgressBar& bar) {
  train_mode(net);
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

int finetune(int argc, char** argv) {
  std::string weights, folder, freeze = "conv1, bn1, layer1", save_path;
  std::string device_name = cuda::is_available() ? "cuda" : "cpu";
  int epochs = 5;
  std::int64_t batch = 32, size = 224;
  double lr = 1e-3, decay = 0.5;
  examples::CommandLine app(
      "Fine-tunes a pretrained ResNet-18 on a folder of images.",
      {"finetune --weights resnet18.pth --data photos --save photos.safetensors",
       "finetune --weights resnet18.pth --data photos --freeze '' --layer-decay 0.7"});
  app.topic("Files");
  app.add_option("--weights", weights, "file with the pretrained weights, with torchvision's names")
      .required();
  app.add_option("--data", folder, "folder with train/CLASS/*.png and val/CLASS/*.png (or .jpg)")
      .required();
  app.add_option("--save", save_path, "write the best weights to this .safetensors or .pth file");
  app.topic("Training");
  app.add_option("--freeze", freeze, "name patterns of the layers to freeze ('' for none)")
      .capture_default_str();
  app.add_option("--lr", lr, "learning rate of the head").capture_default_str();
  app.add_option("--layer-decay", decay,
                 "learning rate of each stage, as a fraction of the next stage's rate")
      .capture_default_str();
  app.add_option("--epochs", epochs, "passes over the training images")
      .check(examples::whole(1))
      .capture_default_str();
  app.add_option("--batch-size", batch, "images per step")
      .check(examples::whole<std::int64_t>(1))
      .capture_default_str();
  app.add_option("--image-size", size, "height and width of the network's input")
      .check(examples::whole<std::int64_t>(1))
      .capture_default_str();
  app.add_option("--device", device_name, "cpu, cuda or cuda:N").capture_default_str();
  if (const auto status = app.parse(argc, argv)) return *status;

  manual_seed(1);
  const Device device(device_name);
  const data::Normalize normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});  // ImageNet's
  const data::ImageFolder train(
      folder + "/train",
      {.transform = data::Compose{data::RandomResizedCrop(size), data::RandomHorizontalFlip(),
                                  data::ToTensor(), normalize}});
  const data::ImageFolder val(
      folder + "/val",
      {.transform = data::Compose{data::Resize(size * 8 / 7), data::CenterCrop(size),
                                  data::ToTensor(), normalize}});
  FERRITE_CHECK(train.classes() == val.classes(), ValueError, "--data",
                "the folders train and val in '{}' have different classes", folder);
  data::DataLoader train_loader(
      train, {.batch_size = batch, .shuffle = true, .num_workers = 2, .device = device});
  data::DataLoader val_loader(val, {.batch_size = batch, .num_workers = 2, .device = device});

  nn::ResNet18 net = load_network(weights, std::ssize(train.classes()));
  net.to(device);
  if (!freeze.empty()) net.requires_grad_(false, freeze);
  // The further from the head, the less a layer has to change.
  std::vector<optim::GroupRule> rules =
      optim::layer_decay({"conv1, bn1", "layer1", "layer2", "layer3", "layer4", "fc"}, decay);
  rules.push_back(optim::no_decay());
  optim::AdamW adamw(optim::param_groups(net, optim::AdamWOptions{.lr = lr}, rules));
  fmt::print("{} of {} parameters are trainable\n", net.num_trainable_parameters(),
             net.num_parameters());

  double best = -1;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const std::string label = metrics::progress_label("epoch", epoch, epochs);
    metrics::ProgressBar bar(label, train_loader.size());
    bar.finish(metrics::train_line(label, train_epoch(net, train_loader, adamw, bar)));
    const double accuracy = evaluate(net, val_loader);
    fmt::print("{}\n", metrics::test_line(label, {}, accuracy));
    if (accuracy > best && !save_path.empty()) save(net.state_dict(), save_path);
    best = std::max(best, accuracy);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(finetune, argc, argv); }
