#include "ferrite/parallel/ddp/distributed_data_parallel.h"

#include <exception>

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

void DistributedDataParallelBase::after_forward(std::span<const Tensor> outputs) {
  reducer_->after_forward(outputs);
}

}  // namespace ferrite::parallel
