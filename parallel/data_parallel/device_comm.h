// DeviceComm: exchange of tensors between devices of one process, the transport of DataParallel
// (torch.nn.parallel.comm: broadcast_coalesced, reduce_add_coalesced).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite::parallel::dp {

/// A root, devices()[0], and its peers. Operations run on separate streams, after the work on the
/// current streams of the devices at the call; those streams then wait for them, the host does not.
/// Calls may come from any thread, one at a time. Nothing is recorded on the tape.
class DeviceComm : public std::enable_shared_from_this<DeviceComm> {
 public:
  virtual ~DeviceComm() = default;
  DeviceComm(const DeviceComm&) = delete;
  DeviceComm& operator=(const DeviceComm&) = delete;

  const std::vector<Device>& devices() const { return devices_; }
  /// "nccl" or "copies".
  virtual std::string_view backend() const = 0;

  /// Copies of the tensors (all on the root; any dtype and strides; the same memory format) on
  /// every other device: result[d] is on devices()[d + 1], in memory that these copies share, each
  /// with a version counter of its own. Dense tensors keep their strides, whatever the order of the
  /// dimensions. ValueError for an undefined tensor, DeviceError for one on another device,
  /// CudaError if a device's stream is being captured.
  virtual std::vector<std::vector<Tensor>> broadcast(std::span<const Tensor> tensors) = 0;
  /// Sums over the devices, on the root, always added in the order of the devices: parts[d][i] is
  /// number i on devices()[d + first]; undefined parts count as zero, and sums of only undefined
  /// parts are undefined. float16 and bfloat16 are added in float32 and rounded once. The results
  /// share memory, each with a version counter of its own, and have the layout of the first of
  /// their parts. There may be fewer lists than devices. ShapeError, DTypeError, DeviceError if
  /// parts do not match.
  ///
  /// Only "copies" guarantees the order, and so every bit. "nccl" adds in an order that depends on
  /// the devices, their connections, and the sizes: the same from call to call. It is used if every
  /// device has a part of a 32-bit, 64-bit or 8-bit type; other sums are made by copies.
  virtual std::vector<Tensor> reduce_add(std::span<const std::vector<Tensor>> parts,
                                         int first = 1) = 0;

  /// Total between devices so far.
  std::int64_t bytes_broadcast() const { return bytes_broadcast_; }
  /// Bytes of gradients that were summed.
  std::int64_t bytes_reduced() const { return bytes_reduced_; }

 protected:
  explicit DeviceComm(std::vector<Device> devices) : devices_(std::move(devices)) {}
  std::int64_t bytes_broadcast_ = 0, bytes_reduced_ = 0;

 private:
  const std::vector<Device> devices_;
};

/// `backend`: "nccl" (distinct CUDA devices), "copies" (any devices), or "" for nccl if it is
/// available and these are two or more CUDA devices, else copies. ValueError for an unknown
/// backend, no device, or a device named twice; DeviceError for one that does not exist, devices of
/// several types, or nccl without CUDA devices; Error if nccl is requested and cannot be used.
/// Later NCCL errors are a DistributedError of the next call; its communicators have then been
/// aborted, so that streams continue, and the results of pending sums or copies are undefined.
std::shared_ptr<DeviceComm> make_device_comm(std::vector<Device> devices,
                                             std::string_view backend = "");

}  // namespace ferrite::parallel::dp
