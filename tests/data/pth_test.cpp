// Files in tests/data/pth were written by PyTorch 2 (tests/data/make_pth.py).
#include "ferrite/data/pth.h"

#include <cmath>
#include <complex>
#include <cstdlib>
#include <numeric>

#include "ferrite/core/views.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/data/zip.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/weight_norm.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::load_pth;
using data::save_pth;
using data::Value;
using Kind = Value::Kind;

std::filesystem::path recorded(const std::string& name) {
  return std::filesystem::path("tests/data/pth") / (name + ".pth");
}

std::vector<double> eighths(std::int64_t from, std::int64_t count) {
  std::vector<double> values;
  for (std::int64_t i = from; i < from + count; ++i) values.push_back(static_cast<double>(i) / 8);
  return values;
}

/// A file with this pickle and one storage with these bytes.
void write_archive(const std::filesystem::path& path, std::string_view pickle,
                   std::string_view storage) {
  data::AtomicFile file(path, "test");
  data::ZipWriter archive(file, "test");
  archive.add("a/data.pkl", pickle);
  archive.add("a/data/0", storage);
  archive.finish();
  file.commit();
}
/// The same with a storage of 4 floats, 0 to 3.
void write_archive(const std::filesystem::path& path, std::string_view pickle) {
  const float numbers[] = {0, 1, 2, 3};
  write_archive(path, pickle, {reinterpret_cast<const char*>(numbers), sizeof(numbers)});
}

/// The pickle of a tensor over the storage '0', whose elements `type` and `numel` say; `arguments`
/// are the offset, the sizes, the strides and what may follow.
std::string pickled_tensor(std::string_view arguments, std::string_view type = "Float",
                           char numel = 4, std::string_view version = "") {
  return fmt::format(
      "\x80\x02"
      "ctorch._utils\n_rebuild_tensor{}\n((U\7storagectorch\n{}Storage\nU\1"
      "0U\3cpuK{}tQ{}tR.",
      version, type, numel, arguments);
}

}  // namespace

TEST_CASE("pth: a module's state dict loads into the same module") {
  const StateDict weights = load(recorded("state_dict"));
  nn::Sequential net(nn::Conv2d(1, 2, 3), nn::BatchNorm2d(2), nn::Flatten(), nn::Linear(8, 3));
  net.load_state_dict(weights);
  const StateDict loaded = net.state_dict();
  CHECK(loaded.size() == 9);
  check_equal(loaded.at("0.weight"),
              Tensor(from_vector(eighths(0, 18), {2, 1, 3, 3})).to(kFloat32));
  check_equal(loaded.at("3.bias"), Tensor(from_vector(eighths(52, 3), {3})).to(kFloat32));
  CHECK(loaded.at("1.num_batches_tracked").item<std::int64_t>() == 0);
}

TEST_CASE("pth: every element type") {
  const StateDict all = load(recorded("types"));
  REQUIRE(all.size() == 11);
  for (const auto& [name, tensor] : all) {
    if (name == "special") continue;
    CAPTURE(name);
    CHECK(tensor.dtype() == parse_dtype(name));
    CHECK(tensor.to_vector<double>() == (name == "bool" ? std::vector<double>{0, 1, 1, 1, 1}
                                                        : std::vector<double>{0, 1, 2, 3, 100}));
  }
  const auto special = all.at("special").to_vector<float>();
  CHECK(std::isnan(special[0]));
  CHECK(special[1] == INFINITY);
  CHECK(special[2] == -INFINITY);
  CHECK(std::signbit(special[3]));
}

TEST_CASE("pth: views share their memory, with strides, in both formats and mapped") {
  for (const std::string name : {"views", "views_old"})
    for (const bool mmap : {false, true}) {
      CAPTURE(name);
      CAPTURE(mmap);
      const Value all = load_pth(recorded(name), {.mmap = mmap});
      const Tensor base = all["base"].to_tensor();
      std::vector<double> numbers(24);
      std::iota(numbers.begin(), numbers.end(), 0);
      CHECK(base.to_vector<double>() == numbers);
      CHECK(all["transposed"].to_tensor().strides() == Strides{1, 6});
      CHECK(all["strided"].to_tensor().to_vector<double>() ==
            std::vector<double>{6, 8, 10, 12, 14, 16});
      CHECK(all["number"].to_tensor().item<float>() == 7);
      CHECK(all["expanded"].to_tensor().strides() == Strides{0, 1});
      CHECK(all["expanded"].to_tensor().to_vector<double>() ==
            std::vector<double>{1, 2, 1, 2, 1, 2});
      CHECK(all["empty"].to_tensor().shape() == Shape{0, 3});
      CHECK(all["scalar"].to_tensor().item<float>() == 2.5f);
      CHECK(all["part"].to_tensor().to_vector<std::int64_t>() ==
            std::vector<std::int64_t>{40, 41, 42});
      CHECK(all["channels_last"].to_tensor().strides() == Strides{16, 1, 8, 2});
      Tensor row = all["row"].to_tensor();
      CHECK(row.shares_storage(base));
      row.fill_(-1);
      CHECK(base.to_vector<double>()[12] == -1);
    }
  // What was written through the mapping stays in memory.
  CHECK(load_pth(recorded("views"))["row"].to_tensor().to_vector<double>()[0] == 12);
}

TEST_CASE("pth: conjugated and negated views have their own values") {
  using Complex = std::complex<double>;
  for (const std::string name : {"signs", "signs_old"})
    for (const bool mmap : {false, true}) {
      CAPTURE(name);
      CAPTURE(mmap);
      const Value all = load_pth(recorded(name), {.mmap = mmap});
      const auto values = [&](const char* key) {
        return all[key].to_tensor().to_vector<Complex>();
      };
      CHECK(values("plain") == std::vector<Complex>{{1, 2}, {3, -4}, {-5, 0}});
      CHECK(values("conj") == std::vector<Complex>{{1, -2}, {3, 4}, {-5, 0}});
      CHECK(values("row") == std::vector<Complex>{{3, 4}, {-5, 0}});
      CHECK(values("neg") == std::vector<Complex>{{-1, -2}, {-3, 4}, {5, 0}});
      CHECK(values("both") == std::vector<Complex>{{-1, 2}, {-3, -4}, {5, 0}});
      CHECK(values("double") == std::vector<Complex>{{1, 1}});
      CHECK(all["imag"].to_tensor().to_vector<double>() == std::vector<double>{-2, 4});
      CHECK(all["row"].to_tensor().shares_storage(all["conj"].to_tensor()));
      CHECK_FALSE(all["conj"].to_tensor().shares_storage(all["plain"].to_tensor()));
    }

  const TempDir dir;
  const auto message = [&](const std::string& metadata, const char* type) {
    write_archive(dir / "m.pth", pickled_tensor("I0\n(K\1t(K\1t\x89N" + metadata, type, 4, "_v2"));
    return message_of<IoError>([&] { load_pth(dir / "m.pth"); });
  };
  CHECK(contains(message("}U\4conj\x88s", "Float"), "the conj bit of a tensor of float32"));
  CHECK(contains(message("}U\3neg\x88s", "Int"), "call resolve_neg() before saving"));
  CHECK(contains(message("}U\5other\x88s", "Float"), "expected 'conj' and 'neg'"));
  CHECK(contains(message("K\1", "Float"), "expected a dict of metadata as argument 6"));
}

TEST_CASE("pth: a checkpoint is a tree of values, in every protocol and format") {
  for (const std::string name : {"checkpoint", "protocol5", "checkpoint_old", "checkpoint_old5"}) {
    CAPTURE(name);
    const Value run = load_pth(recorded(name));
    CHECK(run["epoch"].to_int() == 7);
    CHECK(run["best"].to_double() == 0.5);
    CHECK(run["name"].to_string() == "r\xc3\xbcn");
    CHECK(run["flags"].str() == "[True, False, None]");
    CHECK(run["size"].str() == "(2, 3)");
    CHECK(run["size"].kind() == Kind::tuple);
    CHECK(run["device"].to_string() == "cuda:1");
    CHECK(run["dtype"].to_string() == "float16");
    CHECK(run["large"].to_int() == std::int64_t{1} << 40);
    CHECK(run["negative"].to_int() == -3);
    CHECK(run["bytes"].kind() == Kind::bytes);
    CHECK(run["bytes"].to_string() == std::string("\0\xff"
                                                  "a",
                                                  3));
    CHECK(run["nested"]["a"].str() == "{1: (1, 2.5), 2: ()}");
    CHECK(run["nested"]["a"][1][1].to_double() == 2.5);
    CHECK(run["numpy"].to_double() == 0.25);
    CHECK(run["numpy_int"].to_int() == -5);
    CHECK(run["set"].str() == "[4]");
    CHECK(run["parameter"].to_tensor().to_vector<double>() == std::vector<double>{1, 1});
    CHECK(run["ordered"].str() == "{'b': 1, 'a': 2}");
    CHECK(run["same"].str() == "[(1, 2), (1, 2), (1, 2)]");
    CHECK(run["long"].size() == 300);
    CHECK(run["long"][-1].to_int() == 299);
    const Value& group = run["optimizer"]["param_groups"][0];
    CHECK(group["lr"].to_double() == 0.1);
    CHECK(group["momentum"].to_double() == 0.9);
    CHECK(group["params"].str() == "[0, 1, 2, 3, 4, 5]");
    CHECK(run["optimizer"]["state"][5]["momentum_buffer"].to_tensor().to_vector<double>() ==
          std::vector<double>{2, 2, 2});
    // All tensors, as of a state dict.
    const StateDict flat =
        load(recorded(name), {.only_prefix = "model.", .strip_prefix = "model."});
    CHECK(flat.size() == 9);
    CHECK(flat.contains("0.weight"));
    CHECK(run.tensors().contains("optimizer.state.0.momentum_buffer"));
  }
}

TEST_CASE("pth: complex numbers are tuples, and bytearrays are bytes") {
  for (const int protocol : {2, 3, 5}) {
    CAPTURE(protocol);
    const std::filesystem::path path = recorded("python" + std::to_string(protocol));
    const Value values = load_pth(path);
    CHECK(values["complex"].str() == "(1.5, -2)");
    CHECK(values["bytearray"].kind() == Kind::bytes);
    CHECK(values["bytearray"].to_string() == std::string("\0\xff"
                                                         "a",
                                                         3));
    CHECK(values["empty"].to_string().empty());
    CHECK(contains(message_of<IoError>([&] { load_pth(path, {.exact = true}); }),
                   "type complex, which becomes a tuple"));
  }
}

TEST_CASE("pth: a device that is not there is named with the tensor") {
  const TempDir dir;
  data::Value::List items{data::Value(3), data::Value(StateDict{{"w", ones({2})}})};
  save_pth(Value::dict({{"models", Value::list(std::move(items))}}), dir / "m.pth");
  const std::string error = message_of<DeviceError>([&] {
    load_pth(dir / "m.pth", {.map_location = {{"cpu", "cuda:62"}}});
  });
  CHECK(contains(error, "tensor 'models.1.w' was saved on cpu"));
}

TEST_CASE("pth: unsigned NumPy integers are their values or an error") {
  const TempDir dir;
  const auto scalar = [&](const std::string& bytes) {
    const std::string type = bytes.size() == 8 ? "u8" : "u1";
    std::string text;  // Latin-1 as UTF-8
    for (const char c : bytes)
      text += static_cast<std::uint8_t>(c) < 0x80
                  ? std::string(1, c)
                  : std::string("\xc3") + static_cast<char>(static_cast<std::uint8_t>(c) & 0xbf);
    std::string pickle =
        "\x80\x02"
        "cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(U\2" +
        type + "tR" + "c_codecs\nencode\n(X";
    data::append_little(pickle, static_cast<std::uint32_t>(text.size()));
    write_archive(dir / "u.pth", pickle + text + "U\6latin1tRtR.");
    return load_pth(dir / "u.pth").to_int();
  };
  CHECK(scalar("\xff") == 255);
  CHECK(scalar(std::string(7, '\xff') + "\x7f") == INT64_MAX);
  CHECK(contains(message_of<IoError>([&] { scalar(std::string(8, '\xff')); }),
                 "2^63 and more are not supported, got the uint64 18446744073709551615"));
}

TEST_CASE("pth: on request, only what Value has a kind for is read") {
  const TempDir dir;
  const auto message = [&](const std::string& item) {
    write_archive(dir / "e.pth", "\x80\x04](K\1" + item + "e.");
    load_pth(dir / "e.pth");
    return message_of<IoError>([&] { load_pth(dir / "e.pth", {.exact = true}); });
  };
  CHECK(contains(message("ctorch\nfloat16\n"), "type torch.dtype, which becomes text"));
  CHECK(contains(message("ctorch\ndevice\n(U\3cputR"), "type torch.device, which becomes text"));
  CHECK(contains(message("cbuiltins\nint\n"), "type type, which becomes text"));
  for (const char* set : {"\x8f(K\1\x90", "(K\1\x91", "cbuiltins\nset\n(](K\1etR"})
    CHECK(contains(message(set), "type set, which becomes a list"));
  CHECK_THROWS_AS(load_pth(recorded("checkpoint"), {.exact = true}), IoError);
  CHECK(load_pth(recorded("run_Adam"), {.exact = true}).str() ==
        load_pth(recorded("run_Adam")).str());
}

TEST_CASE("pth: what was saved loads again, sharing what was shared") {
  const TempDir dir;
  const Tensor base = arange(12).to(kFloat32).view({3, 4});
  const Tensor large = arange(1000);
  const Value tree = Value::dict({{"base", base},
                                  {"column", base.select(1, 2)},
                                  {"part", large.slice(0, 10, 13)},
                                  {"none", Value()},
                                  {"list", Value::list({1, -2.5, "three", true})},
                                  {"tuple", Value::tuple({std::int64_t{1} << 50})},
                                  {"bytes", Value::bytes(std::string("\0\x80\xff", 3))},
                                  {"empty", Value::dict({})},
                                  {"complex", full({2}, std::complex<double>(1, 2), kComplex128)},
                                  {5, zeros({0, 2}, kInt16)}});
  save_pth(tree, dir / "run.pth");
  const Value back = load_pth(dir / "run.pth");
  for (const char* key : {"none", "list", "tuple", "bytes", "empty"})
    CHECK(back[key].str() == tree[key].str());
  CHECK(back["bytes"].to_string() == tree["bytes"].to_string());
  check_equal(back["base"].to_tensor(), base);
  check_equal(back["column"].to_tensor(), base.select(1, 2));
  CHECK(back["column"].to_tensor().shares_storage(back["base"].to_tensor()));
  check_equal(back["part"].to_tensor(), large.slice(0, 10, 13));
  CHECK(back["part"].to_tensor().storage()->nbytes() == 24);
  CHECK(back[5].to_tensor().dtype() == kInt16);
  CHECK(back["complex"].to_tensor().to_vector<std::complex<double>>() ==
        std::vector<std::complex<double>>(2, {1, 2}));
  CHECK(dir.count() == 1);

  // Tensors without names are tensors for Python.
  save(large, dir / "one.pt");
  save(std::vector{large, base}, dir / "two.pth");
  check_equal(load_pth(dir / "one.pt").to_tensor(), large);
  CHECK(load_pth(dir / "two.pth").items().size() == 2);
  Tensor one;
  std::vector<Tensor> two;
  load(one, dir / "one.pt");
  load(two, dir / "two.pth");
  check_equal(one, large);
  check_equal(two.at(1), base);
  CHECK(load(dir / "one.pt", {.only_prefix = "model."}).empty());

  // ferrite::save() chooses the format by the extension, load() by the content.
  nn::Linear layer(3, 2);
  save(layer.state_dict(), dir / "layer.pt");
  const StateDict loaded = load(dir / "layer.pt");
  check_equal(loaded.at("weight"), layer.weight);
  CHECK(contains(message_of<ValueError>([&] {
                   save(loaded, dir / "b.pth", {{"epoch", "3"}});
                 }),
                 "no metadata"));
}

TEST_CASE("pth: nothing is executed, and damage is an error with its position") {
  const TempDir dir;
  const auto message = [&](std::string_view pickle) {
    write_archive(dir / "bad.pth", pickle);
    return message_of<IoError>([&] { load_pth(dir / "bad.pth"); });
  };
  CHECK(contains(message("cos\nsystem\n(X\4\0\0\0"
                         "exittR."),
                 "refers to os.system"));
  CHECK(contains(message("c__torch__\nModule\n."), "torch.jit.load(path).state_dict()"));
  CHECK(contains(message_of<IoError>([] { load_pth(recorded("module")); }), "torch.nn"));
  CHECK(contains(message("\x80\x02]q\1h\1"
                         "a."),
                 "contains itself"));
  // Each list holds the one before it twice: 2^40 values in 250 bytes.
  std::string bomb = "\x80\x02]";
  for (int i = 0; i < 40; ++i)
    bomb += "q" + std::string(1, static_cast<char>(i)) + "0](h" +
            std::string(1, static_cast<char>(i)) + "h" + std::string(1, static_cast<char>(i)) + "e";
  CHECK(contains(message(bomb + "."), "refer to each other so often"));
  CHECK(contains(message(std::string(2000, ']') + std::string(1999, 'a') + "."), "nested at most"));
  CHECK(contains(message("\x80\x02K\1"), "ends within"));
  CHECK(contains(message("\x80\x02K\1K\2."), "expected one value"));
  CHECK(contains(message("e."), "expected a mark"));
  CHECK(contains(message("a."), "stack, which is empty"));
  CHECK(contains(message("ctorch\nComplexHalfStorage\n."), "does not have"));
  CHECK(contains(message("\x8a\x09"
                         "123456789."),
                 "more than 64 bits"));
  CHECK(contains(message("\xff."), "instruction 0xff"));

  // A set of a list of 1,000 items, and then the same again and again.
  std::string copies = "\x80\x02](" + std::string(1000, 'N') + "eq\1" + "0";
  for (int i = 0; i < 1000; ++i) copies += "c__builtin__\nset\n(h\1tR0";
  CHECK(contains(message(copies + "N."), "calls copy more"));
  std::string keys = "\x80\x02(T" + std::string("\0\x10\0\0", 4) + std::string(4096, 'k') + "q\1l";
  for (int i = 0; i < 3000; ++i) keys += "}h\1Nsa";
  CHECK(contains(message(keys + "."), "refer to each other so often"));

  // Tensors stay within their memory.
  const auto tensor = [](std::string_view arguments) { return pickled_tensor(arguments); };
  write_archive(dir / "good.pth", tensor("K\1(K\2t(K\2t"));
  CHECK(load_pth(dir / "good.pth").to_tensor().to_vector<double>() == std::vector<double>{1, 3});
  CHECK(contains(message(tensor("K\1(K\3t(K\2t")), "beyond its storage"));
  CHECK(contains(message(tensor("J\xff\xff\xff\xff(K\1t(K\1t")), "0 or more"));
  CHECK(contains(message(tensor("K\1(K\2t(K\2K\2t")), "as many strides"));
  const std::string huge = "\x8a\x08" + std::string("\0\0\0\0\0\0\0\x40", 8);
  CHECK(contains(message(tensor("K\1(" + huge + huge + "t(" + huge + huge + "t")), "beyond"));
  CHECK(contains(message(tensor("K\1(K\1" + std::string(2, '0') + "K\1t(K\1t")), "stack"));

  // In the older format, a tensor where the version should be.
  const std::string magic("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", 15);
  write_file(dir / "tensor.pth", magic + tensor("K\1(K\2t(K\2t"));
  CHECK(
      contains(message_of<IoError>([&] { load_pth(dir / "tensor.pth"); }), "expected no tensors"));

  write_file(dir / "text.pth", "these are no weights");
  CHECK(contains(message_of<IoError>([&] { load_pth(dir / "text.pth"); }), "torch.save()"));
  write_file(dir / "plain.pth", "\x80\x04\x95\x0d");
  CHECK(contains(message_of<IoError>([&] { load_pth(dir / "plain.pth"); }),
                 "PyTorch's number; it is a pickle of Python"));
  {
    data::AtomicFile file(dir / "m.pt2", "test");
    data::ZipWriter archive(file, "test");
    archive.add("m/archive_format", "pt2");
    archive.finish();
    file.commit();
  }
  CHECK(contains(message_of<IoError>([&] { load(dir / "m.pt2"); }), "torch.export.save() (.pt2)"));
  const Value run = load_pth(recorded("checkpoint"));
  CHECK(contains(message_of<IndexError>([&] { (void)run["epoc"]; }), "the closest is 'epoch'"));
  CHECK(contains(message_of<ValueError>([&] { (void)run["name"].to_int(); }),
                 "expected a int, got string"));
}

TEST_CASE("pth: sizes of tensors that no memory holds") {
  const TempDir dir;
  const auto number = [](std::uint64_t value) {
    std::string text = "\x8a\x08";
    data::append_little(text, value);
    return text;
  };
  const auto load_one = [&](const std::string& arguments, bool mmap) {
    write_archive(dir / "t.pth", pickled_tensor(arguments));
    return load_pth(dir / "t.pth", {.mmap = mmap}).to_tensor();
  };
  const std::string large = number(std::uint64_t{1} << 40), most = number(INT64_MAX);
  for (const bool mmap : {false, true}) {
    CHECK(contains(message_of<IoError>([&] {
                     load_one("I0\n(I0\n" + large + large + large + "t(K\7K\7" + large + "K\1t",
                              mmap);
                   }),
                   "a tensor [0, 1099511627776, 1099511627776, 1099511627776] has more bytes"));
    // Strides of 0 make few elements many.
    CHECK(contains(
        message_of<IoError>([&] { load_one("I0\n(" + large + large + "t(I0\nI0\nt", mmap); }),
        "has more bytes than 64 bits can count"));
    // Empty tensors begin anywhere, also beyond their memory.
    const Tensor empty = load_one(most + "(I0\nK\5t(" + most + most + "t", mmap);
    CHECK(empty.shape() == Shape{0, 5});
    CHECK(empty.storage_offset() == 0);
    CHECK(empty.select(1, 4).storage_offset() == 4);
    CHECK(empty.to_vector<double>().empty());
  }
}

TEST_CASE("pth: names of tensors take no more than a multiple of the memory of the values") {
  const TempDir dir;
  const auto text = [](const std::string& content) {
    std::string out = "X";
    data::append_little(out, static_cast<std::uint32_t>(content.size()));
    return out + content;
  };
  const std::string tensor = pickled_tensor("I0\n(K\1t(K\1t");
  const std::string one = tensor.substr(0, tensor.size() - 1);  // without the end
  const auto memory_error = [&](const std::string& pickle) {
    write_archive(dir / "n.pth", pickle);
    const Value tree = load_pth(dir / "n.pth");
    return message_of<ValueError>([&] { (void)tree.tensors(); });
  };
  // 30,000 times one tensor below a key of 20,000 bytes: names of 600 MB.
  std::string many;
  for (int i = 0; i < 30'000; ++i) many += "h\1";
  CHECK(contains(
      memory_error(one + "q\1" + "0}" + text(std::string(20'000, 'k')) + "](" + many + "es."),
      "which is 16 times the memory of the values"));
  // 50 times a list that has one tensor 30,000 times.
  std::string lists;
  for (int i = 0; i < 50; ++i) lists += "h\2";
  CHECK(contains(memory_error(one + "q\1" + "0](" + many + "eq\2" + "0](" + lists + "e."),
                 "keys are too long for values that occur so often"));

  // A few long keys, and a state dict under several keys, are no reason to refuse a tree.
  Value::Dict layers;
  for (int i = 0; i < 20'000; ++i)
    layers.emplace_back(fmt::format("blocks.{}.weight", i), zeros({1}));
  const Value weights = Value::dict(std::move(layers));
  const Value run = Value::dict({{std::string(100'000, 'k'), zeros({1})},
                                 {"model", weights},
                                 {"ema", weights},
                                 {"best", Value::list({weights, weights})}});
  CHECK(run.tensors().size() == 80'001);

  // The state of an optimizer is named in the same way.
  const Value state = Value::list(Value::List(30'000, Value::dict({{"x", 1}})));
  CHECK(data::state_of_torch(state).size() == 30'000);
  CHECK(contains(message_of<ValueError>([&] {
                   data::state_of_torch(Value::dict({{std::string(10'000, 'k'), state}}));
                 }),
                 "keys are too long"));
}

TEST_CASE("pth: weights of torch.nn.utils.parametrizations") {
  const Value file = load_pth(recorded("parametrized"));
  const auto check = [&](const char* name, auto layer) {
    CAPTURE(name);
    nn::Sequential net(std::move(layer));
    net.eval();
    const StateDict state = file[name]["state"].tensors();
    net.load_state_dict(state);
    check_close(net(file[name]["input"].to_tensor()), file[name]["output"].to_tensor(), 1e-5, 1e-6);
    // A name that is none of the layer's stays unexpected, under its own name.
    StateDict other = state;
    other.insert("1.parametrizations.weight.original0", ones({1}));
    CHECK(net.load_state_dict(other, {.strict = false}).unexpected ==
          std::vector<std::string>{"1.parametrizations.weight.original0"});
  };
  check("weight_norm", nn::utils::weight_norm(nn::Linear(3, 2)));
  check("weight_norm_all", nn::utils::weight_norm(nn::Linear(3, 2), "weight", std::nullopt));
  check("spectral_norm", nn::utils::spectral_norm(nn::Conv1d(2, 3, 3)));
}

TEST_CASE("pth: the bytes of bools are 0 and 1") {
  const TempDir dir;
  const std::string pickle = pickled_tensor("K\1(K\3t(K\1t", "Bool");
  for (const bool mmap : {false, true}) {
    write_archive(dir / "b.pth", pickle, std::string("\0\1\0\1", 4));
    CHECK(load_pth(dir / "b.pth", {.mmap = mmap}).to_tensor().to_vector<bool>() ==
          std::vector<bool>{true, false, true});
    write_archive(dir / "b.pth", pickle, std::string("\0\1\2\1", 4));
    const std::string content = read_file(dir / "b.pth");
    const std::size_t at = content.find(std::string("\0\1\2\1", 4)) + 2;
    CHECK(contains(message_of<IoError>([&] { load_pth(dir / "b.pth", {.mmap = mmap}); }),
                   fmt::format("byte {}: storage '0': expected a bool of 0 or 1", at)));
  }
}

TEST_CASE("pth: what PyTorch saves comes back to it to the bit, through Ferrite") {
  const char* chosen = std::getenv("FERRITE_TORCH_PYTHON");
  const std::string python = chosen ? chosen : "build/torch/bin/python";
  if (std::system((python + " -c 'import torch, numpy' 2>/dev/null").c_str()) != 0) {
    MESSAGE("skipped: ", python, " has no PyTorch (FERRITE_TORCH_PYTHON names one that has)");
    return;
  }
  const TempDir dir;
  const auto run = [&](const std::string& verb) {
    const std::string out = (dir / "out").string();
    const int status = std::system((python + " tests/data/pth_torch.py " + verb + " " +
                                    dir.path().string() + " >" + out + " 2>&1")
                                       .c_str());
    CHECK_MESSAGE(status == 0, read_file(out));
  };
  run("make");
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    if (entry.path().extension() != ".pth") continue;
    CAPTURE(entry.path());
    save_pth(load_pth(entry.path(), {.mmap = count % 2 == 0}),
             std::filesystem::path(entry.path()).replace_extension(".back"));
    ++count;
  }
  CHECK(count >= 40);
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    if (entry.path().extension() == ".back") {
      std::filesystem::path name = entry.path();
      std::filesystem::rename(entry.path(), name.replace_extension(".back.pth"));
    }
  run("compare");
}

TEST_CASE("pth: fuzz") {
  const auto parser = [](data::Bytes b) { data::parse_pth(b, "fuzz"); };
  for (const std::string name : {"views", "views_old", "state_dict", "checkpoint_old", "signs"}) {
    const std::string content = read_file(recorded(name));
    fuzz_truncations(content, parser);
    fuzz_flips(content, 2000, parser);
  }
}
