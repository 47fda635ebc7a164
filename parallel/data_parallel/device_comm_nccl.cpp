#include <algorithm>
#include <utility>

#include "ferrite/kernels/copy.h"
#include "ferrite/parallel/comm/clique.h"
#include "ferrite/parallel/data_parallel/device_comm_backends.h"
#include "ferrite/parallel/data_parallel/device_comm_layout.h"

namespace ferrite::parallel::dp {

namespace {

/// Smaller tensors are packed: NCCL splits each call over all its channels.
constexpr std::size_t kPackedForNccl = std::size_t{1} << 20;

using Kind = comm::CliqueCall::Kind;

/// Whether NCCL adds numbers of this type: it has not all, and rounds 16-bit ones at each step.
bool adds(DType dtype) {
  switch (dtype) {
    case kFloat32:
    case kFloat64:
    case kInt64:
    case kInt32:
    case kInt8:
    case kUInt8:
      return true;
    default:
      return false;
  }
}

comm::CliqueCall call_of(Kind kind, DType dtype, std::size_t bytes) {
  return {kind, dtype, static_cast<std::int64_t>(bytes / itemsize(dtype)), {}, {}};
}

void* at(const Tensor& flat, std::size_t offset) {
  return static_cast<char*>(flat.data_ptr()) + offset;
}

class NcclComm final : public DeviceComm {
 public:
  explicit NcclComm(std::vector<Device> devices)
      : DeviceComm(std::move(devices)),
        streams_(own_streams(this->devices())),
        clique_(comm::make_nccl_clique(this->devices())),
        copies_(make_copies_device_comm(this->devices())) {}

  std::string_view backend() const override { return "nccl"; }
  std::vector<std::vector<Tensor>> broadcast(std::span<const Tensor> tensors) override;
  std::vector<Tensor> reduce_add(std::span<const std::vector<Tensor>> parts, int first) override;

 private:
  using Lists = std::vector<std::vector<Tensor>>;
  std::vector<Tensor> sum(const Lists& parts, std::size_t first);

  const std::vector<Stream> streams_;
  const std::shared_ptr<comm::Clique> clique_;
  const std::shared_ptr<DeviceComm> copies_;  // for sums that NCCL cannot compute as specified
};

std::vector<std::vector<Tensor>> NcclComm::broadcast(std::span<const Tensor> tensors) {
  check_broadcast(tensors, devices()[0]);
  const std::size_t peers = devices().size() - 1;
  Lists results(peers);
  if (peers == 0) return results;
  const FlatLayout layout(tensors, kPackedForNccl);
  std::vector<Tensor> flats;
  for (std::size_t p = 0; p < peers; ++p) {
    flats.push_back(FlatLayout::allocate(devices()[p + 1], layout.bytes()));
    results[p] = layout.views(flats[p]);
  }
  if (layout.bytes() == 0) return results;
  OrderedOperation operation("broadcast", devices(), streams_);
  const Tensor run = FlatLayout::allocate(devices()[0], layout.packed_bytes());
  operation.keep(0, run);
  layout.pack(operation.stream(0), tensors, run);
  std::vector<comm::CliqueCall> calls;
  const auto add = [&](void* root, std::size_t offset, std::size_t bytes) {
    comm::CliqueCall call = call_of(Kind::broadcast, kUInt8, bytes);
    call.in.assign(devices().size(), root);
    call.out.push_back(root);
    for (std::size_t p = 0; p < peers; ++p)
      call.in[p + 1] = call.out.emplace_back(at(flats[p], offset));
    calls.push_back(std::move(call));
  };
  if (layout.packed_bytes() > 0) add(run.data_ptr(), 0, layout.packed_bytes());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    operation.reads(0, tensors[i]);
    bytes_broadcast_ += static_cast<std::int64_t>(tensors[i].nbytes() * peers);
    if (!layout.is_packed(i) && layout.nbytes(i) > 0)
      add(tensors[i].data_ptr(), layout.offset(i), layout.nbytes(i));
  }
  for (std::size_t d = 0; d <= peers; ++d) operation.stream(d);
  clique_->run("broadcast", calls, streams_);
  operation.end();
  return results;
}

std::vector<Tensor> NcclComm::reduce_add(std::span<const std::vector<Tensor>> parts, int first) {
  const std::vector<Tensor> like = check_reduce_add(parts, devices(), first);
  const auto from = static_cast<std::size_t>(first);
  for (std::size_t d = 0; d < parts.size(); ++d)
    for (const Tensor& part : parts[d])
      if (part.defined() && d + from > 0)
        bytes_reduced_ += static_cast<std::int64_t>(part.nbytes());
  const auto fits = [&](std::size_t i) {
    return parts.size() + from == devices().size() && parts.size() > 0 && like[i].defined() &&
           adds(like[i].dtype()) &&
           std::ranges::all_of(parts, [i](const auto& list) { return list[i].defined(); });
  };
  std::vector<std::size_t> by_nccl, by_copies;
  for (std::size_t i = 0; i < like.size(); ++i) (fits(i) ? by_nccl : by_copies).push_back(i);
  const auto some = [&](const std::vector<std::size_t>& which) {
    Lists lists(parts.size());
    for (std::size_t d = 0; d < parts.size(); ++d)
      for (const std::size_t i : which) lists[d].push_back(parts[d][i]);
    return lists;
  };
  std::vector<Tensor> sums(like.size());
  const auto put = [&](const std::vector<std::size_t>& which,
                       const std::vector<Tensor>& some_sums) {
    for (std::size_t k = 0; k < which.size(); ++k) sums[which[k]] = some_sums[k];
  };
  if (!by_nccl.empty()) put(by_nccl, sum(some(by_nccl), from));
  if (!by_copies.empty()) put(by_copies, copies_->reduce_add(some(by_copies), first));
  return sums;
}

/// Requires every part, except that a missing one of the root counts as zeros.
std::vector<Tensor> NcclComm::sum(const Lists& parts, std::size_t first) {
  const FlatLayout layout(parts[0], kPackedForNccl);
  const Tensor flat = FlatLayout::allocate(devices()[0], layout.bytes());
  std::vector<Tensor> sums = layout.views(flat);
  if (layout.bytes() == 0) return sums;
  OrderedOperation operation("reduce_add", devices(), streams_);
  if (first > 0) kernels::fill(operation.stream(0), flat, 0);
  std::vector<comm::CliqueCall> calls;
  for (const FlatLayout::Run& run : layout.runs())
    calls.push_back(call_of(Kind::sum_to_root, run.dtype, run.bytes));
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (!layout.is_packed(i) && layout.nbytes(i) > 0)
      calls.push_back(call_of(Kind::sum_to_root, sums[i].dtype(), layout.nbytes(i)));
  for (std::size_t d = 0; d < devices().size(); ++d) {
    const Stream& stream = operation.stream(d);
    const bool has_part = d >= first;
    Tensor packed = flat;  // the root's parts are where the sums go
    if (d > 0)
      operation.keep(d, packed = FlatLayout::allocate(devices()[d], layout.packed_bytes()));
    if (has_part) layout.pack(stream, parts[d - first], packed);
    auto call = calls.begin();
    const auto add = [&](const void* in, std::size_t offset) {
      call->in.push_back(in);
      call->out.push_back(d == 0 ? at(flat, offset) : const_cast<void*>(in));
      ++call;
    };
    for (const FlatLayout::Run& run : layout.runs()) add(at(packed, run.offset), run.offset);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (has_part) operation.reads(d, parts[d - first][i]);
      if (layout.is_packed(i) || layout.nbytes(i) == 0) continue;
      if (!has_part) {
        add(at(flat, layout.offset(i)), layout.offset(i));
        continue;
      }
      const Tensor part = operation.dense(d, parts[d - first][i], layout.strides(i));
      add(part.data_ptr(), layout.offset(i));
    }
  }
  clique_->run("reduce_add", calls, streams_);
  operation.end();
  return sums;
}

}  // namespace

std::shared_ptr<DeviceComm> make_nccl_device_comm(std::vector<Device> devices) {
  return std::make_shared<NcclComm>(std::move(devices));
}

}  // namespace ferrite::parallel::dp
