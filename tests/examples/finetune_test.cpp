// The program examples/finetune, run like users do.
#include <regex>

#include "ferrite/core/generator.h"
#include "ferrite/data/png.h"
#include "ferrite/data/pth.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// Noisy images of 40 x 40 in which one colour is strong: green in "leaf", red in "rose".
void write_images(const std::filesystem::path& folder, int count, std::uint64_t seed) {
  Generator random(seed);
  for (const auto& [name, strong] : {std::pair("leaf", 1), std::pair("rose", 0)}) {
    std::filesystem::create_directories(folder / name);
    for (int i = 0; i < count; ++i) {
      const Tensor image = empty({3, 40, 40}, {.dtype = kUInt8});
      for (std::int64_t p = 0; p < image.numel(); ++p)
        image.data<std::uint8_t>()[p] =
            static_cast<std::uint8_t>(random.next_below(120) + (p / 1600 == strong ? 130 : 0));
      data::write_png(image, folder / name / fmt::format("{}.png", i));
    }
  }
}

/// Images, and weights of another task with seven classes.
struct Photos {
  Workplace place{"finetune"};
  nn::ResNet18 trained = [] {
    manual_seed(3);
    return nn::ResNet18(7);
  }();

  Photos() {
    write_images(place / "photos/train", 16, 1);
    write_images(place / "photos/val", 8, 2);
    save(trained.state_dict(), place / "w.pth");
  }
  Outcome run(const std::string& weights, Arguments more = {}) const {
    Arguments arguments = {"--weights",    weights, "--data",       "photos",
                           "--image-size", "32",    "--batch-size", "8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return place.run(arguments);
  }
};

std::vector<double> accuracies(const std::string& text) {
  std::vector<double> result;
  const std::regex line(R"(epoch +\d+/\d  train loss \d+\.\d{4}\n +test  accuracy (\d\.\d{4})\n)");
  for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end; ++it)
    result.push_back(std::stod((*it)[1]));
  return result;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.to_vector<double>() == b.to_vector<double>();
}

}  // namespace

TEST_CASE("finetune learns new classes, and keeps what is frozen") {
  const Photos photos;
  const Outcome outcome = photos.run("w.pth", {"--epochs", "3", "--save", "best.safetensors"});
  check_fine(outcome);
  CHECK(contains(outcome.out, "120 tensors of w.pth; the head is new, for 2 classes\n"));
  const auto reached = accuracies(outcome.out);
  REQUIRE(reached.size() == 3);
  CHECK(*std::ranges::max_element(reached) >= 0.9);

  const StateDict before = photos.trained.state_dict(),
                  after = load(photos.place / "best.safetensors");
  CHECK(after.size() == before.size());
  for (const auto& [name, tensor] : before) {
    CAPTURE(name);
    const bool frozen =
        name.starts_with("conv1") || name.starts_with("bn1") || name.starts_with("layer1");
    if (name.starts_with("fc"))
      CHECK(after.at(name).size(0) == 2);
    else
      CHECK(same(tensor, after.at(name)) == frozen);  // statistics of norms too
  }
}

TEST_CASE(
    "finetune reads safetensors and checkpoints of wrapped models, and freezes what it is told") {
  const Photos photos;
  data::save_pth(
      data::Value::dict({{"state_dict", photos.trained.state_dict("module.")}, {"epoch", 90}}),
      photos.place / "checkpoint.pth");
  save(photos.trained.state_dict(), photos.place / "w.safetensors");
  const Outcome plain = photos.run("w.safetensors", {"--epochs", "1", "--freeze", ""});
  check_fine(plain);
  CHECK(contains(plain.out, "11177538 of 11177538 parameters are trainable\n"));
  const Outcome head = photos.run(
      "checkpoint.pth", {"--epochs", "1", "--freeze", "conv1, bn1, layer*", "--save", "h.pth"});
  check_fine(head);
  CHECK(contains(head.out, "120 tensors of checkpoint.pth;"));
  CHECK(contains(head.out, "1026 of 11177538 parameters are trainable\n"));
  const StateDict saved = load(photos.place / "h.pth");
  CHECK(same(saved.at("layer4.1.bn2.running_mean"),
             photos.trained.state_dict().at("layer4.1.bn2.running_mean")));
}

TEST_CASE("finetune refuses wrong weights, folders and patterns") {
  const Photos photos;
  const TempDir& dir = photos.place;
  StateDict other = photos.trained.state_dict();
  other.erase("layer3.1.conv2.weight");
  save(other, dir / "less.pth");
  check_refused(photos.run("less.pth"), "it has no 'layer3.1.conv2.weight'");
  other = photos.trained.state_dict();
  other.insert("layer5.weight", from_vector<float>({1}, {1}));
  save(other, dir / "more.pth");
  check_refused(photos.run("more.pth"), "it has 'layer5.weight'");
  check_refused(photos.run("none.pth"), "none.pth");
  check_refused(photos.run("w.pth", {"--freeze", "layer9"}), "layer9");
  check_refused(photos.run("w.pth", {"--epochs", "0"}), "--epochs", -1);
  std::filesystem::rename(dir / "photos/val/rose", dir / "photos/val/tulip");
  check_refused(photos.run("w.pth"), "have different classes");
  std::filesystem::remove_all(dir / "photos/val");
  check_refused(photos.run("w.pth"), "photos/val");
}
