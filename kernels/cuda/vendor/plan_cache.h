// A cache of plans of a vendor library, by the problem that they solve.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <utility>

namespace ferrite::kernels::cuda::vendor {

/// At most `capacity` plans; a new plan replaces the least recently used one. Not thread-safe.
/// Plans are shared pointers, so that a plan in use may be removed.
template <class Key, class Plan>
class PlanCache {
 public:
  explicit PlanCache(std::size_t capacity) : capacity_(capacity) {}

  /// Null if there is none.
  std::shared_ptr<Plan> find(const Key& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    plans_.splice(plans_.begin(), plans_, found->second);
    return found->second->second;
  }
  /// Replaces the plan that the key has.
  void insert(const Key& key, std::shared_ptr<Plan> plan) {
    if (const auto found = places_.find(key); found != places_.end()) {
      plans_.erase(found->second);
      places_.erase(found);
    }
    if (plans_.size() >= capacity_) {
      places_.erase(plans_.back().first);
      plans_.pop_back();
    }
    plans_.emplace_front(key, std::move(plan));
    places_.emplace(key, plans_.begin());
  }
  std::size_t size() const { return plans_.size(); }

 private:
  using Plans = std::list<std::pair<Key, std::shared_ptr<Plan>>>;  // most recently used first
  std::size_t capacity_;
  Plans plans_;
  std::map<Key, typename Plans::iterator> places_;
};

}  // namespace ferrite::kernels::cuda::vendor
