// An exchange over links between two ranks, threads of the test, whose ports are behind relays.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ferrite/parallel/comm/bootstrap/store.h"
#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::test {

/// A store that gives each rank other addresses than the ranks have published, like an attacker on
/// the network. It has no numbers.
class RedirectingStore final : public parallel::Store {
 public:
  using Redirect =
      std::function<parallel::links::Address(int rank, const parallel::links::Address& address)>;
  explicit RedirectingStore(Redirect redirect) : redirect_(std::move(redirect)) {}

  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  bool check(const std::vector<std::string>& keys) override;
  bool erase(const std::string& key) override;
  std::string secret() const override;

 private:
  const Redirect redirect_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

struct Exchanged {
  std::array<std::string, 2> errors;  ///< of each rank; "" if everything arrived
  bool wrong = false;                 ///< bytes that the other rank has not sent were accepted
};

/// Sends a million bytes each way, over TCP.
Exchanged exchange_over(const std::shared_ptr<parallel::Store>& store,
                        std::chrono::milliseconds timeout);

}  // namespace ferrite::test
