// A simulated cable between two ends on this machine, which can be cut like a network connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::test {

class Cable {
 public:
  /// Forwards connections from a new port on 127.0.0.1 to `port` there.
  explicit Cable(std::uint16_t port);
  ~Cable();
  Cable(const Cable&) = delete;
  Cable& operator=(const Cable&) = delete;

  std::uint16_t port() const { return port_; }
  /// From now on nothing gets through, without a notification: like a network partition.
  void cut() { cut_ = true; }
  void mend() { cut_ = false; }
  /// Ends all existing connections: like a firewall that lost its table.
  void drop() { drop_ = true; }

 private:
  void run();

  const parallel::links::Address to_;
  parallel::links::Fd listener_;
  std::uint16_t port_;
  std::atomic<bool> cut_ = false, drop_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace ferrite::test
