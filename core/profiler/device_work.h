// Work of CUDA devices, as the profiler sees it: what lies between two events of a stream.
#pragma once

#include <memory>
#include <utility>

#include "ferrite/core/profiler/range.h"
#include "ferrite/core/stream.h"

namespace ferrite::profiler::detail {

/// Where work begins: a mark on `stream`; null where none is to be taken, as of a stream under
/// capture, whose work runs later.
std::shared_ptr<ferrite::detail::Mark> begin_device_work(const Stream& stream);
/// Where it ends. `name` is a literal.
void end_device_work(const Stream& stream, const char* name,
                     std::shared_ptr<ferrite::detail::Mark> begin) noexcept;

/// What is put on `stream`, one of a CUDA device, from here to the end of the scope.
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
