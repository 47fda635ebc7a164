#include "autograd/meta.h"

#include "autograd/checkpoint.h"
#include "autograd/record.h"
#include "autograd/saved.h"
#include "core/views.h"
#include "kernels/copy.h"

namespace ferrite::autograd {

namespace {

/// A zero tensor with the memory layout of `like`; its elements must not overlap.
Tensor zeros_laid_out_like(const Tensor& like) {
  Tensor out =
      empty_strided(like.shape(), like.strides(), {.dtype = like.dtype(), .device = like.device()});
  kernels::fill(current_stream(like.device()), out, 0);
  return out;
}

/// The part of `grad`, laid out as the base, that the view covers.
Tensor region(const Tensor& grad, const geometry::View& view, std::int64_t base_offset) {
  return as_strided(grad, view.shape, view.strides, view.offset - base_offset);
}

void copy(const Tensor& to, const Tensor& from) {
  kernels::copy(current_stream(to.device()), to, from);
}

/// The history of a view whose base was changed in place: gradients flow into the view's region.
struct ViewOfChangedBase {
  Tensor base;  // off the tape, for its geometry
  geometry::View view;

  Tensor operator()(const Tensor& grad, Needs) const {
    once_differentiable();
    Tensor out = zeros_laid_out_like(base);
    copy(region(out, view, base.storage_offset()), grad);
    return out;
  }
};

/// The history of a base that was changed in place through a view: outside the view gradients pass
/// as they are, inside they go through the gradient of the in-place op.
class ChangedThroughView final : public Node {
 public:
  ChangedThroughView(IntrusivePtr<Node> op, Tensor base, geometry::View view)
      : Node(op->name, op->stream), op_(std::move(op)), base_(std::move(base)), view_(view) {}

  Gradients backward(Gradients grads) override {
    if (!op_) fail_released(name);
    once_differentiable();
    Tensor whole = zeros_laid_out_like(base_);
    copy(whole, grads[0]);
    const Tensor inside = region(whole, view_, base_.storage_offset());
    Tensor grad = empty_like(inside);
    copy(grad, inside);
    Gradients op_grads(1);
    op_grads[0] = grad;
    Gradients result = op_->backward(std::move(op_grads));
    if (result[0].defined())
      copy(inside, result[0]);
    else
      kernels::fill(current_stream(whole.device()), inside, 0);
    result[0] = needs()[0] ? whole : Tensor();
    return result;
  }
  void release_saved() override { op_.reset(); }

 private:
  IntrusivePtr<Node> op_;
  Tensor base_;
  geometry::View view_;
};

/// Bases are made with dense strides; a view of something else cannot be scattered back into it.
void require_scatterable(const Tensor& base, const char* op) {
  FERRITE_CHECK(
      base.is_contiguous() || base.is_contiguous(kChannelsLast), AutogradError, op,
      "changes a view of a tensor that is itself not dense in memory (strides {}); clone() "
      "the base first",
      base.strides());
}

}  // namespace

Meta& require_meta(const Tensor& t) {
  auto& slot = t.impl()->autograd;
  if (!slot) slot = std::make_unique<Meta>();
  return static_cast<Meta&>(*slot);
}

Tensor alias(const Tensor& t) { return as_strided(t, t.shape(), t.strides(), t.storage_offset()); }

Edge gradient_edge(const Tensor& t) {
  if (!t.defined()) return {};
  Meta* meta = meta_of(t);
  if (!meta) return {};
  if (meta->base.defined()) {
    if (Meta* base = meta_of(meta->base); base && base->rebases != meta->base_rebases) {
      auto node = make_intrusive<detail::LambdaNode<ViewOfChangedBase>>(
          "view", current_stream(t.device()), 1u,
          ViewOfChangedBase{alias(meta->base), geometry::of(t)});
      node->edges.push_back(gradient_edge(meta->base));
      meta->node = std::move(node);
      meta->output = 0;
      meta->base_rebases = base->rebases;
    }
  }
  if (meta->node) return {.node = meta->node, .leaf = {}, .output = meta->output};
  if (meta->requires_grad) return {.node = {}, .leaf = t, .output = 0};
  return {};
}

bool recording(std::span<const Tensor> inputs) {
  if (!grad_enabled()) return false;
  for (const Tensor& t : inputs)
    if (t.defined() && t.requires_grad()) return true;
  return false;
}

void detail::link_inputs(Node& node, Inputs inputs) {
  for (const Tensor& t : inputs) node.edges.push_back(gradient_edge(t));
}

void detail::link_inputs(Node& node, std::span<const Tensor> inputs) {
  node.edges.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) node.edges[i] = gradient_edge(inputs[i]);
}

void detail::link_output(const Tensor& out, IntrusivePtr<Node> node, std::uint32_t output) {
  Meta& meta = require_meta(out);
  meta.node = std::move(node);
  meta.output = output;
}

void link_view(const Tensor& out, const Tensor& base) {
  // `base` may be shared with other threads: what it keeps is read, never made here.
  const Meta* base_meta = meta_of(base);
  Meta& meta = require_meta(out);
  meta.base = base_meta && base_meta->base.defined() ? base_meta->base : base;
  const Meta* root_meta = meta_of(meta.base);
  meta.base_rebases = root_meta ? root_meta->rebases : 0;
}

void check_inplace(const Tensor& self, const char* op) {
  for (int d = 0; d < self.dim(); ++d)
    FERRITE_CHECK(
        self.strides()[d] != 0 || self.shape()[d] <= 1, ValueError, op,
        "cannot change an expanded tensor in place: several elements of {} share one memory "
        "location; clone() it first",
        self.shape());
  if (!grad_enabled()) return;
  Meta* meta = meta_of(self);
  if (!meta) return;
  const Meta* owner = meta->base.defined() ? meta_of(meta->base) : meta;
  FERRITE_CHECK(!owner || !owner->requires_grad || owner->node, AutogradError, op,
                "{} requires a gradient and is a leaf{}: it cannot be changed in place while "
                "recording; use no_grad, or the form that returns a new tensor",
                self.describe(), owner == meta ? "" : " (through a view)");
}

void detail::link_inplace(const Tensor& self, IntrusivePtr<Node> node) {
  Meta& meta = require_meta(self);
  if (!meta.base.defined()) {
    meta.node = std::move(node);
    meta.output = 0;
    ++meta.rebases;
    return;
  }
  const Tensor base = meta.base;
  require_scatterable(base, node->name);
  Meta& base_meta = require_meta(base);
  auto through = make_intrusive<ChangedThroughView>(node, alias(base), geometry::of(self));
  through->edges = node->edges;
  through->edges[0] = gradient_edge(base);
  base_meta.node = std::move(through);
  base_meta.output = 0;
  ++base_meta.rebases;
  // The view's own node is made anew from the base when it is next asked for (gradient_edge).
}

Saved::Saved(const Tensor& input) {
  if (!input.defined()) return;
  version_ = input.version();
  const Meta* meta = meta_of(input);
  if (meta && meta->requires_grad && !meta->node) {
    tensor_ = input;
    return;
  }
  Edge edge = gradient_edge(input);
  tensor_ = alias(input);
  node_ = std::move(edge.node);
  output_number_ = edge.output;
  if (detail::checkpoint_region) [[unlikely]]
    detail::checkpoint_region->save(*this);
}

Saved Saved::output(const Tensor& out) {
  Saved saved;
  saved.tensor_ = alias(out);
  saved.version_ = out.version();
  saved.is_output_ = true;
  if (detail::checkpoint_region) [[unlikely]]
    detail::checkpoint_region->save(saved);
  return saved;
}

void Saved::fail_changed(const Tensor& tensor, std::uint32_t version) {
  fail<AutogradError>(current_node() ? current_node()->name : "backward",
                      "needs a tensor of {} as it was in forward, but {} has changed it in place "
                      "since (version {}, saved at {}); change a clone(), or use the form that "
                      "returns a new tensor",
                      tensor.describe(), tensor.storage()->last_writer(), tensor.version(),
                      version);
}

Tensor Saved::with_history(const Tensor& tensor) const {
  IntrusivePtr<Node> node = is_output_ ? IntrusivePtr<Node>(current_node()) : node_;
  if (!node) return tensor;
  Tensor out = alias(tensor);
  detail::link_output(out, std::move(node), output_number_);
  return out;
}

Tensor Saved::get_recomputed() const {
  const Tensor tensor = recomputed_->get();
  if (tensor.version() != recomputed_->version) fail_changed(tensor, recomputed_->version);
  return grad_enabled() ? with_history(tensor) : tensor;
}

}  // namespace ferrite::autograd
