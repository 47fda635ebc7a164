// Work that tests delay.
#pragma once

#include <future>
#include <utility>

#include "ferrite/core/stream.h"

namespace ferrite::test {

/// Blocks a stream until it is opened.
class Gate {
 public:
  explicit Gate(const Stream& stream) {
    stream.enqueue([opened = opened_] { opened.wait(); });
  }
  ~Gate() { open(); }
  void open() {
    if (!std::exchange(open_, true)) promise_.set_value();
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
  bool open_ = false;
};

}  // namespace ferrite::test
