#include "ferrite/parallel/ddp/distributed_data_parallel.h"

#include <algorithm>
#include <exception>

#include "ferrite/parallel/ddp/model_check.h"
#include "ferrite/parallel/ddp/reducer.h"

namespace ferrite::parallel {

NoSync::NoSync(std::shared_ptr<ddp::Reducer> reducer) : reducer_(std::move(reducer)) {
  reducer_->enter_no_sync();
}

NoSync::~NoSync() { reducer_->leave_no_sync(); }

Join::Join(std::shared_ptr<ddp::Reducer> reducer, const JoinOptions& options)
    : reducer_(std::move(reducer)), exceptions_(std::uncaught_exceptions()) {
  reducer_->begin_join(options);
}

Join::~Join() {
  try {
    if (std::uncaught_exceptions() > exceptions_)
      reducer_->leave_join();
    else
      reducer_->finish_join();
  } catch (const std::exception& e) {  // the next operation of the group reports it
    reducer_->group().abort(e.what());
  }
}

void Join::finish() { reducer_->finish_join(); }

DistributedDataParallelBase::DistributedDataParallelBase(nn::Module& module,
                                                         const DDPOptions& options)
    : reducer_(std::make_shared<ddp::Reducer>(module, options)) {
  const std::vector<Tensor> parameters = module.parameters();
  const bool one_device = std::ranges::all_of(
      parameters, [&](const Tensor& p) { return p.device() == parameters[0].device(); });
  FERRITE_CHECK(
      one_device || !ddp::synchronizes_norms_over(reducer_->group(), module), ValueError, "ddp",
      "the model is on several devices, whose backward passes run beside each other, and "
      "its norms are synchronized over the group '{}' that averages gradients: give the "
      "norms a group of their own, convert_sync_batchnorm(model, group->new_group({{0, 1, ...}}))",
      reducer_->group().name());
  wrap_module(module);
  reducer_->start();
}

DistributedDataParallelBase::~DistributedDataParallelBase() {
  if (reducer_) reducer_->stop();
}

ProcessGroup& DistributedDataParallelBase::process_group() const { return reducer_->group(); }

const DDPOptions& DistributedDataParallelBase::options() const { return reducer_->options(); }

NoSync DistributedDataParallelBase::no_sync() { return NoSync(reducer_); }

Join DistributedDataParallelBase::join(const JoinOptions& options) {
  return Join(reducer_, options);
}

void DistributedDataParallelBase::register_comm_hook(CommHook hook, std::string name) {
  reducer_->register_comm_hook(std::move(hook), std::move(name));
}

DDPReport DistributedDataParallelBase::report() const { return reducer_->report(); }

void DistributedDataParallelBase::reset_report() { reducer_->reset_report(); }

void DistributedDataParallelBase::before_forward() { reducer_->before_forward(); }

void DistributedDataParallelBase::after_forward(std::span<const Tensor> outputs, bool are_all) {
  reducer_->after_forward(outputs, are_all);
}

}  // namespace ferrite::parallel
