// Readers of binary files.
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"
#include "ferrite/data/checkpoint.h"
#include "ferrite/data/cifar10.h"
#include "ferrite/data/idx.h"
#include "ferrite/data/image_io.h"
#include "ferrite/data/inflate.h"
#include "ferrite/data/inflate_whole.h"
#include "ferrite/data/npy.h"
#include "ferrite/data/pth.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/data/safetensors_shards.h"
#include "ferrite/data/svhn.h"
#include "ferrite/data/training_state.h"
#include "ferrite/data/zip.h"
#include "ferrite/tests/data/gzip.h"
#include "ferrite/tests/fuzz/fuzz.h"
#include "ferrite/tests/fuzz/scratch.h"

namespace ferrite::fuzz {
namespace {

using data::Bytes;
using Seeds = std::vector<std::string>;

/// Noise, which is incompressible, or a ramp.
Tensor bytes_tensor(const Shape& shape, bool noise = false) {
  Tensor t = empty(shape, {.dtype = kUInt8});
  Generator random(1);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(noise ? random.next_below(256) : i);
  return t;
}

StateDict small_dict() {
  return {{"layer.weight", from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3})},
          {"layer.count", from_vector<std::int64_t>({7}, {})},
          {"mask", from_vector<std::uint8_t>({0, 1}, {2})}};
}

StateDict large_dict(int count) {
  StateDict dict;
  for (int i = 0; i < count; ++i)
    dict.insert(fmt::format("layer.{}", i), from_vector<std::uint8_t>({1}, {1}));
  return dict;
}

std::string with_length(std::string_view header, std::string_view content = "") {
  std::string file;
  data::append_little(file, static_cast<std::uint64_t>(header.size()));
  return file.append(header).append(content);
}

// ---- safetensors and checkpoints

void run_safetensors(Bytes bytes) {
  data::parse_safetensors_metadata(bytes, "fuzz");
  data::parse_safetensors(bytes, "fuzz");
}

Seeds seeds_of_safetensors() {
  std::string junk = "{";
  for (int i = 0; i < 100'000; ++i) junk += fmt::format("\"{}\":1,", i);
  data::Metadata many;
  for (int i = 0; i < 20'000; ++i) many.emplace(fmt::format("key {}", i), "v");
  const auto save = [](const StateDict& dict, const data::Metadata& metadata) {
    return written([&](const auto& path) { data::save_safetensors(dict, path, metadata); });
  };
  return {save(small_dict(), {{"format", "pt"}}),
          save({{"x", empty({0, 4})}}, {}),
          save(large_dict(10'000), {}),
          save({}, many),
          with_length(junk + "\"x\":1}"),
          with_length("{\"a\":" + junk + "\"x\":1}}"),
          with_length("{\"__metadata__\":" + junk + "\"x\":1}}"),
          with_length(R"({"b":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", "1234"),
          with_length(R"({"b":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]},)"
                      R"("c":{"dtype":"X","shape":[9],"data_offsets":[4,5]}})",
                      "12345")};
}

/// Moves the end of the header to the last bracket.
void repair_safetensors(std::string& text) {
  const std::size_t end = text.rfind('}');
  if (end == std::string::npos || end < 8) return;
  text.replace(0, 8, with_length(std::string(end - 7, ' ')).substr(0, 8));
}

const Registered kSafetensors({.name = "safetensors",
                               .run = run_safetensors,
                               .seeds = seeds_of_safetensors,
                               .microseconds_per_byte = 4,
                               .memory_per_byte = 200,
                               .repair = repair_safetensors});

void run_shard_index(Bytes bytes) { data::parse_shard_index(bytes, "fuzz"); }

Seeds seeds_of_shard_index() {
  std::string many = R"({"metadata":{"total_size":59},"weight_map":{)";
  for (int i = 0; i < 20'000; ++i) many += fmt::format("\"{}\":\"model-{}\",", i, i);
  return {R"({"metadata":{"total_size":59},"weight_map":{"a":"m-1","b":"m-2","c":"m-1"}})",
          R"({"weight_map":{"a":"../m"}})", R"({"x":[[1]],"weight_map":{}})",
          many + "\"a\":\"m\"}}"};
}

const Registered kShardIndex({.name = "shard_index",
                              .run = run_shard_index,
                              .seeds = seeds_of_shard_index,
                              .microseconds_per_byte = 4,
                              .memory_per_byte = 200});

/// A part that behaves like a module: it accepts only its own shapes.
struct Part {
  Tensor weight = from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  StateDict state_dict() const { return {{"weight", weight}}; }
  void load_state_dict(const StateDict& state) {
    const Tensor& loaded = state.at("weight");
    FERRITE_CHECK(loaded.shape() == weight.shape() && loaded.dtype() == kFloat32, ShapeError,
                  "part", "expected float32 of {}, got {} of {}", weight.shape(), loaded.dtype(),
                  loaded.shape());
    std::memcpy(weight.data_ptr(), loaded.data_ptr(), weight.nbytes());
  }
};

/// The state to resume.
struct Training {
  Part part;
  Generator random{3};
  std::int64_t epoch = 2;
  double best = 0.5;
  bool done = false;
  data::TrainingState state;
  Training() {
    state.add("model", part).add("random", random).add_generators();
    state.add_value("epoch", epoch).add_value("best", best).add_value("done", done);
    state.set("name", "fuzz");
  }
};

void run_checkpoint(Bytes bytes) {
  const std::filesystem::path folder = scratch_folder() / "checkpoints";
  static const bool made = std::filesystem::create_directories(folder);
  static_cast<void>(made);
  write_file(folder / "step_00000002.safetensors", bytes);
  Training training;
  data::CheckpointManager checkpoints(folder, {});
  checkpoints.list();
  checkpoints.best();
  checkpoints.resume(training.state, {.strict = false, .fall_back = true});
}

Seeds seeds_of_checkpoint() {
  Training training;
  const auto save = [&](std::optional<double> metric) {
    return written(
        [&](const auto& path) { data::save_checkpoint(path, training.state, 2, metric); });
  };
  // A generator's numbers that are none.
  struct Doubles {
    StateDict state_dict() const { return {{"state", from_vector<double>({-1e300, 1e300}, {2})}}; }
    void load_state_dict(const StateDict&) {}
  } doubles;
  data::TrainingState other;
  other.add("model", training.part).add("random", doubles);
  return {save({}), save(0.25),
          written([](const auto& path) { data::save_safetensors(large_dict(10'000), path); }),
          written([&](const auto& path) { data::save_checkpoint(path, other, 2, {}); })};
}

const Registered kCheckpoint({.name = "checkpoint",
                              .run = run_checkpoint,
                              .seeds = seeds_of_checkpoint,
                              .microseconds_per_byte = 12,
                              .memory_per_byte = 600,
                              .repair = repair_safetensors});

// ---- Images

/// A byte of deflate expands to up to 1032 of pixels, which are copied once.
constexpr double kImageMemory = 3 * 1032;

void run_png(Bytes bytes) {
  data::parse_png(bytes, "fuzz");
  data::parse_png(bytes, "fuzz", data::ImageMode::gray);
}

std::string chunk(std::string_view type, std::string_view content) {
  std::string body = std::string(type).append(content);
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size());
  const auto big = [](std::uint64_t v) {
    return std::string{static_cast<char>(v >> 24), static_cast<char>(v >> 16),
                       static_cast<char>(v >> 8), static_cast<char>(v)};
  };
  return big(content.size()) + body + big(crc);
}

std::string zlib_of(std::string_view content) {
  std::string packed(compressBound(content.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(content.data()), content.size());
  packed.resize(size);
  return packed;
}

/// All-zero images of the kinds that only libpng reads: interlaced, 16 bits, with a palette.
std::string png_of_zeros(std::uint32_t side, char bits, char colour, char interlaced,
                         std::size_t bytes, const std::string& extra = "") {
  const auto big = [](std::uint32_t v) {
    return std::string{static_cast<char>(v >> 24), static_cast<char>(v >> 16),
                       static_cast<char>(v >> 8), static_cast<char>(v)};
  };
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", big(side) + big(side) + bits + colour + std::string(2, '\0') + interlaced) +
         extra + chunk("IDAT", zlib_of(std::string(bytes, '\0'))) + chunk("IEND", "");
}

Seeds seeds_of_png() {
  const std::string palette = chunk("PLTE", "\1\2\3\4\5\6") + chunk("tRNS", "\x40");
  const std::string texts =
      chunk("tEXt", std::string("a\0b", 3)) + chunk("zTXt", std::string("a\0\0", 3) + zlib_of("b"));
  Seeds seeds;
  for (const std::int64_t channels : {1, 2, 3, 4})
    seeds.push_back(data::encode_png(bytes_tensor({channels, 5, 7})));
  seeds.push_back(png_of_zeros(3, 8, 3, 0, 12, palette + texts));
  seeds.push_back(png_of_zeros(9, 16, 6, 1, 9 * 9 * 8 + 30));
  seeds.push_back(png_of_zeros(4, 1, 0, 0, 8));
  seeds.push_back(png_of_zeros(2000, 8, 2, 0, 2000 * 6001));
  seeds.push_back(png_of_zeros(2000, 1, 0, 1, 2000 * 260));
  seeds.push_back(data::encode_png(bytes_tensor({3, 400, 500}, true)));
  return seeds;
}

/// Fixes checksums of the chunks, as far as their lengths are plausible.
void repair_png(std::string& text) {
  for (std::size_t at = 8; text.size() >= 12 && at <= text.size() - 12;) {
    const auto* p = reinterpret_cast<const std::uint8_t*>(text.data()) + at;
    const std::size_t length = data::load_big32(p);
    if (length > text.size() - at - 12) return;
    const std::string sound = chunk(text.substr(at + 4, 4), text.substr(at + 8, length));
    text.replace(at, sound.size(), sound);
    at += sound.size();
  }
}

const Registered kPng({.name = "png",
                       .run = run_png,
                       .seeds = seeds_of_png,
                       .microseconds_per_byte = 200,
                       .memory_per_byte = kImageMemory,
                       .repair = repair_png});

void run_jpeg(Bytes bytes) {
  data::parse_jpeg(bytes, "fuzz");
  data::parse_jpeg(bytes, "fuzz", data::ImageMode::rgb);
  data::parse_jpeg(bytes, "fuzz", data::ImageMode::gray);
}

std::string characters(std::initializer_list<int> values) {
  std::string text;
  for (const int v : values) text.push_back(static_cast<char>(v));
  return text;
}

std::string marker(char name, const std::string& content) {
  const std::size_t length = content.size() + 2;
  return std::string{'\xff', name, static_cast<char>(length >> 8),
                     static_cast<char>(length & 255)} +
         content;
}

/// A Huffman table of one symbol, whose code is a 0.
std::string code(int table, int symbol) {
  return marker('\xc4', characters({table, 1}) + std::string(15, '\0') + characters({symbol}));
}

/// The start of a file: a quantization table of ones.
std::string beginning() { return "\xff\xd8" + marker('\xdb', '\0' + std::string(64, '\1')); }

/// A gray image of `blocks` x `blocks` blocks whose coefficients are in scans of two bytes.
std::string progressive_jpeg(int blocks, int scans) {
  const int side = 8 * blocks;
  std::string file =
      beginning() +
      marker('\xc2', characters({8, side >> 8, side & 255, side >> 8, side & 255, 1, 1, 0x11, 0})) +
      code(0x00, 0x00) + code(0x10, 0xe0) + marker('\xda', characters({1, 1, 0, 0, 0, 0})) +
      std::string(static_cast<std::size_t>(blocks * blocks / 8), '\0');
  for (int scan = 1; scan < scans; ++scan)
    file += marker('\xda', characters({1, 1, 0, scan, scan, 0})) + characters({0x00, 0x01});
  return file + "\xff\xd9";
}

/// One block each of cyan, magenta, yellow and black, or of their YCC (`transform` 2).
std::string inks_jpeg(int transform) {
  return beginning() + marker('\xee', "Adobe" + characters({0, 100, 0, 0, 0, 0, transform})) +
         marker('\xc0',
                characters({8, 0, 8, 0, 8, 4, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 4, 0x11, 0})) +
         code(0x00, 0x00) + code(0x10, 0x00) +
         marker('\xda', characters({4, 1, 0, 2, 0, 3, 0, 4, 0, 0, 63, 0})) + '\0' + "\xff\xd9";
}

Seeds seeds_of_jpeg() {
  const auto save = [](const Tensor& image, int quality) {
    return written([&](const auto& path) { data::write_jpeg(image, path, quality); });
  };
  std::string padded = inks_jpeg(0);  // bytes between segments are skipped
  padded.insert(padded.find("\xff\xc0"), 3, '\0');
  return {save(bytes_tensor({1, 9, 11}), 90),
          save(bytes_tensor({3, 9, 11}), 50),
          save(bytes_tensor({3, 20, 40}), 100),
          save(bytes_tensor({3, 500, 500}, true), 95),
          inks_jpeg(0),
          inks_jpeg(2),
          padded,
          progressive_jpeg(16, 10),
          progressive_jpeg(128, 60)};
}

/// A byte encodes up to 1024 pixels, and a progressive file may have a hundred scans of them.
const Registered kJpeg({.name = "jpeg",
                        .run = run_jpeg,
                        .seeds = seeds_of_jpeg,
                        .microseconds_per_byte = 2000,
                        .memory_per_byte = 16 * 1024});

// ---- Arrays

void run_npy(Bytes bytes) { data::parse_npy(bytes, "fuzz"); }

Seeds seeds_of_npy() {
  const auto save = [](const Tensor& t) {
    return written([&](const auto& path) { data::save_npy(t, path); });
  };
  const std::string many = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + [] {
    std::string text;
    for (int i = 0; i < 15'000; ++i) text += "1, ";
    return text;
  }() + "), }\n";
  std::string wide("\x93NUMPY\2\0", 8);
  data::append_little(wide, static_cast<std::uint32_t>(many.size()));
  return {save(from_vector<float>({1, 2, 3, 4}, {2, 2})), save(bytes_tensor({3})),
          save(from_vector<double>({1}, {})), save(bytes_tensor({1000, 1000})), wide + many};
}

const Registered kNpy({.name = "npy", .run = run_npy, .seeds = seeds_of_npy});

void run_npz(Bytes bytes) { data::parse_npz(bytes, "fuzz"); }

Seeds seeds_of_npz() {
  const auto save = [](const StateDict& dict, data::NpzCompression compression) {
    return written([&](const auto& path) { data::save_npz(dict, path, compression); });
  };
  return {save(small_dict(), data::NpzCompression::stored),
          save(small_dict(), data::NpzCompression::deflated),
          save(large_dict(3000), data::NpzCompression::stored),
          save({{"x", empty({1'000'000}, {.dtype = kUInt8})}}, data::NpzCompression::deflated)};
}

const Registered kNpz({.name = "npz",
                       .run = run_npz,
                       .seeds = seeds_of_npz,
                       .microseconds_per_byte = 100,
                       .memory_per_byte = 3 * 1032});

void run_pth(Bytes bytes) { data::parse_pth(bytes, "fuzz").tensors(); }

/// A file below tests/data.
std::string recorded(const std::string& name) {
  const data::MappedFile file(std::filesystem::path(FERRITE_SOURCE_DIR) / "tests/data" / name,
                              "fuzz");
  return {file.bytes().begin(), file.bytes().end()};
}

/// A file whose value is `value`, a pickle in which 'h\1' is a tensor.
std::string pth_of(std::string_view value) {
  const std::string pickle =
      "\x80\x02"
      "ctorch._utils\n_rebuild_tensor\n((U\7storagectorch\nByteStorage\nU\1"
      "0U\3cpuK\1tQI0\n(K\1t(K\1ttRq\1"
      "0" +
      std::string(value) + ".";
  return written([&](const auto& path) {
    data::AtomicFile file(path, "fuzz");
    data::ZipWriter archive(file, "fuzz");
    archive.add("a/data.pkl", pickle);
    archive.add("a/data/0", "x");
    archive.finish();
    file.commit();
  });
}

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

/// Trees with names that would take many times the file's size.
Seeds pths_of_long_names() {
  std::string key = "X";
  data::append_little(key, std::uint32_t{100'000});
  key += std::string(100'000, 'k');
  return {pth_of("}" + key + "](" + repeated("h\1", 100'000) + "es"),
          pth_of("](" + repeated("h\1", 10'000) +
                 "eq\2"
                 "0](" +
                 repeated("h\2", 100) + "e"),
          pth_of("](h\1" + repeated("2", 300'000) + "e")};
}

Seeds seeds_of_pth() {
  const auto save = [](const data::Value& value) {
    return written([&](const auto& path) { data::save_pth(value, path); });
  };
  using data::Value;
  const Value plain = Value::dict({{"list", Value::list({1, 2.5, "text", true, Value()})},
                                   {"tuple", Value::tuple({std::int64_t{1} << 40})},
                                   {"bytes", Value::bytes("\xff")},
                                   {5, Value::dict({})}});
  Value::List many;
  for (int i = 0; i < 200'000; ++i) many.emplace_back(i);
  Seeds seeds{save(small_dict()), save(plain), save(large_dict(3000)), save(Value::list(many))};
  for (const char* name : {"views_old", "checkpoint_old", "state_dict", "run_SGD", "signs_old"})
    seeds.push_back(recorded(fmt::format("pth/{}.pth", name)));
  for (std::string& seed : pths_of_long_names()) seeds.push_back(std::move(seed));
  return seeds;
}

const Registered kPth({.name = "pth",
                       .run = run_pth,
                       .seeds = seeds_of_pth,
                       .microseconds_per_byte = 20,
                       .memory_per_byte = 400});

void run_idx(Bytes bytes) { data::parse_idx(bytes, "fuzz"); }

Seeds seeds_of_idx() {
  const std::string images(
      "\0\0\x08\3\0\0\0\2\0\0\0\2\0\0\0\2"
      "12345678",
      24);
  const std::string floats("\0\0\x0d\1\0\0\0\1\0\0\0\0", 12);
  const std::string large =
      std::string("\0\0\x08\2\0\0\x0f\xa0\0\0\x03\xe8", 12) + std::string(4000 * 1000, '\0');
  return {images, floats, test::gzip(images), test::gzip(large), large.substr(0, 12) + "short"};
}

const Registered kIdx({.name = "idx",
                       .run = run_idx,
                       .seeds = seeds_of_idx,
                       .microseconds_per_byte = 50,
                       .memory_per_byte = 3 * 1032});

void run_cifar10(Bytes bytes) { data::parse_cifar10(bytes, "fuzz"); }

const Registered kCifar10(
    {.name = "cifar10", .run = run_cifar10, .seeds = [] {
       return Seeds{std::string(3073, '\3'), std::string(3073 * 300, '\1'), "\1short"};
     }});

void run_svhn(Bytes bytes) { data::parse_svhn(bytes, "fuzz"); }

const Registered kSvhn(
    {.name = "svhn",
     .run = run_svhn,
     .seeds =
         [] {
           return Seeds{recorded("svhn/train_32x32.mat"), recorded("svhn/test_32x32.mat")};
         },
     .microseconds_per_byte = 50,
     .memory_per_byte = 3 * 1032});

// ---- Compression

void run_inflate(Bytes bytes) {
  std::vector<std::uint8_t> out(1 << 16);
  for (const auto compression : {data::Compression::gzip, data::Compression::deflate}) try {
      data::InflateStream stream(bytes, compression, {"fuzz", "fuzz"});
      while (stream.read(out.data(), out.size()) == out.size()) {
      }
      if (stream.consumed() > bytes.size()) std::abort();
    } catch (const IoError&) {
    }
  out.resize(1 + bytes.size());
  data::inflate_zlib(bytes, out);
  data::inflate_gzip(bytes, out);
}

const Registered kInflate({.name = "inflate",
                           .run = run_inflate,
                           .seeds =
                               [] {
                                 const std::string text = "some text, some text, some more text";
                                 const std::string zeros(4'000'000, '\0');
                                 return Seeds{test::gzip(text), zlib_of(text),
                                              zlib_of(text).substr(2), test::gzip(zeros),
                                              zlib_of(zeros).substr(2)};
                               },
                           .microseconds_per_byte = 40});

}  // namespace
}  // namespace ferrite::fuzz
