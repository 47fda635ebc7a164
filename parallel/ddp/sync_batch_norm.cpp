#include "ferrite/parallel/ddp/sync_batch_norm.h"

#include <algorithm>
#include <utility>

#include "ferrite/ops/creation.h"
#include "ferrite/parallel/ddp/model_check.h"

namespace ferrite::parallel {

namespace {

class GroupParts final : public BatchParts {
 public:
  explicit GroupParts(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  Tensor gather(const Tensor& of_this_part) override {
    const Tensor all = empty({group_->size(), of_this_part.numel()},
                             {.dtype = of_this_part.dtype(), .device = of_this_part.device()});
    group_->all_gather(all, of_this_part).wait();
    return all;
  }
  void sum(const Tensor& of_this_part) override { group_->all_reduce(of_this_part).wait(); }
  const ProcessGroup& group() const { return *group_; }

 private:
  const std::shared_ptr<ProcessGroup> group_;
};

/// Backward may run in another thread with another default group, so it keeps the one found by
/// forward().
nn::BatchNorm::BatchPartsSource parts_of(std::shared_ptr<ProcessGroup> group) {
  return [group = std::move(group)]() -> std::shared_ptr<BatchParts> {
    const int size = group ? group->size() : get_world_size();
    if (size == 1) return nullptr;
    return std::make_shared<GroupParts>(group ? group : default_group());
  };
}

nn::Module& set_parts(nn::Module& module, const nn::BatchNorm::BatchPartsSource& source) {
  for (nn::Module* const m : module.modules())
    if (auto* const norm = dynamic_cast<nn::BatchNorm*>(m)) norm->set_batch_parts(source);
  return module;
}

}  // namespace

bool ddp::synchronizes_norms_over(const ProcessGroup& group, nn::Module& module) {
  return std::ranges::any_of(module.modules(), [&](nn::Module* m) {
    const auto* const norm = dynamic_cast<nn::BatchNorm*>(m);
    const auto parts = std::dynamic_pointer_cast<GroupParts>(norm ? norm->batch_parts() : nullptr);
    return parts && &parts->group() == &group;
  });
}

nn::Module& convert_sync_batchnorm(nn::Module& module, std::shared_ptr<ProcessGroup> group) {
  return set_parts(module, parts_of(std::move(group)));
}

nn::Module& revert_sync_batchnorm(nn::Module& module) { return set_parts(module, {}); }

SyncBatchNorm::SyncBatchNorm(std::int64_t num_features, const nn::BatchNormOptions& options,
                             std::shared_ptr<ProcessGroup> group)
    : Cloneable(num_features, options) {
  set_batch_parts(parts_of(std::move(group)));
}

void SyncBatchNorm::check_input(const Tensor& input) const {
  FERRITE_CHECK(input.defined() && input.dim() >= 2, ShapeError, "SyncBatchNorm",
                "expected [N, {}, ...], got {}", num_features_, input.describe());
}

}  // namespace ferrite::parallel
