// Store: a small key-value store shared by the ranks of a job, used to find each other, agree, and
// learn of lost ranks. One rank (or the launcher) serves it over TCP.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::parallel {

/// Thread-safe. Members throw DistributedError, naming the server and the request, if the server is
/// lost or does not answer within the timeout.
class Store {
 public:
  virtual ~Store() = default;
  /// Writes a value, which all ranks can read.
  virtual void set(const std::string& key, std::string_view value) = 0;
  /// The value of the key, for which it waits; DistributedError, naming the key, after `timeout`.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  /// Adds to a number that starts at 0, and returns the sum.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// Whether all these keys exist; never waits for them.
  virtual bool check(const std::vector<std::string>& keys) = 0;
  /// Removes the key; whether it existed.
  virtual bool erase(const std::string& key) = 0;
  /// This host's numeric address on the connection to the server, which is where other ranks can
  /// reach it: the address that transports bind to. "" if the store is not reached over a network.
  virtual std::string local_host() const { return ""; }
  /// 32 bytes known only to holders of the store's token, and different from the token, by which
  /// ranks prove to each other that they know it. "" if the store has no token.
  virtual std::string secret() const { return ""; }
};

/// Keys of `store` with a prefix: the private keys of a sub-group, or of one start of a job.
class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);
  /// Writes a value, which all ranks can read.
  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  bool check(const std::vector<std::string>& keys) override;
  bool erase(const std::string& key) override;
  std::string local_host() const override { return store_->local_host(); }
  std::string secret() const override { return store_->secret(); }

 private:
  std::string prefix_;
  std::shared_ptr<Store> store_;
};

}  // namespace ferrite::parallel
