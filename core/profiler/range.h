// Ranges of code reported to the profiler, by the library and by users.
//
//   {
//     profiler::Range range("forward");  // torch.profiler.record_function
//     output = net(input);
//   }
//
// While no profile runs (core/profiler/profile.h), a range costs one read of a flag.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <typeinfo>

namespace ferrite {
class Device;
class Stream;
class Tensor;
}  // namespace ferrite

namespace ferrite::profiler {

/// The kind of a range.
enum class Kind : std::uint8_t {
  op,             ///< a function of ops/, under its own name
  backward,       ///< a node of the tape, under the name of its op
  kernel,         ///< a kernel that runs in the calling thread
  module,         ///< a module's forward(), under the name of its class
  user,           ///< a Range
  optimizer,      ///< a step of an optimizer
  data,           ///< waiting for a batch, or making it
  communication,  ///< between devices or processes
};

namespace detail {

/// Bits: what the running profile records; 0 if none runs. A recorder of ops sets one of its own.
enum Hooks : std::uint32_t {
  kRanges = 1,
  kDevices = 2,
  kMemory = 4,
  kShapes = 8,
  kModules = 16,
  kNvtx = 32,
  kTrace = 64,  ///< not a profile: core/tracing.h
};
/// On a cache line of its own: every op reads it, so writes to neighbouring data must not evict it.
struct alignas(64) Flags {
  std::atomic<std::uint32_t> hooks{0};
};
inline constinit Flags flags;

inline bool on() { return flags.hooks.load(std::memory_order_relaxed) != 0; }

struct ThreadState;

// begin functions return the argument of end(), or null if there is nothing to end.
ThreadState* begin(Kind kind, const char* name);  // a literal, or interned
ThreadState* begin_user(std::string_view name);
ThreadState* begin_op(const char* name, std::initializer_list<const Tensor*> inputs);
ThreadState* begin_op(const char* name, std::span<const Tensor> inputs);
ThreadState* begin_node(const char* name, std::uint64_t sequence);
ThreadState* begin_kernel(const Stream& stream, const char* name);
ThreadState* begin_module(const std::type_info& type, const void* module);
void end(ThreadState* state) noexcept;

/// Records that the innermost range has put node `sequence` on the tape.
void note_node(std::uint64_t sequence);
/// Records that `bytes` were allocated, or freed if negative; `allocated` and `reserved` are the
/// device's totals after it.
void note_memory(const Device& device, std::int64_t bytes, std::size_t allocated,
                 std::size_t reserved) noexcept;

class Scope {
 public:
  explicit Scope(ThreadState* open) : open_(open) {}
  ~Scope() {
    if (open_) [[unlikely]]
      end(open_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 protected:
  ThreadState* const open_;
};

/// A kernel put on `stream`.
class KernelRange : Scope {
 public:
  KernelRange(const Stream& stream, const char* name)
      : Scope(on() ? begin_kernel(stream, name) : nullptr) {}
};

/// The backward of a node.
class NodeRange : Scope {
 public:
  NodeRange(const char* name, std::uint64_t sequence)
      : Scope(on() ? begin_node(name, sequence) : nullptr) {}
};

/// A call of a module.
class ModuleRange : Scope {
 public:
  template <class Module>
  explicit ModuleRange(const Module& module)
      : Scope(on() ? begin_module(typeid(module), &module) : nullptr) {}
};

/// Any other range of the library; `name` is a literal.
class LibraryRange : Scope {
 public:
  LibraryRange(Kind kind, const char* name) : Scope(on() ? begin(kind, name) : nullptr) {}
};

}  // namespace detail

/// An op, from here to the end of the scope: `name` is a literal; `inputs` are tensors, possibly
/// undefined, whose shapes a profile may record. Opened first in every function of ops/; custom ops
/// may use it too.
class OpRange : detail::Scope {
 public:
  template <std::derived_from<Tensor>... Tensors>
  explicit OpRange(const char* name, const Tensors&... inputs)
      : Scope(detail::on() ? detail::begin_op(name, {static_cast<const Tensor*>(&inputs)...})
                           : nullptr) {}
  OpRange(const char* name, std::span<const Tensor> inputs)
      : Scope(detail::on() ? detail::begin_op(name, inputs) : nullptr) {}
};

/// A user's range in this thread, from here to the end of the scope. Ranges nest.
class Range : detail::Scope {
 public:
  explicit Range(std::string_view name)
      : Scope(detail::on() ? detail::begin_user(name) : nullptr) {}
};

}  // namespace ferrite::profiler
