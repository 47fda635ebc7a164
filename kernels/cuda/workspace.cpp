#include "ferrite/kernels/cuda/workspace.h"

#include "ferrite/core/allocator.h"

namespace ferrite::kernels::cuda {

Workspace::Workspace(const Stream& stream, std::size_t bytes)
    : allocator_(&allocator(stream.device())) {
  const Allocator::Block block = allocator_->allocate(bytes, stream);
  data_ = block.data, bytes_ = block.bytes, stream_ = block.stream, handle_ = block.handle;
}

Workspace::~Workspace() { allocator_->free({data_, bytes_, stream_, handle_}); }

}  // namespace ferrite::kernels::cuda
