// Devices of one process that exchange tensors: the transport of DataParallel
// (torch.nn.parallel.comm: broadcast_coalesced, reduce_add_coalesced).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite::parallel::dp {

/// A root, devices()[0], and its peers. Everything runs on streams of its own, after what the
/// current streams of the devices hold at the call; those streams then wait for it, the host never
/// does. Calls may come from any thread, one at a time. Nothing is recorded on the tape.
class DeviceComm : public std::enable_shared_from_this<DeviceComm> {
 public:
  virtual ~DeviceComm() = default;
  DeviceComm(const DeviceComm&) = delete;
  DeviceComm& operator=(const DeviceComm&) = delete;

  const std::vector<Device>& devices() const { return devices_; }
  /// "nccl" or "copies".
  virtual std::string_view backend() const = 0;

  /// Copies of the tensors (all on the root; any dtype and strides; the same memory format) on
  /// every other device: result[d] is that of devices()[d + 1], in memory of its own that these
  /// copies share, each with a version of its own. Tensors whose elements lie in one run keep their
  /// strides, whatever the order of the dimensions. ValueError for an undefined tensor, DeviceError
  /// for one that is elsewhere, CudaError where a device's stream is being captured.
  virtual std::vector<std::vector<Tensor>> broadcast(std::span<const Tensor> tensors) = 0;
  /// On the root, sums over the devices, always added in the order of the devices: parts[d][i] is
  /// number i on devices()[d + first]; undefined parts count as zero, and sums of nothing else are
  /// undefined. float16 and bfloat16 are added in float32 and rounded once. The results share
  /// memory, each with a version of its own, and lie as the first of their parts. There may be
  /// fewer lists than devices. ShapeError, DTypeError, DeviceError where parts do not fit.
  ///
  /// The order, and so every bit, is what "copies" promises. "nccl" adds in an order that it
  /// chooses by the devices, their connections, and the sizes: the same from call to call. It does
  /// so where every device has a part of a 32-bit, 64-bit or 8-bit type; the rest goes by copies.
  virtual std::vector<Tensor> reduce_add(std::span<const std::vector<Tensor>> parts,
                                         int first = 1) = 0;

  /// Between devices, so far.
  std::int64_t bytes_broadcast() const { return bytes_broadcast_; }
  std::int64_t bytes_reduced() const { return bytes_reduced_; }

 protected:
  explicit DeviceComm(std::vector<Device> devices) : devices_(std::move(devices)) {}
  std::int64_t bytes_broadcast_ = 0, bytes_reduced_ = 0;

 private:
  const std::vector<Device> devices_;
};

/// `backend`: "nccl" (CUDA devices, each once), "copies" (any devices), or "" for nccl where it is
/// there and these are two or more CUDA devices, else copies. ValueError for an unknown backend, no
/// device, or a device named twice; DeviceError for one that is not there, devices of several
/// types, or nccl without CUDA devices; Error where nccl is asked for and cannot be used.
/// What NCCL runs into later is a DistributedError of the next call; its communicators have then
/// been aborted, so that streams go on, and the sums or copies under way are worth nothing.
std::shared_ptr<DeviceComm> make_device_comm(std::vector<Device> devices,
                                             std::string_view backend = "");

}  // namespace ferrite::parallel::dp
