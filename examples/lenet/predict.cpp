#include "ferrite/examples/lenet/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/error.h"
#include "ferrite/data/image_io.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/examples/lenet/model.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/softmax.h"

namespace examples::lenet {

using ferrite::Tensor;
namespace data = ferrite::data;

namespace {

constexpr std::int64_t kSide = 28;
constexpr const char* kFile = "final.safetensors";

/// The mean of the pixels in [top, bottom) x [left, right), with fractional bounds.
double area_mean(const Tensor& image, double top, double bottom, double left, double right) {
  const auto* pixels = image.data<std::uint8_t>();
  const std::int64_t height = image.size(-2), width = image.size(-1);
  double sum = 0, weight = 0;
  for (auto y = static_cast<std::int64_t>(top); y < std::min<double>(bottom, height); ++y)
    for (auto x = static_cast<std::int64_t>(left); x < std::min<double>(right, width); ++x) {
      const auto overlap = [](double low, double high, std::int64_t i) {
        return std::min(high, static_cast<double>(i + 1)) - std::max(low, static_cast<double>(i));
      };
      const double w = overlap(top, bottom, y) * overlap(left, right, x);
      sum += w * pixels[y * width + x];
      weight += w;
    }
  return sum / weight;
}

/// Resizes a gray image to [1, 1, 28, 28], with values in [0, 1], by averaging over areas.
Tensor resized(const Tensor& image) {
  Tensor out = ferrite::empty({1, 1, kSide, kSide});
  const double sy = static_cast<double>(image.size(-2)) / kSide;
  const double sx = static_cast<double>(image.size(-1)) / kSide;
  auto* values = out.data<float>();
  for (std::int64_t y = 0; y < kSide; ++y)
    for (std::int64_t x = 0; x < kSide; ++x)
      *values++ =
          static_cast<float>(area_mean(image, y * sy, (y + 1) * sy, x * sx, (x + 1) * sx) / 255);
  return out;
}

bool is_dark_on_light(const Tensor& image) {
  const auto* p = image.data<float>();
  double border = 0;
  for (std::int64_t i = 0; i < kSide; ++i)
    border += p[i] + p[(kSide - 1) * kSide + i] + p[i * kSide] + p[i * kSide + kSide - 1];
  return border / (4 * kSide) > 0.5;
}

const std::string& entry(const data::Metadata& metadata, const std::string& key,
                         const std::string& path) {
  const auto it = metadata.find(key);
  FERRITE_CHECK(it != metadata.end(), ferrite::IoError, "predict",
                "{} has no '{}' in its metadata: it was not written by this program", path, key);
  return it->second;
}

double number_of(const data::Metadata& metadata, const std::string& key, const std::string& path) {
  const std::string& text = entry(metadata, key, path);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  FERRITE_CHECK(error == std::errc() && end == text.data() + text.size(), ferrite::IoError,
                "predict", "the '{}' in {} is not a number: '{}'", key, path, text);
  return value;
}

std::vector<std::string> lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

}  // namespace

std::string save_weights(const ferrite::nn::Module& model, const TrainingOptions& options,
                         const Splits& data) {
  const auto path = std::filesystem::path(options.checkpoint_dir) / kFile;
  ferrite::save(model.state_dict(), path,
                {{"model", options.model},
                 {"dataset", options.dataset},
                 {"classes", fmt::format("{}", fmt::join(data.classes, "\n"))},
                 {"mean", fmt::format("{}", data.normalization.mean[0])},
                 {"std", fmt::format("{}", data.normalization.std[0])}});
  return path.string();
}

void predict(const std::string& picture, const std::string& checkpoint_dir,
             const ferrite::Device& device) {
  FERRITE_CHECK(!checkpoint_dir.empty(), ferrite::ValueError, "predict",
                "--predict needs --checkpoint-dir, the folder with the {} of a training run",
                kFile);
  const std::string path = (std::filesystem::path(checkpoint_dir) / kFile).string();
  const data::Metadata metadata = data::load_safetensors_metadata(path);
  const auto model = make_model(entry(metadata, "model", path));
  model->load_state_dict(ferrite::load(path));
  model->to(device).eval();
  const auto classes = lines(entry(metadata, "classes", path));
  const double mean = number_of(metadata, "mean", path);
  const double std = number_of(metadata, "std", path);

  const Tensor image = data::read_image(picture, data::ImageMode::gray);
  Tensor input = resized(image);
  if (is_dark_on_light(input)) {
    fmt::print("{} is dark on light: inverting it\n", picture);
    input = 1 - input;
  }
  ferrite::NoGradGuard guard;
  const Tensor logits = (*model)(((input - mean) / std).to(device));
  const auto p = logits.softmax(1).to_vector<double>();
  FERRITE_CHECK(p.size() == classes.size(), ferrite::IoError, "predict",
                "{} names {} classes, but its network has {}", path, classes.size(), p.size());

  std::vector<std::size_t> order(p.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  fmt::print("{}: {}\n", picture, classes[order[0]]);
  for (std::size_t i = 0; i < std::min<std::size_t>(5, p.size()); ++i)
    fmt::print("  {:<14} {:6.2f} %\n", classes[order[i]], 100 * p[order[i]]);
}

}  // namespace examples::lenet
