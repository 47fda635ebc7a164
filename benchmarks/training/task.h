// The training tasks: the same networks on the same images as in torch_training.py.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ferrite/benchmarks/training/images.h"
#include "ferrite/core/tensor.h"
#include "ferrite/nn/module.h"

namespace bench {

/// ValueError if there is none with this name.
const Task& task(const std::string& name);

/// A network on the host.
std::unique_ptr<ferrite::nn::Module> make_model(const Task& task, bool checkpoint = false);

struct Batch {
  ferrite::Tensor images, labels;
};

/// Batch `number` on the host.
Batch make_batch(const Task& task, std::int64_t number, std::int64_t size);

}  // namespace bench
