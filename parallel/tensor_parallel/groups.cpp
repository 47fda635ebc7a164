#include "ferrite/parallel/tensor_parallel/groups.h"

#include <bit>
#include <cmath>
#include <utility>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/init.h"

namespace ferrite::parallel::tensor_parallel {

namespace {

/// The state of rank 0's generator.
PhiloxState agreed_state(PhiloxState own, ProcessGroup& group) {
  const NoGradGuard guard;
  const Tensor host = empty({2}, {.dtype = kInt64, .device = kCPU});
  auto* words = host.data<std::int64_t>();
  words[0] = std::bit_cast<std::int64_t>(own.seed);
  words[1] = std::bit_cast<std::int64_t>(own.offset);
  const Tensor shared = host.to(group.device().value_or(Device()));
  group.broadcast(shared).wait();
  const auto agreed = shared.to_vector<std::int64_t>();
  return {.seed = std::bit_cast<std::uint64_t>(agreed[0]),
          .offset = std::bit_cast<std::uint64_t>(agreed[1])};
}

}  // namespace

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

DrawnLinear draw_linear(std::int64_t in_features, std::int64_t out_features, bool bias,
                        Generator* generator, ProcessGroup* group) {
  Generator& own = generator ? *generator : default_generator(Device());
  // A separate generator: ranks that are threads may share the default one.
  Generator drawing;
  drawing.set_state(group ? agreed_state(own.state(), *group) : own.state());
  DrawnLinear drawn;
  drawn.weight = empty({out_features, in_features});
  nn::init::kaiming_uniform_(drawn.weight, std::sqrt(5.0), nn::init::FanMode::fan_in,
                             nn::init::Nonlinearity::leaky_relu, &drawing);
  if (bias) {
    const double bound = in_features > 0 ? 1 / std::sqrt(static_cast<double>(in_features)) : 0;
    drawn.bias = empty({out_features});
    nn::init::uniform_(drawn.bias, -bound, bound, &drawing);
  }
  own.set_state(drawing.state());
  // No rank draws, or reads rank 0's state, before all have set theirs.
  if (group) group->barrier().wait();
  return drawn;
}

}  // namespace ferrite::parallel::tensor_parallel
