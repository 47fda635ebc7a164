// Weights in several files and their index.
#include "ferrite/data/safetensors_shards.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <set>

#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::SafetensorsShards;

/// Tensors of 16, 16, 24, 3 and 0 bytes.
StateDict sample(float first = 1) {
  return {{"conv.weight", from_vector<float>({first, -2, 0.5F, 4}, {2, 2})},
          {"conv.bias", from_vector<std::int64_t>({7, 8}, {2})},
          {"bn.mean", from_vector<double>({1, 2, 3}, {3})},
          {"mask", from_vector<bool>({true, false, true}, {3})},
          {"empty", empty({0, 3})}};
}

std::vector<std::string> files_of(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return {names.begin(), names.end()};
}

void check_sample(const StateDict& dict, float first = 1) {
  const StateDict expected = sample(first);
  REQUIRE(dict.size() == expected.size());
  auto at = dict.begin();
  for (const auto& [name, tensor] : expected) {
    CHECK(at->first == name);  // in the order of the saved dict
    CHECK(at->second.dtype() == tensor.dtype());
    CHECK(at->second.shape() == tensor.shape());
    CHECK(at->second.to_vector<double>() == tensor.to_vector<double>());
    ++at;
  }
}

std::string load_error(const std::filesystem::path& path) {
  return message_of<IoError>([&] { load(path); });
}

const data::SaveOptions k32{.max_shard_size = 32};

}  // namespace

TEST_CASE("safetensors shards: names, index and sizes are Hugging Face's") {
  const TempDir dir;
  save(sample(), dir / "model.safetensors", {{"format", "pt"}}, k32);
  CHECK(files_of(dir.path()) == std::vector<std::string>{"model-00001-of-00002.safetensors",
                                                         "model-00002-of-00002.safetensors",
                                                         "model.safetensors.index.json"});
  CHECK(read_file(dir / "model.safetensors.index.json") == R"({
  "metadata": {
    "total_size": 59
  },
  "weight_map": {
    "bn.mean": "model-00002-of-00002.safetensors",
    "conv.bias": "model-00001-of-00002.safetensors",
    "conv.weight": "model-00001-of-00002.safetensors",
    "empty": "model-00002-of-00002.safetensors",
    "mask": "model-00002-of-00002.safetensors"
  }
}
)");
  // Each file is a whole one; a tensor that is larger than a shard may be has its own.
  CHECK(data::SafetensorsFile(dir / "model-00001-of-00002.safetensors").names() ==
        std::vector<std::string>{"conv.weight", "conv.bias"});
  save(sample(), dir / "model.safetensors", {}, {.max_shard_size = 20});
  CHECK(SafetensorsShards(dir.path()).files().size() == 4);
  CHECK(SafetensorsShards(dir.path()).files()[2].names() == std::vector<std::string>{"bn.mean"});
}

TEST_CASE("safetensors shards: the index, the folder and the undivided name are read alike") {
  const TempDir dir;
  save(sample(), dir / "net.safetensors", {{"step", "3"}}, k32);
  for (const auto& path : {dir.path(), dir / "net.safetensors.index.json", dir / "net.safetensors"})
    for (const bool mmap : {false, true}) {
      CAPTURE(path);
      check_sample(load(path, {.mmap = mmap}));
    }
  const StateDict conv = load(dir.path(), {.only_prefix = "conv.", .strip_prefix = "conv."});
  CHECK(conv.size() == 2);
  CHECK(conv.at("bias").to_vector<int>() == std::vector<int>{7, 8});

  const SafetensorsShards shards(dir.path());
  CHECK(shards.names().size() == 5);
  CHECK(shards.contains("bn.mean"));
  CHECK_FALSE(shards.contains("bn"));
  CHECK(shards.info("bn.mean").shape == Shape{3});
  CHECK(shards.get("mask").to_vector<bool>() == std::vector<bool>{true, false, true});
  CHECK(shards.metadata() == data::Metadata{{"step", "3"}});
  CHECK(shards.files().size() == 2);
  CHECK_THROWS_AS(shards.get("bn"), IndexError);

  // Views of the mapped files take no memory.
  const std::size_t before = memory_allocated(Device());
  const StateDict mapped = load(dir.path(), {.mmap = true});
  CHECK(memory_allocated(Device()) == before);
}

TEST_CASE("safetensors shards: what fits into one file has no index") {
  const TempDir dir;
  const auto path = dir / "model.safetensors";
  save(sample(), path, {}, {.max_shard_size = 59});
  CHECK(files_of(dir.path()) == std::vector<std::string>{"model.safetensors"});
  check_sample(load(dir.path()));
  save(sample(), path, {}, {.max_shard_size = 1});
  CHECK(files_of(dir.path()).size() == 6);
  check_sample(load(dir.path()));
  save({}, path, {}, {.max_shard_size = 1});
  CHECK(files_of(dir.path()) == std::vector<std::string>{"model.safetensors"});
  CHECK(load(dir.path()).empty());
  CHECK_THROWS_AS(save(sample(), dir / "m.pth", {}, k32), ValueError);
}

TEST_CASE("safetensors shards: a second save replaces the first, and removes no other files") {
  const TempDir dir;
  const auto path = dir / "model.safetensors";
  write_file(dir / "config.json", "{}");
  write_file(dir / "model-1.safetensors", "");
  write_file(dir / "model2-00001-of-00002.safetensors", "");
  save(sample(1), path, {}, k32);
  const StateDict old = load(path, {.mmap = true});
  for (const float first : {2, 3, 4}) {
    save(sample(first), path, {}, k32);
    check_sample(load(path), first);
    CHECK(files_of(dir.path()).size() == 6);
  }
  check_sample(old, 1);
  CHECK(std::filesystem::exists(dir / "config.json"));
  CHECK(std::filesystem::exists(dir / "model-1.safetensors"));
  CHECK(std::filesystem::exists(dir / "model2-00001-of-00002.safetensors"));
}

TEST_CASE("safetensors shards: a model whose name has a number keeps its files") {
  const TempDir dir;
  for (const float first : {1, 2, 3})
    for (const char* name : {"model.2.safetensors", "model.safetensors", "model.3.safetensors"}) {
      save(sample(first), dir / name, {}, k32);
      check_sample(load(dir / name), first);
    }
  for (const char* name : {"model.2.safetensors", "model.safetensors", "model.3.safetensors"})
    check_sample(load(dir / name), 3);
  // Also when it becomes one file.
  save(sample(4), dir / "model.safetensors");
  check_sample(load(dir / "model.2.safetensors"), 3);
  check_sample(load(dir / "model.safetensors"), 4);
}

TEST_CASE("safetensors shards: a failed save leaves the old files, and nothing of its own") {
  const TempDir dir;
  const auto path = dir / "model.safetensors";
  save(sample(1), path, {}, k32);
  const auto files = files_of(dir.path());
  // The third shard cannot be written.
  StateDict bad = sample(2);
  bad.insert("\xff", from_vector<float>({1, 2, 3, 4, 5, 6, 7, 8}, {8}));
  CHECK_THROWS_AS(save(bad, path, {}, k32), ValueError);
  CHECK(files_of(dir.path()) == files);
  check_sample(load(path), 1);
  // Metadata that is refused when the first shard is written.
  CHECK_THROWS_AS(save(sample(2), path, {{"ferrite.x", ""}}, k32), ValueError);
  CHECK(files_of(dir.path()) == files);
}

TEST_CASE("safetensors shards: killed at any moment, a save leaves the old weights or the new") {
  const TempDir dir;
  const auto path = dir / "model.safetensors";
  const auto weights = [](float value) {
    StateDict dict;
    for (const char* name : {"a", "b", "c", "d", "e"})
      dict.insert(name, from_vector<float>(std::vector<float>(2000, value), {2000}));
    return dict;
  };
  save(weights(0), path, {}, {.max_shard_size = 8000});
  // How often the child has saved.
  auto* const saves =
      static_cast<std::atomic<int>*>(mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(saves != MAP_FAILED);
  Generator random(5);
  for (int round = 0; round < 30; ++round) {
    *saves = 0;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0)
      for (int value = 1;; ++value, ++*saves)  // divided or not: both replace what was there
        save(weights(static_cast<float>(value)), path, {},
             {.max_shard_size = value % 4 == 0 ? 1U << 30 : 8000U});
    const auto start = std::chrono::steady_clock::now();
    const auto passed = [&] { return std::chrono::steady_clock::now() - start; };
    while (*saves == 0 && passed() < std::chrono::seconds(30)) usleep(200);
    const auto one = std::chrono::duration_cast<std::chrono::microseconds>(passed()).count();
    usleep(static_cast<useconds_t>(random.next_below(5 * static_cast<std::uint64_t>(one))));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    const StateDict loaded = load(dir.path());
    REQUIRE(loaded.size() == 5);
    const float value = loaded.at("a").to_vector<float>()[0];
    CHECK(value > 0);
    for (const auto& [name, tensor] : loaded)
      CHECK(tensor.to_vector<float>() == std::vector<float>(2000, value));
  }
  munmap(saves, sizeof(std::atomic<int>));
  save(weights(1), path, {}, {.max_shard_size = 8000});
  std::size_t shards = 0;
  for (const std::string& name : files_of(dir.path())) shards += name.ends_with(".safetensors");
  CHECK(shards == 5);  // those of killed saves are gone
}

TEST_CASE("safetensors shards: errors name the file and the tensor") {
  const TempDir dir;
  const auto path = dir / "model.safetensors";
  const auto index = dir / "model.safetensors.index.json";
  save(sample(), path, {}, k32);
  const std::string good = read_file(index);
  const std::string first = "model-00001-of-00002.safetensors",
                    second = "model-00002-of-00002.safetensors";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    REQUIRE(contains(text, from));
    write_file(index, text.replace(text.find(from), from.size(), to));
    return load_error(dir.path());
  };
  CHECK(contains(with("\"mask\"", "\"musk\""), "lists tensor 'musk' in '" + second + "'"));
  CHECK(contains(with("    \"empty\": \"" + second + "\",\n", ""),
                 "'" + second + "' has tensor 'empty', which"));
  CHECK(contains(with("\"bn.mean\": \"" + second, "\"bn.mean\": \"" + first),
                 "lists tensor 'bn.mean' in '" + first + "', which does not have it"));
  for (const char* bad : {"../x.safetensors", "/etc/passwd", "a/../../x", "", "..", "x/"})
    CHECK(contains(with(first, bad), fmt::format("is said to be in '{}'", bad)));
  CHECK(contains(with(first, "model\\u0000.safetensors"), "is said to be in"));
  CHECK(with(first, "././" + first) == "no exception");  // the same file, for some of its tensors
  CHECK(
      contains(with(first, "none.safetensors"), "lists 'none.safetensors', which does not exist"));
  CHECK(contains(with(first, std::string(300, 'x')), "which does not exist"));
  CHECK(contains(with("weight_map", "weights"), "to have a weight_map"));
  CHECK(contains(with("\"" + first + "\"", "7"), "a file's name for 'conv.bias'"));
  CHECK(contains(with("\"bn.mean\"", "\"mask\""), "each name once in the index, got 'mask' twice"));
  CHECK(contains(with("}\n}\n", ""), "the index is not valid JSON"));
  write_file(index, "[]");
  CHECK(contains(load_error(index), "expected the index to be an object"));

  // One tensor in two files.
  write_file(index, good);
  StateDict both = load(dir / second);
  both.insert("conv.bias", from_vector<float>({1}, {1}));
  save(both, dir / second);
  CHECK(contains(load_error(index), "tensor 'conv.bias' is in two files"));
  std::filesystem::remove(dir / second);
  CHECK(contains(load_error(index), "lists '" + second + "', which does not exist"));
  write_file(dir / second, "damaged");
  CHECK(contains(load_error(index), second));

  // Damage in the second file is found before the first is loaded.
  save(sample(), path, {}, k32);
  const SafetensorsShards shards(path);
  const std::string file = shards.files()[1].path().string();
  std::string bytes = read_file(file);
  bytes[bytes.size() - 4] ^= 1;
  write_file(file, bytes);
  reset_peak_memory_stats(Device());
  const std::size_t before = memory_allocated(Device());
  CHECK(contains(load_error(path), "is damaged"));
  CHECK(max_memory_allocated(Device()) == before);
}

TEST_CASE("safetensors shards: an index of files of torch.save() says what they are") {
  const TempDir dir;
  save(StateDict{{"a", from_vector<float>({1}, {1})}}, dir / "a.pth");
  std::filesystem::rename(dir / "a.pth", dir / "pytorch_model-00001-of-00001.bin");
  write_file(dir / "pytorch_model.bin.index.json",
             R"({"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}})");
  const std::string error =
      message_of<IoError>([&] { load(dir / "pytorch_model.bin.index.json"); });
  CHECK(contains(error,
                 "pytorch_model-00001-of-00001.bin' at byte 0: expected a safetensors file; "
                 "it is a zip archive, as torch.save() and"));
}

TEST_CASE("safetensors shards: which file of a folder is read") {
  const TempDir dir;
  CHECK(contains(load_error(dir.path()), "is a folder without a .safetensors file"));
  save(sample(1), dir / "unet.safetensors");
  check_sample(load(dir.path()), 1);
  save(sample(2), dir / "vae.safetensors");
  CHECK(contains(load_error(dir.path()),
                 "a folder of several files: 'unet.safetensors', 'vae.safetensors'"));
  save(sample(3), dir / "clip.safetensors", {}, k32);
  check_sample(load(dir.path()), 3);
  save(sample(4), dir / "model.safetensors", {}, k32);
  check_sample(load(dir.path()), 4);
  save(sample(5), dir / "model.safetensors");
  check_sample(load(dir.path()), 5);
  CHECK(contains(load_error(dir / "none"), "none"));
}

TEST_CASE("safetensors shards: changed indexes are refused with an IoError and nothing else") {
  const TempDir dir;
  save(sample(), dir / "model.safetensors", {}, k32);
  const std::string good = read_file(dir / "model.safetensors.index.json");
  const auto parse = [](data::Bytes bytes) { data::parse_shard_index(bytes, "fuzz"); };
  REQUIRE(survives(good, parse));
  for (std::size_t n = 0; n + 2 < good.size(); ++n) CHECK_FALSE(survives(good.substr(0, n), parse));
  fuzz_flips(good, 3000, parse);
}
