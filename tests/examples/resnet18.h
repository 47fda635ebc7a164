// Runs examples/resnet18 on images small enough for many runs.
#pragma once

#include "ferrite/data/png.h"
#include "ferrite/tests/examples/workplace.h"

namespace ferrite::test {

/// With an image folder of three classes of 12 x 12 digits.
class ResNetPlace : public Workplace {
 public:
  ResNetPlace() : Workplace("resnet18") {
    write_folder("train", 48, 1);
    write_folder("val", 15, 2);
  }

  /// Trains a narrow network on the folder's images at 8 x 8, in batches of 8.
  Outcome train(const Arguments& arguments) const { return run(small(arguments)); }
  /// The same on the host, without waiting for it.
  pid_t start(const Arguments& arguments) const {
    Arguments all = small(arguments);
    all.insert(all.begin(), {"--device", "cpu"});
    return start_program("resnet18", all, path());
  }

 private:
  Arguments small(Arguments arguments) const {
    for (const auto& [option, value] : {std::pair<std::string, std::string>{"--batch-size", "8"},
                                        {"--width", "4"},
                                        {"--image-size", "8"},
                                        {"--data", path().string()},
                                        {"--dataset", "image-folder"}})
      if (std::ranges::find(arguments, option) == arguments.end())
        arguments.insert(arguments.begin(), {option, value});
    arguments.insert(arguments.begin(), "--gray");
    return arguments;
  }

  void write_folder(const std::string& split, std::int64_t n, std::uint64_t seed) const {
    const data::SyntheticDigits digits(n, seed, data::Resize(12));
    for (std::int64_t i = 0; i < n; ++i) {
      const Tensor image = digits.get(i).input;
      // The property to learn: its brightness.
      auto* pixels = image.data<std::uint8_t>();
      for (std::int64_t k = 0; k < image.numel(); ++k)
        pixels[k] = static_cast<std::uint8_t>(pixels[k] / 2 + 60 * (i % 3));
      const auto folder = path() / split / ("class" + std::to_string(i % 3));
      std::filesystem::create_directories(folder);
      data::write_png(image, folder / (std::to_string(i) + ".png"));
    }
  }
};

}  // namespace ferrite::test
