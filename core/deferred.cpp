#include "ferrite/core/deferred.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>

namespace ferrite::detail {

namespace {

struct Action {
  std::vector<std::shared_ptr<Mark>> marks;
  std::function<void()> run;
};

struct Actions {
  std::mutex mutex;
  std::list<Action> waiting;
  std::atomic<bool> any{false};
};

Actions& actions() {
  static Actions& instance = *new Actions;  // never destroyed: static tensors may still be freed
  return instance;
}

bool passed(const Action& action) {
  return std::ranges::all_of(action.marks, [](const auto& mark) { return mark->passed(); });
}

}  // namespace

void after(std::vector<std::shared_ptr<Mark>> marks, std::function<void()> action) {
  Action entry{std::move(marks), std::move(action)};
  if (passed(entry)) return entry.run();
  Actions& all = actions();
  std::lock_guard lock(all.mutex);
  all.waiting.push_back(std::move(entry));
  all.any.store(true, std::memory_order_relaxed);
}

void run_passed() {
  Actions& all = actions();
  if (!all.any.load(std::memory_order_relaxed)) [[likely]]
    return;
  std::list<Action> ready;
  {
    std::lock_guard lock(all.mutex);
    for (auto it = all.waiting.begin(); it != all.waiting.end();) {
      const auto next = std::next(it);
      if (passed(*it)) ready.splice(ready.end(), all.waiting, it);
      it = next;
    }
    all.any.store(!all.waiting.empty(), std::memory_order_relaxed);
  }
  for (const Action& action : ready) action.run();  // may call run_passed() again
}

}  // namespace ferrite::detail
