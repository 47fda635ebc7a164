// Scratch memory of a kernel.
#pragma once

#include <cstddef>

#include "core/allocator.h"
#include "core/stream.h"

namespace ferrite::kernels::cuda {

/// Memory from the stream's caching allocator, aligned to 256 bytes. It may be let go as soon as
/// the kernels that use it are on the stream: the allocator hands it only to work that comes later.
class Workspace {
 public:
  Workspace(const Stream& stream, std::size_t bytes)
      : allocator_(allocator(stream.device())), block_(allocator_.allocate(bytes, stream)) {}
  ~Workspace() { allocator_.free(block_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(block_.data);
  }

 private:
  Allocator& allocator_;
  Allocator::Block block_;
};

}  // namespace ferrite::kernels::cuda
