// Whole files: lazy reading, mapping, checksums, exchange with Python.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "ferrite/data/safetensors.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/paths.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::SafetensorsFile;

StateDict sample() {
  return {{"model.weight", from_vector<float>({1, -2, 0.5F, 4}, {2, 2})},
          {"model.steps", from_vector<std::int64_t>({7}, {})},
          {"model.mask", from_vector<bool>({true, false, true}, {3})},
          {"optimizer.half", from_vector<Half>({Half(1.5F), Half(-2.0F)}, {2})},
          {"empty", empty({0, 3})}};
}

/// The offset of a tensor's bytes in the file.
std::size_t place_of(const std::string& file, std::string_view bytes) {
  const std::size_t at = file.rfind(bytes);
  REQUIRE(at != std::string::npos);
  return at;
}

std::string load_error(const std::filesystem::path& path,
                       const data::SafetensorsOptions& options = {}) {
  return message_of<IoError>([&] { load(path, options); });
}

}  // namespace

TEST_CASE("safetensors file: tensors of dtypes that Ferrite does not have are listed") {
  const TempDir dir;
  const auto path = dir / "m.safetensors";
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U16","shape":[2],"data_offsets":[4,8]},)"
                             R"("c":{"dtype":"F4","shape":[2,4],"data_offsets":[8,12]},)"
                             R"("d":{"dtype":"BOOL","shape":[1],"data_offsets":[12,13]}})";
  std::string bytes;
  data::append_little(bytes, static_cast<std::uint64_t>(header.size()));
  write_file(path, bytes + header + std::string("\0\0\x80\x3f\7\7\7\7\7\7\7\7\1", 13));
  const SafetensorsFile file(path);
  CHECK(file.names() == std::vector<std::string>{"a", "b", "c", "d"});
  const data::TensorInfo info = file.info("c");
  CHECK(info.foreign_dtype == "F4");
  CHECK(info.shape == Shape{2, 4});
  CHECK(info.nbytes == 4);
  CHECK(file.info("a").foreign_dtype.empty());
  file.verify();
  CHECK(file.get("a").item<float>() == 1);
  CHECK(file.get("d").item<bool>());
  CHECK(contains(message_of<IoError>([&] { file.get("b"); }),
                 "tensor 'b' is \"U16\", which Ferrite does not have"));
  CHECK(contains(load_error(path), "tensor 'b' is \"U16\""));
  CHECK(load(path, {.only_prefix = "a"}).size() == 1);
}

TEST_CASE("safetensors file: names, types and shapes without reading the data") {
  const TempDir dir;
  save(sample(), dir / "m.safetensors", {{"epoch", "3"}});
  const SafetensorsFile file(dir / "m.safetensors");
  CHECK(file.names() == std::vector<std::string>{"model.weight", "model.steps", "model.mask",
                                                 "optimizer.half", "empty"});
  CHECK(file.contains("model.mask"));
  CHECK_FALSE(file.contains("model"));
  const data::TensorInfo info = file.info("model.weight");
  CHECK(info.dtype == kFloat32);
  CHECK(info.shape == Shape{2, 2});
  CHECK(info.nbytes == 16);
  CHECK(info.device == "cpu");
  CHECK(file.metadata() == data::Metadata{{"epoch", "3"}});
  CHECK(file.get("optimizer.half").to_vector<float>() == std::vector<float>{1.5F, -2});
  CHECK_THROWS_AS(file.get("weight"), IndexError);
  CHECK_THROWS_AS(file.info("weight"), IndexError);
  CHECK_THROWS_AS(save({}, dir / "m", {{"ferrite.tensors", "{}"}}), ValueError);
}

TEST_CASE("safetensors file: loads a prefix without reading the rest") {
  const TempDir dir;
  save(sample(), dir / "m");
  // Data that is not requested may be damaged.
  std::string bytes = read_file(dir / "m");
  bytes[place_of(bytes, std::string("\0\x3e\0\xc0", 4))] ^= 1;
  write_file(dir / "m", bytes);
  const StateDict all = load(dir / "m", {.only_prefix = "model."});
  CHECK(all.size() == 3);
  CHECK(all.contains("model.steps"));
  const StateDict model = load(dir / "m", {.only_prefix = "model.", .strip_prefix = "model."});
  CHECK(model.at("weight").to_vector<float>() == std::vector<float>{1, -2, 0.5F, 4});
  CHECK(contains(load_error(dir / "m"), "tensor 'optimizer.half' is damaged"));
  CHECK(load(dir / "m", {.only_prefix = "none"}).empty());
}

TEST_CASE(
    "safetensors file: mapped tensors outlive the file's name and keep writes to themselves") {
  const TempDir dir;
  save(sample(), dir / "m");
  const std::string bytes = read_file(dir / "m");
  std::size_t before = memory_allocated(Device());
  StateDict mapped = load(dir / "m", {.mmap = true});
  CHECK(memory_allocated(Device()) == before);
  save({{"model.weight", from_vector<float>({9}, {1})}}, dir / "m");  // replaced by rename
  CHECK(mapped.at("model.weight").to_vector<float>() == std::vector<float>{1, -2, 0.5F, 4});
  std::filesystem::remove(dir / "m");
  const Tensor weight = mapped.at("model.weight");
  mapped = {};
  CHECK(weight.to_vector<float>() == std::vector<float>{1, -2, 0.5F, 4});

  write_file(dir / "n", bytes);
  const Tensor changed = load(dir / "n", {.mmap = true}).at("model.weight");
  changed.data<float>()[0] = 42;
  CHECK(changed.to_vector<float>()[0] == 42);
  CHECK(read_file(dir / "n") == bytes);
  CHECK(load(dir / "n").at("model.weight").to_vector<float>()[0] == 1);

  // Data that another program did not align is copied.
  std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  std::string odd;
  data::append_little(odd, static_cast<std::uint64_t>(header.size()));
  write_file(dir / "odd", odd + header + std::string("\1\0\0\x80\x3f", 5));
  CHECK(load(dir / "odd", {.mmap = true}).at("b").item<float>() == 1);
}

TEST_CASE("safetensors file: map_location on a machine without the saved devices") {
  const TempDir dir;
  const Device virtual0("cpu:0"), virtual1("cpu:1");
  const Tensor there = empty({3}, {.dtype = kInt64, .device = virtual0});
  current_stream(virtual0).enqueue(
      [p = there.data<std::int64_t>()] { p[0] = 1, p[1] = 2, p[2] = 3; });
  save({{"a", there}, {"b", from_vector<float>({5}, {1})}}, dir / "m");
  const auto device_of_a = [&](const data::SafetensorsOptions& options) {
    const StateDict dict = load(dir / "m", options);
    CHECK(dict.at("a").to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2, 3});
    CHECK(dict.at("b").to_vector<float>() == std::vector<float>{5});
    return dict.at("a").device().str() + " " + dict.at("b").device().str();
  };
  CHECK(SafetensorsFile(dir / "m").info("a").device == "cpu:0");
  CHECK(device_of_a({}) == "cpu cpu");
  CHECK(device_of_a({.map_location = virtual1}) == "cpu:1 cpu:1");
  CHECK(device_of_a({.map_location = "cpu:1"}) == "cpu:1 cpu:1");
  CHECK(device_of_a({.map_location = {{"cpu:0", "cpu:2"}}}) == "cpu:2 cpu");
  CHECK(device_of_a({.map_location = {{"cpu:0", "cpu:2"}, {"cpu", "cpu:0"}}}) == "cpu:2 cpu:0");
  CHECK(device_of_a({.map_location = data::MapLocation::as_saved()}) == "cpu:0 cpu");
  CHECK(device_of_a({.map_location = data::MapLocation::as_saved(), .mmap = true}) == "cpu:0 cpu");
  CHECK(device_of_a({.map_location = [](std::string_view saved) {
          return Device(saved == "cpu:0" ? "cpu:3" : "cpu");
        }}) == "cpu:3 cpu");

  const auto text = message_of<DeviceError>([&] {
    load(dir / "m", {.map_location = {{"cpu:0", "cuda:62"}}});
  });
  CHECK(contains(text, "tensor 'a' was saved on cpu:0"));
  CHECK(contains(text, "cuda"));
  CHECK(contains(text, R"({{"cpu:0", "cpu"}})"));
}

TEST_CASE("safetensors file: checksums name the tensor that is damaged") {
  const TempDir dir;
  save(sample(), dir / "m", {{"step", "1234"}});
  const std::string bytes = read_file(dir / "m");
  const std::size_t data_offset = 8 + data::load_little<std::uint64_t>(bytes_of(bytes).data());
  const char* const names[] = {"model.steps", "model.weight", "optimizer.half", "model.mask"};
  const std::size_t ends[] = {8, 24, 28, 31};
  REQUIRE(bytes.size() == data_offset + 31);
  for (std::size_t at = 0; at < 31; ++at) {
    CAPTURE(at);
    std::string changed = bytes;
    changed[data_offset + at] ^= 0x10;
    write_file(dir / "bad", changed);
    std::size_t tensor = 0;
    while (ends[tensor] <= at) ++tensor;
    for (const bool mmap : {false, true}) {
      const std::string text = load_error(dir / "bad", {.mmap = mmap});
      CHECK(contains(text, fmt::format("tensor '{}' is damaged", names[tensor])));
    }
    // The bytes from 28 on would not be valid bools.
    if (at < 28) CHECK(load(dir / "bad", {.checksums = false}).size() == 5);
  }

  // In the header: a name, a value of the metadata.
  for (const auto& [from, to] : {std::pair("model.mask", "model.musk"), {"1234", "1235"}}) {
    std::string changed = bytes;
    for (std::size_t at = changed.find(from); at != std::string::npos; at = changed.find(from))
      changed.replace(at, std::strlen(to), to);
    write_file(dir / "bad", changed);
    CHECK(contains(load_error(dir / "bad"), "checksum of the header is wrong"));
    CHECK(load(dir / "bad", {.checksums = false}).size() == 5);
  }

  save(sample(), dir / "plain", {}, {.checksums = false});
  CHECK_FALSE(contains(read_file(dir / "plain"), "ferrite."));
  CHECK(load(dir / "plain").size() == 5);

  const std::string large(5'000'001, 'x');
  CHECK(data::parallel_crc32_of(bytes_of(large)) == data::crc32_of(bytes_of(large)));
  CHECK(data::crc32_of(bytes_of("123456789")) == 0xcbf43926);
}

TEST_CASE("safetensors file: a header that claims too much allocates no memory") {
  const std::string claim = R"({"a":{"dtype":"F32","shape":[26843545600],)"
                            R"("data_offsets":[0,107374182400]}})";
  std::string file;
  data::append_little(file, static_cast<std::uint64_t>(claim.size()));
  file += claim + std::string(1024 - file.size() - claim.size(), 'x');
  const TempDir dir;
  write_file(dir / "m", file);
  reset_peak_memory_stats(Device());
  const std::size_t before = memory_allocated(Device());
  for (const bool mmap : {false, true})
    CHECK(contains(load_error(dir / "m", {.mmap = mmap}), "truncated"));
  CHECK(max_memory_allocated(Device()) == before);
}

namespace {

/// One random change of a header's text, of the kinds that break readers.
std::string mutated(std::string text, Generator& random) {
  static const std::string kPieces[] = {"9223372036854775807",
                                        "18446744073709551616",
                                        "-1",
                                        "1e3",
                                        "0.5",
                                        "null",
                                        "true",
                                        "[]",
                                        "{}",
                                        "\"\"",
                                        "\\u0000",
                                        "\\ud800",
                                        "\xff",
                                        "\xc3\xa9",
                                        "\"F64\"",
                                        "\"BOOL\"",
                                        "\"__metadata__\"",
                                        "[[[[",
                                        "}}",
                                        ",",
                                        ":",
                                        " ",
                                        "0",
                                        "1",
                                        "4",
                                        "8",
                                        "16",
                                        "4294967296",
                                        "ferrite.tensors"};
  const std::size_t at = random.next_below(text.size());
  const std::size_t length = std::min<std::size_t>(random.next_below(12), text.size() - at);
  const std::string& piece = kPieces[random.next_below(std::size(kPieces))];
  switch (random.next_below(6)) {
    case 0:
      text[at] = static_cast<char>(random.next_below(256));
      break;
    case 1:
      text[at] = static_cast<char>(text[at] ^ (1 << random.next_below(8)));
      break;
    case 2:
      text.erase(at, length);
      break;
    case 3:
      text.insert(at, text.substr(random.next_below(text.size()), 1 + length));
      break;
    case 4:
      text.insert(at, piece);
      break;
    default: {  // a whole number or word
      const std::size_t begin = text.find_first_of("0123456789\"", at);
      if (begin == std::string::npos) break;
      const std::size_t end = text.find_first_of(",]}:", begin);
      text.replace(begin, end == std::string::npos ? end : end - begin, piece);
    }
  }
  return text;
}

/// Accepts only an IoError, or tensors inside the data.
void expect_refusal_or_tensors(const std::string& file) {
  try {
    const StateDict dict = data::parse_safetensors(bytes_of(file), "fuzz");
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : dict) bytes += tensor.nbytes();
    CHECK(bytes <= file.size());
  } catch (const IoError&) {
  }
}

}  // namespace

TEST_CASE("safetensors file: mutated headers are refused with an IoError and nothing else") {
  const TempDir dir;
  Generator random(11);
  for (const bool checksums : {false, true}) {
    save(sample(), dir / "m", {{"note", "text"}}, {.checksums = checksums});
    const std::string file = read_file(dir / "m");
    const std::size_t length = data::load_little<std::uint64_t>(bytes_of(file).data());
    for (int round = 0; round < 4000; ++round) {
      std::string header = file.substr(8, length);
      for (std::uint64_t i = 1 + random.next_below(3); i > 0; --i) header = mutated(header, random);
      std::string changed;
      // Mostly with the right length, so that the parser reaches the change.
      data::append_little(changed, random.next_below(10) ? header.size() : random.next_u64());
      changed += header + file.substr(8 + length);
      if (!random.next_below(4)) changed.resize(random.next_below(changed.size()));
      CAPTURE(round);
      expect_refusal_or_tensors(changed);
    }
  }
}

namespace {

/// The output of a command; nothing if it fails, with the reason in `why`.
std::string output_of(const std::string& command, std::string& why) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return out;
  why = out;
  return "";
}

}  // namespace

TEST_CASE("safetensors file: reads files of Python's package") {
  const auto path =
      std::filesystem::path(source_dir()) / "tests" / "golden" / "exchange.safetensors";
  for (const bool mmap : {false, true}) {
    const SafetensorsFile file(path, {.mmap = mmap});
    const StateDict dict = file.load();
    CHECK(dict.size() == 11);
    CHECK(dict.at("layer1.0.conv1.weight").shape() == Shape{2, 1, 1, 3});
    CHECK(dict.at("layer1.0.conv1.weight").to_vector<float>() ==
          std::vector<float>{0.5F, -1, 2, 1e-30F, -0.0F, 3e38F});
    CHECK(dict.at("half").to_vector<float>() == std::vector<float>{1, -2, 65504});
    CHECK(dict.at("brain").to_vector<float>() == std::vector<float>{1, -3});
    CHECK(dict.at("double").to_vector<double>() == std::vector<double>{0.1, -1e300});
    CHECK(dict.at("steps").to_vector<std::int64_t>() ==
          std::vector<std::int64_t>{-(std::int64_t{1} << 62), 7});
    CHECK(dict.at("counts").item<std::int32_t>() == -123456789);
    CHECK(dict.at("bytes").to_vector<int>() == std::vector<int>{0, 1, 127, 128, 255});
    CHECK(dict.at("mask").to_vector<bool>() == std::vector<bool>{true, false, true});
    CHECK(dict.at("scalar").dim() == 0);
    CHECK(dict.at("empty").shape() == Shape{0, 4});
    CHECK(dict.at("gr\xc3\xb6\xc3\x9f"
                  "e \"x\"\n")
              .item<int>() == 9);
    CHECK(file.metadata() == data::Metadata{{"format", "pt"}, {"note", "\xc3\xa9 \"quoted\""}});
    CHECK(file.info("half").device == "cpu");
  }
}

TEST_CASE("safetensors file: Python reads our files") {
  std::string why;
  if (output_of("python3 -c 'import json, math, struct, sys, zlib; math.prod'", why).empty() &&
      !why.empty()) {
    MESSAGE("skipped: no Python 3.8 or later: ", why);
    return;
  }
  const TempDir dir;
  StateDict dict = sample();
  dict.insert("brain", from_vector<BFloat16>({BFloat16(1.0F), BFloat16(-3.0F)}, {2}));
  dict.insert("double", from_vector<double>({0.5, -1e300}, {2}));
  dict.insert("int32", from_vector<std::int32_t>({-5}, {1}));
  dict.insert("\xc3\xa9\"\\", from_vector<std::uint8_t>({0, 255}, {1, 2}));
  const std::string script = source_dir() + "/tests/golden/read_safetensors.py";
  for (const bool checksums : {true, false}) {
    save(dict, dir / "m", {{"note", "a \"b\" \xc3\xa9"}, {"epoch", "3"}}, {.checksums = checksums});
    const std::string out =
        output_of(fmt::format("python3 '{}' '{}'", script, (dir / "m").string()), why);
    CAPTURE(why);
    CHECK(out == std::string(R"({"epoch": "3", "note": "a \"b\" \u00e9"}
["model.weight", "F32", [2, 2], [1.0, -2.0, 0.5, 4.0]]
["model.steps", "I64", [], [7]]
["model.mask", "BOOL", [3], [true, false, true]]
["optimizer.half", "F16", [2], [1.5, -2.0]]
["empty", "F32", [0, 3], []]
["brain", "BF16", [2], [1.0, -3.0]]
["double", "F64", [2], [0.5, -1e+300]]
["int32", "I32", [1], [-5]]
["\u00e9\"\\", "U8", [1, 2], [0, 255]]
{"checksums": )") + (checksums ? "10}\n" : "0}\n"));
  }
}
