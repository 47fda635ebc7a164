// StageLink: how micro-batches cross from one device to another, and their gradients back, beside
// the work of both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"

namespace ferrite::parallel::pipeline {

class StageLink : public std::enable_shared_from_this<StageLink> {
 public:
  StageLink(const Device& from, const Device& to);

  /// A tensor in transit, and later its gradient.
  struct Sent {
    Tensor tensor;
    Event landed;
  };
  /// Shared between the two threads of backward: the copy of the gradient, made by the
  /// destination's thread, waited for by the source's.
  struct Returned {
    Event landed;
  };
  /// Called with the number of bytes transferred, in either direction.
  using Crossed = std::function<void(std::int64_t bytes)>;

  /// Copies `x` after the present work of its device's current stream; no other work waits for it.
  /// On the tape, the gradient is copied back as soon as it is ready, and its receiver must call
  /// receive_gradient().
  Sent send(const Tensor& x, std::shared_ptr<Returned> returned, Crossed crossed = {});
  /// Makes the destination's current stream wait for it.
  Tensor receive(const Sent& sent) const;
  /// Makes `stream`, of the source, wait for the gradient.
  static void receive_gradient(const Tensor& gradient, const Returned& returned,
                               const Stream& stream);

 private:
  static Tensor copy(const Tensor& x, const Stream& out, const Stream& in, const Crossed& crossed);
  Tensor return_gradient(const Tensor& gradient, Returned& returned, const Crossed& crossed) const;

  const Stream out_, in_;            // on the source and on the destination
  const Stream back_out_, back_in_;  // on the destination and on the source
};

/// Records on the tape that `backward` computes the gradient of `x` from that of the result, which
/// shares its memory. It runs on `stream`.
Tensor passed_through(const char* name, const Tensor& x, const Stream& stream,
                      std::function<Tensor(const Tensor&)> backward);

}  // namespace ferrite::parallel::pipeline
