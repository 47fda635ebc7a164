// Kernels that combine elements: reductions along rows and columns, softmax and related functions,
// layer norm, indexing, sorting.
#include <algorithm>

#include "ferrite/benchmarks/kernels/cases.h"
#include "ferrite/kernels/cross_entropy.h"
#include "ferrite/kernels/index.h"
#include "ferrite/kernels/norm.h"
#include "ferrite/kernels/order.h"
#include "ferrite/kernels/random.h"
#include "ferrite/kernels/reduce.h"
#include "ferrite/kernels/softmax.h"
#include "ferrite/ops/views.h"

namespace ferrite::bench {

namespace {

constexpr std::int64_t kWidth = 1024;

Shape flat(std::int64_t numel) { return {numel}; }
Shape rows(std::int64_t numel) { return {std::max<std::int64_t>(numel / kWidth, 1), kWidth}; }
Shape narrow_rows(std::int64_t numel) { return {std::max<std::int64_t>(numel / 100, 1), 100}; }

double bytes(const Tensor& t) { return static_cast<double>(t.nbytes()); }

DType statistic_dtype(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

/// int64 in [0, limit), random.
Tensor random_index(const Shape& shape, std::int64_t limit, const Device& device) {
  const Tensor index = empty(shape, {.dtype = kInt64, .device = device});
  kernels::random_integers(current_stream(device), index, PhiloxState{3, 0}, 0, limit);
  return index;
}

void add_reductions(std::vector<Op>& ops) {
  using kernels::ReduceOp;
  struct Reduction {
    const char* name;
    ReduceOp op;
    Shape (*shape)(std::int64_t);
    bool first, last;  // whether the first or last dimension is reduced
  };
  const Reduction all[] = {{"sum", ReduceOp::sum, flat, true, true},
                           {"sum_of_rows", ReduceOp::sum, rows, false, true},
                           {"sum_of_narrow_rows", ReduceOp::sum, narrow_rows, false, true},
                           {"sum_of_columns", ReduceOp::sum, rows, true, false},
                           {"max_of_rows", ReduceOp::max, rows, false, true},
                           {"norm", ReduceOp::norm, flat, true, true}};
  for (const Reduction& r : all)
    ops.push_back(
        {"reduce", r.name, r.shape, [r](const Spec& s, const Device& device) {
           Shape to = s.shape;
           if (r.first) to[0] = 1;
           if (r.last) to[to.size() - 1] = 1;
           const bool exact = r.op == ReduceOp::max;
           const Tensor in = random_values(s.shape, s.dtype, device);
           const Tensor out = random_values(to, exact ? s.dtype : statistic_dtype(s.dtype), device);
           return Run{[=](const Stream& stream) { kernels::reduce(stream, r.op, out, in); },
                      bytes(in) + bytes(out)};
         }});
  ops.push_back({"order", "argmax_of_rows", rows, [](const Spec& s, const Device& device) {
                   const Tensor in = random_values(s.shape, s.dtype, device);
                   const Tensor out = random_index({s.shape[0], 1}, s.shape[1], device);
                   return Run{[=](const Stream& stream) {
                                kernels::arg_extremum(stream, kernels::Extremum::max, {}, out, in,
                                                      1);
                              },
                              bytes(in) + bytes(out)};
                 }});
  ops.push_back({"order", "cumsum_of_rows", rows, [](const Spec& s, const Device& device) {
                   const Tensor in = random_values(s.shape, s.dtype, device),
                                out = random_values(s.shape, s.dtype, device);
                   return Run{[=](const Stream& stream) {
                                kernels::scan(stream, kernels::ScanOp::sum, out, in, 1);
                              },
                              bytes(in) + bytes(out)};
                 }});
  for (const auto& [name, kept] :
       {std::pair{"sort_rows", kWidth}, std::pair{"topk_of_rows", std::int64_t{5}}})
    ops.push_back({"order",
                   name,
                   rows,
                   [kept = kept](const Spec& s, const Device& device) {
                     const Tensor in = random_values(s.shape, s.dtype, device),
                                  out = random_values({s.shape[0], kept}, s.dtype, device),
                                  index = random_index({s.shape[0], kept}, s.shape[1], device);
                     const auto first =
                         kept == kWidth ? kernels::Extremum::min : kernels::Extremum::max;
                     return Run{[=](const Stream& stream) {
                                  kernels::sort(stream, first, out, index, in, 1);
                                },
                                bytes(in) + bytes(out) + bytes(index)};
                   },
                   {kFloat32}});
}

void add_softmax(std::vector<Op>& ops) {
  using kernels::SoftmaxKind;
  for (const auto& [name, shape] :
       {std::pair{"log_softmax", &rows}, std::pair{"log_softmax_of_narrow_rows", &narrow_rows}})
    ops.push_back({"softmax", name, shape, [](const Spec& s, const Device& device) {
                     const Tensor in = random_values(s.shape, s.dtype, device),
                                  out = random_values(s.shape, s.dtype, device);
                     return Run{[=](const Stream& stream) {
                                  kernels::softmax(stream, SoftmaxKind::log, out, in, 1);
                                },
                                bytes(in) + bytes(out)};
                   }});
  ops.push_back({"softmax", "log_softmax_backward", rows, [](const Spec& s, const Device& device) {
                   const Tensor grad = random_values(s.shape, s.dtype, device),
                                y = random_values(s.shape, s.dtype, device),
                                out = random_values(s.shape, s.dtype, device);
                   return Run{[=](const Stream& stream) {
                                kernels::softmax_backward(stream, SoftmaxKind::log, out, grad, y,
                                                          1);
                              },
                              3 * bytes(out)};
                 }});
  // Forward keeps the sums that backward reads.
  struct Loss {
    kernels::CrossEntropyArgs args;
    Tensor logits, target, sums, losses, mean, divisor, grad;
  };
  const auto loss_of = [](const Spec& s, const Device& device) {
    Loss l;
    const DType wide = statistic_dtype(s.dtype);
    l.logits = random_values(s.shape, s.dtype, device);
    l.target = random_index({s.shape[0], 1}, s.shape[1], device);
    l.sums = random_values({s.shape[0], 1}, wide, device);
    l.losses = random_values({s.shape[0], 1}, s.dtype, device);
    l.mean = random_values({}, s.dtype, device);
    l.divisor = random_values({}, wide, device);
    l.args = {.logits = l.logits, .dim = 1, .target = l.target};
    return l;
  };
  ops.push_back({"cross_entropy", "cross_entropy", rows, [=](const Spec& s, const Device& device) {
                   const Loss l = loss_of(s, device);
                   return Run{[l](const Stream& stream) {
                                kernels::cross_entropy(stream, l.args,
                                                       {.losses = {},
                                                        .log_sums = l.sums,
                                                        .sum = {},
                                                        .mean = l.mean,
                                                        .divisor = l.divisor});
                              },
                              bytes(l.logits) + bytes(l.target) + bytes(l.sums)};
                 }});
  ops.push_back(
      {"cross_entropy", "cross_entropy_backward", rows, [=](const Spec& s, const Device& device) {
         const Loss l = loss_of(s, device);
         const Tensor out = random_values(s.shape, s.dtype, device);
         const Tensor grad = l.mean.expand({s.shape[0], 1});
         return Run{[l, out, grad](const Stream& stream) {
                      kernels::cross_entropy_backward(stream, out, l.args, l.sums, grad, l.divisor);
                    },
                    2 * bytes(out) + bytes(l.target) + bytes(l.sums)};
       }});
}

void add_layer_norm(std::vector<Op>& ops) {
  struct Norm {
    Tensor in, out, grad, mean, rstd, weight, bias, grad_weight, grad_bias;
  };
  const auto norm_of = [](const Spec& s, const Device& device) {
    const DType wide = statistic_dtype(s.dtype);
    const auto like = [&] { return random_values(s.shape, s.dtype, device); };
    const auto row = [&] { return random_values({s.shape[1]}, wide, device); };
    const auto column = [&] { return random_values({s.shape[0]}, wide, device); };
    return Norm{like(), like(), like(), column(), column(), row(), row(), row(), row()};
  };
  ops.push_back({"norm", "layer_norm", rows, [=](const Spec& s, const Device& device) {
                   const Norm n = norm_of(s, device);
                   return Run{[n, s](const Stream& stream) {
                                kernels::layer_norm(stream, s.shape[0], s.shape[1], n.out, n.mean,
                                                    n.rstd, n.in, n.weight, n.bias, 1e-5);
                              },
                              2 * bytes(n.in)};
                 }});
  // All three gradients: grad and in are read twice if rows and columns are separate passes, but
  // once is enough.
  ops.push_back({"norm", "layer_norm_backward", rows, [=](const Spec& s, const Device& device) {
                   const Norm n = norm_of(s, device);
                   return Run{[n, s](const Stream& stream) {
                                kernels::layer_norm_backward(stream, s.shape[0], s.shape[1], n.out,
                                                             n.grad_weight, n.grad_bias, n.grad,
                                                             n.in, n.mean, n.rstd, n.weight);
                              },
                              3 * bytes(n.in)};
                 }});
}

void add_indexing(std::vector<Op>& ops) {
  ops.push_back({"index", "gather", rows, [](const Spec& s, const Device& device) {
                   const Tensor in = random_values(s.shape, s.dtype, device),
                                out = random_values(s.shape, s.dtype, device),
                                index = random_index(s.shape, s.shape[1], device);
                   return Run{[=](const Stream& stream) {
                                kernels::gather(stream, "gather", out, in, index, 1);
                              },
                              bytes(in) + bytes(out) + bytes(index)};
                 }});
  ops.push_back({"index",
                 "scatter_add",
                 rows,
                 [](const Spec& s, const Device& device) {
                   const Tensor source = random_values(s.shape, s.dtype, device),
                                out = random_values(s.shape, s.dtype, device),
                                index = random_index(s.shape, s.shape[1], device);
                   return Run{[=](const Stream& stream) {
                                kernels::scatter_add(stream, "scatter_add", out, index, source, 1);
                              },
                              2 * bytes(out) + bytes(source) + bytes(index)};
                 },
                 {kFloat32}});
  // Rows of a table, as in an embedding, and back.
  ops.push_back({"index", "index_select", rows, [](const Spec& s, const Device& device) {
                   const Tensor table = random_values(s.shape, s.dtype, device),
                                out = random_values(s.shape, s.dtype, device),
                                index = random_index({s.shape[0]}, s.shape[0], device);
                   return Run{[=](const Stream& stream) {
                                kernels::index_select(stream, "index_select", out, table, index, 0);
                              },
                              2 * bytes(out) + bytes(index)};
                 }});
  ops.push_back({"index",
                 "index_add",
                 rows,
                 [](const Spec& s, const Device& device) {
                   const Tensor source = random_values(s.shape, s.dtype, device),
                                out = random_values(s.shape, s.dtype, device),
                                index = random_index({s.shape[0]}, s.shape[0], device);
                   return Run{[=](const Stream& stream) {
                                kernels::index_add(stream, "index_add", out, index, source, 0, 1);
                              },
                              3 * bytes(out) + bytes(index)};
                 },
                 {kFloat32}});
}

}  // namespace

void add_row_ops(std::vector<Op>& ops) {
  add_reductions(ops);
  add_softmax(ops);
  add_layer_norm(ops);
  add_indexing(ops);
}

}  // namespace ferrite::bench
