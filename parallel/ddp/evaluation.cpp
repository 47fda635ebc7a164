#include "ferrite/parallel/ddp/evaluation.h"

#include <algorithm>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/error.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/ddp/model_check.h"

namespace ferrite::parallel {

namespace {

/// Null if there is only this process.
std::shared_ptr<ProcessGroup> group_or_default(const std::shared_ptr<ProcessGroup>& group) {
  if (group) return group->size() > 1 ? group : nullptr;
  return get_world_size() > 1 ? default_group() : nullptr;
}

/// The properties that must agree between ranks before anything is gathered.
struct Header {
  DType dtype;
  Shape shape;
};

/// The headers of all ranks; the same on all.
std::vector<Header> exchange_headers(const Tensor& tensor, ProcessGroup& group) {
  constexpr std::int64_t kFields = 2 + kMaxDims;  // dtype, number of dimensions, sizes
  std::vector<std::int64_t> mine(kFields, 0);
  mine[0] = static_cast<std::int64_t>(tensor.dtype());
  mine[1] = tensor.dim();
  for (int d = 0; d < tensor.dim(); ++d) mine[static_cast<std::size_t>(2 + d)] = tensor.size(d);
  const std::vector<std::int64_t> numbers = ddp::gather_numbers(group, mine);
  std::vector<Header> headers;
  for (int r = 0; r < group.size(); ++r) {
    const std::int64_t* const at = numbers.data() + r * kFields;
    Header header{static_cast<DType>(at[0]), {}};
    for (std::int64_t d = 0; d < at[1]; ++d) header.shape.push_back(at[2 + d]);
    headers.push_back(header);
  }
  return headers;
}

void check_agreement(const std::vector<Header>& headers, const char* op) {
  const Header& first = headers[0];
  for (std::size_t r = 1; r < headers.size(); ++r) {
    const Header& other = headers[r];
    FERRITE_CHECK(other.dtype == first.dtype, DTypeError, op,
                  "expected tensors of one dtype, got {} from rank 0 and {} from rank {}",
                  first.dtype, other.dtype, r);
    bool same = other.shape.size() == first.shape.size();
    for (int d = 1; same && d < first.shape.size(); ++d) same = other.shape[d] == first.shape[d];
    FERRITE_CHECK(same, ShapeError, op,
                  "expected shapes that differ in dimension 0 alone, got {} from rank 0 and {} "
                  "from rank {}",
                  first.shape, other.shape, r);
  }
}

struct Gathered {
  Tensor padded;                      ///< [ranks, max n, *]
  std::vector<std::int64_t> lengths;  ///< n of each rank
};

Gathered gather_padded(const Tensor& tensor, ProcessGroup& group, const char* op) {
  const std::vector<Header> headers = exchange_headers(tensor, group);
  check_agreement(headers, op);
  Gathered result;
  for (const Header& header : headers) result.lengths.push_back(header.shape[0]);
  Shape shape = tensor.shape();
  shape[0] = *std::ranges::max_element(result.lengths);
  // Groups do not support bool.
  const DType dtype = tensor.dtype() == kBool ? kUInt8 : tensor.dtype();
  const TensorOptions options{.dtype = dtype, .device = tensor.device()};
  Tensor mine = tensor.detach().to(dtype).contiguous();
  if (tensor.size(0) < shape[0]) {
    const Tensor longer = zeros(shape, options);
    longer.narrow(0, 0, tensor.size(0)).copy_(mine);
    mine = longer;
  }
  Shape all = shape;
  all.insert(0, group.size());
  result.padded = empty(all, options);
  group.all_gather(result.padded, mine).wait();
  if (dtype != tensor.dtype()) result.padded = result.padded.to(tensor.dtype());
  return result;
}

void check_gathered(const Tensor& tensor, const char* op) {
  FERRITE_CHECK(tensor.defined(), ValueError, op, "the tensor is undefined");
  FERRITE_CHECK(tensor.dim() > 0, ValueError, op,
                "expected a tensor of one dimension or more, got {}; use unsqueeze(0)",
                tensor.describe());
  FERRITE_CHECK(tensor.dim() < kMaxDims, ShapeError, op, "expected less than {} dimensions, got {}",
                kMaxDims, tensor.describe());
}

}  // namespace

Tensor all_gather_uneven(const Tensor& tensor, const std::shared_ptr<ProcessGroup>& given) {
  const NoGradGuard guard;
  check_gathered(tensor, "all_gather_uneven");
  const std::shared_ptr<ProcessGroup> group = group_or_default(given);
  if (!group) return tensor.detach().clone(kContiguous);
  const Gathered all = gather_padded(tensor, *group, "all_gather_uneven");
  std::vector<Tensor> parts;
  for (std::size_t r = 0; r < all.lengths.size(); ++r)
    parts.push_back(all.padded[static_cast<std::int64_t>(r)].narrow(0, 0, all.lengths[r]));
  return cat(parts, 0);
}

Tensor all_gather_samples(const Tensor& results, std::int64_t size,
                          const std::shared_ptr<ProcessGroup>& given) {
  const NoGradGuard guard;
  constexpr const char* op = "all_gather_samples";
  check_gathered(results, op);
  const std::shared_ptr<ProcessGroup> group = group_or_default(given);
  const Gathered all = group ? gather_padded(results, *group, op)
                             : Gathered{results.detach().unsqueeze(0), {results.size(0)}};
  const auto ranks = static_cast<std::int64_t>(all.lengths.size());
  for (std::int64_t r = 0; r < ranks; ++r) {
    const std::int64_t n = all.lengths[static_cast<std::size_t>(r)];
    const std::int64_t padded = (size + ranks - 1) / ranks, own = (size - r + ranks - 1) / ranks;
    FERRITE_CHECK(n == padded || n == own, ValueError, op,
                  "expected the results of {} samples of {} from rank {}, got {}", own, size, r, n);
  }
  // Sample i is number i / ranks of rank i % ranks.
  Shape shape = results.shape();
  shape[0] = all.padded.size(1) * ranks;
  return all.padded.transpose(0, 1).contiguous().view(shape).narrow(0, 0, size).clone();
}

void all_reduce_sums(const Tensor& sums, const std::shared_ptr<ProcessGroup>& given) {
  if (const std::shared_ptr<ProcessGroup> group = group_or_default(given))
    group->all_reduce(sums).wait();
}

namespace detail {

StateDict reduced_meter(const StateDict& state, const std::shared_ptr<ProcessGroup>& given) {
  const std::shared_ptr<ProcessGroup> group = group_or_default(given);
  if (!group) return state;
  const NoGradGuard guard;
  const char* const sum = state.contains("sum") ? "sum" : "total";
  const Tensor both = stack({state.at(sum).to(kFloat64), state.at("count").to(kFloat64)}, 0);
  const Tensor there = both.to(ddp::exchange_device(*group));
  all_reduce_sums(there, group);
  const Tensor reduced = there.to(Device());
  StateDict result;
  for (const auto& [name, t] : state)
    result.insert(name, name == sum       ? reduced[0].to(t.dtype())
                        : name == "count" ? reduced[1].to(t.dtype())
                                          : t);
  return result;
}

}  // namespace detail

}  // namespace ferrite::parallel
