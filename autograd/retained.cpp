#include "ferrite/autograd/retained.h"

#include "ferrite/autograd/accumulate.h"
#include "ferrite/autograd/engine.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/elementwise.h"

namespace ferrite::autograd {

void retain_gradient(Meta& meta, Node& node, std::uint32_t output) {
  const auto retained = std::make_shared<Meta::Retained>();
  if (meta.retained) {
    std::lock_guard lock(meta.retained->mutex);
    retained->grad = meta.retained->grad;
  }
  meta.retained = retained;
  node.add_observer(output, [kept = std::weak_ptr(retained)](const Tensor& grad) {
    const std::shared_ptr<Meta::Retained> retained = kept.lock();
    if (!retained) return Tensor();  // the tensor is gone, or has another node
    std::lock_guard lock(retained->mutex);
    if (creating_graph()) {  // with its own history
      retained->grad = retained->grad.defined() ? sum(retained->grad, grad) : grad;
      return Tensor();
    }
    Tensor total = empty_like(grad);
    const Stream stream = current_stream(grad.device());
    if (retained->grad.defined())
      kernels::binary(stream, kernels::BinaryOp::add, total, retained->grad, grad);
    else
      kernels::copy(stream, total, grad);
    retained->grad = total;
    return Tensor();
  });
}

}  // namespace ferrite::autograd
