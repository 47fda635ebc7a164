#include "ferrite/kernels/cuda/vendor/cudnn/attention_graph.h"

#include <utility>

namespace ferrite::kernels::cuda::vendor {

namespace {

using Names = AttentionNames;
using Operand = AttentionProblem::Operand;

class AttentionBuilder {
 public:
  AttentionBuilder(const Cudnn& cudnn, const AttentionProblem& problem)
      : p_(problem),
        type_(data_type(problem.dtype)),
        batch_(problem.query.sizes[0]),
        heads_(problem.query.sizes[1]),
        rows_(problem.query.sizes[2]),
        keys_(problem.key.sizes[2]),
        graph_(cudnn) {}

  Graph build() && {
    p_.backward ? backward() : forward();
    return std::move(graph_);
  }

 private:
  using Four = Graph::Four;
  using Storage = Graph::Storage;

  void forward() {
    const Descriptor& lse = per_query(Names::kLse);
    const Descriptor& scores = masked(
        scaled_products(memory(Names::kQuery, p_.query), memory(Names::kKey, turned(p_.key))));
    const Descriptor& top = per_query();
    reduce(CUDNN_REDUCE_TENSOR_MAX, scores, top);
    const Descriptor& powers = unary(
        CUDNN_POINTWISE_EXP, binary(CUDNN_POINTWISE_SUB, scores, top, per_weight()), per_weight());
    const Descriptor& total = per_query();
    reduce(CUDNN_REDUCE_TENSOR_ADD, powers, total);
    binary(CUDNN_POINTWISE_ADD, top, unary(CUDNN_POINTWISE_LOG, total, per_query()), lse);
    // Products take the operands' type.
    const Descriptor& weights = binary(CUDNN_POINTWISE_DIV, powers, total, per_weight(type_));
    multiply(weights, memory(Names::kValue, p_.value), memory(Names::kOut, p_.out));
  }

  /// The order of the operations matters to cuDNN.
  void backward() {
    const Descriptor& query = memory(Names::kQuery, p_.query);
    const Descriptor& key = memory(Names::kKey, turned(p_.key));
    const Descriptor& value = memory(Names::kValue, turned(p_.value));
    const Descriptor& grad_out = memory(Names::kGradOut, p_.grad_out);

    // The mean of the gradients of each query's weights, weighted by these: sums of products of
    // gradient and result.
    const Descriptor& by_column = between(type_of_sums(), p_.out.sizes);
    binary(CUDNN_POINTWISE_MUL, grad_out, memory(Names::kOut, p_.out), by_column);
    const Descriptor& sums = per_query();
    reduce(CUDNN_REDUCE_TENSOR_ADD, by_column, sums);
    const Descriptor& means = per_query(Names::kMeans);
    binary(CUDNN_POINTWISE_MUL, sums, number(Names::kOne), means);

    const Descriptor& shifted = binary(CUDNN_POINTWISE_SUB, scaled_products(query, key),
                                       per_query(Names::kLse), per_weight());
    const Descriptor& weights = unary(CUDNN_POINTWISE_EXP, masked(shifted), per_weight());
    of_keys(turned_weights(weights), grad_out, Names::kGradValue, p_.grad_value);

    const Descriptor& by_weight = per_weight();
    multiply(grad_out, value, by_weight);
    const Descriptor& by_score =
        binary(CUDNN_POINTWISE_MUL, binary(CUDNN_POINTWISE_SUB, by_weight, means, per_weight()),
               weights, per_weight());
    const Descriptor& by_product =
        binary(CUDNN_POINTWISE_MUL, by_score, number(Names::kScale), per_weight());
    of_keys(turned_weights(by_product), query, Names::kGradKey, p_.grad_key);

    const Descriptor& rows_of_keys = virtual_tensor(type_, p_.key);
    reshape(key, rows_of_keys);
    const Descriptor& grad_query = memory(Names::kGradQuery, p_.grad_query);
    // Blocks of keys add to these sums, in any order.
    const Four sizes = p_.grad_query.sizes;
    const Descriptor& query_sums =
        graph_.tensor(Names::kQuerySums, type_of_sums(), sizes, dense(sizes), 16);
    multiply(by_product, rows_of_keys, query_sums);
    unary(CUDNN_POINTWISE_IDENTITY, query_sums, grad_query);
  }

  static cudnnDataType_t type_of_sums() { return CUDNN_DATA_FLOAT; }
  static Four dense(const Four& s) { return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1}; }
  /// The matrices transposed.
  static Operand turned(Operand o) {
    std::swap(o.sizes[2], o.sizes[3]);
    std::swap(o.strides[2], o.strides[3]);
    return o;
  }

  const Descriptor& memory(std::int64_t name, const Operand& o) {
    return graph_.tensor(name, type_, o.sizes, o.strides, 16);
  }
  const Descriptor& virtual_tensor(cudnnDataType_t type, const Operand& o) {
    return graph_.tensor(next_++, type, o.sizes, o.strides, 16, Storage::virtual_memory);
  }
  const Descriptor& between(cudnnDataType_t type, const Four& sizes) {
    return virtual_tensor(type, {sizes, dense(sizes)});
  }
  const Descriptor& per_weight(cudnnDataType_t type = type_of_sums()) {
    return between(type, {batch_, heads_, rows_, keys_});
  }
  const Descriptor& per_query() { return between(type_of_sums(), {batch_, heads_, rows_, 1}); }
  const Descriptor& per_query(std::int64_t name) {
    const Four sizes{batch_, heads_, rows_, 1};
    return graph_.tensor(name, type_of_sums(), sizes, dense(sizes), 16);
  }
  const Descriptor& number(std::int64_t name) {
    return graph_.tensor(name, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, 16, Storage::value);
  }

  const Descriptor& unary(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor& y) {
    graph_.pointwise(mode, x, y, {});
    return y;
  }
  const Descriptor& binary(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor& b,
                           const Descriptor& y) {
    graph_.pointwise(mode, x, y, {.b = &b});
    return y;
  }

  void multiply(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
    const Descriptor& product =
        graph_.make(CUDNN_BACKEND_MATMUL_DESCRIPTOR)
            .set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
            .finalize();
    graph_.add(graph_.make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
                   .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
                   .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
                   .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c)
                   .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product)
                   .finalize());
  }

  /// Along the dimensions in which y is smaller.
  void reduce(cudnnReduceTensorOp_t how, const Descriptor& x, const Descriptor& y) {
    const Descriptor& reduction =
        graph_.make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
            .set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, how)
            .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
            .finalize();
    graph_.add(graph_.make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
                   .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
                   .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y)
                   .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction)
                   .finalize());
  }

  /// Views the memory of x with the sizes and strides of y.
  void reshape(const Descriptor& x, const Descriptor& y) {
    graph_.add(graph_.make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
                   .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x)
                   .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y)
                   .finalize());
  }

  const Descriptor& scaled_products(const Descriptor& query, const Descriptor& turned_key) {
    const Descriptor& products = per_weight();
    multiply(query, turned_key, products);
    return binary(CUDNN_POINTWISE_MUL, products, number(Names::kScale), per_weight());
  }

  /// Minus infinity where a query does not attend to a key.
  const Descriptor& masked(const Descriptor& scores) {
    if (!p_.causal) return scores;
    const auto index = [&](std::int64_t axis) -> const Descriptor& {
      const Descriptor& all = per_weight(CUDNN_DATA_INT32);
      graph_.pointwise(CUDNN_POINTWISE_GEN_INDEX, scores, all,
                       {.precision = CUDNN_DATA_INT32, .axis = axis});
      return all;
    };
    const Descriptor& row = index(2);
    const Descriptor& column = index(3);
    const Descriptor& attends = per_weight(CUDNN_DATA_BOOLEAN);
    graph_.pointwise(CUDNN_POINTWISE_CMP_GE, row, attends,
                     {.b = &column, .precision = CUDNN_DATA_BOOLEAN});
    const Descriptor& result = per_weight();
    graph_.pointwise(CUDNN_POINTWISE_BINARY_SELECT, scores, result,
                     {.b = &number(Names::kNever), .t = &attends});
    return result;
  }

  const Descriptor& turned_weights(const Descriptor& weights) {
    const Four sizes{batch_, heads_, rows_, keys_};
    const Descriptor& result = virtual_tensor(type_, turned({sizes, dense(sizes)}));
    reshape(weights, result);
    return result;
  }

  /// A gradient of keys or values: the products for each head, added for heads that share keys.
  void of_keys(const Descriptor& weights, const Descriptor& by_query, std::int64_t name,
               const Operand& gradient) {
    const Descriptor& result = memory(name, gradient);
    if (gradient.sizes[1] == heads_) return multiply(weights, by_query, result);
    const Descriptor& each = between(type_, {batch_, heads_, keys_, gradient.sizes[3]});
    multiply(weights, by_query, each);
    reduce(CUDNN_REDUCE_TENSOR_ADD, each, result);
  }

  const AttentionProblem& p_;
  const cudnnDataType_t type_;
  const std::int64_t batch_, heads_, rows_, keys_;
  std::int64_t next_ = Names::kFirstVirtual;
  Graph graph_;
};

}  // namespace

Plans plans_of(const PlanTarget& target, const AttentionProblem& problem) {
  if (target.cudnn.get_version() < 91600)
    throw NotSupported{"cuDNN before 9.16: wrong gradients where 128 does not divide the keys"};
  if (problem.backward && problem.query.sizes[2] == 1 && problem.key.sizes[2] == 1)
    throw NotSupported{"gradients of one query and one key"};
  return {target,
          AttentionBuilder(target.cudnn, problem).build(),
          {.deterministic = problem.deterministic, .workspace = problem.workspace_limit}};
}

}  // namespace ferrite::kernels::cuda::vendor
