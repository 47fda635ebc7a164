// Links over TCP.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "parallel/comm/link.h"
#include "parallel/comm/socket.h"

namespace ferrite::parallel {

class TcpLink final : public Link {
 public:
  /// `socket` is connected and non-blocking; `peer` is for messages: "rank 3".
  TcpLink(Fd socket, std::string peer);
  ~TcpLink() override;
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  std::size_t try_send(std::span<const std::byte> bytes) override;
  std::span<const std::byte> received() override;
  void consume(std::size_t bytes) override;
  std::size_t try_recv(std::span<std::byte> bytes) override;
  std::string_view kind() const override { return "tcp"; }
  void close() override;
  bool ready(const Wish& wish) override;
  bool worth_looking(const Wish&) const override { return false; }
  Sleep arm(const Wish& wish) override;
  void disarm(const Sleep&) override {}

 private:
  std::size_t buffered() const { return end_ - begin_; }
  std::size_t read(std::byte* to, std::size_t size);
  [[noreturn]] void fail_lost() const;

  const Fd socket_;
  const std::string peer_;
  std::vector<std::byte> buffer_;  // what was received and not consumed: [begin_, end_)
  std::size_t begin_ = 0, end_ = 0;
  bool over_ = false;  // the other end sends no more
  int error_ = 0;
  std::atomic<bool> closed_ = false;
};

}  // namespace ferrite::parallel
