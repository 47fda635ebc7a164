#include "ferrite/tests/optim/killed_training.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>

#include "ferrite/core/generator.h"
#include "ferrite/data/checkpoint.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/data/image_dataset.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/amp/amp.h"
#include "ferrite/optim/clip.h"
#include "ferrite/optim/lr_scheduler.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/data/files.h"

namespace ferrite::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSamples = 58, kBatch = 6, kClasses = 4;

struct Net : nn::Cloneable<Net> {
  Net() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("dropout", dropout);
    register_module("fc", fc);
  }
  Tensor forward(const Tensor& x) override { return fc(dropout(relu(norm(conv(x))).flatten(1))); }
  nn::Conv2d conv{1, 2, 3};
  nn::BatchNorm2d norm{2};
  nn::Dropout dropout{0.3};
  nn::Linear fc{2 * 6 * 6, kClasses};
};

data::ImageDataset dataset() {
  Generator random(1);
  const Tensor images = empty({kSamples, 1, 8, 8}, {.dtype = kUInt8});
  for (std::int64_t i = 0; i < images.numel(); ++i)
    images.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(random.next_below(256));
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < kSamples; ++i) labels.push_back(i % kClasses);
  return {images,
          from_vector(labels, {kSamples}),
          {"a", "b", "c", "d"},
          data::Compose{data::RandomCrop(8, 1), data::RandomHorizontalFlip(), data::ToTensor(),
                        data::Normalize(0.5, 0.25)}};
}

/// Trains up to `steps` steps with checkpoints in `folder`, where it first resumes; calls
/// after_step() after each. The end's state lies in "final.safetensors".
void train(const fs::path& folder, const Device& device, int steps,
           const std::function<void()>& after_step) {
  manual_seed(7);
  Net net;
  net.to(device);
  optim::SGD sgd(net.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
  optim::OneCycleLR scheduler(sgd, {.max_lr = 0.1, .total_steps = steps});
  optim::amp::Amp amp = optim::amp::initialize(net, sgd, optim::amp::O2);
  data::DataLoader loader(dataset(), {.batch_size = kBatch, .shuffle = true, .num_workers = 2});
  int step = 0;
  double seen = 0;

  data::TrainingState state;
  state.add("model", net).add("optimizer", sgd).add("scheduler", scheduler).add("amp", amp);
  state.add("loader", loader).add_generators();
  state.add_value("steps_done", step).add_value("seen", seen);
  data::CheckpointManager checkpoints(folder, {.keep = 2});
  checkpoints.resume(state);
  while (step < steps)
    for (auto& [images, labels] : loader) {
      const Tensor loss = cross_entropy(net(images.to(device)), labels.to(device));
      sgd.zero_grad();
      // Once in a while the scaled loss overflows, and the step is skipped.
      amp.scale(step % 13 == 5 ? loss * 1e38 : loss).backward();
      optim::clip_grad_norm_(amp.master_parameters(), 1.0);
      amp.step(sgd);
      scheduler.step();
      seen += 0.1 * static_cast<double>(images.size(0));
      ++step;
      if (step % 2 == 0) checkpoints.save(step, state);
      after_step();
      if (step == steps) break;
    }
  checkpoints.wait();
  save(state.tensors(), folder / "final.safetensors", state.values());
}

// ---- The process that is killed

constexpr const char *kFolder = "FERRITE_TEST_TRAIN_FOLDER", *kDevice = "FERRITE_TEST_TRAIN_DEVICE",
                     *kSteps = "FERRITE_TEST_TRAIN_STEPS", *kPipe = "FERRITE_TEST_TRAIN_PIPE";

/// Bytes a step in the pipe, which holds a page: the child gets at most four steps ahead of who
/// reads them, however fast it is.
constexpr std::size_t kMessage = 1024;

TEST_CASE("(in a child process: training)" * doctest::skip()) {
  const char* const folder = std::getenv(kFolder);
  REQUIRE(folder != nullptr);
  const int pipe = std::atoi(std::getenv(kPipe));
  train(folder, Device(std::getenv(kDevice)), std::atoi(std::getenv(kSteps)),
        [&] { REQUIRE(write(pipe, std::string(kMessage, 's').data(), kMessage) == kMessage); });
}

class Child {
 public:
  Child(const fs::path& folder, const Device& device, int steps) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    REQUIRE(fcntl(ends[0], F_SETPIPE_SZ, 4096) == 4096);
    id_ = fork();
    REQUIRE(id_ >= 0);
    if (id_ == 0) {
      close(ends[0]);
      const std::string log = (folder / "log").string();
      const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(out, STDOUT_FILENO);
      dup2(out, STDERR_FILENO);
      setenv(kFolder, folder.c_str(), 1);
      setenv(kDevice, device.str().c_str(), 1);
      setenv(kSteps, std::to_string(steps).c_str(), 1);
      setenv(kPipe, std::to_string(ends[1]).c_str(), 1);
      alarm(200);  // should it hang
      execl("/proc/self/exe", "killed_training", "--test-case=(in a child process: training)",
            "--no-skip", nullptr);
      _exit(127);
    }
    close(ends[1]);
    pipe_ = ends[0];
  }
  ~Child() {
    if (id_ > 0) kill();
    close(pipe_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Waits until it has done so many steps, or has ended.
  void await_steps(int count) const {
    char message[kMessage];
    while (count > 0 && read(pipe_, message, sizeof message) == sizeof message) --count;
  }
  /// Whether that ended it; it may have come to its end by itself.
  bool kill() {
    ::kill(id_, SIGKILL);
    const int how = status();
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL;
  }
  /// Whether it ends well.
  bool finishes() {
    char message[kMessage];
    while (read(pipe_, message, sizeof message) > 0) continue;
    return status() == 0;
  }

 private:
  int status() {
    int status = -1;
    waitpid(std::exchange(id_, 0), &status, 0);
    return status;
  }

  pid_t id_ = 0;
  int pipe_ = -1;
};

}  // namespace

void check_killed_training(const Device& device, int steps, int kills) {
  const TempDir straight, killed;
  {
    Child child(straight.path(), device, steps);
    REQUIRE_MESSAGE(child.finishes(), read_file(straight / "log"));
  }

  Generator random(
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  const auto uniform_us = [&](std::uint64_t most) {
    return std::chrono::microseconds(random.next_below(most));
  };
  int in_mid_write = 0;
  for (int i = 0; i < kills; ++i) {
    Child child(killed.path(), device, steps);
    if (i % 4 == 3) {  // while it starts and resumes
      std::this_thread::sleep_for(uniform_us(40'000));
    } else {
      child.await_steps(static_cast<int>(2 + random.next_below(4)));
      std::this_thread::sleep_for(uniform_us(5'000));
    }
    REQUIRE_MESSAGE(child.kill(), "it ended by itself: ", read_file(killed / "log"));
    for (const auto& entry : fs::directory_iterator(killed.path()))
      in_mid_write += entry.path().extension() == ".tmp";
    for (const auto& info : data::CheckpointManager(killed.path()).list())
      CHECK_MESSAGE(info.error.empty(), info.error);
  }
  MESSAGE(kills, " kills, ", in_mid_write, " of them while a checkpoint was being written");
  {
    Child child(killed.path(), device, steps);
    REQUIRE_MESSAGE(child.finishes(), read_file(killed / "log"));
  }
  const bool same =
      read_file(killed / "final.safetensors") == read_file(straight / "final.safetensors");
  CHECK(same);
  const StateDict end = load(killed / "final.safetensors");
  CHECK(end.at("amp.loss_scaler0.overflows").item<int>() >= (steps + 7) / 13);
  CHECK(end.at("loader.epoch").item<int>() > 0);
}

}  // namespace ferrite::test
