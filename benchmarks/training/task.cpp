#include "ferrite/benchmarks/training/task.h"

#include "ferrite/benchmarks/training/text_models.h"
#include "ferrite/core/error.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/resnet.h"

namespace bench {

using namespace ferrite;

const Task& task(const std::string& name) {
  const Task* found = find_task(name);
  FERRITE_CHECK(found != nullptr, ValueError, "bench_training", "no model '{}'", name);
  return *found;
}

std::unique_ptr<nn::Module> make_model(const Task& task, bool checkpoint) {
  manual_seed(0);
  if (task.is_text()) return make_text_model(task);
  if (task.name == "lenet5") return std::make_unique<nn::LeNet5>();
  if (task.name == "d2l") return std::make_unique<nn::D2LLeNet>();
  return std::make_unique<nn::ResNet18>(
      nn::ResNetOptions{.classes = task.classes,
                        .in_channels = task.channels,
                        .stem = task.size > 100 ? nn::ResNetStem::standard : nn::ResNetStem::small,
                        .checkpoint_blocks = checkpoint});
}

namespace {

Batch make_text_batch(const Task& task, std::int64_t number, std::int64_t size) {
  Batch batch{empty({size, task.length}, {.dtype = kInt64}),
              empty({size * task.length}, {.dtype = kInt64})};
  for (std::int64_t n = 0; n < size; ++n)
    make_text(task, number, n, batch.inputs.data<std::int64_t>() + n * task.length,
              batch.labels.data<std::int64_t>() + n * task.length);
  return batch;
}

}  // namespace

Batch make_batch(const Task& task, std::int64_t number, std::int64_t size) {
  if (task.is_text()) return make_text_batch(task, number, size);
  Batch batch{empty({size, task.channels, task.size, task.size}), empty({size}, {.dtype = kInt64})};
  auto* const values = batch.inputs.data<float>();
  auto* const labels = batch.labels.data<std::int64_t>();
  parallel_for(size, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      labels[n] = make_image(task, number, n, values + n * task.pixels());
  });
  return batch;
}

}  // namespace bench
