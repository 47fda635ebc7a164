#include "ferrite/parallel/comm/bootstrap/store.h"

#include <utility>

namespace ferrite::parallel {

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix) + "/"), store_(std::move(store)) {}

void PrefixStore::set(const std::string& key, std::string_view value) {
  store_->set(prefix_ + key, value);
}

std::string PrefixStore::get(const std::string& key, std::chrono::milliseconds timeout) {
  return store_->get(prefix_ + key, timeout);
}

std::int64_t PrefixStore::add(const std::string& key, std::int64_t amount) {
  return store_->add(prefix_ + key, amount);
}

bool PrefixStore::check(const std::vector<std::string>& keys) {
  std::vector<std::string> prefixed;
  prefixed.reserve(keys.size());
  for (const std::string& key : keys) prefixed.push_back(prefix_ + key);
  return store_->check(prefixed);
}

bool PrefixStore::erase(const std::string& key) { return store_->erase(prefix_ + key); }

}  // namespace ferrite::parallel
