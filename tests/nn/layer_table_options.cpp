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
  const Shape image{2, 4, 6, 5};
  table.push_back(row<Embedding>("Embedding of limited rows", {4, 3}, [] {
    return Embedding(6, 3, {.padding_idx = 2, .max_norm = 1, .scale_grad_by_freq = true});
  }));
  table.back().classes = 6;
  table.push_back(row<LayerNorm>("LayerNorm without bias", image, [] {
    return LayerNorm({6, 5}, {.bias = false});
  }));
  table.push_back(row<GroupNorm>("GroupNorm without bias", image,
                                 [] { return GroupNorm(2, 4, {.bias = false}); }));
  table.push_back(row<BatchNorm2d>("BatchNorm2d without bias", image,
                                   [] { return BatchNorm2d(4, {.bias = false}); }));
  table.push_back(row<InstanceNorm2d>("InstanceNorm2d without bias", image, [] {
    return InstanceNorm2d(4, {.affine = true, .bias = false});
  }));
  table.push_back(row<LSTM>("LSTM, projected", {5, 2, 4}, [] {
    return LSTM(4, 3, {.num_layers = 2, .bidirectional = true, .proj_size = 2});
  }));
  table.push_back(row<Sequential>("Sequential in place", image, [] {
    return Sequential(LeakyReLU(0.2), Hardswish({.inplace = true}), Mish({.inplace = true}),
                      Dropout2d(0.4, true), SELU({.inplace = true}), AlphaDropout(0.3, true),
                      Threshold(0.1, 0.2, true));
  }));
}

}  // namespace ferrite::test
