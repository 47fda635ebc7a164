// The transports of DeviceComm, and their common parts: argument checks, and operations on separate
// streams ordered with the devices' current streams.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/data_parallel/device_comm.h"

namespace ferrite::parallel::dp {

/// Copies between the devices, which needs only their memory. For existing, distinct devices of one
/// type.
std::shared_ptr<DeviceComm> make_copies_device_comm(std::vector<Device> devices);

/// For existing, distinct CUDA devices; errors as make_nccl_clique (parallel/comm/clique.h).
std::shared_ptr<DeviceComm> make_nccl_device_comm(std::vector<Device> devices);

/// ValueError for an undefined tensor, DeviceError for one that is not on `root`.
void check_broadcast(std::span<const Tensor> tensors, const Device& root);

/// ValueError if there are more lists than devices from `first` on, or lists of different lengths;
/// DeviceError, DTypeError, ShapeError if a part is not on its device, or the parts with one number
/// have different types or shapes. Returns, for each number, the first part that is defined.
std::vector<Tensor> check_reduce_add(std::span<const std::vector<Tensor>> parts,
                                     std::span<const Device> devices, int first);

/// One high-priority stream per device.
std::vector<Stream> own_streams(std::span<const Device> devices);

/// An operation on separate streams, ordered after the devices' current streams as they are now.
/// However it ends, later work of the current streams waits for the work it has queued.
class OrderedOperation {
 public:
  /// CudaError, naming `op`, if a current stream is being captured into a graph.
  OrderedOperation(const char* op, std::span<const Device> devices,
                   std::span<const Stream> streams);
  ~OrderedOperation();
  OrderedOperation(const OrderedOperation&) = delete;
  OrderedOperation& operator=(const OrderedOperation&) = delete;

  /// The operation's stream of device d. From now on it runs after the work that the device's
  /// current stream held; the current stream waits for it at the end.
  const Stream& stream(std::size_t d);
  /// Also orders it with the current stream of device `other`, whose memory it uses.
  const Stream& stream_after(std::size_t d, std::size_t other);
  /// Orders later work of stream d after the present work of stream `other`.
  void chain(std::size_t d, std::size_t other);
  /// The operation reads the memory of `t` on device d, whose current stream waits for that before
  /// the memory is reused.
  void reads(std::size_t d, const Tensor& t) const { t.storage()->record_stream(currents_[d]); }
  /// For memory of device d just allocated on its current stream: it is used by stream d from here
  /// on, and again by the current stream after it has waited for the operation.
  void keep(std::size_t d, Tensor t);
  /// `t`, on device d, or a copy of it made by the operation with these strides.
  Tensor dense(std::size_t d, const Tensor& t, const Strides& strides);
  /// Makes the current streams wait for it.
  void end();

 private:
  using Mark = std::shared_ptr<ferrite::detail::Mark>;
  static Mark mark_of(const Stream& stream);

  std::span<const Stream> streams_;
  std::vector<Stream> currents_;
  const Mark& mark_of_current(std::size_t d);

  std::vector<std::optional<Mark>> marks_;  // of the current streams; null: nothing to wait for
  std::vector<std::vector<bool>> after_;    // [d][other]: whether stream d uses its memory
  std::vector<Tensor> kept_;
};

}  // namespace ferrite::parallel::dp
