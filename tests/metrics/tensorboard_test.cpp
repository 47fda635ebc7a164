// Event files, read back by the test's own parser, which checks every CRC, and by TensorBoard's
// reader if the Python package is installed.
#include "ferrite/metrics/tensorboard.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/data/png.h"
#include "ferrite/metrics/event_file.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/paths.h"

using namespace ferrite;
using namespace ferrite::metrics;
using namespace ferrite::test;
namespace fs = std::filesystem;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A protocol buffers message as its fields, in order.
struct Field {
  std::uint64_t number = 0;  ///< varint, or the bits of a fixed one
  std::string bytes;
};
using Fields = std::multimap<std::uint32_t, Field>;

Fields parse_message(std::string_view text) {
  Fields fields;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE_FALSE(text.empty());
      const auto byte = static_cast<unsigned char>(text[0]);
      text.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  const auto take = [&](std::size_t n) {
    REQUIRE(n <= text.size());
    const std::string_view part = text.substr(0, n);
    text.remove_prefix(n);
    return part;
  };
  const auto fixed = [&](std::size_t n) {
    std::uint64_t value = 0;
    const std::string_view part = take(n);
    for (std::size_t i = n; i-- > 0;) value = value << 8 | static_cast<unsigned char>(part[i]);
    return value;
  };
  while (!text.empty()) {
    const std::uint64_t key = varint();
    Field field;
    switch (key & 7) {
      case 0:
        field.number = varint();
        break;
      case 1:
        field.number = fixed(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        field.number = fixed(4);
        break;
      default:
        FAIL("wire type ", key & 7);
    }
    fields.emplace(static_cast<std::uint32_t>(key >> 3), field);
  }
  return fields;
}

Field one(const Fields& fields, std::uint32_t number) {
  REQUIRE(fields.count(number) == 1);
  return fields.find(number)->second;
}
double as_double(const Field& field) { return std::bit_cast<double>(field.number); }
std::vector<double> packed(const Field& field) {
  std::vector<double> values(field.bytes.size() / 8);
  std::memcpy(values.data(), field.bytes.data(), field.bytes.size());
  return values;
}

struct LoggedEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  Fields fields;

  /// Its only Summary.Value.
  Fields value() const { return parse_message(one(parse_message(one(fields, 5).bytes), 1).bytes); }
  std::string tag() const { return one(value(), 1).bytes; }
};

std::vector<LoggedEvent> parse_events(const fs::path& path) {
  const std::string text = read_file(path);
  std::vector<LoggedEvent> events;
  for (std::size_t at = 0; at < text.size();) {
    REQUIRE(at + 16 <= text.size());
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data()) + at;
    const auto length = data::load_little<std::uint64_t>(bytes);
    CHECK(data::load_little<std::uint32_t>(bytes + 8) == masked_crc32c(text.substr(at, 8)));
    REQUIRE(at + 16 + length <= text.size());
    const std::string data = text.substr(at + 12, length);
    CHECK(data::load_little<std::uint32_t>(bytes + 12 + length) == masked_crc32c(data));
    at += 16 + length;
    LoggedEvent event;
    event.fields = parse_message(data);
    event.wall_time = as_double(one(event.fields, 1));
    if (event.fields.contains(2))
      event.step = static_cast<std::int64_t>(one(event.fields, 2).number);
    events.push_back(event);
  }
  return events;
}

fs::path only_file(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  REQUIRE(files.size() == 1);
  return files[0];
}

/// A Python that has TensorBoard, or "" with the reason.
std::string tensorboard_python() {
  const fs::path root = fs::path(bin_dir()).parent_path();
  for (const std::string& python :
       {(root / "tensorboard/bin/python").string(),
        (root.parent_path() / "tensorboard/bin/python").string(), std::string("python3")}) {
    const std::string command =
        python + " -c 'import tensorboard.backend.event_processing.event_accumulator' 2>/dev/null";
    if (std::system(command.c_str()) == 0) return python;
  }
  MESSAGE(
      "skipped: no python3 has the package tensorboard (scripts/install_python.sh tensorboard)");
  return "";
}

nlohmann::json read_by_tensorboard(const std::string& python, const TempDir& dir,
                                   const fs::path& folder) {
  const std::string out = (dir / "read.json").string(), err = (dir / "read.err").string();
  const std::string command = python + " " + source_dir() + "/tests/metrics/read_events.py " +
                              folder.string() + " >" + out + " 2>" + err;
  REQUIRE_MESSAGE(std::system(command.c_str()) == 0, read_file(err));
  return nlohmann::json::parse(read_file(out));
}

}  // namespace

TEST_CASE("CRC-32C and its mask") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283u);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);  // RFC 3720, B.4
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  CHECK(masked_crc32c("") == 0xa282ead8u);
  // The eight bytes of a length of 24, as at the start of TensorFlow's event files.
  CHECK(tfrecord(std::string(24, 'x')).substr(0, 12) ==
        std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
}

TEST_CASE("SummaryWriter's files begin as TensorBoard expects, and hold the added events") {
  const TempDir dir;
  SummaryWriter writer(dir / "run", {.filename_suffix = ".x"});
  writer.add_scalar("loss/train", 0.25, 7, 1234.5);
  writer.add_scalar("loss/train", kNaN, 0);
  writer.add_scalar("größe", -1e300, std::int64_t{1} << 40);
  writer.add_scalar("negative", 1, -3);
  writer.add_text("notes", "**bold**", 2);
  writer.close();
  const fs::path path = only_file(dir / "run");
  const std::string name = path.filename().string();
  CHECK(name.starts_with("events.out.tfevents."));
  CHECK(contains(name, "." + std::to_string(getpid()) + "."));
  CHECK(name.ends_with(".x"));

  const std::vector<LoggedEvent> events = parse_events(path);
  REQUIRE(events.size() == 6);
  CHECK(one(events[0].fields, 3).bytes == "brain.Event:2");
  CHECK(events[0].wall_time > 1.7e9);
  CHECK(events[1].wall_time == 1234.5);
  CHECK(events[1].step == 7);
  CHECK(events[1].tag() == "loss/train");
  const auto value = [&](std::size_t i) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(one(events[i].value(), 2).number));
  };
  CHECK(value(1) == 0.25f);
  CHECK(events[2].step == 0);
  CHECK(std::isnan(value(2)));
  CHECK(events[3].step == std::int64_t{1} << 40);
  CHECK(value(3) == -std::numeric_limits<float>::infinity());
  CHECK(events[3].tag() == "größe");
  CHECK(events[4].step == -3);
  CHECK(events[5].tag() == "notes/text_summary");
  CHECK(one(parse_message(one(events[5].value(), 8).bytes), 8).bytes == "**bold**");
}

TEST_CASE("histograms: exact sums, and buckets that cover every value") {
  const TempDir dir;
  Generator generator(1);
  SummaryWriter writer(dir / "run");
  const Tensor values = randn({500}, {}, &generator);
  writer.add_histogram("w", values.reshape({5, 100}).t(), 1);
  writer.add_histogram("one", tensor(0.0), 1);
  writer.add_histogram("ints", tensor({-3, 5, 5}), 1);
  writer.add_histogram("odd", tensor({kNaN, 1e30, -1e30, INFINITY, 1.0}, {.dtype = kFloat64}), 1);
  writer.add_histogram("none", tensor({kNaN}), 1);
  CHECK_THROWS_AS(writer.add_histogram("empty", zeros({0}), 1), ValueError);
  writer.flush();
  const std::vector<LoggedEvent> events = parse_events(only_file(dir / "run"));
  REQUIRE(events.size() == 6);
  const std::vector<double> all = values.to_vector<double>();
  for (std::size_t i = 1; i < events.size(); ++i) {
    const Fields histogram = parse_message(one(events[i].value(), 5).bytes);
    const auto limits = packed(one(histogram, 6)), counts = packed(one(histogram, 7));
    REQUIRE(limits.size() == counts.size());
    REQUIRE_FALSE(limits.empty());
    CHECK(std::ranges::is_sorted(limits));
    double number = 0;
    for (const double c : counts) number += c;
    CHECK(number == as_double(one(histogram, 3)));
    if (i != 1) continue;
    double sum = 0, squares = 0;
    for (const double v : all) sum += v, squares += v * v;
    CHECK(as_double(one(histogram, 1)) == std::ranges::min(all));
    CHECK(as_double(one(histogram, 2)) == std::ranges::max(all));
    CHECK(number == 500);
    CHECK(as_double(one(histogram, 4)) == doctest::Approx(sum));
    CHECK(as_double(one(histogram, 5)) == doctest::Approx(squares));
    CHECK(counts.front() == 0);
    for (std::size_t b = 1; b < limits.size(); ++b) {
      double expected = 0;
      for (const double v : all) expected += v >= limits[b - 1] && v < limits[b];
      CHECK(counts[b] == expected);
    }
  }
}

TEST_CASE("images: PNG of any layout and type") {
  const TempDir dir;
  SummaryWriter writer(dir / "run");
  const Tensor chw = tensor({0, 51, 102, 153, 204, 255}, {.dtype = kUInt8}).reshape({3, 1, 2});
  writer.add_image("a", chw, 1);
  writer.add_image("a", chw.permute({1, 2, 0}), 2, "HWC");
  writer.add_image("a", chw.to(kFloat32) / 255, 3);
  writer.add_image("gray", tensor({{-1.0, 0.5}, {2.0, kNaN}}), 1, "HW");
  writer.add_images("grid", zeros({3, 1, 4, 5}), 1);
  writer.add_images("grid", zeros({9, 4, 5, 3}, {.dtype = kUInt8}), 2, "NHWC");
  const Tensor all = arange(0, 256, 1, {.dtype = kFloat32}).reshape({1, 16, 16});
  writer.add_image("all", all / 255, 1);
  for (const DType dtype : {kBool, kInt64, kFloat16})
    writer.add_image("mask", tensor({{0, 1}, {1, 0}}).to(dtype), 1, "HW");
  CHECK_THROWS_AS(writer.add_image("a", chw, 1, "WH"), ValueError);
  CHECK_THROWS_AS(writer.add_image("a", chw, 1, "HW"), ShapeError);
  CHECK_THROWS_AS(writer.add_image("a", zeros({5, 2, 2}), 1), ShapeError);
  CHECK_THROWS_AS(writer.add_images("a", zeros({0, 1, 2, 2}), 1), ShapeError);
  writer.flush();
  const std::vector<LoggedEvent> events = parse_events(only_file(dir / "run"));
  REQUIRE(events.size() == 11);
  const auto image = [&](std::size_t i) {
    const Fields fields = parse_message(one(events[i].value(), 4).bytes);
    const Tensor png = data::parse_png(bytes_of(one(fields, 4).bytes), "image");
    CHECK(one(fields, 1).number == static_cast<std::uint64_t>(png.size(1)));
    CHECK(one(fields, 2).number == static_cast<std::uint64_t>(png.size(2)));
    CHECK(one(fields, 3).number == static_cast<std::uint64_t>(png.size(0)));
    return png;
  };
  for (std::size_t i = 1; i <= 3; ++i)
    CHECK(image(i).to_vector<int>() == std::vector<int>{0, 51, 102, 153, 204, 255});
  CHECK(image(4).to_vector<int>() == std::vector<int>{0, 127, 255, 0});
  CHECK(image(5).shape() == Shape{1, 8, 23});
  CHECK(image(6).shape() == Shape{3, 14, 58});
  CHECK(image(7).to_vector<float>() == all.to_vector<float>());
  for (std::size_t i = 8; i < 11; ++i)
    CHECK(image(i).to_vector<int>() == std::vector<int>{0, 255, 255, 0});
}

TEST_CASE("events wait for the queue, and come from several threads") {
  const TempDir dir;
  SummaryWriter writer(dir / "run", {.max_queue = 5, .flush_secs = 1000});
  for (int i = 0; i < 7; ++i) writer.add_scalar("x", i, i);
  CHECK(parse_events(only_file(dir / "run")).size() == 6);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&writer, t] {
      for (int i = 0; i < 20; ++i) {
        writer.add_scalar("t" + std::to_string(t), i, i);
        writer.add_scalars("both", {{"a", i}, {"b", i}}, i);
      }
    });
  for (std::thread& t : threads) t.join();
  writer.flush();
  CHECK(parse_events(only_file(dir / "run")).size() == 1 + 7 + 60);
  CHECK(parse_events(only_file(dir / "run/both_a")).size() == 1 + 60);
  CHECK_THROWS_AS(SummaryWriter(dir / "run", {.max_queue = 0}), ValueError);
  write_file(dir / "file", "");
  CHECK_THROWS_AS(SummaryWriter(dir / "file/run"), IoError);
}

TEST_CASE("TensorBoard reads SummaryWriter's files, and purges steps that a resumed run repeats") {
  const TempDir dir;
  const fs::path run = dir / "run";
  const Tensor picture = full({3, 4, 6}, 0.5);
  {
    SummaryWriter writer(run);
    for (int i = 0; i < 10; ++i) writer.add_scalar("loss", 1.0 / (i + 1), i, 1000.0 + i);
    writer.add_histogram("w", tensor({-1.0, 0.0, 2.0}), 3);
    writer.add_image("picture", picture, 4);
    writer.add_text("notes", "one\n\ntwo", 0);
    writer.add_scalars("lr", {{"head", 0.1}, {"body", 0.01}}, 1);
    writer.add_hparams({{"lr", 0.1}, {"model", "resnet18"}, {"graph", true}, {"epochs", 3}},
                       {{"hparam/accuracy", 0.5}}, "trial");
  }
  const std::vector<LoggedEvent> events = parse_events(only_file(run));
  CHECK(events.size() == 14);
  {
    SummaryWriter writer(run, {.purge_step = 6});
    for (int i = 6; i < 8; ++i) writer.add_scalar("loss", 100 + i, i, 2000.0 + i);
  }
  const std::string python = tensorboard_python();
  if (python.empty()) return;
  const nlohmann::json read = read_by_tensorboard(python, dir, run);
  CHECK(read.at("version") == 2.0);
  std::vector<std::pair<int, double>> expected;
  for (int i = 0; i < 6; ++i) expected.emplace_back(i, 1.0f / static_cast<float>(i + 1));
  expected.emplace_back(6, 106);
  expected.emplace_back(7, 107);
  REQUIRE(read.at("scalars").at("loss").size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(read["scalars"]["loss"][i][0] == expected[i].first);
    CHECK(read["scalars"]["loss"][i][1] == doctest::Approx(expected[i].second));
  }
  const nlohmann::json& histogram = read.at("histograms").at("w").at(0);
  CHECK(histogram.at("min") == -1);
  CHECK(histogram.at("max") == 2);
  CHECK(histogram.at("num") == 3);
  CHECK(histogram.at("sum_squares") == 5);
  const nlohmann::json& image = read.at("images").at("picture").at(0);
  CHECK(image.at("width") == 6);
  CHECK(image.at("height") == 4);
  const std::string png = from_hex(image.at("png").get<std::string>());
  CHECK(data::parse_png(bytes_of(png), "png").to_vector<int>() == std::vector<int>(72, 127));
  CHECK(read.at("texts").at("notes/text_summary") ==
        nlohmann::json::parse(R"([[0, "one\n\ntwo"]])"));

  const nlohmann::json head = read_by_tensorboard(python, dir, run / "lr_head");
  CHECK(head.at("scalars").at("lr").at(0).at(1) == doctest::Approx(0.1));
  const nlohmann::json trial = read_by_tensorboard(python, dir, run / "trial");
  CHECK(trial.at("scalars").at("hparam/accuracy").at(0).at(1) == 0.5);
  const auto hparams = [&](const char* tag) {
    return trial.at("hparams").at(tag).get<std::string>();
  };
  CHECK(contains(hparams("_hparams_/experiment"), "name: \"model\"\n    type: DATA_TYPE_STRING"));
  CHECK(contains(hparams("_hparams_/experiment"), "tag: \"hparam/accuracy\""));
  CHECK(contains(hparams("_hparams_/session_start_info"), "string_value: \"resnet18\""));
  CHECK(contains(hparams("_hparams_/session_start_info"), "bool_value: true"));
  CHECK(contains(hparams("_hparams_/session_end_info"), "status: STATUS_SUCCESS"));
}
