// A man in the middle: a port that forwards data to another, and may change it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::test {

/// The direction of bytes through a relay, and their position in the stream.
struct Passing {
  int connection = 0;    ///< counted from 0, in order of arrival
  bool forth = true;     ///< from the opener
  std::size_t from = 0;  ///< number of bytes sent in that direction before
};

class Relay {
 public:
  /// May change `bytes`; called in a thread of the relay.
  using Change = std::function<void(const Passing& passing, std::string& bytes)>;

  /// From a free port of 127.0.0.1 to `target`.
  explicit Relay(parallel::links::Address target, Change change = nullptr);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const parallel::links::Address& address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

  /// Changes one bit of the stream of one connection, once.
  static Change flip(int connection, bool forth, std::size_t bit);

 private:
  void serve();

  const parallel::links::Address target_;
  const Change change_;
  const parallel::links::Fd listener_;
  const parallel::links::Address address_;
  std::atomic<std::size_t> bytes_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace ferrite::test
