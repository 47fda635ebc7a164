#include "ferrite/autograd/retained.h"

#include "ferrite/autograd/accumulate.h"
#include "ferrite/autograd/record.h"
#include "ferrite/kernels/copy.h"

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
    if (retained->grad.defined()) {
      check_accumulates(retained->grad, grad);
      retained->grad = sum(retained->grad, grad);
    } else {
      retained->grad = empty_like(grad);
      kernels::copy(current_stream(grad.device()), retained->grad, grad);
      if (recording(grad))  // under create_graph
        record(retained->grad, "clone", {grad}, [](const Tensor& g, Needs) { return g; });
    }
    return Tensor();
  });
}

}  // namespace ferrite::autograd
