// ferrite-inspect: contents, comparison and conversion of files.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ferrite/core/version.h"
#include "ferrite/data/inspect/command.h"
#include "ferrite/data/inspect/printable.h"
#include "ferrite/data/inspect/statistics.h"
#include "ferrite/data/npy.h"
#include "ferrite/data/pth.h"
#include "ferrite/data/training_state.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/paths.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Json = nlohmann::ordered_json;

struct Outcome {
  int status;
  std::string out, err;
};

Outcome inspect_command(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const int status = inspect::run(arguments, out, err);
  return {status, out.str(), err.str()};
}

Json json_of(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const Outcome outcome = inspect_command(arguments);
  CAPTURE(outcome.err);
  REQUIRE(outcome.status == 0);
  return Json::parse(outcome.out);
}

/// The error of a command that is to fail with this status.
std::string error_of(int status, const std::vector<std::string>& arguments) {
  const Outcome outcome = inspect_command(arguments);
  CHECK(outcome.status == status);
  CHECK(outcome.out.empty());
  return outcome.err;
}

StateDict weights() {
  return {{"model.0.weight", from_vector<float>({1, -2, 3, 4}, {2, 2})},
          {"model.0.bias", from_vector<double>({0.5, 0.25}, {2})},
          {"steps", from_vector<std::int64_t>({7}, {})},
          {"mask", from_vector<bool>({true, false, true}, {3})}};
}

data::Value checkpoint() {
  using data::Value;
  return Value::dict({{"model", Value(weights())},
                      {"epoch", 3},
                      {"lr", 0.1},
                      {"done", false},
                      {"note", "text"},
                      {"nothing", Value()},
                      {"betas", Value::tuple({0.5, 0.75})},
                      {"state", Value::dict({})}});
}

}  // namespace

TEST_CASE("inspect: tensors of dtypes that Ferrite does not have") {
  const TempDir dir;
  const std::string path = (dir / "m.safetensors").string();
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"F8_E5M2","shape":[2,2],"data_offsets":[4,8]}})";
  std::string bytes;
  data::append_little(bytes, static_cast<std::uint64_t>(header.size()));
  write_file(path, bytes + header + std::string("\0\0\x80\x3f\7\7\7\7", 8));
  const Outcome shown = inspect_command({path});
  CHECK(shown.status == 0);
  CHECK(contains(shown.out, "safetensors, 2 tensors, 8 B"));
  CHECK(contains(shown.out, "b     F8_E5M2  [2, 2]"));
  CHECK(contains(shown.out, "-: not computed for dtypes that Ferrite does not have"));
  CHECK(json_of({path})["tensors"][1] == Json::parse(R"({"name": "b", "dtype": "F8_E5M2",
      "shape": [2, 2], "numel": 4, "sum": null, "norm": null})"));
  const Outcome same = inspect_command({path, "--diff", path});
  CHECK(same.status == 0);
  CHECK(contains(same.out, "not compared, of dtypes that Ferrite does not have:\n  b\n"));
  CHECK(contains(error_of(1, {path, "--convert", (dir / "m.pth").string()}),
                 "tensor 'b' is F8_E5M2, which Ferrite does not have"));
}

TEST_CASE("inspect: names, dtypes, shapes, sums and norms of every format") {
  const TempDir dir;
  const StateDict state = weights();
  save(state, dir / "w.safetensors", {{"step", "3"}});
  save(state, dir / "shards.safetensors", {}, {.max_shard_size = 16});
  save(state, dir / "w.pth");
  data::save_npz(state, dir / "w.npz");
  const std::map<std::string, std::string> formats = {{"w.safetensors", "safetensors"},
                                                      {"shards.safetensors", "safetensors index"},
                                                      {"w.pth", "pth"},
                                                      {"w.npz", "npz"}};
  for (const auto& [file, format] : formats) {
    CAPTURE(file);
    const Json json = json_of({(dir / file).string()});
    CHECK(json["format"] == format);
    CHECK(json["tensors"] == Json::parse(R"([
      {"name": "model.0.weight", "dtype": "float32", "shape": [2, 2], "numel": 4, "sum": 6.0,
       "norm": 5.477225575051661},
      {"name": "model.0.bias", "dtype": "float64", "shape": [2], "numel": 2, "sum": 0.75,
       "norm": 0.5590169943749475},
      {"name": "steps", "dtype": "int64", "shape": [], "numel": 1, "sum": 7.0, "norm": 7.0},
      {"name": "mask", "dtype": "bool", "shape": [3], "numel": 3, "sum": 2.0,
       "norm": 1.4142135623730951}])"));
  }
  CHECK(json_of({(dir / "w.safetensors").string()})["metadata"] == Json::parse(R"({"step": "3"})"));

  data::save_npy(state.at("mask"), dir / "mask.npy");
  const Json npy = json_of({(dir / "mask.npy").string()});
  CHECK(npy["format"] == "npy");
  CHECK(npy["tensors"][0]["name"] == "arr_0");

  data::TrainingState training;
  Generator random(3);
  training.add("random", random).set("config", "small");
  data::save_checkpoint(dir / "run.safetensors", training, 12);
  const Json run = json_of({(dir / "run.safetensors").string()});
  CHECK(run["format"] == "checkpoint");
  CHECK(run["metadata"]["step"] == "12");
  CHECK(run["metadata"]["config"] == "small");
}

TEST_CASE("inspect: values of a checkpoint, and what JSON has no number for") {
  const TempDir dir;
  const std::string path = (dir / "c.pt").string();
  data::save_pth(checkpoint(), path);
  const Json json = json_of({path});
  CHECK(json["tensors"][0]["name"] == "model.model.0.weight");
  CHECK(json["values"] == Json::parse(R"({"epoch": 3, "lr": 0.1, "done": false, "note": "text",
                                          "nothing": null, "betas": [0.5, 0.75], "state": {}})"));
  const std::string text = inspect_command({path}).out;
  CHECK(contains(text, path + ": pth, 4 tensors, "));
  CHECK(contains(text, "model.model.0.weight  float32  [2, 2]  6     5.47723\n"));
  CHECK(contains(text, "\nvalues\nepoch = 3\nlr = 0.1\ndone = False\nnote = 'text'\n"));
  CHECK(contains(text, "\nbetas = (0.5, 0.75)\n"));

  const float nan = std::nanf(""), inf = HUGE_VALF;
  data::save_pth(data::Value::list({from_vector<float>({1, nan}, {2}),
                                    from_vector<float>({1, -inf}, {2}), -HUGE_VAL}),
                 path);
  const Json odd = json_of({path});
  CHECK(odd["tensors"][0]["sum"] == "nan");
  CHECK(odd["tensors"][1]["sum"] == "-inf");
  CHECK(odd["tensors"][1]["norm"] == "inf");
  CHECK(odd["values"]["2"] == "-inf");

  data::save_pth(from_vector<float>({1, 2}, {2}), path);  // one tensor alone
  CHECK(json_of({path})["tensors"][0]["name"] == "value");
  data::save_pth(data::Value::dict({{"\xff", "\xfe"}}), path);  // not UTF-8
  CHECK(json_of({path})["values"].size() == 1);
}

TEST_CASE("inspect: sums are those of all elements, for every dtype and for views") {
  for (const DType dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8}) {
    CAPTURE(dtype);
    std::vector<float> values(100'000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7);
    const Tensor t = from_vector(values, {1000, 100}).to(dtype);
    double sum = 0, squares = 0;
    for (const float v : values) sum += v, squares += v * v;
    const auto whole = inspect::statistics_of(t);
    CHECK(whole.sum == sum);
    CHECK(whole.norm == std::sqrt(squares));
    CHECK(inspect::statistics_of(t.t()).sum == sum);
    CHECK(inspect::difference_of(t, t).unequal == 0);
  }
  CHECK(inspect::statistics_of(empty({0, 3})).sum == 0.0);

  const std::int64_t large = std::int64_t{1} << 60;
  const auto near = inspect::difference_of(from_vector<std::int64_t>({1, large}, {2}),
                                           from_vector<std::int64_t>({1, large + 1}, {2}));
  CHECK(near.unequal == 1);
  CHECK(near.greatest == 1);
  CHECK(near.position == 1);
}

TEST_CASE("inspect: statistics of views are those of their elements, read by strides") {
  std::vector<float> values(40'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Tensor base = from_vector(values, {20, 40, 50});
  for (const Tensor& view : {base.slice(0, 1, 19).slice(2, 3, 50, 7), base.transpose(0, 2),
                             base.slice(1, 5, 6), as_strided(base, {300, 1, 300}, {3, 9, 2}, 11)}) {
    const Tensor dense = view.clone(MemoryFormat::contiguous);
    CAPTURE(view.strides().str());
    CHECK(inspect::statistics_of(view).sum == inspect::statistics_of(dense).sum);
    CHECK(inspect::statistics_of(view).norm == inspect::statistics_of(dense).norm);
    CHECK(inspect::difference_of(view, dense).unequal == 0);
    dense.data<float>()[7] += 1;
    CHECK(inspect::difference_of(view, dense).position == 7);
  }
  const Tensor integers = base.to(kInt64).transpose(0, 2);
  CHECK(inspect::difference_of(integers, integers.clone()).unequal == 0);
}

TEST_CASE("inspect: complex tensors") {
  using Complex = std::complex<float>;
  const TempDir dir;
  const std::string a = (dir / "a.npz").string(), b = (dir / "b.npz").string();
  const float nan = std::nanf(""), inf = HUGE_VALF;
  const Tensor z = from_vector<Complex>({{1, 2}, {0, -4}, {2, 0}}, {3});
  data::save_npz({{"z", z}}, a);
  const Json json = json_of({a});
  CHECK(json["tensors"] == Json::parse(R"([{"name": "z", "dtype": "complex64", "shape": [3],
    "numel": 3, "sum": [3.0, -2.0], "norm": 5.0}])"));
  CHECK(contains(inspect_command({a}).out, "z     complex64  [3]    3-2j  5\n"));
  CHECK(json_of({a, "--diff", a})["equal"] == true);
  data::save_npz({{"z", from_vector<Complex>({{1, 2}, {3, 0}, {2, 1}}, {3})}}, b);
  CHECK(json_of({a, "--diff", b})["different"][0] == Json::parse(R"({"name": "z", "greatest": 5.0,
    "position": [1], "unequal": 2, "numel": 3})"));
  // With a real tensor, and with parts that are NaN or infinite.
  CHECK(inspect::difference_of(z, from_vector<double>({1, 0, 2}, {3})).greatest == 4);
  const auto one = [](Complex v) { return from_vector<Complex>({v}, {1}); };
  CHECK(inspect::difference_of(one({nan, 1}), one({2, nan})).unequal == 0);
  CHECK(std::isnan(inspect::difference_of(one({nan, 1}), one({2, 1})).greatest));
  CHECK(inspect::difference_of(one({inf, 1}), one({inf, 2})).greatest == 1);
}

TEST_CASE("inspect: views with far more elements than memory take no time and no space") {
  const TempDir dir;
  const std::string path = "tests/data/pth/repeated.pth";  // 2^31 elements over one, and others
  const Json json = json_of({path});
  CHECK(json["tensors"][0]["numel"] == std::int64_t{1} << 31);
  CHECK(json["tensors"][0]["sum"] == nullptr);
  CHECK(json["tensors"][0]["norm"] == nullptr);
  CHECK(json["tensors"][1]["sum"] == 3000.0);  // [3] with a stride of 0 over 1,000 elements
  const std::string text = inspect_command({path}).out;
  CHECK(contains(text, "[2147483648]  -     -\n"));
  CHECK(contains(text, "\n-: not computed for views with far more elements than their memory\n"));
  const Json difference = json_of({path, "--diff", path});
  CHECK(difference["equal"] == false);
  CHECK(difference["not_compared"] == Json::parse(R"(["huge"])"));
  CHECK(contains(
      inspect_command({path, "--diff", path}).out,
      "not compared, with far more elements than their memory:\n  huge\n1 tensor equal\n"));
  for (const char* to : {"x.pth", "x.safetensors", "x.npz"}) {
    const std::string out = (dir / to).string();
    CHECK(contains(error_of(1, {path, "--convert", out}), "tensor 'huge' of shape [2147483648]"));
    CHECK_FALSE(std::filesystem::exists(out));
  }
}

TEST_CASE("inspect: control characters are escaped") {
  CHECK(inspect::printable("a \xc3\xbc \xe2\x82\xac \xf0\x9f\x94\xa5 \\ ~") ==
        "a \xc3\xbc \xe2\x82\xac \xf0\x9f\x94\xa5 \\ ~");
  CHECK(inspect::printable("a\x1b[31m\n\t\r\x7f\xc2\x9b\xc2\xa0") == R"(a\x1b[31m\n\t\r\x7f\x9b)"
                                                                     "\xc2\xa0");
  // Not UTF-8: alone, cut, too long for the code, a surrogate, above Unicode.
  CHECK(inspect::printable("\x9b|\xe2\x82|\xc0\x9b|\xe0\x82\x9b|\xed\xa0\x80|\xf4\x90\x80\x80") ==
        R"(\x9b|\xe2\x82|\xc0\x9b|\xe0\x82\x9b|\xed\xa0\x80|\xf4\x90\x80\x80)");

  const TempDir dir;
  const std::string a = (dir / "a").string(), b = (dir / "b").string();
  const std::string name = "x\x1b[31mred\xc2\x9b\x7f";
  save({{name, from_vector<float>({1}, {1})}}, a, {{"k\x1b", "v\x1b\ntwo"}});
  save({{name, from_vector<float>({2}, {1})}, {name + "2", from_vector<float>({2}, {1})}}, b);
  const std::string text = inspect_command({a}).out;
  CHECK(contains(text, R"(x\x1b[31mred\x9b\x7f  float32)"));
  CHECK(contains(text, R"(k\x1b = v\x1b\ntwo)"));
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {a}, {a, "--json"}, {a, "--diff", b}, {b, "--diff", a}, {a, "--diff", b, "--json"}}) {
    const std::string out = inspect_command(arguments).out;
    CAPTURE(out);
    for (const char* part : {"\x1b", "\x7f", "\xc2\x9b"})
      CHECK(out.find(part) == std::string::npos);
  }
  CHECK(json_of({a})["tensors"][0]["name"] == name);
  save({{name, from_vector<bool>({true}, {1})}}, a);
  std::string damaged = read_file(a);
  damaged.back() = 7;
  write_file(a, damaged);
  const std::string error = error_of(1, {a});
  CHECK(contains(error, R"(x\x1b[31mred)"));
  CHECK(error.find('\x1b') == std::string::npos);
}

TEST_CASE("inspect: JSON has all values, also many and those of one name") {
  using data::Value;
  const TempDir dir;
  const std::string path = (dir / "v.pth").string();
  data::save_pth(
      Value::dict(
          {{1, "a"}, {"1", "b"}, {"1#2", "c"}, {"x.1", "d"}, {"x", Value::dict({{1, "e"}})}}),
      path);
  CHECK(json_of({path})["values"] ==
        Json::parse(R"({"1": "a", "1#2": "b", "1#2#2": "c", "x.1": "d", "x.1#2": "e"})"));
  Value::Dict many;
  const int count = many_names();
  for (int i = 0; i < count / 2; ++i) many.emplace_back(fmt::format("key {}", i), i);
  for (int i = 0; i < count / 2; ++i) many.emplace_back(Value::bytes(fmt::format("{:08}", i)), i);
  data::save_pth(Value::dict(std::move(many)), path);
  const std::string json = inspect_command({path, "--json"}).out;
  CHECK(std::ranges::count(json, '\n') == count / 2 * 2 + 7);
  CHECK(contains(json, fmt::format("\"key {}\"", count / 2 - 1)));
  CHECK(contains(json, fmt::format("\"8 bytes#{}\"", count / 2)));
}

TEST_CASE("inspect: a long name does not widen the rows of the others") {
  const TempDir dir;
  const std::string path = (dir / "w").string();
  const std::string name(80'000, 'n'), common(100, 'c');
  StateDict state{{name, from_vector<float>({1}, {1})}, {common, from_vector<float>({2}, {1})}};
  for (int i = 0; i < 1000; ++i) state.insert(fmt::format("{}", i), from_vector<float>({3}, {1}));
  save(state, path);
  const std::string text = inspect_command({path}).out;
  CHECK(text.size() < 300'000);
  const std::string gap(102, ' ');
  CHECK(
      contains(text, "\n" + name + "\n" + gap + "float32  [1]    1    1\n" + common + "  float32"));
}

TEST_CASE("inspect: differences") {
  const TempDir dir;
  const std::string a = (dir / "a.safetensors").string(), b = (dir / "b.pth").string();
  StateDict first = weights(), second = weights();
  save(first, a);
  save(second, b);
  CHECK(json_of({a, "--diff", b})["equal"] == true);
  CHECK(inspect_command({a, "--diff", b}).out == "4 tensors equal\n");

  first.insert("here", from_vector<float>({1}, {1}));
  second.insert("there", from_vector<float>({1}, {1}));
  second.insert_or_assign("mask", from_vector<bool>({true}, {1}));
  second.insert_or_assign("steps", from_vector<std::int32_t>({7}, {}));
  second.insert_or_assign("model.0.weight", from_vector<float>({1, -2, 3.5F, 3}, {2, 2}));
  save(first, a);
  save(second, b);
  CHECK(json_of({a, "--diff", b}) == Json::parse(R"({
    "equal": false, "only_in_first": ["here"], "only_in_second": ["there"],
    "shapes": [{"name": "mask", "first": [3], "second": [1]}],
    "dtypes": [{"name": "steps", "first": "int64", "second": "int32"}],
    "different": [{"name": "model.0.weight", "greatest": 1.0, "position": [1, 1], "unequal": 2,
                   "numel": 4}],
    "not_compared": [], "greatest": 1.0})"));
  CHECK(inspect_command({a, "--diff", b}).out == fmt::format(R"(only in {}:
  here
only in {}:
  there
of different shapes:
  mask: [3] and [1]
of different dtypes:
  steps: int64 and int32
of different values:
  model.0.weight: 2 of 4 elements, by at most 1 at [1, 1]
1 tensor equal, 1 differ by at most 1
)",
                                                             a, b));

  // NaN equals itself, and differs from all else by more than anything.
  const float nan = std::nanf("");
  save({{"x", from_vector<float>({nan, 1, 2}, {3})}}, a);
  CHECK(json_of({a, "--diff", a})["equal"] == true);
  save({{"x", from_vector<float>({nan, nan, 9}, {3})}}, b);
  const Json json = json_of({a, "--diff", b});
  CHECK(json["different"][0]["greatest"] == "nan");
  CHECK(json["different"][0]["position"] == Json::parse("[1]"));
  CHECK(json["greatest"] == "nan");
}

TEST_CASE("inspect: converts from any format to any that can hold it") {
  const TempDir dir;
  const std::vector<std::string> names = {"a.safetensors", "a.pth", "a.pt", "a.npz"};
  save(weights(), dir / "a.safetensors", {{"format", "pt"}});
  for (const std::string& from : names)
    for (const std::string& to : names) {
      const std::string out = (dir / ("to_" + to)).string();
      if (!std::filesystem::exists(dir / from))
        REQUIRE(
            inspect_command({(dir / "a.safetensors").string(), "--convert", (dir / from).string()})
                .status == 0);
      CAPTURE(from);
      CAPTURE(to);
      REQUIRE(inspect_command({(dir / from).string(), "--convert", out}).status == 0);
      CHECK(json_of({out, "--diff", (dir / from).string()})["equal"] == true);
    }

  // Shards, and back.
  const std::string shards = (dir / "s").string();
  std::filesystem::create_directory(shards);
  REQUIRE(inspect_command({(dir / "a.pth").string(), "--convert", shards + "/model.safetensors",
                           "--max-shard-size", "16"})
              .status == 0);
  CHECK(std::filesystem::exists(shards + "/model.safetensors.index.json"));
  CHECK(json_of({shards, "--diff", (dir / "a.pth").string()})["equal"] == true);

  // The whole tree goes from .pth to .pth, and is refused elsewhere.
  const std::string tree = (dir / "tree.pth").string(), out = (dir / "out.pt").string();
  data::save_pth(checkpoint(), tree);
  REQUIRE(inspect_command({tree, "--convert", out}).status == 0);
  CHECK(data::load_pth(out).str() == checkpoint().str());
  for (const char* to : {"t.safetensors", "t.npz"}) {
    const std::string target = (dir / to).string();
    CHECK(contains(error_of(1, {tree, "--convert", target}),
                   "cannot hold the 7 values that are no tensors, such as 'epoch'"));
    CHECK_FALSE(std::filesystem::exists(target));
    REQUIRE(inspect_command({tree, "--convert", target, "--tensors-only"}).status == 0);
    CHECK(json_of({target})["tensors"].size() == 4);
  }
  // PyTorch's types would come out as text.
  const std::string torch = "tests/data/pth/checkpoint.pth";
  CHECK(contains(error_of(1, {torch, "--convert", (dir / "other.pth").string()}),
                 "which becomes text here; --tensors-only leaves out all but tensors"));
  CHECK_FALSE(std::filesystem::exists(dir / "other.pth"));
  REQUIRE(inspect_command({torch, "--convert", (dir / "other.pth").string(), "--tensors-only"})
              .status == 0);
  CHECK(json_of({torch, "--diff", (dir / "other.pth").string()})["equal"] == true);
  const std::string noted = (dir / "noted.safetensors").string();
  save(weights(), noted, {{"step", "3"}});
  CHECK(contains(error_of(1, {noted, "--convert", out}), "1 entries of metadata, such as 'step'"));
  CHECK(contains(error_of(1, {noted, "--convert", (dir / "x.npy").string(), "--tensors-only"}),
                 "holds one tensor, and there are 4"));
  CHECK(contains(error_of(1, {noted, "--convert", "x.bin"}), "cannot tell the format of 'x.bin'"));
  CHECK(contains(error_of(1, {noted, "--convert", out, "--max-shard-size", "5GB"}),
                 "--max-shard-size divides .safetensors"));
  save({{"b", from_vector<BFloat16>({BFloat16(1.0F)}, {1})}}, noted);
  CHECK(contains(error_of(1, {noted, "--convert", (dir / "x.npz").string()}), "bfloat16"));
  data::save_npy(weights().at("mask"), dir / "mask.npy");
  REQUIRE(inspect_command({(dir / "mask.npy").string(), "--convert", noted}).status == 0);
  CHECK(json_of({noted})["tensors"][0]["name"] == "arr_0");
}

TEST_CASE("inspect: damaged files give the readers' errors and status 1") {
  const TempDir dir;
  save(weights(), dir / "w.safetensors");
  save(weights(), dir / "w.pth");
  data::save_npz(weights(), dir / "w.npz");
  data::save_npy(weights().at("mask"), dir / "w.npy");
  for (const char* file : {"w.safetensors", "w.pth", "w.npz", "w.npy"}) {
    CAPTURE(file);
    const std::string good = read_file(dir / file);
    write_file(dir / "bad", good.substr(0, good.size() - 1));
    CHECK(contains(error_of(1, {(dir / "bad").string()}), "bad' at byte "));
  }
  CHECK(contains(error_of(1, {(dir / "none").string()}), "none"));
  write_file(dir / "empty", "");
  CHECK(contains(error_of(1, {(dir / "empty").string()}), "expected 8 bytes of header length"));
}

TEST_CASE("inspect: names of values take no more than a multiple of their memory") {
  const TempDir dir;
  const data::Value item = data::Value::dict({{"x", 1}});
  const data::Value items = data::Value::list(data::Value::List(20'000, item));
  // Written by Ferrite, the file has each item by itself; one dict is enough for that.
  data::save_pth(data::Value::dict({{std::string(50'000, 'k'), items}}), dir / "v.pth");
  CHECK(contains(error_of(1, {(dir / "v.pth").string()}), "keys are too long"));
}

TEST_CASE("inspect: wrong arguments give status 2, and the program itself runs") {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"a", "b"},
      {"--none"},
      {"a", "--diff"},
      {"a", "--diff", "b", "--convert", "c"},
      {"a", "--tensors-only"},
      {"a", "--convert", "b", "--json"},
      {"a", "--convert", "b", "--max-shard-size", "0"},
      {"a", "--convert", "b", "--max-shard-size", "5XB"},
      {"a", "--convert", "b", "--max-shard-size", "99999999999GB"}};
  for (const auto& arguments : wrong) {
    CAPTURE(fmt::format("{}", fmt::join(arguments, " ")));
    CHECK(contains(error_of(2, arguments), "Run with --help for more information"));
  }
  CHECK(contains(inspect_command({"--help"}).out, "Usage: ferrite-inspect [OPTIONS] FILE"));
  CHECK(inspect_command({"--version"}).out == std::string("ferrite-inspect ") + version() + "\n");

  const TempDir dir;
  const std::string program = bin_dir() + "/ferrite-inspect";
  REQUIRE(std::filesystem::exists(program));
  save(weights(), dir / "-w");
  const auto status = [&](const std::string& arguments) {
    const int code = std::system(
        fmt::format("cd {} && {} > out 2> err {}", dir.path().string(), program, arguments)
            .c_str());
    return WEXITSTATUS(code);
  };
  CHECK(status("--json -- -w") == 0);
  CHECK(Json::parse(read_file(dir / "out"))["tensors"].size() == 4);
  CHECK(status("none") == 1);
  CHECK(status("") == 2);
  CHECK(status("-- -w > /dev/full") == 1);
}
