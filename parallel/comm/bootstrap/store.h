// Store: a small key-value store that the ranks of a job share: how they find each other, agree,
// and learn who was lost. One rank (or the launcher) serves it over TCP.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::parallel {

/// All members may be called from any thread; they throw DistributedError, naming the server and
/// what was asked, where the server is lost or does not answer within the timeout.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, std::string_view value) = 0;
  /// Waits until the key is there; DistributedError, naming it, after `timeout`.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  /// Adds to a number that starts at 0, and returns the sum.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// Whether all are there; never waits for them.
  virtual bool check(const std::vector<std::string>& keys) = 0;
  /// Whether it was there.
  virtual bool erase(const std::string& key) = 0;
  /// The numeric address of this host by which it reaches the server, which is where other ranks
  /// can reach this one: what transports bind to. "" where the store is not reached over a network.
  virtual std::string local_host() const { return ""; }
  /// What those alone know who know the store's token, for ranks to prove to each other that they
  /// do: other than the token itself, 32 bytes. "" where the store has no token.
  virtual std::string secret() const { return ""; }
};

/// Keys of `store` behind a prefix: what a sub-group, or one start of a job, keeps for itself.
class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);
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
