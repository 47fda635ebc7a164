// What is in a picture: an image file in, the most probable classes out.
//
//   classify --weights resnet18.pth --labels imagenet_classes.txt dog.jpeg cat.png
//
// The weights have torchvision's names, in a file of torch.save() or in safetensors. The labels
// are lines of text, one for each class.
#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/common/training_options.h"

using namespace ferrite;

namespace {

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path);
  FERRITE_CHECK(file, IoError, "--labels", "cannot read '{}'", path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

int classify(int argc, char** argv) {
  std::string model = "resnet18", weights, labels;
  std::vector<std::string> pictures;
  std::string device_name = cuda::is_available() ? "cuda" : "cpu";
  std::int64_t size = 224;
  examples::CommandLine app(
      "Prints the five most probable classes of each picture.",
      {"classify --model resnet50 --weights resnet50.pth --labels classes.txt dog.jpeg"});
  app.topic("Pictures");
  app.add_option("pictures", pictures, "PNG or JPEG files").required();
  app.topic("Network");
  app.add_option("--model", model, "name of a torchvision network").capture_default_str();
  app.add_option("--weights", weights, "file with the weights of the network").required();
  app.add_option("--labels", labels, "file with the class names, one per line").required();
  app.add_option("--image-size", size, "height and width of the network's input")
      .check(examples::whole<std::int64_t>(1))
      .capture_default_str();
  app.topic("Device");
  app.add_option("--device", device_name, "cpu, cuda or cuda:N").capture_default_str();
  if (const auto status = app.parse(argc, argv)) return *status;

  const Device device(device_name);
  const std::vector<std::string> names = read_lines(labels);
  const auto net = nn::make_image_model(model, {.classes = std::ssize(names), .image_size = size});
  nn::load_state_dict(*net, load(weights), nn::NameMap().unwrap());
  net->to(device);
  const auto fast = nn::optimize_for_inference(*net, zeros({1, 3, size, size}, {.device = device}));

  const data::Compose transform{
      data::Resize(size * 8 / 7), data::CenterCrop(size), data::ToTensor(),
      data::Normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225})};  // ImageNet's
  const InferenceMode guard;
  Generator unused;  // no transform is random
  for (const std::string& picture : pictures) {
    const Tensor image = transform.apply(data::read_image(picture, data::ImageMode::rgb), unused);
    const Tensor scores = softmax((*fast)(image.unsqueeze(0).to(device)), 1)[0];
    const auto [best, classes] = topk(scores, std::min<std::int64_t>(5, std::ssize(names)));
    fmt::print("{}\n", picture);
    for (std::int64_t i = 0; i < best.size(0); ++i)
      fmt::print("  {:.4f} {}\n", best[i].item<double>(),
                 names[static_cast<std::size_t>(classes[i].item<std::int64_t>())]);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(classify, argc, argv); }
