#include "ferrite/parallel/pipeline/stage_link.h"

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/record.h"
#include "ferrite/ops/transfer.h"

namespace ferrite::parallel::pipeline {

namespace {

/// The host has no asynchronous stream with which its ops could be ordered.
Stream own_stream(const Device& device) {
  return device.is_host() ? Stream() : Stream::create(device);
}

/// Records an op whose backward runs on `stream`, possibly of another device than `out`.
void record_on(const Stream& stream, const char* name, const Tensor& out, const Tensor& in,
               std::function<Tensor(const Tensor&)> backward) {
  auto run = [backward = std::move(backward)](const Tensor& grad, autograd::Needs) {
    return backward(grad);
  };
  auto node =
      make_intrusive<autograd::detail::LambdaNode<decltype(run)>>(name, stream, 1u, std::move(run));
  autograd::detail::link_inputs(*node, {in});
  autograd::detail::link_output(out, std::move(node), 0);
}

}  // namespace

StageLink::StageLink(const Device& from, const Device& to)
    : out_(own_stream(from)),
      in_(own_stream(to)),
      back_out_(own_stream(to)),
      back_in_(own_stream(from)) {}

Tensor StageLink::copy(const Tensor& x, const Stream& out, const Stream& in,
                       const Crossed& crossed) {
  const NoGradGuard no_grad;
  const StreamGuard from(out), to(in);
  const Tensor copied = empty(
      x.shape(),
      {.dtype = x.dtype(), .device = in.device(), .memory_format = x.suggest_memory_format()});
  ops::transfer(copied, x, /*non_blocking=*/!in.device().is_host(), "pipeline");
  x.storage()->record_stream(out);
  if (crossed) crossed(static_cast<std::int64_t>(x.nbytes()));
  return copied;
}

StageLink::Sent StageLink::send(const Tensor& x, std::shared_ptr<Returned> returned,
                                Crossed crossed) {
  out_.wait(current_stream(x.device()));
  Sent sent{copy(x, out_, in_, crossed), {}};
  sent.landed.record(in_);
  // In the thread of the destination's device, directly after the work that produced the gradient:
  // issued by another thread, the copy might wait for later work of the destination.
  if (autograd::recording(x))
    record_on(back_out_, "pipeline_copy", sent.tensor, x,
              [self = shared_from_this(), returned = std::move(returned),
               crossed = std::move(crossed)](const Tensor& gradient) {
                return self->return_gradient(gradient, *returned, crossed);
              });
  return sent;
}

Tensor StageLink::receive(const Sent& sent) const {
  const Stream stream = current_stream(in_.device());
  stream.wait(sent.landed);
  sent.tensor.storage()->record_stream(stream);
  return sent.tensor;
}

Tensor StageLink::return_gradient(const Tensor& gradient, Returned& returned,
                                  const Crossed& crossed) const {
  if (autograd::creating_graph()) {
    const Device& to = back_in_.device();
    // Ops on the host do not wait for events: they would read before the copy is done.
    const Tensor there = gradient.to(to, !to.is_host());
    returned.landed.record(current_stream(to));
    return there;
  }
  const Tensor there = copy(gradient, back_out_, back_in_, crossed);
  returned.landed.record(back_in_);
  return there;
}

void StageLink::receive_gradient(const Tensor& gradient, const Returned& returned,
                                 const Stream& stream) {
  stream.wait(returned.landed);
  gradient.storage()->record_stream(stream);
}

Tensor passed_through(const char* name, const Tensor& x, const Stream& stream,
                      std::function<Tensor(const Tensor&)> backward) {
  if (!autograd::recording(x)) return x;
  const Tensor out = x.detach();
  record_on(stream, name, out, x, std::move(backward));
  return out;
}

}  // namespace ferrite::parallel::pipeline
