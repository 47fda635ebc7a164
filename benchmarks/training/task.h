// The training tasks: the same networks on the same images and texts as in torch_training.py.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ferrite/benchmarks/training/inputs.h"
#include "ferrite/core/tensor.h"
#include "ferrite/nn/module.h"

namespace bench {

/// ValueError if there is none with this name.
const Task& task(const std::string& name);

/// A network on the host.
std::unique_ptr<ferrite::nn::Module> make_model(const Task& task, bool checkpoint = false);

struct Batch {
  ferrite::Tensor inputs;  ///< images [N, C, H, W], or tokens [N, L]
  ferrite::Tensor labels;  ///< [N], or the next tokens [N * L]
};

/// Batch `number` on the host.
Batch make_batch(const Task& task, std::int64_t number, std::int64_t size);

}  // namespace bench
