#include "ferrite/parallel/tensor_parallel/groups.h"

#include <utility>

#include "ferrite/autograd/grad_mode.h"

namespace ferrite::parallel::tensor_parallel {

std::shared_ptr<ProcessGroup> group_of_several(std::shared_ptr<ProcessGroup> group) {
  if (!group && get_world_size() > 1) group = default_group();
  return group && group->size() > 1 ? std::move(group) : nullptr;
}

std::int64_t divided(std::int64_t size, const ProcessGroup& group, const char* op,
                     const char* what) {
  FERRITE_CHECK(size % group.size() == 0, ValueError, op,
                "{}, of {}, does not divide by the {} ranks of group '{}'", what, size,
                group.size(), group.name());
  return size / group.size();
}

Tensor all_gather_parts(const Tensor& part, int dim, ProcessGroup& group) {
  const NoGradGuard guard;
  const Tensor in = part.detach().contiguous();
  std::int64_t before = 1, block = 1;
  for (int d = 0; d < in.dim(); ++d) (d < dim ? before : block) *= in.size(d);
  const std::int64_t ranks = group.size();
  const Tensor all = empty({ranks, before, block}, {.dtype = in.dtype(), .device = in.device()});
  group.all_gather(all, in).wait();
  Shape whole = in.shape();
  whole[dim] *= ranks;
  return all.permute({1, 0, 2}).reshape(whole);
}

}  // namespace ferrite::parallel::tensor_parallel
