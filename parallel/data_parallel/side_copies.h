// Copies between devices, concurrent with the devices' computation.
#pragma once

#include <cstdint>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"

namespace ferrite::parallel::dp {

/// A group of copies. They run on separate streams and start when their sources are ready, whatever
/// other work the devices have.
class SideCopies {
 public:
  /// Which device's stream runs a copy: the destination's if one device sends to many, the source's
  /// if many send to one, so that none waits for another.
  enum class RunOn : std::uint8_t { destination, source };

  /// `op` for messages: CudaError if a stream involved is being captured into a graph.
  SideCopies(const char* op, RunOn run_on) : op_(op), run_on_(run_on) {}
  ~SideCopies();
  SideCopies(const SideCopies&) = delete;
  SideCopies& operator=(const SideCopies&) = delete;

  /// Memory that the copies may write before earlier work of the device is done.
  Tensor empty(const Shape& shape, const TensorOptions& options);
  /// to = from, for equal shapes and dtypes and any strides; `to` is in memory from empty().
  void add(const Tensor& to, const Tensor& from);
  /// to = 0.
  void add_zeros(const Tensor& to);
  /// The current streams of all devices wait for the copies. The host waits for those into its
  /// memory, and for those out of its memory that is not pinned; then it throws errors of the work
  /// of the devices that it waited for.
  void finish();

 private:
  struct Lane {
    Stream stream;
    Device from, to;
    bool reads_host = false;  // memory that its owner may change when finish() returns
  };

  Lane& lane(const Stream& stream, const Tensor& to, const Tensor& from);
  void between_cpus(const Tensor& to, const Tensor& from);
  void between_gpus(const Tensor& to, const Tensor& from);
  void through_host(const Tensor& to, const Tensor& from);

  const char* const op_;
  const RunOn run_on_;
  std::vector<Lane> lanes_;
};

}  // namespace ferrite::parallel::dp
