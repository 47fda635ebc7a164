#include "ferrite/autograd/meta.h"

#include <fmt/format.h>

#include <algorithm>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/enclosed.h"
#include "ferrite/autograd/hidden_base.h"
#include "ferrite/autograd/record.h"
#include "ferrite/autograd/retained.h"
#include "ferrite/autograd/saved.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/elementwise.h"
#include "ferrite/kernels/reduce.h"

namespace ferrite::autograd {

namespace {

/// A view and its base.
struct Region {
  Tensor base;  // off the tape, for its geometry
  geometry::View view;
  DType dtype;  // of the view: complex numbers have real views, and real numbers complex ones

  bool is_complex_view_of_real() const { return is_complex(dtype) && !is_complex(base.dtype()); }

  /// The part of `whole`, which has the memory layout of the base, that the view covers. For
  /// complex views of real numbers it is of real numbers, [..., 2]: what `whole` has the layout of
  /// may begin at an odd number, where no complex one is.
  Tensor of(const Tensor& whole) const {
    const bool pairs = is_complex_view_of_real();
    geometry::View part = pairs ? geometry::as_real(view) : view;
    const DType type = pairs ? real_type(dtype) : dtype;
    const auto start = [type](const Tensor& t) {
      return t.storage_offset() * t.element_size() / static_cast<std::int64_t>(itemsize(type));
    };
    part.offset += start(whole) - start(base);
    return geometry::apply(whole, part, type);
  }
  /// `part`, of the view's shape, as of() gives it.
  Tensor parts(const Tensor& part) const {
    return is_complex_view_of_real() ? geometry::as_real(part) : part;
  }
  /// A tensor with the memory layout of the base.
  Tensor make_whole() const {
    return empty_strided(base.shape(), base.strides(),
                         {.dtype = base.dtype(), .device = base.device()});
  }
};

void copy(const Tensor& to, const Tensor& from) {
  kernels::copy(current_stream(to.device()), to, from);
}

void zero(const Tensor& t) { kernels::fill(current_stream(t.device()), t, 0); }

/// The sums of `t` over the dimensions in which `kept` has size 1.
Tensor sum_repeated(const Tensor& t, const Shape& kept) {
  const bool narrow = itemsize(t.dtype()) == 2;
  const Tensor sums = empty(kept, {.dtype = narrow ? kFloat32 : t.dtype(), .device = t.device()});
  kernels::reduce(current_stream(t.device()), kernels::ReduceOp::sum, sums, t);
  if (!narrow) return sums;
  const Tensor rounded = empty(kept, {.dtype = t.dtype(), .device = t.device()});
  copy(rounded, sums);
  return rounded;
}

/// Adds real numbers to a view of which several elements may share memory, as in an expanded tensor
/// or in windows.
void add_overlapping(const Tensor& to, const Tensor& part) {
  Shape kept = to.shape();
  int shortest = -1;  // of the dimensions with several elements
  for (int d = 0; d < to.dim(); ++d) {
    if (to.strides()[d] == 0) kept[d] = std::min<std::int64_t>(kept[d], 1);
    if (kept[d] > 1 && (shortest < 0 || kept[d] < kept[shortest])) shortest = d;
  }
  if (!(kept == to.shape()))
    return add_overlapping(geometry::as_strided(to, kept, to.strides(), to.storage_offset()),
                           sum_repeated(part, kept));
  if (!geometry::overlaps_itself(to))
    return kernels::binary(current_stream(to.device()), kernels::BinaryOp::add, to, to, part);
  for (std::int64_t i = 0; i < kept[shortest]; ++i)
    add_overlapping(geometry::apply(to, geometry::select(to, shortest, i)),
                    geometry::apply(part, geometry::select(part, shortest, i)));
}

Tensor spread(const Tensor& part, const Region& region);

/// A copy of the part of `whole` that the view covers.
Tensor cut(const Tensor& whole, const Region& region) {
  Tensor laid_out = whole;
  if (!(whole.strides() == region.base.strides())) copy(laid_out = region.make_whole(), whole);
  const Tensor part = region.of(laid_out);
  Tensor out = region.is_complex_view_of_real()
                   ? empty(region.view.shape, {.dtype = region.dtype, .device = part.device()})
                   : empty_like(part);
  copy(region.parts(out), part);
  if (recording(whole))
    record(out, "view", {whole},
           [region](const Tensor& grad, Needs) { return spread(grad, region); });
  return out;
}

/// Zeros, with `part` in place of the view. Where elements of the view share memory, all of theirs
/// add up.
Tensor spread(const Tensor& part, const Region& region) {
  Tensor out = region.make_whole();
  zero(out);
  add_into_zeros(region.of(out), region.parts(part));
  if (recording(part))
    record(out, "view_backward", {part},
           [region](const Tensor& grad, Needs) { return cut(grad, region); });
  return out;
}

/// `whole`, with `part` (undefined: zeros) in place of the view.
Tensor replace(const Tensor& whole, const Tensor& part, const Region& region) {
  Tensor out = region.make_whole();
  copy(out, whole);
  part.defined() ? copy(region.of(out), region.parts(part)) : zero(region.of(out));
  if (recording(whole, part))
    record(out, "view_backward", {whole, part},
           [region](const Tensor& grad, Needs needs) -> Gradients {
             return {needs[0] ? replace(grad, {}, region) : Tensor(),
                     needs[1] ? cut(grad, region) : Tensor()};
           });
  return out;
}

/// The history of a view whose base was changed in place: gradients flow into the view's region.
struct ViewOfChangedBase {
  Region region;

  Tensor operator()(const Tensor& grad, Needs) const { return spread(grad, region); }
};

/// The history of a base that was changed in place through a view: gradients outside the view pass
/// unchanged, those inside go through the gradient of the in-place op.
class ChangedThroughView final : public Node {
 public:
  ChangedThroughView(IntrusivePtr<Node> op, Region region)
      : Node(op->name, op->stream), op_(std::move(op)), region_(std::move(region)) {}

  Gradients backward(Gradients grads) override {
    if (!op_) fail_released(name);
    Gradients inside(1);
    inside[0] = cut(grads[0], region_);
    // The outputs that the op saved have the history of the op, not of the base.
    const CurrentNodeScope scope(op_.get());
    Gradients result = op_->backward(std::move(inside));
    result[0] = needs()[0] ? replace(grads[0], result[0], region_) : Tensor();
    return result;
  }
  void release_saved() override { op_.reset(); }

 private:
  IntrusivePtr<Node> op_;
  Region region_;
};

/// See link_enclosed().
bool is_enclosed(const Meta& meta) { return meta.unrecorded_view && meta.node; }

/// Bases are created with dense strides; a view of any other layout cannot be scattered back into
/// it.
void require_scatterable(const Tensor& base, const char* op) {
  FERRITE_CHECK(
      base.is_contiguous() || base.is_contiguous(kChannelsLast), AutogradError, op,
      "changes a view of a tensor that is itself not dense in memory (strides {}); clone() "
      "the base first",
      base.strides());
}

}  // namespace

void add_into_zeros(const Tensor& view, const Tensor& from) {
  if (!geometry::overlaps_itself(view))
    copy(view, from);
  else if (is_complex(view.dtype()))
    add_overlapping(geometry::as_real(view), geometry::as_real(from));
  else
    add_overlapping(view, from);
}

std::string Meta::note(const Tensor& tensor) const {
  if (!tensor.requires_grad()) return "";
  const std::string name = tensor.grad_fn_name();
  return name.empty() ? "requires_grad=True" : fmt::format("grad_fn=<{}>", name);
}

Meta& require_meta(const Tensor& t) {
  auto& slot = t.impl()->autograd;
  if (!slot) slot = std::make_unique<Meta>();
  return static_cast<Meta&>(*slot);
}

Tensor alias(const Tensor& t) {
  return geometry::as_strided(t, t.shape(), t.strides(), t.storage_offset());
}

void set_geometry(const Tensor& t, const char* op,
                  const std::function<Tensor(const Tensor&)>& view) {
  Meta* const meta = meta_of(t);
  const bool leaf = meta && meta->requires_grad && !meta->node;
  FERRITE_CHECK(
      !leaf || !grad_enabled(), AutogradError, op,
      "{} requires a gradient and is a leaf: its shape cannot be changed while recording; "
      "use no_grad, or the form that returns a view",
      t.describe());
  const Tensor before = alias(t);
  const Edge edge = gradient_edge(t);
  if (edge.node) detail::link_output(before, edge.node, edge.output);
  const GradModeGuard records(grad_enabled() || edge.node);
  const Tensor after = view(before);
  TensorImpl& to = *t.impl();
  const TensorImpl& from = *after.impl();
  to.shape = from.shape;
  to.strides = from.strides;
  to.offset = from.offset;
  to.contiguous = from.contiguous;
  if (leaf) t.storage()->bump_version(op);  // nodes have saved it by its handle
  if (!edge.node) return;
  const Meta& changed = *meta_of(after);
  meta->node = changed.node;
  meta->output = changed.output;
  if (meta->retained) retain_gradient(*meta, *meta->node, meta->output);
}

Edge gradient_edge(const Tensor& t) {
  if (!t.defined()) return {};
  Meta* meta = meta_of(t);
  if (!meta) return {};
  if (meta->base.defined() && !meta->unrecorded_view) {
    if (Meta* base = meta_of(meta->base); base && base->rebases != meta->base_rebases) {
      auto node = make_intrusive<detail::LambdaNode<ViewOfChangedBase>>(
          "view", current_stream(t.device()), 1u,
          ViewOfChangedBase{{alias(meta->base), geometry::of(t), t.dtype()}});
      node->edges.push_back(gradient_edge(meta->base));
      meta->node = std::move(node);
      meta->output = 0;
      meta->base_rebases = base->rebases;
      if (meta->retained) retain_gradient(*meta, *meta->node, 0);
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
  node.edges.resize(inputs.size());
  Edge* edge = node.edges.data();
  for (const Tensor& t : inputs) *edge++ = gradient_edge(t);
}

void detail::link_inputs(Node& node, std::span<const Tensor> inputs) {
  node.edges.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) node.edges[i] = gradient_edge(inputs[i]);
}

void detail::check_result(const Tensor& out, const char* name) {
  const Meta* const meta = meta_of(out);
  FERRITE_CHECK(
      !meta || (!meta->node && !meta->requires_grad), AutogradError, name,
      "{} is on the tape already, as an input or as the result of another operation, and "
      "cannot become the result of this one; return a view of it (x.view_as(x)) or a copy",
      out.describe());
}

void detail::link_output(const Tensor& out, IntrusivePtr<Node> node, std::uint32_t output) {
  check_result(out, node->name);
  Meta& meta = require_meta(out);
  meta.node = std::move(node);
  meta.output = output;
}

namespace {
thread_local constinit std::uint64_t marked_nodes = 0;
}

void mark_communicating(const Tensor& out) {
  meta_of(out)->node->communicates = true;
  ++marked_nodes;
}

std::uint64_t communicating_nodes() { return marked_nodes; }

void link_view(const Tensor& out, const Tensor& base) {
  // `base` may be shared with other threads: its meta is only read here, never created.
  const Meta* base_meta = meta_of(base);
  const Tensor& root = base_meta && base_meta->base.defined() ? base_meta->base : base;
  const bool recorded = grad_enabled() && !(base_meta && base_meta->unrecorded_view);
  if (!grad_enabled() && (!base_meta || !root.requires_grad())) return;
  Meta& meta = require_meta(out);
  meta.base = root;
  meta.unrecorded_view = !recorded;
  const Meta* root_meta = meta_of(meta.base);
  meta.base_rebases = root_meta ? root_meta->rebases : 0;
}

void link_enclosed(const Tensor& out, const Tensor& base) {
  link_view(out, base);
  require_meta(out).unrecorded_view = true;
}

void drop_hidden_base(const Tensor& t) {
  Meta* meta = meta_of(t);
  if (!meta || !meta->base.defined() || meta->unrecorded_view) return;
  if (meta->base.impl()->use_count() > 1) return;
  gradient_edge(t);  // what was changed through other views comes first
  meta->base = {};
}

void check_inplace(const Tensor& self, const char* op) {
  FERRITE_CHECK(!geometry::overlaps_itself(self), ValueError, op,
                "cannot change {} of strides {} in place: several of its elements share one memory "
                "location; clone() it first",
                self.describe(), self.strides());
  FERRITE_CHECK(!self.is_inference() || inference_mode(), AutogradError, op,
                "cannot change {} in place: it is an inference tensor, made under InferenceMode, "
                "which is off; clone() it first",
                self.describe());
  if (!grad_enabled()) return;
  Meta* meta = meta_of(self);
  if (!meta) return;
  drop_hidden_base(self);
  const auto is_leaf = [](const Meta* m) { return m && m->requires_grad && !m->node; };
  const bool leaf = is_leaf(meta);
  const Meta* base = meta->base.defined() ? meta_of(meta->base) : nullptr;
  // A view that requires a gradient though its base has no history is one of a view that is a leaf.
  const bool of_leaf = meta->base.defined() && !meta->unrecorded_view && !(base && base->node) &&
                       self.requires_grad();
  FERRITE_CHECK(!leaf && !is_leaf(base) && !of_leaf, AutogradError, op,
                "{} requires a gradient and is a leaf{}: it cannot be changed in place while "
                "recording; use no_grad, or the form that returns a new tensor",
                self.describe(), leaf ? "" : " (through a view)");
  FERRITE_CHECK(!is_enclosed(*meta), AutogradError, op,
                "{} is an input or a result of a module with backward hooks, or a view of one: a "
                "change in place while recording would pass by the hooks; use the form that "
                "returns a new tensor, clone() it first, or remove the hooks",
                self.describe());
  FERRITE_CHECK(!meta->unrecorded_view || !meta->base.requires_grad(), AutogradError, op,
                "{} is a view that was made under no_grad of a tensor that requires a gradient: "
                "it cannot be changed in place while recording, which would be lost on the tape; "
                "make the view outside no_grad, change it inside, or use detach()",
                self.describe());
}

void detail::link_inplace(const Tensor& self, IntrusivePtr<Node> node) {
  Meta& meta = require_meta(self);
  if (!meta.base.defined()) {
    meta.node = std::move(node);
    meta.output = 0;
    ++meta.rebases;
    if (meta.retained) retain_gradient(meta, *meta.node, 0);
    return;
  }
  // Its base requires no gradient any more (check_inplace): from here on the two share a history.
  meta.unrecorded_view = false;
  const Tensor base = meta.base;
  require_scatterable(base, node->name);
  Meta& base_meta = require_meta(base);
  auto through = make_intrusive<ChangedThroughView>(
      node, Region{alias(base), geometry::of(self), self.dtype()});
  through->edges = node->edges;
  through->edges[0] = gradient_edge(base);
  base_meta.node = std::move(through);
  base_meta.output = 0;
  ++base_meta.rebases;
  if (base_meta.retained) retain_gradient(base_meta, *base_meta.node, 0);
  // The view's own node is created again from the base when it is next needed (gradient_edge).
}

Saved::Saved(const Tensor& input) {
  if (!input.defined()) return;
  FERRITE_CHECK(
      !input.is_inference(), AutogradError, "backward",
      "an operation that is recorded must save {}, an inference tensor: it was made under "
      "InferenceMode and cannot take part in autograd; clone() it outside that mode, or "
      "make it under NoGradGuard",
      input.describe());
  version_ = input.storage()->version();
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

Saved Saved::output(const Tensor& out, std::uint32_t number) {
  Saved saved;
  saved.output_number_ = number;
  saved.tensor_ = alias(out);
  saved.version_ = out.storage()->version();
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
