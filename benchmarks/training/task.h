// What is trained, on what: the same networks on the same images as torch_training.py.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "nn/module.h"

namespace ferrite::bench {

struct Task {
  std::string name;
  std::int64_t channels, size, classes;
};

/// "lenet5", "d2l", "resnet18-28", "resnet18-32" and "resnet18-224". ResNet-18 is of the form for
/// small images but for the last.
const std::vector<Task>& tasks();
const Task& task(const std::string& name);

/// A network on the host.
std::unique_ptr<nn::Module> make_model(const Task& task, bool checkpoint = false);

struct Batch {
  Tensor images, labels;
};

/// Batch `number` on the host: a pattern for each class, and noise, by a formula; something to
/// learn, without reading a file.
Batch make_batch(const Task& task, std::int64_t number, std::int64_t size);

}  // namespace ferrite::bench
