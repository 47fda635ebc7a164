#include "ferrite/data/checkpoint.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <limits>

#include "ferrite/data/dataloader.h"
#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::CheckpointManager;
using data::TrainingState;

Tensor numbers(const std::vector<float>& values) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())});
}

/// A part that behaves like a module: tensors by name, all or nothing.
struct Part {
  StateDict tensors;
  int loads = 0;

  explicit Part(StateDict dict) : tensors(std::move(dict)) {}
  StateDict state_dict() const { return tensors; }
  void load_state_dict(const StateDict& state) {
    for (const auto& [name, tensor] : tensors)
      FERRITE_CHECK(state.at(name).shape() == tensor.shape(), ShapeError, "part",
                    "{}: expected {}, got {}", name, tensor.shape(), state.at(name).shape());
    for (const auto& [name, tensor] : tensors)
      std::memcpy(tensor.data_ptr(), state.at(name).data_ptr(), tensor.nbytes());
    ++loads;
  }
  std::vector<float> values(const char* name) const { return tensors.at(name).to_vector<float>(); }
};

std::vector<std::string> names_in(const TempDir& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    if (const std::string name = entry.path().filename().string(); name != ".lock")
      names.push_back(name);
  std::ranges::sort(names);
  return names;
}

std::vector<std::int64_t> steps_in(const CheckpointManager& manager) {
  std::vector<std::int64_t> steps;
  for (const data::CheckpointInfo& info : manager.list()) steps.push_back(info.step);
  return steps;
}

void flip_last_byte(const std::filesystem::path& path) {
  std::string bytes = read_file(path);
  bytes.back() ^= 1;
  write_file(path, bytes);
}

}  // namespace

TEST_CASE("training state: parts, generators and values make the round trip") {
  const TempDir dir;
  Part model({{"weight", numbers({1, 2, 3})}, {"bias", numbers({4})}});
  Part nothing({});
  Generator augment(3);
  augment.next_u64();
  int epoch = 3;
  std::int64_t tokens = std::numeric_limits<std::int64_t>::min();
  std::uint64_t mask = std::numeric_limits<std::uint64_t>::max();
  double best = 0.1 + 0.2;
  float rate = 1e-7F;
  bool warm = true;
  std::string tag = "a\n\"b\"";
  const auto bind = [&](TrainingState& state) {
    state.add("model", model).add("nothing", nothing).add("augment", augment).add_generators();
    state.add_value("epoch", epoch).add_value("tokens", tokens).add_value("mask", mask);
    state.add_value("best", best).add_value("rate", rate).add_value("warm", warm);
    state.add_value("tag", tag);
  };
  TrainingState state;
  bind(state);
  state.set("lr", 0.1).set("layers", 18).set("config", "{\"a\": 1}").set("layers", 34);
  data::save_checkpoint(dir / "c", state, 1234, 0.75);

  const data::Metadata metadata = data::load_safetensors_metadata(dir / "c");
  CHECK(metadata.at("step") == "1234");
  CHECK(metadata.at("epoch") == "3");
  CHECK(metadata.at("layers") == "34");
  CHECK(metadata.at("parts") == "model,nothing,augment,generators");
  CHECK(load(dir / "c", {.only_prefix = "model.", .strip_prefix = "model."}).size() == 2);

  const std::uint64_t next = augment.next_u64();
  const std::uint64_t next_default = default_generator(Device()).next_u64();
  model.tensors.at("weight").data<float>()[1] = 99;
  epoch = 0, tokens = 0, mask = 0, best = 0, rate = 0, warm = false, tag = "";
  augment.manual_seed(77);
  TrainingState again;
  bind(again);
  again.set("layers", 50).set("mine", "stays");
  const data::ResumeReport report = data::load_checkpoint(dir / "c", again);
  CHECK(model.values("weight") == std::vector<float>{1, 2, 3});
  CHECK(augment.next_u64() == next);
  CHECK(default_generator(Device()).next_u64() == next_default);
  CHECK(epoch == 3);
  CHECK(tokens == std::numeric_limits<std::int64_t>::min());
  CHECK(mask == std::numeric_limits<std::uint64_t>::max());
  CHECK(best == 0.1 + 0.2);
  CHECK(rate == 1e-7F);
  CHECK(warm);
  CHECK(tag == "a\n\"b\"");
  CHECK(again.get<double>("lr") == 0.1);
  CHECK(again.get<int>("layers") == 34);
  CHECK(again.get<std::string>("config") == "{\"a\": 1}");
  CHECK(again.get<std::string>("mine") == "stays");
  CHECK(report.step == 1234);
  CHECK(report.metric == 0.75);
  CHECK(report.restored.size() == 4 + 7);
  CHECK(contains(report.str(), "step 1234, metric 0.75"));
  CHECK(contains(report.str(), "model, nothing"));
}

TEST_CASE("training state: names") {
  Part part({});
  int value = 0;
  TrainingState state;
  state.add("model", part).add_value("epoch", value).set("text", "x");
  for (const char* name : {"", "model", "a.b", "a,b"})
    CHECK_THROWS_AS(state.add(name, part), ValueError);
  for (const char* name : {"", "step", "metric", "parts", "format", "ferrite.x", "epoch"}) {
    CHECK_THROWS_AS(state.add_value(name, value), ValueError);
    CHECK_THROWS_AS(state.set(name, 1), ValueError);
  }
  CHECK(state.contains("epoch"));
  CHECK_FALSE(state.contains("model"));
  CHECK_THROWS_AS(state.get<int>("absent"), IndexError);
  CHECK_THROWS_AS(state.get<int>("epoch"), ValueError);
  CHECK_THROWS_AS(state.get<int>("text"), ValueError);
  state.set("large", 300).set("negative", -1);
  CHECK_THROWS_AS(state.get<std::uint8_t>("large"), ValueError);
  CHECK_THROWS_AS(state.get<unsigned>("negative"), ValueError);
  CHECK_THROWS_AS(state.get<bool>("large"), ValueError);
}

TEST_CASE("training state: the numbers of a generator are int64") {
  const TempDir dir;
  {
    Part part({{"state", numbers({3, 4})}});
    TrainingState state;
    state.add("random", part);
    data::save_checkpoint(dir / "c", state);
  }
  Generator random(5);
  TrainingState state;
  state.add("random", random);
  CHECK(contains(message_of<ValueError>([&] { data::load_checkpoint(dir / "c", state); }),
                 "expected the seed and the offset, int64[2], got float32[2] on cpu"));
  CHECK(random.state().seed == 5);
}

TEST_CASE("training state: everything is restored or nothing") {
  const TempDir dir;
  {
    Part model({{"weight", numbers({1, 2})}}), optimizer({{"momentum", numbers({3, 4})}});
    int epoch = 5;
    TrainingState state;
    state.add("model", model).add("optimizer", optimizer).add_value("epoch", epoch);
    data::save_checkpoint(dir / "c", state);
  }
  Part model({{"weight", numbers({-1, -2})}});
  int epoch = 0;
  const auto expect_nothing = [&] {
    CHECK(model.values("weight") == std::vector<float>{-1, -2});
    CHECK(epoch == 0);
  };
  SUBCASE("a later part does not fit") {
    Part optimizer({{"momentum", numbers({-3, -4, -5})}});
    TrainingState state;
    state.add("model", model).add("optimizer", optimizer).add_value("epoch", epoch);
    const auto text = message_of<ShapeError>([&] { data::load_checkpoint(dir / "c", state); });
    CHECK(contains(text, "part 'optimizer' of '"));
    CHECK(contains(text, "momentum: expected [3], got [2]"));
    CHECK(model.loads == 2);  // there and back
    expect_nothing();
  }
  SUBCASE("a value does not fit") {
    Part optimizer({{"momentum", numbers({-3, -4})}});
    bool as_bool = false;
    TrainingState state;
    state.add("model", model).add("optimizer", optimizer).add_value("epoch", as_bool);
    CHECK_THROWS_AS(data::load_checkpoint(dir / "c", state), ValueError);
    CHECK(model.loads == 0);
  }
  SUBCASE("a byte of the last tensor is damaged") {
    flip_last_byte(dir / "c");
    Part optimizer({{"momentum", numbers({-3, -4})}});
    TrainingState state;
    state.add("model", model).add("optimizer", optimizer).add_value("epoch", epoch);
    CHECK(contains(message_of<IoError>([&] { data::load_checkpoint(dir / "c", state); }),
                   "'optimizer.momentum' is damaged"));
    CHECK(model.loads == 0);
    expect_nothing();
    data::load_checkpoint(dir / "c", state, {.checksums = false});
    CHECK(epoch == 5);
  }
  SUBCASE("parts and values that only one side has") {
    Part scaler({{"scale", numbers({-6})}});
    bool late = false;
    TrainingState state;
    state.add("model", model).add("scaler", scaler).add_value("late", late);
    const auto text = message_of<ValueError>([&] { data::load_checkpoint(dir / "c", state); });
    CHECK(contains(text, "missing from the file: scaler, late"));
    CHECK(contains(text, "unexpected in it: optimizer"));
    expect_nothing();
    const data::ResumeReport report = data::load_checkpoint(dir / "c", state, {.strict = false});
    CHECK(report.restored == std::vector<std::string>{"model"});
    CHECK(report.missing == std::vector<std::string>{"scaler", "late"});
    CHECK(report.unexpected == std::vector<std::string>{"optimizer"});
    CHECK(contains(report.str(), "not in the file: scaler, late"));
    CHECK(model.values("weight") == std::vector<float>{1, 2});
    CHECK(scaler.values("scale") == std::vector<float>{-6});
  }
}

TEST_CASE("training state: a file of very many parts and values") {
  const int parts = many_names();
  const TempDir dir;
  StateDict tensors;
  tensors.reserve(static_cast<std::size_t>(parts));
  for (int i = 0; i < parts; ++i)
    tensors.insert(fmt::format("{}.x", i), from_vector<std::uint8_t>({1}, {1}));
  data::Metadata values;
  for (int i = 0; i < parts; ++i) values.emplace(fmt::format("value {}", i), fmt::format("{}", i));
  data::save_safetensors(tensors, dir / "a", values, {.checksums = false});
  TrainingState state;
  const data::ResumeReport report = data::load_checkpoint(dir / "a", state, {.strict = false});
  CHECK(std::ssize(report.unexpected) == parts);
  CHECK(std::ssize(state.values()) == parts);
  CHECK(state.get<int>(fmt::format("value {}", parts - 1)) == parts - 1);
}

TEST_CASE("checkpoints: the newest and the best are kept") {
  for (const bool background : {true, false}) {
    CAPTURE(background);
    const TempDir dir;
    Part model({{"weight", numbers({0})}});
    TrainingState state;
    state.add("model", model);
    CheckpointManager manager(dir / "new/folder",
                              {.keep = 2, .keep_best = 1, .background = background});
    CHECK_FALSE(manager.latest());
    CHECK_FALSE(manager.best());
    CHECK_FALSE(manager.resume(state));
    const double metrics[] = {0.1, 0.9, 0.2, std::numeric_limits<double>::quiet_NaN(), 0.9, 0.3};
    for (int i = 0; i < 6; ++i) {
      model.tensors.at("weight").data<float>()[0] = static_cast<float>(i);
      manager.save(10 * i, state, metrics[i]);
      // The snapshot holds this step's values, whatever happens while it is being written.
      model.tensors.at("weight").data<float>()[0] = -1;
    }
    manager.wait();
    CHECK(steps_in(manager) == std::vector<std::int64_t>{40, 50});
    CHECK(manager.best()->step == 40);
    CHECK(manager.latest()->path.filename() == "step_00000050.safetensors");
    manager.save(60, state);
    manager.save(70, state);
    manager.wait();
    CHECK(steps_in(manager) == std::vector<std::int64_t>{40, 60, 70});
    const auto report = manager.resume(state, {.step = 40});
    CHECK(report->metric == 0.9);
    CHECK(model.values("weight") == std::vector<float>{4});
    CHECK_THROWS_AS(manager.resume(state, {.step = 41}), ValueError);

    // A run that continues from an older step must say what to do with the newer ones.
    CHECK(contains(message_of<ValueError>([&] { manager.save(45, state); }), "later step than 45"));
    manager.discard_after(40);
    manager.save(45, state);
    manager.wait();
    CHECK(steps_in(manager) == std::vector<std::int64_t>{40, 45});
    CHECK_THROWS_AS(manager.save(-1, state), ValueError);
  }
  CHECK_THROWS_AS(CheckpointManager(".", {.keep = -1}), ValueError);
}

TEST_CASE("checkpoints: the lowest metric, and all of them") {
  const TempDir dir;
  Part model({{"weight", numbers({0})}});
  TrainingState state;
  state.add("model", model);
  CheckpointManager losses(dir.path(), {.keep = 1, .keep_best = 2, .mode = MetricGoal::min});
  const double metrics[] = {3, 1, 2, 5, 4};
  for (int i = 0; i < 5; ++i) losses.save(i, state, metrics[i]);
  losses.wait();
  CHECK(steps_in(losses) == std::vector<std::int64_t>{1, 2, 4});
  CHECK(losses.best()->step == 1);

  CheckpointManager all(dir / "all", {.keep = 0});
  for (int i = 0; i < 5; ++i) all.save(123'456'789 + i, state);
  all.wait();
  CHECK(all.list().size() == 5);
  CHECK(all.latest()->step == 123'456'793);
}

TEST_CASE("checkpoints: a damaged one is refused, or passed over where that is asked for") {
  const TempDir dir;
  Part model({{"weight", numbers({0, 0})}});
  TrainingState state;
  state.add("model", model);
  {
    CheckpointManager manager(dir.path());
    for (int step = 1; step <= 3; ++step) {
      model.tensors.at("weight").data<float>()[0] = static_cast<float>(step);
      manager.save(step, state);
    }
  }
  CheckpointManager manager(dir.path(), {.keep = 2});
  flip_last_byte(manager.path_of(3));
  write_file(manager.path_of(4), read_file(manager.path_of(2)).substr(0, 100));
  write_file(dir / "step_12x.safetensors", "of somebody else");
  CHECK(contains(message_of<IoError>([&] { manager.latest(); }), "newest checkpoint is damaged"));
  CHECK(contains(manager.list().back().error, "truncated"));
  CHECK(contains(message_of<IoError>([&] { manager.resume(state); }), ".fall_back = true"));
  CHECK(model.loads == 0);
  const auto report = manager.resume(state, {.fall_back = true});
  CHECK(report->step == 2);
  CHECK(model.values("weight") == std::vector<float>{2, 0});
  CHECK(report->skipped.size() == 2);
  CHECK(contains(report->str(), "skipped: "));
  // The next ones are moved aside, and do not count.
  manager.save(3, state);
  manager.save(4, state);
  manager.wait();
  CHECK(names_in(dir) ==
        std::vector<std::string>{"step_00000003.safetensors", "step_00000003.safetensors.damaged",
                                 "step_00000004.safetensors", "step_00000004.safetensors.damaged",
                                 "step_12x.safetensors"});
  for (const int step : {3, 4}) flip_last_byte(manager.path_of(step));
  CHECK(contains(message_of<IoError>([&] { manager.resume(state, {.fall_back = true}); }),
                 "all checkpoints"));
  std::filesystem::create_symlink("step_00000009.safetensors", manager.path_of(9));  // to itself
  CHECK_FALSE(manager.list().back().error.empty());
}

TEST_CASE("checkpoints: one writer per folder, which cleans up after killed ones") {
  const TempDir dir;
  Part model({{"weight", numbers({1})}});
  TrainingState state;
  state.add("model", model);
  const std::string left = "step_00000007.safetensors.123.0.tmp";
  write_file(dir / left, "half a file");
  write_file(dir / "notes.tmp", "");
  write_file(dir / "notes.1.x.tmp", "");
  CheckpointManager reader(dir.path());
  CHECK(std::filesystem::exists(dir / left));  // a reader does not remove it
  {
    CheckpointManager writer(dir.path());
    writer.save(1, state);
    CHECK_FALSE(std::filesystem::exists(dir / left));
    CHECK(contains(message_of<IoError>([&] { reader.save(2, state); }),
                   fmt::format("written to by process {}", ::getpid())));
    writer.wait();
    CHECK(reader.resume(state)->step == 1);
  }
  reader.save(2, state);
  reader.wait();
  CHECK(names_in(dir) == std::vector<std::string>{"notes.1.x.tmp", "notes.tmp",
                                                  "step_00000001.safetensors",
                                                  "step_00000002.safetensors"});
}

TEST_CASE("checkpoints: a background job's error surfaces once, and not from the destructor") {
  data::BackgroundJob job;
  int runs = 0;
  job.start([&] { ++runs; });
  job.start([&] { fail<IoError>("job", "failed"); });
  CHECK_THROWS_AS(job.start([&] { ++runs; }), IoError);
  CHECK(runs == 1);
  job.wait();
  job.start([&] { ++runs; });
  job.wait();
  CHECK(runs == 2);
}

namespace {

constexpr std::int64_t kWeights = 20'000;

Part filled(float value) {
  Part part({{"weight", empty({kWeights})}, {"bias", numbers({value})}});
  std::ranges::fill_n(part.tensors.at("weight").data<float>(), kWeights, value);
  return part;
}

constexpr const char *kFolder = "FERRITE_TEST_LIMITED_FOLDER", *kHow = "FERRITE_TEST_LIMITED_HOW";

/// Saves in a separate process in which no file may grow beyond `limit` bytes. With `survive` that
/// is an error, as on a full disk; else the process ends at that byte. Returns the status from
/// waitpid().
int save_limited(const TempDir& dir, std::size_t limit, bool survive, bool background) {
  const std::string how = fmt::format("{}{}", survive ? 's' : 'k', background ? 'b' : 'f');
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    setenv(kFolder, dir.path().c_str(), 1);
    setenv(kHow, how.c_str(), 1);
    const int none = open("/dev/null", O_WRONLY);  // which accepts any number of bytes
    dup2(none, STDOUT_FILENO);
    dup2(none, STDERR_FILENO);
    // A sanitizer's runtime writes its own file at startup; the test sets its handler after that.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit no_core{0, 0}, files{limit, limit};
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_FSIZE, &files);
    alarm(100);  // in case it hangs
    execl("/proc/self/exe", "limited", "--test-case=(in a child process: a small disk)",
          "--no-skip", nullptr);
    _exit(127);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("(in a child process: a small disk)" * doctest::skip()) {
  REQUIRE(std::getenv(kFolder) != nullptr);
  const std::string how = std::getenv(kHow);
  // By default the library reports an error; a program's own handler stays.
  signal(
      SIGXFSZ, how[0] == 's' ? SIG_DFL : [](int signal) {
        std::signal(signal, SIG_DFL);
        raise(signal);
      });
  Part model = filled(2);
  TrainingState state;
  state.add("model", model);
  CheckpointManager manager(std::getenv(kFolder), {.keep = 1, .background = how[1] == 'b'});
  for (const int step : {2, 3})
    CHECK(contains(message_of<IoError>([&] {
                     manager.save(step, state);
                     manager.wait();
                   }),
                   "cannot write"));
}

TEST_CASE("checkpoints: a disk that is full, or a kill in mid-write, leaves the previous one") {
  const TempDir dir;
  Part model = filled(1);
  TrainingState state;
  state.add("model", model);
  CheckpointManager(dir.path()).save(1, state);
  const std::string good = read_file(dir / "step_00000001.safetensors");
  for (const std::size_t limit :
       {std::size_t{0}, std::size_t{5}, std::size_t{300}, good.size() / 2, good.size() - 1}) {
    CAPTURE(limit);
    for (const bool background : {true, false}) {
      const int status = save_limited(dir, limit, /*survive=*/true, background);
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 0);
    }
    CHECK(names_in(dir) == std::vector<std::string>{"step_00000001.safetensors"});
    const int status = save_limited(dir, limit, /*survive=*/false, /*background=*/true);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGXFSZ);
    CHECK(read_file(dir / "step_00000001.safetensors") == good);

    Part loaded = filled(0);
    TrainingState resumed;
    resumed.add("model", loaded);
    CHECK(CheckpointManager(dir.path()).resume(resumed)->step == 1);
    CHECK(loaded.values("weight") == std::vector<float>(kWeights, 1.0F));
  }
  CHECK(names_in(dir).size() == 2);  // left by the last of the killed runs
  CheckpointManager manager(dir.path(), {.keep = 1});
  manager.save(2, state);
  manager.wait();
  CHECK(names_in(dir) == std::vector<std::string>{"step_00000002.safetensors"});
}

TEST_CASE("checkpoints: a loader's position is part of them") {
  const TempDir dir;
  std::vector<std::int64_t> labels(10);
  for (std::size_t i = 0; i < 10; ++i) labels[i] = static_cast<std::int64_t>(i);
  const data::TensorDataset dataset(from_vector<float>(std::vector<float>(10), {10, 1}),
                                    from_vector(labels, {10}));
  const auto make = [&] {
    return data::DataLoader(dataset,
                            {.batch_size = 2, .shuffle = true, .num_workers = 2, .seed = 4});
  };
  data::DataLoader loader = make(), other = make();
  TrainingState state, again;
  state.add("loader", loader);
  again.add("loader", other);
  CheckpointManager manager(dir.path());
  std::vector<std::int64_t> rest, resumed;
  int step = 0;
  for (auto& [inputs, targets] : loader) {
    if (++step == 2) manager.save(step, state);
    if (step > 2)
      for (const auto v : targets.to_vector<std::int64_t>()) rest.push_back(v);
  }
  manager.wait();
  manager.resume(again);
  for (auto& [inputs, targets] : other)
    for (const auto v : targets.to_vector<std::int64_t>()) resumed.push_back(v);
  CHECK(rest.size() == 6);
  CHECK(resumed == rest);
}
