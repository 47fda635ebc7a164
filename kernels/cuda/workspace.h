// Scratch memory of a kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ferrite/core/fwd.h"

namespace ferrite::kernels::cuda {

/// Memory from the stream's caching allocator, aligned to 256 bytes. It may be destroyed as soon as
/// the kernels that use it are launched: the allocator reuses it only for later work of the stream.
class Workspace {
 public:
  Workspace(const Stream& stream, std::size_t bytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Allocator* allocator_;
  // Its Allocator::Block.
  void* data_;
  std::size_t bytes_;
  std::uint32_t stream_;
  void* handle_;
};

}  // namespace ferrite::kernels::cuda
