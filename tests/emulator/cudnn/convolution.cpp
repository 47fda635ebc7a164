#include "ferrite/tests/emulator/cudnn/convolution.h"

#include <bit>

namespace emulator::cudnn {

namespace {

constexpr auto kForward = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
               kData = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
               kFilter = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;

struct Names {
  int geometry, input, weight, out, alpha, beta;
};

Names names_of(cudnnBackendDescriptorType_t type) {
  if (type == kForward)
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  if (type == kData)
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

float number(const Node& n, int name) {
  return std::bit_cast<float>(static_cast<std::int32_t>(n.value(name)));
}

const std::vector<std::int64_t>& sizes_of(const Node& tensor) {
  return tensor.values.at(CUDNN_ATTR_TENSOR_DIMENSIONS);
}

}  // namespace

bool Convolution::is_one(const Node& o) {
  return o.type == kForward || o.type == kData || o.type == kFilter;
}

Convolution::Convolution(const Node& o) : type_(o.type) {
  const Names names = names_of(o.type);
  input_ = &o.part(names.input);
  weight_ = &o.part(names.weight);
  out_ = &o.part(names.out);
  const Node& geometry = o.part(names.geometry);
  before_ = geometry.values.at(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  dilation_ = geometry.values.at(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  stride_ = geometry.values.at(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  alpha_ = number(o, names.alpha);
  beta_ = number(o, names.beta);
}

const Node& Convolution::result() const {
  return type_ == kForward ? *out_ : type_ == kData ? *input_ : *weight_;
}

std::string Convolution::name() const {
  return type_ == kForward ? "cudnn convolution"
         : type_ == kData  ? "cudnn convolution, gradient of the input"
                           : "cudnn convolution, gradient of the weight";
}

std::uint64_t Convolution::operations() const {
  std::uint64_t products = 2;
  for (const std::int64_t size : sizes_of(*out_)) products *= static_cast<std::uint64_t>(size);
  for (std::size_t d = 1; d < 4; ++d) products *= static_cast<std::uint64_t>(sizes_of(*weight_)[d]);
  return products;
}

void Convolution::run(Tensor& input, Tensor& weight, Tensor& out) const {
  Tensor& result = type_ == kForward ? out : type_ == kData ? input : weight;
  std::vector<float> sums(result.elements.size(), 0.0F);
  const std::int64_t ins = weight.sizes[1], outs = weight.sizes[0] * ins / input.sizes[1];
  for_each(out.sizes, [&](const Four& o) {
    const std::size_t at_out = out.place(o);
    for (std::int64_t c = 0; c < ins; ++c)
      for (std::int64_t r = 0; r < weight.sizes[2]; ++r)
        for (std::int64_t s = 0; s < weight.sizes[3]; ++s) {
          const std::int64_t h = o[2] * stride_[0] - before_[0] + r * dilation_[0],
                             w = o[3] * stride_[1] - before_[1] + s * dilation_[1];
          if (h < 0 || h >= input.sizes[2] || w < 0 || w >= input.sizes[3]) continue;
          const std::size_t at_in = input.place({o[0], o[1] / outs * ins + c, h, w}),
                            at_weight = weight.place({o[1], c, r, s});
          if (type_ == kForward)
            sums[at_out] += input.elements[at_in] * weight.elements[at_weight];
          else if (type_ == kData)
            sums[at_in] += out.elements[at_out] * weight.elements[at_weight];
          else
            sums[at_weight] += out.elements[at_out] * input.elements[at_in];
        }
  });
  for_each(result.sizes, [&](const Four& i) {
    const float sum = alpha_ * sums[result.place(i)];
    result.set(i, beta_ == 0 ? sum : sum + beta_ * result.at(i));
  });
}

void sums(const Tensor& x, Tensor& sum, Tensor& squares) {
  for (std::int64_t c = 0; c < x.sizes[1]; ++c) {
    float first = 0, second = 0;
    for_each({x.sizes[0], 1, x.sizes[2], x.sizes[3]}, [&](const Four& i) {
      const float value = x.elements[x.place({i[0], c, i[2], i[3]})];
      first += value;
      second += value * value;
    });
    sum.set({0, c, 0, 0}, first);
    squares.set({0, c, 0, 0}, second);
  }
}

Operands operands_of(const Node& o) {
  if (Convolution::is_one(o)) {
    const Convolution c(o);
    Operands all{{}, {&c.result()}};
    for (const Node* t : {&c.input(), &c.weight(), &c.out()})
      if (t != &c.result()) all.read.push_back(t);
    return all;
  }
  const auto some = [&](std::initializer_list<int> names) {
    std::vector<const Node*> found;
    for (const int name : names)
      if (const Node* const n = o.optional(name)) found.push_back(n);
    return found;
  };
  switch (o.type) {
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
      return {
          some({CUDNN_ATTR_OPERATION_GENSTATS_XDESC}),
          some({CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC})};
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return {some({CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC}),
              some({CUDNN_ATTR_OPERATION_MATMUL_CDESC})};
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return {some({CUDNN_ATTR_OPERATION_REDUCTION_XDESC}),
              some({CUDNN_ATTR_OPERATION_REDUCTION_YDESC})};
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return {some({CUDNN_ATTR_OPERATION_RESHAPE_XDESC}),
              some({CUDNN_ATTR_OPERATION_RESHAPE_YDESC})};
    default:
      return {some({CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                    CUDNN_ATTR_OPERATION_POINTWISE_TDESC}),
              some({CUDNN_ATTR_OPERATION_POINTWISE_YDESC})};
  }
}

std::size_t bytes_of(const Node& tensor) {
  if (tensor.value(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0) return 0;
  std::size_t bytes = tensor.value(CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_FLOAT ? 4 : 2;
  for (const std::int64_t size : sizes_of(tensor)) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

}  // namespace emulator::cudnn
