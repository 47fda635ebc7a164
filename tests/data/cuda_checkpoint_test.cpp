// Checkpoints of CUDA tensors: the snapshot holds its step's values, without waiting.
#include <cstring>

#include "ferrite/core/cuda.h"
#include "ferrite/core/views.h"
#include "ferrite/data/checkpoint.h"
#include "ferrite/data/host_transfer.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

struct Part {
  StateDict tensors;
  StateDict state_dict() const { return tensors; }
  void load_state_dict(const StateDict& state) {
    for (const auto& [name, tensor] : tensors) {
      const Tensor host = state.at(name);
      const Device& device = tensor.device();
      detail::cuda::copy_bytes(current_stream(device), tensor.data_ptr(), device, host.data_ptr(),
                               Device(), host.nbytes());
      current_stream(device).synchronize();
    }
  }
};

}  // namespace

TEST_CASE("checkpoints on CUDA: work queued after save() does not affect it") {
  REQUIRE_CUDA(2);
  const TempDir dir;
  const Device zero("cuda:0"), one("cuda:1");
  const Tensor a = empty({1000}, {.dtype = kUInt8, .device = zero});
  const Tensor b = empty({7}, {.dtype = kUInt8, .device = one});
  const Tensor image = on_device<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {1, 2, 3, 2}, zero);
  Part part{{{"a", a}, {"b", b}, {"t", geometry::apply(image, geometry::transpose(image, 1, 3))}}};
  data::TrainingState state;
  state.add("part", part);
  data::CheckpointManager manager(dir.path(), {.keep = 0});
  const Stream stream = current_stream(zero);
  for (int step = 1; step <= 3; ++step) {
    CudaGate gate(stream);  // the device is behind the whole time
    fill_bytes(stream, a.data_ptr(), step, 1000);
    fill_bytes(current_stream(one), b.data_ptr(), 10 * step, 7);
    const std::uint64_t waits = cuda::synchronizations();
    manager.save(step, state);
    CHECK(cuda::synchronizations() == waits);
    fill_bytes(stream, a.data_ptr(), 99, 1000);
    fill_bytes(current_stream(one), b.data_ptr(), 99, 7);
    gate.open();
    manager.wait();
  }
  synchronize(zero);
  for (int step = 1; step <= 3; ++step) {
    const data::SafetensorsFile file(manager.path_of(step));
    const StateDict saved = file.load();
    CHECK(saved.at("part.a").to_vector<int>() == std::vector<int>(1000, step));
    CHECK(saved.at("part.b").to_vector<int>() == std::vector<int>(7, 10 * step));
    CHECK(saved.at("part.t").shape() == Shape{1, 2, 3, 2});
    CHECK(saved.at("part.t").to_vector<float>() ==
          std::vector<float>{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11});
    CHECK(file.info("part.b").device == "cuda:1");
  }
  part.tensors = {{"a", a}, {"b", b}};
  data::TrainingState again;
  again.add("part", part);
  CHECK(manager.resume(again, {.step = 2})->step == 2);
  CHECK(a.to_vector<int>() == std::vector<int>(1000, 2));
  CHECK(b.to_vector<int>() == std::vector<int>(7, 20));
}

TEST_CASE("checkpoints on CUDA: saving does not count as a wait of the training") {
  REQUIRE_CUDA(1);
  const TempDir dir;
  const Device device("cuda:0");
  Part part{{{"a", on_device<float>({1, 2}, {2}, device)}}};
  data::TrainingState state;
  state.add("part", part);
  data::CheckpointManager manager(dir.path());
  cuda::set_sync_debug_mode(cuda::SyncDebugMode::error);
  std::string failed;
  try {
    manager.save(1, state);
    manager.wait();
  } catch (const Error& error) {
    failed = error.what();
  }
  cuda::set_sync_debug_mode(cuda::SyncDebugMode::off);
  CHECK(failed == "");
  CHECK(manager.latest()->step == 1);
}

TEST_CASE("checkpoints on CUDA: memory that is freed while the snapshot is being copied") {
  REQUIRE_CUDA(1);
  const TempDir dir;
  const Device device("cuda:0");
  const Stream side = Stream::create(device);
  data::CheckpointManager manager(dir.path());
  {
    CudaGate gate(side);
    {
      const Tensor a = on_device<float>(std::vector<float>(256, 5), {256}, device);
      Part part{{{"a", a}}};
      data::TrainingState state;
      state.add("part", part);
      const StreamGuard guard(side);
      manager.save(1, state);
    }
    // From the same stream, and of the same size.
    const Tensor other = empty({256}, {.device = device});
    fill_bytes(current_stream(device), other.data_ptr(), 0, other.nbytes());
    gate.open();
    manager.wait();
  }
  CHECK(load(manager.path_of(1)).at("part.a").to_vector<float>() == std::vector<float>(256, 5));
}

TEST_CASE("checkpoints on CUDA: not during a capture, and a lost device is reported") {
  REQUIRE_CUDA(1);
  const TempDir dir;
  const Device device("cuda:0");
  Part part{{{"a", on_device<float>({1, 2}, {2}, device)}}};
  data::TrainingState state;
  state.add("part", part);
  data::CheckpointManager manager(dir.path());
  manager.save(1, state);
  manager.wait();
  {
    const Stream stream = Stream::create(device);
    const StreamGuard guard(stream);
    std::string text;
    CHECK_THROWS_AS(Graph(stream,
                          [&] {
                            text = message_of<CudaError>([&] { manager.save(2, state); });
                            throw Error("stop");
                          }),
                    Error);
    CHECK(contains(text, "captured into a graph"));
  }
  if (is_emulated()) {
    {
      const LostDevice lost(0);
      CHECK_THROWS_AS(manager.save(2, state), CudaError);
    }
    // The device is lost during the copy: there is nothing to write.
    part.tensors = {{"a", on_device<float>({1, 2}, {2}, device)}};
    CudaGate gate(current_stream(device));
    manager.save(2, state);
    gate.wait_until_reached();  // a lost device never runs what is only queued
    const LostDevice lost(0);
    gate.open();
    CHECK_THROWS_AS(manager.wait(), CudaError);
  }
  CHECK(manager.latest()->step == 1);
}
