#include "ferrite/data/svhn.h"

#include "ferrite/tests/data/files.h"
#include "ferrite/tests/paths.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

// Made by make_svhn.py.
const std::filesystem::path kFolder = std::filesystem::path(source_dir()) / "tests/data/svhn";

}  // namespace

TEST_CASE("svhn: files as SciPy and MATLAB write them, compressed or not") {
  const data::SVHN train(kFolder);
  CHECK(train.size() == 3);
  CHECK(train.labels().to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 9});
  CHECK(train.classes()[9] == "9");
  CHECK(train.images().shape() == Shape{3, 3, 32, 32});
  const auto pixels = train.images().to_vector<std::int64_t>();
  std::size_t at = 0, wrong = 0;
  for (int n = 0; n < 3; ++n)
    for (int c = 0; c < 3; ++c)
      for (int h = 0; h < 32; ++h)
        for (int w = 0; w < 32; ++w)
          wrong += pixels[at++] != (h * 7 + w * 3 + c * 50 + n * 11) % 256;
  CHECK(wrong == 0);
  const data::SVHN test(kFolder, data::Split::test);  // with labels of float64
  CHECK(test.size() == 1);
  CHECK(test.get(0).label.item<std::int64_t>() == 0);
  CHECK(contains(message_of<IoError>([&] { data::SVHN(kFolder, data::SvhnSplit::extra); }),
                 "[svhn] found no extra_32x32.mat"));
}

TEST_CASE("svhn: damaged files") {
  const auto refused = [](const std::string& file, std::string_view text) {
    const std::string message =
        message_of<IoError>([&] { data::parse_svhn(bytes_of(file), "file"); });
    CHECK_MESSAGE(contains(message, text), message);
  };
  const std::string plain = read_file(kFolder / "test_32x32.mat");
  const std::string packed = read_file(kFolder / "train_32x32.mat");
  refused(plain.substr(0, 100), "MATLAB file of version 5");
  refused(plain.substr(0, 128), "expected the arrays X and y, found neither");
  refused(plain.substr(0, plain.size() - 8), "does not fit into the file");
  std::string wrong = packed;
  wrong[300] = static_cast<char>(wrong[300] ^ 8);
  CHECK_THROWS_AS(data::parse_svhn(bytes_of(wrong), "file"), IoError);
  wrong = plain;
  const auto at = wrong.rfind("\x24\x40");  // the end of the number 10
  REQUIRE(at != std::string::npos);
  wrong[at] = '\x26';  // 11
  CHECK_THROWS_AS(data::parse_svhn(bytes_of(wrong), "file"), IoError);
  const auto parse = [](data::Bytes b) { data::parse_svhn(b, "fuzz"); };
  for (const std::string& file : {plain, packed}) {
    fuzz_truncations(file, parse);
    fuzz_flips(file, 1000, parse);
    fuzz_flips(file.substr(0, 400), 1000, parse);
  }
}
