// The program examples/classify, run like users do.
#include <algorithm>
#include <fstream>
#include <sstream>

#include "ferrite/core/generator.h"
#include "ferrite/data/png.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("classify prints the most probable classes of a picture") {
  const Workplace place{"classify"};
  manual_seed(3);
  nn::ResNet18 net(3);
  net.eval();
  save(net.state_dict(), place / "w.safetensors");
  std::ofstream(place / "names.txt") << "ash\nbirch\ncedar\n";
  const Tensor image = empty({3, 36, 36}, {.dtype = kUInt8});
  Generator random(1);
  for (std::int64_t p = 0; p < image.numel(); ++p)
    image.data<std::uint8_t>()[p] = static_cast<std::uint8_t>(random.next_below(256));
  data::write_png(image, place / "a.png");

  const Outcome outcome = place.run(
      {"--weights", "w.safetensors", "--labels", "names.txt", "--image-size", "32", "a.png"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  // The resized picture is as large as before, so the crop is its middle.
  Tensor x = image.slice(1, 2, 34).slice(2, 2, 34).to(kFloat32) / 255;
  const std::vector<float> mean{0.485F, 0.456F, 0.406F}, std{0.229F, 0.224F, 0.225F};
  x = (x - from_vector(mean, {3, 1, 1})) / from_vector(std, {3, 1, 1});
  const auto scores = softmax(net(x.unsqueeze(0)), 1)[0].to_vector<double>();
  const std::vector<std::string> names{"ash", "birch", "cedar"};
  std::vector<std::size_t> order{0, 1, 2};
  std::ranges::sort(order, [&](auto a, auto b) { return scores[a] > scores[b]; });
  std::istringstream lines(outcome.out);
  std::string line;
  std::getline(lines, line);
  CHECK(line == "a.png");
  for (const std::size_t i : order) {
    double score = 0;
    std::string name;
    lines >> score >> name;
    REQUIRE(lines.good());
    CHECK(name == names[i]);
    CHECK(score == doctest::Approx(scores[i]).epsilon(1e-3));
  }

  const Outcome wrong =
      place.run({"--weights", "w.safetensors", "--labels", "absent.txt", "a.png"});
  CHECK(wrong.code == 1);
  CHECK(wrong.err.find("absent.txt") != std::string::npos);
}
