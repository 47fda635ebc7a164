#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ferrite/core/cuda_backend.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/multi_tensor.h"
#include "ferrite/parallel/data_parallel/device_comm_backends.h"
#include "ferrite/parallel/data_parallel/device_comm_layout.h"

namespace ferrite::parallel::dp {

namespace {

/// Smaller tensors are packed before they are sent between CUDA devices: starting a copy costs as
/// much as some hundred kilobytes, and packing costs little.
constexpr std::size_t kPackedBelow = std::size_t{256} << 10;
/// Smaller sums on the CPU are not split over several workers.
constexpr std::int64_t kSmallestSlice = 1 << 14;  // elements

/// Sums of one pass, by dtype.
class Sums {
 public:
  void add(const Tensor& out, const std::vector<const void*>& inputs, std::int64_t begin,
           std::int64_t end) {
    Group& group = groups_[out.dtype()];
    const auto skipped = begin * static_cast<std::int64_t>(out.itemsize());
    group.parts.push_back({static_cast<char*>(out.data_ptr()) + skipped, end - begin,
                           static_cast<std::int32_t>(group.inputs.size()),
                           static_cast<std::int32_t>(inputs.size())});
    for (const void* input : inputs)
      group.inputs.push_back(static_cast<const char*>(input) + skipped);
  }
  void queue(const Stream& stream) const {
    for (const auto& [dtype, group] : groups_)
      kernels::sum_parts(stream, dtype, group.parts, group.inputs);
  }

 private:
  struct Group {
    std::vector<kernels::SumPart> parts;
    std::vector<const void*> inputs;
  };
  std::map<DType, Group> groups_;
};

class CopyComm : public DeviceComm {
 public:
  explicit CopyComm(std::vector<Device> devices)
      : DeviceComm(std::move(devices)), streams_(own_streams(this->devices())) {}

  std::string_view backend() const override { return "copies"; }
  std::vector<std::vector<Tensor>> broadcast(std::span<const Tensor> tensors) override;
  std::vector<Tensor> reduce_add(std::span<const std::vector<Tensor>> parts, int first) override;

 protected:
  /// Copies the tensors to results[d], which are in flats[d] according to the layout.
  virtual void send(OrderedOperation& operation, const FlatLayout& layout,
                    std::span<const Tensor> tensors, const std::vector<Tensor>& flats,
                    const std::vector<std::vector<Tensor>>& results) = 0;
  /// Fills `sums` with the sums of parts[d][i], on device d + first.
  virtual void add(OrderedOperation& operation, const FlatLayout& layout,
                   std::span<const std::vector<Tensor>> parts, std::size_t first,
                   const std::vector<Tensor>& sums) = 0;

 private:
  const std::vector<Stream> streams_;
};

std::vector<std::vector<Tensor>> CopyComm::broadcast(std::span<const Tensor> tensors) {
  check_broadcast(tensors, devices()[0]);
  const std::size_t peers = devices().size() - 1;
  std::vector<std::vector<Tensor>> results(peers);
  if (peers == 0) return results;
  const FlatLayout layout(tensors, kPackedBelow);
  std::vector<Tensor> flats;
  for (std::size_t p = 0; p < peers; ++p) {
    flats.push_back(layout.allocate(devices()[p + 1], layout.bytes()));
    results[p] = layout.views(flats[p]);
  }
  if (layout.bytes() == 0) return results;
  OrderedOperation operation("broadcast", devices(), streams_);
  for (const Tensor& t : tensors) {
    operation.reads(0, t);
    bytes_broadcast_ += static_cast<std::int64_t>(t.nbytes() * peers);
  }
  send(operation, layout, tensors, flats, results);
  operation.end();
  return results;
}

std::vector<Tensor> CopyComm::reduce_add(std::span<const std::vector<Tensor>> parts, int first) {
  const std::vector<Tensor> like = check_reduce_add(parts, devices(), first);
  const FlatLayout layout(like, kPackedBelow);
  const Tensor flat = layout.allocate(devices()[0], layout.bytes());
  std::vector<Tensor> sums = layout.views(flat);
  if (layout.bytes() == 0) return sums;
  OrderedOperation operation("reduce_add", devices(), streams_);
  const auto from = static_cast<std::size_t>(first);
  for (std::size_t d = 0; d < parts.size(); ++d)
    for (const Tensor& part : parts[d]) {
      if (!part.defined()) continue;
      operation.reads(d + from, part);
      if (d + from > 0) bytes_reduced_ += static_cast<std::int64_t>(part.nbytes());
    }
  add(operation, layout, parts, from, sums);
  operation.end();
  return sums;
}

/// Virtual devices: each worker can access the memory of all.
class HostCopies final : public CopyComm {
 public:
  using CopyComm::CopyComm;

 private:
  void send(OrderedOperation& operation, const FlatLayout& layout, std::span<const Tensor> tensors,
            const std::vector<Tensor>&, const std::vector<std::vector<Tensor>>& results) override {
    for (std::size_t p = 0; p < results.size(); ++p) {
      const Stream& stream = operation.stream_after(p + 1, 0);
      std::vector<kernels::CopyPart> copies;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (lies_as(tensors[i], layout.strides(i)))
          copies.push_back({results[p][i].data_ptr(), tensors[i].data_ptr(),
                            static_cast<std::int64_t>(tensors[i].nbytes())});
        else
          kernels::copy(stream, results[p][i], tensors[i]);
      }
      kernels::copy_parts(stream, copies);
    }
  }

  void add(OrderedOperation& operation, const FlatLayout& layout,
           std::span<const std::vector<Tensor>> parts, std::size_t first,
           const std::vector<Tensor>& sums) override;
};

/// Every worker that has a part, and the root's, adds a share of the elements.
void HostCopies::add(OrderedOperation& operation, const FlatLayout& layout,
                     std::span<const std::vector<Tensor>> parts, std::size_t first,
                     const std::vector<Tensor>& sums) {
  std::vector<std::vector<const void*>> inputs(sums.size());
  bool packed = false;
  for (std::size_t d = 0; d < parts.size(); ++d)
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Tensor& part = parts[d][i];
      if (!part.defined() || part.numel() == 0) continue;
      const Tensor run = operation.dense(d + first, part, layout.strides(i));
      packed = packed || !run.is_same(part);
      inputs[i].push_back(run.data_ptr());
    }
  const std::size_t workers = std::min(devices().size(), parts.size() + first);
  std::vector<Sums> shares(workers);
  std::size_t next = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (inputs[i].empty()) continue;
    const std::int64_t numel = sums[i].numel(), count = static_cast<std::int64_t>(workers);
    const std::int64_t slice =
        std::max(kSmallestSlice, ((numel + count - 1) / count + 63) / 64 * 64);
    for (std::int64_t begin = 0; begin < numel; begin += slice)
      shares[next++ % workers].add(sums[i], inputs[i], begin, std::min(numel, begin + slice));
  }
  for (std::size_t w = 0; w < workers; ++w) {
    operation.stream_after(w, 0);
    for (std::size_t d = first; d < first + parts.size(); ++d) {
      operation.stream_after(w, d);
      if (packed) operation.chain(w, d);
    }
  }
  for (std::size_t w = 0; w < workers; ++w) shares[w].queue(operation.stream(w));
}

/// CUDA devices: peer to peer if the hardware supports it, else through the host.
class CudaCopies final : public CopyComm {
 public:
  using CopyComm::CopyComm;

 private:
  void send(OrderedOperation& operation, const FlatLayout& layout, std::span<const Tensor> tensors,
            const std::vector<Tensor>& flats,
            const std::vector<std::vector<Tensor>>& results) override;
  void add(OrderedOperation& operation, const FlatLayout& layout,
           std::span<const std::vector<Tensor>> parts, std::size_t first,
           const std::vector<Tensor>& sums) override;
  /// Copies the packed run and the other tensors to `flat`, starting at byte `start`.
  static void cross(const Stream& stream, const FlatLayout& layout, const Tensor& run,
                    std::span<const Tensor> tensors, const Tensor& flat, std::size_t start);
};

void CudaCopies::cross(const Stream& stream, const FlatLayout& layout, const Tensor& run,
                       std::span<const Tensor> tensors, const Tensor& flat, std::size_t start) {
  const Device &to = flat.device(), from = run.device();
  char* const base = static_cast<char*>(flat.data_ptr()) + start;
  ferrite::detail::cuda::copy_bytes(stream, base, to, run.data_ptr(), from, run.nbytes());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined() && !layout.is_packed(i))
      ferrite::detail::cuda::copy_bytes(stream, base + layout.offset(i), to, tensors[i].data_ptr(),
                                        from, tensors[i].nbytes());
}

void CudaCopies::send(OrderedOperation& operation, const FlatLayout& layout,
                      std::span<const Tensor> tensors, const std::vector<Tensor>& flats,
                      const std::vector<std::vector<Tensor>>& results) {
  const Tensor run = layout.allocate(devices()[0], layout.packed_bytes());
  operation.keep(0, run);
  layout.pack(operation.stream(0), tensors, run);
  for (std::size_t p = 0; p < results.size(); ++p) {
    const Stream& stream = operation.stream_after(p + 1, 0);
    operation.chain(p + 1, 0);
    cross(stream, layout, run, tensors, flats[p], 0);
  }
}

void CudaCopies::add(OrderedOperation& operation, const FlatLayout& layout,
                     std::span<const std::vector<Tensor>> parts, std::size_t first,
                     const std::vector<Tensor>& sums) {
  const std::size_t lists = parts.size();
  const std::size_t own = first == 0 && lists > 0;  // whether one belongs to the root
  const Tensor landed = layout.allocate(devices()[0], layout.bytes() * (lists - own));
  operation.keep(0, landed);
  std::vector<std::vector<const void*>> inputs(sums.size());
  for (std::size_t d = 0; d < lists; ++d) {
    const std::size_t device = d + first, start = (d - (d > 0 ? own : 0)) * layout.bytes();
    const Stream& stream = operation.stream_after(device, 0);
    std::vector<Tensor> list = parts[d];
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].defined() || list[i].numel() == 0) continue;
      if (device == 0 || !layout.is_packed(i))
        list[i] = operation.dense(device, list[i], layout.strides(i));
      inputs[i].push_back(device == 0
                              ? list[i].data_ptr()
                              : static_cast<char*>(landed.data_ptr()) + start + layout.offset(i));
    }
    if (device == 0) continue;
    const Tensor run = layout.allocate(devices()[device], layout.packed_bytes());
    operation.keep(device, run);
    layout.pack(stream, list, run);
    cross(stream, layout, run, list, landed, start);
  }
  for (std::size_t d = 0; d < lists; ++d) operation.chain(0, d + first);
  Sums all;
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (!inputs[i].empty()) all.add(sums[i], inputs[i], 0, sums[i].numel());
  all.queue(operation.stream(0));
}

}  // namespace

std::shared_ptr<DeviceComm> make_copies_device_comm(std::vector<Device> devices) {
  if (devices[0].is_cuda()) return std::make_shared<CudaCopies>(std::move(devices));
  return std::make_shared<HostCopies>(std::move(devices));
}

}  // namespace ferrite::parallel::dp
