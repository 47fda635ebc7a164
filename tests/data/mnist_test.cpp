#include "ferrite/data/mnist.h"

#include <cmath>
#include <cstdlib>

#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::EMNIST;
using data::FashionMNIST;
using data::MNIST;
using data::Split;

std::string image_file(std::uint32_t n, char pixel, std::uint32_t width = 28) {
  return std::string("\0\0\x08\3", 4) + big32(n) + big32(28) + big32(width) +
         std::string(std::size_t{n} * 28 * width, pixel);
}
std::string label_file(const std::string& labels) {
  return std::string("\0\0\x08\1", 4) + big32(static_cast<std::uint32_t>(labels.size())) + labels;
}

void write_set(const std::filesystem::path& folder, std::string_view prefix,
               const std::string& images, const std::string& labels, std::string_view end = "") {
  std::filesystem::create_directories(folder);
  const bool compress = end == ".gz";
  write_file(folder / fmt::format("{}-images-idx3-ubyte{}", prefix, end),
             compress ? gzip(images) : images);
  write_file(folder / fmt::format("{}-labels-idx1-ubyte{}", prefix, end),
             compress ? gzip(labels) : labels);
}

struct Moments {
  double mean, deviation;
};

Moments moments(const Tensor& images) {
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < images.numel(); ++i) {
    const double v = images.data<std::uint8_t>()[i] / 255.0;
    sum += v, squares += v * v;
  }
  const auto n = static_cast<double>(images.numel());
  return {sum / n, std::sqrt(squares / n - sum / n * (sum / n))};
}

template <class Set>
void check_real(const char* name) {
  const char* root = std::getenv("FERRITE_DATA");
  if (!root) {
    MESSAGE("skipped: set FERRITE_DATA to the folder that holds " << std::string(name));
    return;
  }
  try {
    Set(root, Split::test);
  } catch (const IoError& error) {
    if (!contains(error.what(), "found no")) throw;
    MESSAGE("skipped: " << error.what());
    return;
  }
  const Set train(root), test(root, Split::test);
  CHECK(train.size() == 60000);
  CHECK(test.size() == 10000);
  CHECK(train.images().shape() == Shape{60000, 1, 28, 28});
  CHECK(train.classes().size() == 10);
  const Moments m = moments(train.images());
  CHECK(std::abs(m.mean - Set::kMean) < 5e-5);
  CHECK(std::abs(m.deviation - Set::kStd) < 5e-5);
  std::vector<int> count(10);
  for (const std::int64_t label : test.labels().template to_vector<std::int64_t>())
    ++count[static_cast<std::size_t>(label)];
  CHECK(*std::min_element(count.begin(), count.end()) > 800);
}

}  // namespace

TEST_CASE("mnist: the folders and names it is found under") {
  for (const char* folder : {"", "mnist", "MNIST/raw", "MNIST"}) {
    for (const char* end : {"", ".gz"}) {
      const TempDir dir;
      write_set(dir.path() / folder, "train", image_file(3, '\x80'), label_file({7, 0, 9}), end);
      const MNIST set(dir.path());
      CHECK(set.size() == 3);
      CHECK(set.get(0).input.shape() == Shape{1, 28, 28});
      CHECK(set.get(0).input.to_vector<float>()[0] == 128 / 255.0f);
      CHECK(set.labels().to_vector<std::int64_t>() == std::vector<std::int64_t>{7, 0, 9});
    }
  }
  const TempDir dir;
  write_set(dir.path() / "fashion-mnist", "t10k", image_file(1, 'a'), label_file({9}));
  const FashionMNIST set(dir.path(), Split::test);
  CHECK(set.classes()[static_cast<std::size_t>(set.labels().item<std::int64_t>())] == "Ankle boot");
}

TEST_CASE("emnist: splits have their files and classes") {
  const TempDir dir;
  for (const auto& [which, classes, last] : {std::tuple("byclass", 62, "z"),
                                             {"bymerge", 47, "t"},
                                             {"balanced", 47, "t"},
                                             {"letters", 27, "z"},
                                             {"digits", 10, "9"},
                                             {"mnist", 10, "9"}}) {
    CAPTURE(which);
    for (const char* part : {"train", "test"})
      write_set(dir / "EMNIST/raw", fmt::format("emnist-{}-{}", which, part), image_file(2, 'a'),
                label_file({static_cast<char>(classes - 1), 1}), ".gz");
    const EMNIST set(dir.path(), which);
    CHECK(set.classes().size() == static_cast<std::size_t>(classes));
    CHECK(set.classes().back() == last);
    CHECK(set.labels().to_vector<std::int64_t>() == std::vector<std::int64_t>{classes - 1, 1});
    CHECK(EMNIST(dir.path(), which, Split::test).size() == 2);
  }
  CHECK(contains(message_of<ValueError>([&] { EMNIST(dir.path(), "all"); }), "got 'all'"));
  write_set(dir / "EMNIST/raw", "emnist-digits-train", image_file(1, 'a'), label_file({10}), ".gz");
  CHECK(contains(message_of<IoError>([&] { EMNIST(dir.path(), "digits"); }), "the label 10"));
}

TEST_CASE("mnist: errors name missing files") {
  const TempDir dir;
  const std::string text = message_of<IoError>([&] { MNIST(dir.path()); });
  CHECK(contains(text, "[mnist] found no train-images-idx3-ubyte"));
  CHECK(contains(text, (dir / "MNIST/raw").string()));
  CHECK(contains(text, "https://"));
  CHECK_THROWS_AS(FashionMNIST("/no/such/folder"), IoError);
}

TEST_CASE("mnist: files that do not fit") {
  const auto refusal = [](const std::string& images, const std::string& labels) {
    const TempDir dir;
    write_set(dir.path(), "train", images, labels);
    return message_of<IoError>([&] { MNIST(dir.path()); });
  };
  CHECK(contains(refusal(image_file(2, 'a'), label_file({1, 10})), "image 1 the label 10"));
  CHECK(contains(refusal(image_file(2, 'a'), label_file({1})), "expected uint8[2]"));
  CHECK(contains(refusal(image_file(2, 'a', 27), label_file({1, 2})), "expected uint8[N, 28, 28]"));
  CHECK(contains(refusal(label_file({1, 2}), label_file({1, 2})), "expected uint8[N, 28, 28]"));
  CHECK(contains(refusal(image_file(2, 'a').substr(0, 99), label_file({1, 2})), "truncated"));
}

TEST_CASE("mnist: the real MNIST") { check_real<MNIST>("MNIST"); }
TEST_CASE("mnist: the real Fashion-MNIST") { check_real<FashionMNIST>("Fashion-MNIST"); }
