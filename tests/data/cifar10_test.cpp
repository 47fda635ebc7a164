#include "ferrite/data/cifar10.h"

#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::CIFAR10;
using data::parse_cifar10;
using data::Split;

std::string record(int label, char pixel) {
  return std::string(1, static_cast<char>(label)) + std::string(3072, pixel);
}

}  // namespace

TEST_CASE("cifar10: records") {
  const std::string file = record(3, 'a') + record(9, '\xff');
  const data::Batch batch = parse_cifar10(bytes_of(file), "");
  CHECK(batch.inputs.shape() == Shape{2, 3, 32, 32});
  CHECK(batch.inputs.dtype() == kUInt8);
  CHECK(batch.labels.to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 9});
  CHECK(batch.inputs.to_vector<std::int64_t>()[3071] == 'a');
  CHECK(batch.inputs.to_vector<std::int64_t>()[3072] == 255);
}

TEST_CASE("cifar10: the test file") {
  const TempDir dir;
  std::filesystem::create_directories(dir / "cifar-10-batches-bin");
  std::string file;
  for (int i = 0; i < 10000; ++i) file += record(i % 10, static_cast<char>(i % 251));
  const auto path = dir / "cifar-10-batches-bin/test_batch.bin";
  write_file(path, file);
  const CIFAR10 set(dir.path(), Split::test);
  CHECK(set.size() == 10000);
  CHECK(set.classes()[3] == "cat");
  CHECK(set.get(9999).label.item<std::int64_t>() == 9);
  CHECK(set.get(260).input.to_vector<float>()[0] == 9 / 255.0f);

  const std::string text = message_of<IoError>([&] { CIFAR10(dir.path(), Split::train); });
  CHECK(contains(text, "[cifar10] found no data_batch_1.bin"));
  CHECK(contains(text, "cifar-10-binary.tar.gz"));
  write_file(path, std::string_view(file).substr(0, 3073));
  CHECK(contains(message_of<IoError>([&] { CIFAR10(dir.path(), Split::test); }),
                 "expected a file of 30730000 bytes, got 3073"));
  file[3073] = 10;
  write_file(path, file);
  CHECK(contains(message_of<IoError>([&] { CIFAR10(dir.path(), Split::test); }),
                 "at byte 3073: expected a label of 0 to 9, got 10"));
}

TEST_CASE("cifar100: fine labels follow coarse ones") {
  const TempDir dir;
  std::filesystem::create_directories(dir / "cifar-100-binary");
  std::string file;
  for (int i = 0; i < 10000; ++i) file += static_cast<char>(i % 20) + record(i % 100, 'p');
  const auto path = dir / "cifar-100-binary/test.bin";
  write_file(path, file);
  const data::CIFAR100 set(dir.path(), Split::test);
  CHECK(set.size() == 10000);
  CHECK(set.classes().size() == 100);
  CHECK(set.classes()[99] == "worm");
  CHECK(set.get(9977).label.item<std::int64_t>() == 77);
  CHECK(set.get(1).input.to_vector<float>()[0] == 'p' / 255.0f);
  CHECK(contains(message_of<IoError>([&] { data::CIFAR100(dir.path(), Split::train); }),
                 "[cifar100] found no train.bin"));
  for (const auto& [at, value, text] :
       {std::tuple(3074, 20, "at byte 3074: expected a label of 0 to 19, got 20"),
        {3075, 100, "at byte 3075: expected a label of 0 to 99, got 100"}}) {
    std::string wrong = file.substr(0, 2 * 3074);
    wrong[static_cast<std::size_t>(at)] = static_cast<char>(value);
    CHECK(contains(message_of<IoError>([&] { data::parse_cifar100(bytes_of(wrong), ""); }), text));
  }
  const std::string two = file.substr(0, 2 * 3074);
  const auto parse = [](data::Bytes b) { data::parse_cifar100(b, "fuzz"); };
  for (std::size_t n = 0; n < two.size(); ++n)
    CHECK(survives(std::string_view(two).substr(0, n), parse) == (n == 3074));
}

TEST_CASE("cifar10: fuzz") {
  const std::string file = record(3, 'a') + record(9, 'b');
  const auto parse = [](data::Bytes b) { parse_cifar10(b, "fuzz"); };
  for (std::size_t n = 0; n < file.size(); ++n)
    CHECK(survives(std::string_view(file).substr(0, n), parse) == (n == 3073));
  fuzz_flips(file, 500, parse);
}
