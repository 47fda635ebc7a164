#include "ferrite/autograd/node.h"

#include <algorithm>
#include <atomic>

#include "ferrite/core/profiler/range.h"

namespace ferrite::autograd {

namespace {

// Threads take numbers in blocks, so that they do not contend for a cache line at every node. Newer
// nodes of a thread have higher numbers, and numbers are unique.
constexpr std::uint64_t kSequenceBlock = 1024;
std::atomic<std::uint64_t> next_block{0};
thread_local constinit std::uint64_t next_sequence = 0;

std::uint64_t draw_sequence() {
  if (next_sequence % kSequenceBlock == 0) [[unlikely]]
    next_sequence = next_block.fetch_add(kSequenceBlock, std::memory_order_relaxed);
  return next_sequence++;
}

// Nodes that lost their last handle while this thread was deleting another node.
thread_local constinit std::vector<Node*>* pending_deletes = nullptr;

thread_local constinit Node* running_node = nullptr;

}  // namespace

Node::Node(const char* name, const Stream& stream, std::uint32_t outputs)
    : name(name),
      sequence(draw_sequence()),
      outputs(outputs),
      stream(stream),
      call_stack(detail::keeps_call_stacks.load(std::memory_order_relaxed) ? detail::call_stack()
                                                                           : std::vector<void*>()) {
  if (profiler::detail::on()) [[unlikely]]
    profiler::detail::note_node(sequence);
}

std::uint64_t Node::add_hook(std::uint32_t output, GradientHook hook) {
  if (!hooks_) hooks_ = std::make_unique<std::vector<Hook>>();
  const std::uint64_t id = next_hook_id();
  const auto observers = std::ranges::find_if(*hooks_, &Hook::observes);
  hooks_->insert(observers, {id, output, std::move(hook)});
  return id;
}

void Node::add_observer(std::uint32_t output, GradientHook hook) {
  if (!hooks_) hooks_ = std::make_unique<std::vector<Hook>>();
  hooks_->push_back({next_hook_id(), output, std::move(hook), true});
}

void Node::remove_hook(std::uint64_t id) {
  if (hooks_) std::erase_if(*hooks_, [id](const Hook& h) { return h.id == id; });
}

void Node::run_hooks(Gradients& outputs) const {
  if (!hooks_) return;
  const std::vector<Hook> hooks = *hooks_;  // a hook may remove itself
  for (const Hook& hook : hooks) {
    Tensor& grad = outputs[hook.output];
    if (!grad.defined()) continue;
    Tensor replaced = hook.call(grad);
    if (!replaced.defined()) continue;
    check_replacement(grad, replaced, name);
    grad = std::move(replaced);
  }
}

void Node::release_last(Node* node) {
  if (pending_deletes) {
    pending_deletes->push_back(node);
    return;
  }
  std::vector<Node*> queue;
  pending_deletes = &queue;
  delete node;
  while (!queue.empty()) {
    Node* next = queue.back();
    queue.pop_back();
    delete next;
  }
  pending_deletes = nullptr;
}

void check_replacement(const Tensor& grad, const Tensor& replaced, const char* name) {
  constexpr const char* kMessage =
      "a hook on {} turned a gradient of {} into one of {}; expected the same shape, dtype and "
      "device";
  FERRITE_CHECK(replaced.shape() == grad.shape(), ShapeError, "register_hook", kMessage, name,
                grad.describe(), replaced.describe());
  FERRITE_CHECK(replaced.dtype() == grad.dtype(), DTypeError, "register_hook", kMessage, name,
                grad.describe(), replaced.describe());
  FERRITE_CHECK(replaced.device() == grad.device(), DeviceError, "register_hook", kMessage, name,
                grad.describe(), replaced.describe());
}

std::uint64_t next_hook_id() {
  static std::atomic<std::uint64_t> next_id{1};
  return next_id.fetch_add(1, std::memory_order_relaxed);
}

Node* current_node() { return running_node; }

CurrentNodeScope::CurrentNodeScope(Node* node) : outer_(std::exchange(running_node, node)) {}
CurrentNodeScope::~CurrentNodeScope() { running_node = outer_; }

void fail_released(const char* name) {
  fail<AutogradError>(
      name,
      "backward runs a second time through a graph whose saved tensors were already "
      "freed; pass retain_graph = true to the first backward");
}

}  // namespace ferrite::autograd
