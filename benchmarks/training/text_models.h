// The networks of texts: embedding, transformer or LSTM, and a product that gives the logits of
// each next token, [N * L, tokens].
#pragma once

#include <memory>

#include "ferrite/benchmarks/training/inputs.h"
#include "ferrite/nn/module.h"

namespace bench {

std::unique_ptr<ferrite::nn::Module> make_text_model(const Task& task);

}  // namespace bench
