// Members of Tensor that work on the tape.
#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/hidden_base.h"
#include "ferrite/autograd/meta.h"
#include "ferrite/autograd/record.h"
#include "ferrite/autograd/retained.h"

namespace ferrite {

using autograd::Meta;
using autograd::meta_of;
using autograd::require_meta;

namespace {

void check_defined(const Tensor& t, const char* op) {
  FERRITE_CHECK(t.defined(), ValueError, op, "the tensor is undefined");
}

}  // namespace

bool Tensor::requires_grad_slow() const {
  const Meta& meta = *meta_of(*this);
  if (meta.requires_grad || meta.node) return true;
  if (!meta.base.defined() || meta.unrecorded_view) return false;
  const Meta* base = meta_of(meta.base);
  return base && base->rebases != meta.base_rebases && meta.base.requires_grad();
}

const Tensor& Tensor::set_requires_grad(bool on) const {
  check_defined(*this, "set_requires_grad");
  FERRITE_CHECK(!on || is_differentiable(dtype()), AutogradError, "set_requires_grad",
                "only floating-point and complex tensors can require a gradient, this is {}",
                describe());
  const bool leaf = is_leaf();
  FERRITE_CHECK(on || leaf, AutogradError, "set_requires_grad",
                "only leaves can be turned off; this is the result of {} (use detach())",
                grad_fn_name());
  FERRITE_CHECK(
      !on || !is_inference() || inference_mode(), AutogradError, "set_requires_grad",
      "{} is an inference tensor: it was made under InferenceMode and cannot take part in "
      "autograd; clone() it outside that mode",
      describe());
  if (!leaf || (!on && !meta_of(*this))) return *this;  // a result requires a gradient already
  Meta& meta = require_meta(*this);
  meta.requires_grad = on;
  if (meta.unrecorded_view) {  // from here on a leaf and not a view
    meta.base = {};
    meta.unrecorded_view = false;
  }
  return *this;
}

bool Tensor::is_leaf() const {
  check_defined(*this, "is_leaf");
  if (!requires_grad()) return true;
  return !autograd::gradient_edge(*this).node;
}

const Tensor Tensor::grad() const {
  check_defined(*this, "grad");
  Meta* meta = meta_of(*this);
  if (!meta) return {};
  if (meta->retained) {
    std::lock_guard lock(meta->retained->mutex);
    return meta->retained->grad;
  }
  std::lock_guard lock(meta->mutex);
  return meta->grad;
}

void Tensor::set_grad(const Tensor& grad) const {
  check_defined(*this, "set_grad");
  FERRITE_CHECK(
      !grad.defined() ||
          (grad.shape() == shape() && grad.dtype() == dtype() && grad.device() == device()),
      ShapeError, "set_grad", "expected a gradient like {}, got {}", describe(), grad.describe());
  Meta& meta = require_meta(*this);
  if (meta.retained) {
    std::lock_guard lock(meta.retained->mutex);
    meta.retained->grad = grad;
    return;
  }
  std::lock_guard lock(meta.mutex);
  meta.grad = grad;
}

Tensor& Tensor::mutable_grad() const {
  check_defined(*this, "mutable_grad");
  Meta& meta = require_meta(*this);
  return meta.retained ? meta.retained->grad : meta.grad;
}

std::string Tensor::grad_fn_name() const {
  check_defined(*this, "grad_fn_name");
  if (!requires_grad()) return "";
  const autograd::Edge edge = autograd::gradient_edge(*this);
  return edge.node ? edge.node->name : "";
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  autograd::backward({this, 1}, {&gradient, 1}, retain_graph, create_graph);
}

Tensor Tensor::detach() const {
  check_defined(*this, "detach");
  return autograd::alias(*this);
}

const Tensor& Tensor::detach_() const {
  check_defined(*this, "detach_");
  Meta* meta = meta_of(*this);
  if (!meta) return *this;
  autograd::drop_hidden_base(*this);
  FERRITE_CHECK(!meta->base.defined(), AutogradError, "detach_",
                "{} is a view, whose history is its base's; use detach()", describe());
  meta->node.reset();
  meta->requires_grad = false;
  return *this;
}

void Tensor::retain_grad() const {
  check_defined(*this, "retain_grad");
  FERRITE_CHECK(requires_grad(), AutogradError, "retain_grad", "the tensor requires no gradient");
  Meta& meta = require_meta(*this);
  const autograd::Edge edge = autograd::gradient_edge(*this);
  if (!edge.node || meta.retained) return;
  autograd::retain_gradient(meta, *edge.node, edge.output);
}

TensorHook Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  check_defined(*this, "register_hook");
  FERRITE_CHECK(requires_grad(), AutogradError, "register_hook", "the tensor requires no gradient");
  const autograd::Edge edge = autograd::gradient_edge(*this);
  if (edge.node) {
    const std::uint64_t id = edge.node->add_hook(edge.output, std::move(hook));
    return TensorHook([node = edge.node, id] { node->remove_hook(id); });
  }
  const std::uint64_t id = autograd::next_hook_id();
  Meta& meta = require_meta(*this);
  if (!meta.leaf_hooks) meta.leaf_hooks = std::make_unique<Meta::LeafHooks>();
  meta.leaf_hooks->pre.push_back({id, std::move(hook)});
  return TensorHook([leaf = *this, id] {
    std::erase_if(meta_of(leaf)->leaf_hooks->pre, [id](const auto& h) { return h.id == id; });
  });
}

TensorHook Tensor::register_post_accumulate_grad_hook(
    std::function<void(const Tensor&)> hook) const {
  check_defined(*this, "register_post_accumulate_grad_hook");
  FERRITE_CHECK(requires_grad() && is_leaf(), AutogradError, "register_post_accumulate_grad_hook",
                "only leaves that require a gradient accumulate one");
  const std::uint64_t id = autograd::next_hook_id();
  Meta& meta = require_meta(*this);
  if (!meta.leaf_hooks) meta.leaf_hooks = std::make_unique<Meta::LeafHooks>();
  meta.leaf_hooks->post.push_back({id, std::move(hook)});
  return TensorHook([leaf = *this, id] {
    std::erase_if(meta_of(leaf)->leaf_hooks->post, [id](const auto& h) { return h.id == id; });
  });
}

}  // namespace ferrite
