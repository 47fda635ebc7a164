// What the functions of the emulator's cuDNN compute with: descriptors and tensors.
#pragma once

#include <cudnn_graph.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ferrite/core/half.h"

namespace emulator::cudnn {

using Four = std::array<std::int64_t, 4>;

/// A descriptor: its attributes, which are numbers, pointers, or other descriptors.
struct Node {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<std::int64_t>> values = {};
  std::map<int, std::vector<std::shared_ptr<Node>>> parts = {};
  bool finalized = false;

  std::int64_t value(int name) const { return values.at(name).at(0); }
  const Node& part(int name) const { return *parts.at(name).at(0); }
  const Node* optional(int name) const { return parts.contains(name) ? &part(name) : nullptr; }
};
using Handle = std::shared_ptr<Node>;

/// A tensor while a graph is computed: the elements of its memory from the first to the last.
struct Tensor {
  Four sizes, strides;
  cudnnDataType_t type;
  bool is_virtual;
  void* memory;
  std::vector<float> elements;

  std::size_t place(const Four& index) const {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < 4; ++d) at += index[d] * strides[d];
    return static_cast<std::size_t>(at);
  }
  /// The element for an index of a tensor of these sizes, of which this has each, one for all, or
  /// one for a group.
  float at(Four index, const Four& of) const {
    for (std::size_t d = 0; d < 4; ++d) index[d] = index[d] * sizes[d] / of[d];
    return elements[place(index)];
  }
  float& at(const Four& index) { return elements[place(index)]; }

  float rounded(float x) const {
    if (type == CUDNN_DATA_HALF) return ferrite::Half(x);
    if (type == CUDNN_DATA_BFLOAT16) return ferrite::BFloat16(x);
    return x;
  }
  /// Also in the memory, unless it is virtual.
  void set(const Four& index, float value) {
    const std::size_t i = place(index);
    elements[i] = rounded(value);
    if (is_virtual) return;
    if (type == CUDNN_DATA_HALF)
      static_cast<ferrite::Half*>(memory)[i] = value;
    else if (type == CUDNN_DATA_BFLOAT16)
      static_cast<ferrite::BFloat16*>(memory)[i] = value;
    else
      static_cast<float*>(memory)[i] = value;
  }
};

template <class F>
void for_each(const Four& sizes, F&& f) {
  Four i;
  for (i[0] = 0; i[0] < sizes[0]; ++i[0])
    for (i[1] = 0; i[1] < sizes[1]; ++i[1])
      for (i[2] = 0; i[2] < sizes[2]; ++i[2])
        for (i[3] = 0; i[3] < sizes[3]; ++i[3]) f(i);
}

}  // namespace emulator::cudnn
