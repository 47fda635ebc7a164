// The transports of DeviceComm, and what they share: checks of their arguments, and operations on
// streams of their own in the order of the devices' current streams.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/data_parallel/device_comm.h"

namespace ferrite::parallel::dp {

/// Copies between the devices, which need nothing but their memory. For devices that are there, of
/// one type, each once.
std::shared_ptr<DeviceComm> make_copies_device_comm(std::vector<Device> devices);

/// For CUDA devices that are there, each once; errors as make_nccl_clique (parallel/comm/clique.h).
std::shared_ptr<DeviceComm> make_nccl_device_comm(std::vector<Device> devices);

/// ValueError for an undefined tensor, DeviceError for one that is not on `root`.
void check_broadcast(std::span<const Tensor> tensors, const Device& root);

/// ValueError where there are more lists than devices from `first` on, or lists of several lengths;
/// DeviceError, DTypeError, ShapeError where a part is not on its device, or parts of one number
/// are of several types or shapes. Returns, of each number, the first part that is defined.
std::vector<Tensor> check_reduce_add(std::span<const std::vector<Tensor>> parts,
                                     std::span<const Device> devices, int first);

/// One of high priority for each device.
std::vector<Stream> own_streams(std::span<const Device> devices);

/// Takes the devices' current streams as they are; however the operation ends, what comes later on
/// them waits for what it has queued.
class Turn {
 public:
  /// CudaError, naming `op`, where a current stream is being captured into a graph.
  Turn(const char* op, std::span<const Device> devices, std::span<const Stream> streams);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// The operation's stream of device d. What it does from now on comes after what the current
  /// stream of that device held; which waits for it in the end.
  const Stream& stream(std::size_t d);
  /// The same for the current stream of device `other` too, whose memory it uses.
  const Stream& stream_after(std::size_t d, std::size_t other);
  /// What stream d does from now on comes after what stream `other` holds.
  void chain(std::size_t d, std::size_t other);
  /// The operation reads the memory of `t`, of device d, whose current stream will have waited for
  /// that when the memory is free again.
  void reads(std::size_t d, const Tensor& t) const { t.storage()->record_stream(currents_[d]); }
  /// For memory of device d that its current stream was just asked for: stream d has it from here
  /// on, and the current stream again when it has waited for the operation.
  void keep(std::size_t d, Tensor t);
  /// Has the current streams wait for it.
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
