#include "ferrite/data/safetensors.h"

#include <sys/stat.h>

#include <cstring>

#include "ferrite/core/views.h"
#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::load_safetensors;
using data::load_safetensors_metadata;
using data::parse_safetensors;
using data::save_safetensors;

std::string file_of(std::string header, std::string_view content) {
  std::string out;
  data::append_little(out, static_cast<std::uint64_t>(header.size()));
  return out + header + std::string(content);
}

std::string entry(std::string_view name, std::string_view dtype, std::string_view shape,
                  std::string_view offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}

std::string refusal(const std::string& header, std::string_view content = "") {
  const std::string file = file_of(header, content);
  return message_of<IoError>([&] { parse_safetensors(bytes_of(file), "m.safetensors"); });
}

// As written by Python's safetensors: {"b": float16 [2], "a": int64 [1, 2]} and metadata.
const std::string kSmall =
    file_of("{\"__metadata__\":{\"format\":\"pt\"}," + entry("a", "I64", "[1,2]", "[0,16]") + "," +
                entry("b", "F16", "[2]", "[16,20]") + "}    ",
            std::string("\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\x3c\0\x40", 20));

}  // namespace

TEST_CASE("safetensors: reads files written by Python") {
  const StateDict dict = parse_safetensors(bytes_of(kSmall), "");
  REQUIRE(dict.size() == 2);
  CHECK(dict.at("a").shape() == Shape{1, 2});
  CHECK(dict.at("a").to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2});
  CHECK(dict.at("b").dtype() == kFloat16);
  CHECK(dict.at("b").to_vector<float>() == std::vector<float>{1, 2});
  CHECK(data::parse_safetensors_metadata(bytes_of(kSmall), "").at("format") == "pt");
}

TEST_CASE("safetensors: every dtype, the order and the metadata make the round trip") {
  const TempDir dir;
  StateDict dict;
  for (const DType dtype :
       {kUInt8, kFloat32, kBool, kFloat16, kFloat64, kBFloat16, kInt64, kInt32, kComplex64}) {
    Tensor t = empty({3}, {.dtype = dtype});
    for (std::size_t i = 0; i < t.nbytes(); ++i)
      static_cast<std::uint8_t*>(t.data_ptr())[i] =
          static_cast<std::uint8_t>(dtype == kBool ? i % 2 : 3 * i);
    dict.insert(fmt::format("layer.{}", dtype), t);
  }
  dict.insert("scalar", from_vector<float>({7}, {}));
  dict.insert("empty", empty({0, 4}));
  dict.insert("quotes \" \\ \n \xc3\xa9", from_vector<float>({1}, {1}));
  const data::Metadata metadata{{"epoch", "3"}, {"note", "\"quoted\""}};
  save_safetensors(dict, dir / "m.safetensors", metadata);
  CHECK(dir.count() == 1);

  const StateDict back = load_safetensors(dir / "m.safetensors");
  REQUIRE(back.size() == dict.size());
  auto original = dict.begin();
  for (const auto& [name, tensor] : back) {
    CHECK(name == original->first);
    CHECK(tensor.dtype() == original->second.dtype());
    CHECK(tensor.shape() == original->second.shape());
    CHECK((tensor.nbytes() == 0 ||
           std::memcmp(tensor.data_ptr(), original->second.data_ptr(), tensor.nbytes()) == 0));
    ++original;
  }
  CHECK(load_safetensors_metadata(dir / "m.safetensors") == metadata);
  StateDict wide;
  wide.insert("z", empty({1}, {.dtype = kComplex128}));
  CHECK(contains(message_of<DTypeError>([&] { save_safetensors(wide, dir / "z.safetensors"); }),
                 "the format has no complex128"));
}

TEST_CASE("safetensors: tensors are aligned to their elements in the file") {
  const TempDir dir;
  save_safetensors({{"x", empty({3}, {.dtype = kUInt8})}, {"y", from_vector<double>({0.5}, {1})}},
                   dir / "m");
  const std::string file = read_file(dir / "m");
  CHECK(data::load_little<std::uint64_t>(bytes_of(file).data()) % 8 == 0);
  CHECK(contains(file, R"("y":{"dtype":"F64","shape":[1],"data_offsets":[0,8]})"));
}

TEST_CASE("safetensors: strided tensors are written row-major") {
  const TempDir dir;
  const Tensor t = from_vector<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor transposed = geometry::apply(t, geometry::transpose(t, 0, 1));
  const Tensor row = geometry::apply(t, geometry::select(t, 0, 1));
  const Tensor expanded = geometry::apply(row, geometry::expand(row, {2, 3}));
  const Tensor nhwc = empty({1, 2, 2, 2}, {.memory_format = kChannelsLast});
  for (int i = 0; i < 8; ++i) nhwc.data<float>()[i] = static_cast<float>(i);
  save({{"t", transposed}, {"row", row}, {"e", expanded}, {"nhwc", nhwc}}, dir / "m.safetensors");
  const StateDict back = load(dir / "m.safetensors");
  CHECK(back.at("t").shape() == Shape{3, 2});
  CHECK(back.at("t").to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(back.at("row").to_vector<float>() == std::vector<float>{3, 4, 5});
  CHECK(back.at("e").to_vector<float>() == std::vector<float>{3, 4, 5, 3, 4, 5});
  CHECK(back.at("nhwc").to_vector<float>() == nhwc.to_vector<float>());
}

TEST_CASE("safetensors: a failed save leaves the last good file") {
  const TempDir dir;
  const auto path = dir / "m.safetensors";
  save({{"a", from_vector<float>({1}, {1})}}, path);
  CHECK_THROWS_AS(save({{"__metadata__", empty({1})}}, path), ValueError);
  CHECK_THROWS_AS(save({{"bad \xff name", empty({1})}}, path), ValueError);
  CHECK_THROWS_AS(save({{"a", empty({1})}}, dir / "no/folder"), IoError);
  {
    data::AtomicFile interrupted(path, "test");
    interrupted.write("half a file");
    CHECK(dir.count() == 2);
  }
  CHECK(dir.count() == 1);
  CHECK(load(path).at("a").item<float>() == 1);
  save({{"a", from_vector<float>({2}, {1})}}, path);
  CHECK(load(path).at("a").item<float>() == 2);
}

TEST_CASE("saving under a link writes the file behind it") {
  namespace fs = std::filesystem;
  const TempDir dir, other;
  const auto one = [](float v) { return StateDict{{"a", from_vector<float>({v}, {1})}}; };
  save(one(1), other / "real.pt");
  fs::create_symlink("real.pt", other / "near.pt");
  fs::create_symlink(other / "near.pt", dir / "latest.pt");
  save(one(2), dir / "latest.pt");
  CHECK(fs::is_symlink(dir / "latest.pt"));
  CHECK(fs::is_symlink(other / "near.pt"));
  CHECK(load(other / "real.pt").at("a").item<float>() == 2);
  fs::create_symlink("not yet.safetensors", dir / "next.safetensors");
  save(one(3), dir / "next.safetensors");
  CHECK(fs::is_symlink(dir / "next.safetensors"));
  CHECK(load(dir / "not yet.safetensors").at("a").item<float>() == 3);
  CHECK(dir.count() == 3);
  fs::create_symlink("b", dir / "a");
  fs::create_symlink("a", dir / "b");
  CHECK_THROWS_AS(save(one(1), dir / "a"), IoError);
}

TEST_CASE("saving keeps the permissions of the file that it replaces") {
  const TempDir dir;
  const auto path = dir / "m.safetensors";
  save(StateDict(), path);
  // The umask takes the group's writing away from new files, but not from this one.
  for (const ::mode_t mode : {::mode_t{0600}, ::mode_t{0664}}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    save({{"a", empty({1})}}, path);
    struct stat info = {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == mode);
  }
}

TEST_CASE("saving replaces no pipe, and names a folder that is missing") {
  const TempDir dir;
  const auto error = [](const std::filesystem::path& path) {
    return message_of<IoError>([&] { save(StateDict(), path); });
  };
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK(contains(error(dir / "pipe"), "is a named pipe, expected a regular file"));
  CHECK(std::filesystem::is_fifo(dir / "pipe"));
  const std::string folder = (dir / "no").string();
  CHECK(contains(error(dir / "no/m.pt"), "'" + folder + "/m.pt': the folder '" + folder +
                                             "' does not exist; create it first"));
  CHECK(dir.count() == 1);
}

TEST_CASE("safetensors: no tensors") {
  const TempDir dir;
  save(StateDict(), dir / "m");
  CHECK(load(dir / "m").empty());
}

TEST_CASE("safetensors: errors") {
  const std::string a4 = entry("a", "F32", "[1]", "[0,4]");
  CHECK(contains(refusal("{"), "[load_safetensors] 'm.safetensors' at byte"));
  CHECK(contains(refusal("[1]"), "begin with '{'"));
  CHECK(contains(refusal("{" + a4 + "}", "123"), "truncated"));
  CHECK(contains(refusal("{" + a4 + "}", "12345"), "followed by other data"));
  CHECK(contains(refusal("{" + a4 + "," + a4 + "}", "1234"), "'a' twice"));
  CHECK(contains(refusal("{" + a4 + "," + entry("b", "F32", "[1]", "[0,4]") + "}", "1234"),
                 "overlap"));
  CHECK(contains(refusal("{" + a4 + "," + entry("b", "F32", "[1]", "[6,10]") + "}", "1234567890"),
                 "hole"));
  CHECK(contains(refusal("{" + entry("a", "F32", "[1]", "[4,8]") + "}", "12345678"), "hole"));
  CHECK(contains(refusal("{" + entry("a", "F32", "[2]", "[0,4]") + "}", "1234"), "is 8 bytes"));
  CHECK(contains(refusal("{" + entry("a", "F32", "[1]", "[4,0]") + "}", "1234"), "data_offsets"));
  CHECK(contains(refusal("{" + entry("a", "U16", "[2]", "[0,4]") + "}", "1234"),
                 "tensor 'a' is \"U16\", which Ferrite does not have"));
  CHECK(contains(refusal("{" + entry("a", "U16", "[2]", "[0,2]") + "}", "12"), "is 4 bytes"));
  CHECK(contains(refusal("{" + entry("a", "U32", "[1]", "[0,2]") + "}", "12"), "is 4 bytes"));
  CHECK(contains(refusal("{" + entry("a", "U64", "[1]", "[0,2]") + "}", "12"), "is 8 bytes"));
  CHECK(contains(refusal("{" + entry("a", "F8_E4M3", "[3]", "[0,2]") + "}", "12"), "is 3 bytes"));
  CHECK(contains(refusal("{" + entry("a", "X", "[1]", "[2,0]") + "}", "12"), "data_offsets"));
  CHECK(contains(refusal("{" + entry("a", "X", "[4294967296,4294967296,2]", "[0,0]") + "}"),
                 "64 bits"));
  CHECK(contains(refusal("{" + entry("a", "", "[1]", "[0,1]") + "}", "1"), "name of its dtype"));
  CHECK(contains(refusal("{" + entry("a", "F32", "[-1]", "[0,4]") + "}", "1234"), "0 or more"));
  CHECK(contains(refusal("{" + entry("a", "F32", "[1.0]", "[0,4]") + "}", "1234"), "integers"));
  CHECK(contains(refusal("{" + entry("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") + "}", "1234"),
                 "0 to 8"));
  CHECK(contains(refusal("{" + entry("a", "F32", "[4294967296,4294967296,2]", "[0,0]") + "}"),
                 "64 bits"));
  CHECK(contains(refusal("{" + entry("a", "F64", "[13421772800]", "[0,107374182400]") + "}"),
                 "truncated"));
  CHECK(contains(refusal("{" + entry("a", "BOOL", "[1]", "[0,1]") + "}", "\2"), "bool of 0 or 1"));
  CHECK(contains(refusal("{" + entry("", "U8", "[1]", "[0,1]") + "}", "1"), "name"));
  CHECK(contains(refusal(R"({"a":3})"), "expected an object"));
  CHECK(contains(refusal(R"({"__metadata__":{"a":3}})"), "expected text"));
  CHECK(contains(refusal("{\"\xff\":1}"), "not valid JSON"));
  std::string claims = file_of("{}", "");
  claims.replace(0, 8, std::string("\0\0\0\0\x19\0\0\0", 8));  // a header of 100 GiB
  CHECK(contains(message_of<IoError>([&] { parse_safetensors(bytes_of(claims), ""); }),
                 "header claims 107374182400"));
  CHECK_THROWS_AS(load("/no/such/file"), IoError);
  const auto other = [&](std::string bytes) {
    bytes.resize(100);
    return message_of<IoError>([&] { parse_safetensors(bytes_of(bytes), "m"); });
  };
  CHECK(contains(other("PK\3\4\xff\xff\xff\xff"),
                 "expected a safetensors file; it is a zip archive, as torch.save()"));
  CHECK(contains(other("\x80\4\x95\xff\xff\xff\xff\xff"), "it is a pickle of Python"));
  CHECK(contains(other("\x93NUMPY\1\1"), "it is an array of NumPy"));
  CHECK(contains(other("version https://git-lfs.github.com/spec/v1"), "git lfs pull"));
}

TEST_CASE("safetensors: a deeply nested header") {
  const std::string deep = "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  CHECK_FALSE(refusal(deep).empty());
}

TEST_CASE("safetensors: a header of very many tensors, written and read") {
  const std::int64_t tensors = many_names();
  const TempDir dir;
  StateDict dict;
  dict.reserve(static_cast<std::size_t>(tensors));
  for (std::int64_t i = 0; i < tensors; ++i)
    dict.insert(fmt::format("layer.{}", (i * 7919) % tensors),
                from_vector<std::uint8_t>({static_cast<std::uint8_t>(i % 128)}, {1}));
  save(dict, dir / "m.safetensors");
  const data::SafetensorsFile file(dir / "m.safetensors");
  CHECK(file.contains(fmt::format("layer.{}", tensors - 1)));
  CHECK_FALSE(file.contains(fmt::format("layer.{}", tensors)));
  const StateDict back = file.load();
  REQUIRE(std::ssize(back) == tensors);
  auto original = dict.begin();
  std::int64_t different = 0;
  for (const auto& [name, tensor] : back) {
    different += name != original->first;
    different += tensor.item<std::uint8_t>() != original->second.item<std::uint8_t>();
    ++original;
  }
  CHECK(different == 0);
}

TEST_CASE("safetensors: very many names that no header has are refused") {
  std::string text = "{";
  for (int i = 0; i < many_names(); ++i) text += fmt::format("\"{}\":1,", i);
  const std::string header = text + "\"x\":1}";
  CHECK(contains(refusal(header), "tensor '0': expected an object"));
  // In a tensor, in the metadata, and in our additions per tensor.
  CHECK(contains(refusal("{\"a\":" + header + "}"), "expected an object of dtype"));
  CHECK(contains(refusal("{\"__metadata__\":" + header + "}"), "expected text for '0'"));
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? "\\\"" : std::string(1, c);
  const std::string known = R"({"__metadata__":{"ferrite.tensors":")" + quoted;
  CHECK(parse_safetensors(bytes_of(file_of(known + R"(\"x\":1}"}})", "")), "").empty());
  const int last = many_names() - 1;
  CHECK(contains(refusal(known + fmt::format(R"(\"{}\":1}}"}}}})", last)),
                 fmt::format("'{}' twice", last)));
}

TEST_CASE("safetensors: very many keys of metadata") {
  data::Metadata metadata;
  for (int i = 0; i < many_names(); ++i) metadata.emplace(fmt::format("key {}", i), "value");
  const TempDir dir;
  save({}, dir / "m.safetensors", metadata);
  CHECK(load_safetensors_metadata(dir / "m.safetensors") == metadata);
}

TEST_CASE("safetensors: each name once, wherever it is") {
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1])";
  CHECK(contains(refusal("{" + a + R"(,"dtype":"U8"}})", "1"), "'dtype' twice"));
  CHECK(contains(refusal("{" + a + R"(,"size":1}})", "1"), "expected an object of dtype"));
  CHECK(contains(refusal(R"({"__metadata__":{"k":"1","k":"2"}})"), "'k' twice"));
  CHECK(contains(refusal(R"({"__metadata__":{},"__metadata__":{}})"), "'__metadata__' twice"));
  const auto known = [&](std::string_view text) {
    return refusal(
        "{" + a + R"(},"__metadata__":{"ferrite.tensors":")" + std::string(text) + "\"}}", "1");
  };
  CHECK(contains(known(R"({\"a\":{},\"a\":{}})"), "'a' twice"));
  CHECK(contains(known(R"([\"a\"])"), "expected ferrite.tensors to hold an object"));
  CHECK(contains(known(R"({\"a\":{\"crc32\":\"1\"}})"), "8 hexadecimal digits, got '1'"));
  // Additions changed by other programs are ignored.
  CHECK(known(R"({\"a\":[\"crc32\"],\"b\":{\"crc32\":\"\"}})") == "no exception");
}

TEST_CASE("safetensors: fuzz") {
  const auto parse = [](data::Bytes b) { parse_safetensors(b, "fuzz"); };
  fuzz_truncations(kSmall, parse);
  fuzz_flips(kSmall, 20000, parse);
}
