#include "ferrite/tests/parallel/redirected_links.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <span>
#include <thread>

#include "ferrite/core/error.h"
#include "ferrite/core/generator.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/links/address.h"
#include "ferrite/parallel/comm/links/link.h"
#include "ferrite/parallel/comm/links/secret.h"

namespace ferrite::test {

using namespace parallel;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

void RedirectingStore::set(const std::string& key, std::string_view value) {
  links::LinkAddress address = links::LinkAddress::parse(value);
  address.tcp = redirect_(key.back() - '0', address.tcp);
  const std::lock_guard lock(mutex_);
  values_[key] = address.text();
  changed_.notify_all();
}

std::string RedirectingStore::get(const std::string& key, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  FERRITE_CHECK(changed_.wait_for(lock, timeout, [&] { return values_.contains(key); }),
                DistributedError, "store", "{} did not come", key);
  return values_[key];
}

std::int64_t RedirectingStore::add(const std::string&, std::int64_t) {
  throw Error("this store has no numbers");
}

bool RedirectingStore::check(const std::vector<std::string>& keys) {
  const std::lock_guard lock(mutex_);
  return std::all_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return values_.contains(key); });
}

bool RedirectingStore::erase(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return values_.erase(key) > 0;
}

std::string RedirectingStore::secret() const {
  return links::derive("a token of the job", {"test"});
}

namespace {

std::string distributed_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const DistributedError& e) {
    return e.what();
  }
  return "";
}

std::vector<std::byte> bytes_of_rank(int rank) {
  Generator random(static_cast<std::uint64_t>(rank) + 5);
  std::vector<std::byte> bytes(1'000'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next_below(256));
  return bytes;
}

}  // namespace

Exchanged exchange_over(const std::shared_ptr<Store>& store, std::chrono::milliseconds timeout) {
  setenv("FERRITE_LINK", "tcp", 1);
  const std::atomic<bool> never = false;
  Exchanged out;
  std::atomic<bool> wrong = false;
  const auto run = [&](int rank) {
    const auto mine = bytes_of_rank(rank), theirs = bytes_of_rank(1 - rank);
    out.errors[static_cast<std::size_t>(rank)] = distributed_error([&] {
      GroupContext context{.name = "group", .rank = rank, .size = 2, .job_ranks = {0, 1}};
      context.timeout = 5s;
      context.store = store;
      const auto links = links::connect_links(context);
      links::Link& link = links->to(1 - rank);
      std::vector<std::byte> got(theirs.size());
      const links::Interrupt interrupt{"exchange", never, Clock::now() + timeout};
      for (std::size_t sent = 0, received = 0; sent < mine.size() || received < got.size();) {
        std::size_t moved = link.try_send(std::span(mine).subspan(sent));
        sent += moved;
        const std::size_t n = link.try_recv(std::span(got).subspan(received));
        if (!std::equal(got.begin() + static_cast<std::ptrdiff_t>(received),
                        got.begin() + static_cast<std::ptrdiff_t>(received + n),
                        theirs.begin() + static_cast<std::ptrdiff_t>(received)))
          wrong = true;  // by either end
        received += n;
        if (moved + n > 0) continue;
        const links::Wait wait{&link, {.send = sent < mine.size(), .recv = received < got.size()}};
        links::wait_any({&wait, 1}, interrupt);
      }
      // Until the other end has received everything: otherwise it gets an error.
      send(link, std::span(mine).first(1), interrupt);
      recv(link, std::span(got).first(1), interrupt);
    });
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  unsetenv("FERRITE_LINK");
  out.wrong = wrong;
  return out;
}

}  // namespace ferrite::test
