#include "parallel/data_parallel/device_comm_turn.h"

#include "core/cuda_backend.h"
#include "core/error.h"

namespace ferrite::parallel {

Turn::Mark Turn::mark_of(const Stream& stream) {
  if (stream.device().is_cpu() && stream.query()) return nullptr;
  return stream.impl()->record(detail::Timing::none);
}

Turn::Turn(const char* op, std::span<const Device> devices, std::span<const Stream> streams)
    : streams_(streams),
      after_(devices.size(), std::vector<bool>(devices.size())),
      used_(devices.size()) {
  for (const Device& device : devices) {
    currents_.push_back(current_stream(device));
    FERRITE_CHECK(!detail::cuda::is_capturing(currents_.back()), CudaError, op,
                  "the stream of {} is being captured into a graph, which cannot hold what devices "
                  "exchange; call it outside of the capture",
                  device);
  }
  for (const Stream& current : currents_) marks_.push_back(mark_of(current));
}

Turn::~Turn() {
  try {
    end();
  } catch (const std::exception&) {  // a device is lost, where nothing runs any more
  }
}

const Stream& Turn::stream(std::size_t d) { return stream_after(d, d); }

const Stream& Turn::stream_after(std::size_t d, std::size_t other) {
  used_[d] = true;
  for (const std::size_t which : {d, other}) {
    if (after_[d][which]) continue;
    after_[d][which] = true;
    if (marks_[which]) streams_[d].impl()->wait(marks_[which]);
  }
  return streams_[d];
}

void Turn::chain(std::size_t d, std::size_t other) {
  stream(d);
  if (d == other || !used_[other]) return;
  if (const Mark mark = mark_of(streams_[other])) streams_[d].impl()->wait(mark);
}

void Turn::end() {
  std::vector<Mark> marks;
  for (std::size_t d = 0; d < used_.size(); ++d) {
    if (used_[d]) marks.push_back(mark_of(streams_[d]));
    used_[d] = false;
  }
  for (const Mark& mark : marks)
    if (mark)
      for (const Stream& current : currents_) current.impl()->wait(mark);
  kept_.clear();
}

}  // namespace ferrite::parallel
