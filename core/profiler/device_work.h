// Work of CUDA devices as the profiler sees it: the interval between two events of a stream.
#pragma once

#include <memory>
#include <utility>

#include "ferrite/core/profiler/range.h"
#include "ferrite/core/stream.h"

namespace ferrite::profiler::detail {

/// The start of a piece of work: a mark on `stream`; null if none is to be recorded, for example on
/// a stream under capture, whose work runs later.
std::shared_ptr<ferrite::detail::Mark> begin_device_work(const Stream& stream);
/// The end of the work. `name` is a literal.
void end_device_work(const Stream& stream, const char* name,
                     std::shared_ptr<ferrite::detail::Mark> begin) noexcept;

/// Records what is put on `stream`, a stream of a CUDA device, until the end of the scope.
class DeviceWork {
 public:
  DeviceWork(const Stream& stream, const char* name) : stream_(stream), name_(name) {
    if (on()) [[unlikely]]
      begin_ = begin_device_work(stream);
  }
  ~DeviceWork() {
    if (begin_) [[unlikely]]
      end_device_work(stream_, name_, std::move(begin_));
  }
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

 private:
  const Stream stream_;
  const char* const name_;
  std::shared_ptr<ferrite::detail::Mark> begin_;
};

}  // namespace ferrite::profiler::detail
