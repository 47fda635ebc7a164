#include "ferrite/nn/layers.h"
#include "ferrite/tests/nn/layer_table.h"

namespace ferrite::test {

namespace {

template <class M>
Layer row(std::string name, const Shape& input, std::function<M()> make) {
  return {std::move(name), [=] { return std::make_unique<M>(make()); }, input};
}

}  // namespace

void add_layer_options(std::vector<Layer>& table) {
  using namespace nn;
  table.push_back(row<Embedding>("Embedding of limited rows", {4, 3}, [] {
    return Embedding(6, 3, {.padding_idx = 2, .max_norm = 1, .scale_grad_by_freq = true});
  }));
  table.back().classes = 6;
}

}  // namespace ferrite::test
