// Attributes under which ops report themselves (core/tracing.h), for ops/ alone.
#pragma once

#include <vector>

#include "ferrite/core/tracing.h"
#include "ferrite/ops/pair.h"

namespace ferrite::ops {

template <class T>
tracing::Sizes size_list(const T& size) {
  const auto all = sizes_of(size);
  return {all.begin(), all.end()};
}

/// Attributes of a convolution, or of a transposed one, in N dimensions.
template <int N, class Options>
std::vector<tracing::Attribute> conv_attributes(const Options& o) {
  std::vector<tracing::Attribute> all{{"stride", size_list(SizeOf<N>(o.stride))},
                                      {"dilation", size_list(SizeOf<N>(o.dilation))},
                                      {"groups", o.groups}};
  if constexpr (requires { o.padding.is_same; }) {
    all.push_back({"padding", size_list(SizeOf<N>(o.padding.size))});
    all.push_back({"same", o.padding.is_same});
  } else {
    all.push_back({"padding", size_list(SizeOf<N>(o.padding))});
    all.push_back({"output_padding", size_list(SizeOf<N>(o.output_padding))});
  }
  return all;
}

}  // namespace ferrite::ops
