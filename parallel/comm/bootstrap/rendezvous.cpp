#include "ferrite/parallel/comm/bootstrap/rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/bootstrap/rendezvous_file.h"
#include "ferrite/parallel/comm/bootstrap/rendezvous_join.h"
#include "ferrite/parallel/comm/bootstrap/tcp_monitor.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store_server.h"

namespace ferrite::parallel {

struct Rendezvous::Served {
  std::unique_ptr<bootstrap::TcpStoreServer> server;
  std::unique_ptr<bootstrap::RendezvousFile> file;
};

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kOp = "rendezvous";
/// A port may be held briefly by an earlier start of the job.
constexpr std::chrono::seconds kPortPatience{5};
/// So may a store that refuses us, because it belongs to the earlier start.
constexpr std::chrono::seconds kRefusalPatience{60};

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

/// Waits between attempts, increasing each time.
class Pause {
 public:
  /// False where the deadline has come.
  bool wait(links::Deadline deadline) {
    const auto until = Clock::now() + length_;
    length_ = std::min(2 * length_, Milliseconds(200));
    if (until >= deadline) return false;
    std::this_thread::sleep_until(until);
    return true;
  }

 private:
  Milliseconds length_{5};
};

/// The address to look for the store.
struct Target {
  bootstrap::StorePlace at;
  std::string token;
};
/// Called before every attempt; returns nothing, and the reason, if the address is not known yet.
using Where = std::function<std::optional<Target>(std::string& why)>;

// ---- Rank 0

/// The address at which rank 0 reaches its own store: not the loopback if others connect over the
/// network, because the others use its address towards the store.
std::string own_host(const bootstrap::StorePlace& at) {
  const std::string bound = bootstrap::bind_address() ? bootstrap::bind_address() : at.host;
  return bound == "0.0.0.0" || bound == "::" ? at.host : bound;
}

[[noreturn]] void fail_to_listen(const links::Address& at, const std::string& source,
                                 const std::system_error& error) {
  const int code = error.code().value();
  if (code == EADDRINUSE) {
    fail<DistributedError>(kOp,
                           "cannot serve the store at {}: the port ({}) is taken, by another "
                           "job or program; choose another MASTER_PORT",
                           at.text(), source);
  }
  if (code == EADDRNOTAVAIL) {
    fail<ValueError>(kOp,
                     "cannot serve the store at {}: this is no address of rank 0's host, {}. "
                     "Give one, or say by FERRITE_BIND_ADDR where to listen instead (0.0.0.0: "
                     "everywhere)",
                     at.text(), links::host_name());
  }
  fail<DistributedError>(kOp, "cannot serve the store at {}: {}", at.text(), error.what());
}

void check_reachable(const std::string& host, const bootstrap::Place& place) {
  const bool several_hosts =
      place.local_world_size > 0 && place.local_world_size < place.world_size;
  FERRITE_CHECK(!several_hosts || bootstrap::bind_address() || !links::is_loopback(host),
                ValueError, kOp,
                "the job has several hosts, but {} is an address of this one alone on rank 0's "
                "host, {}: set MASTER_ADDR to an address that all can reach, or FERRITE_BIND_ADDR "
                "to where to listen",
                host, links::host_name());
}

/// Serves at the first free port.
std::unique_ptr<bootstrap::TcpStoreServer> serve(const bootstrap::StorePlace& at,
                                                 const bootstrap::Place& place,
                                                 const std::string& token,
                                                 links::Deadline deadline) {
  check_reachable(at.host, place);
  bootstrap::TcpStoreServerOptions options;
  options.host = bootstrap::bind_address() ? bootstrap::bind_address() : at.host;
  options.token = token;
  deadline = std::min(deadline, Clock::now() + kPortPatience);
  Pause pause;
  for (bool again = true;;) {
    for (const std::uint16_t port : at.ports) {
      options.port = port;
      try {
        return std::make_unique<bootstrap::TcpStoreServer>(options);
      } catch (const std::system_error& error) {
        const bool last = !again && port == at.ports.back();
        if (error.code().value() != EADDRINUSE || last) {
          fail_to_listen({options.host, port}, at.port_source, error);
        }
      }
    }
    again = pause.wait(deadline);
  }
}

// ---- The others

/// Tries once to connect at any of the ports.
std::shared_ptr<bootstrap::TcpStore> look(const Target& target, Milliseconds timeout,
                                          links::Deadline deadline, bootstrap::Greeting& greeting,
                                          std::string& why) {
  greeting = bootstrap::Greeting::unreachable;
  for (const std::uint16_t port : target.at.ports) {
    const links::Address address{target.at.host, port};
    bootstrap::Connection connection = bootstrap::greet(address, target.token, deadline);
    // If there are several ports, the one where a store of ours answers is the most informative.
    if (port == target.at.ports.front() || connection.greeting > greeting) {
      greeting = connection.greeting;
      why = connection.detail;
    }
    if (connection.greeting != bootstrap::Greeting::accepted) continue;
    greeting = bootstrap::Greeting::accepted;
    return std::make_shared<bootstrap::TcpStore>(std::move(connection), address, timeout);
  }
  return nullptr;
}

struct Met {
  std::shared_ptr<bootstrap::TcpStore> store;
  bootstrap::Joined joined;
};

/// Looks for the store, and joins, again and again: what is found first may be an earlier start's.
Met meet(const Where& where, bootstrap::JoinOptions options, links::Deadline deadline) {
  Pause pause;
  std::string why;
  const links::Deadline begin = Clock::now();
  links::Deadline last_other = begin;
  do {
    const std::optional<Target> target = where(why);
    bootstrap::Greeting greeting = bootstrap::Greeting::unreachable;
    std::shared_ptr<bootstrap::TcpStore> store;
    if (target) store = look(*target, options.timeout, deadline, greeting, why);
    if (store) {
      options.token = target->token;
      try {
        if (auto joined = join(store, options, deadline)) return {store, std::move(*joined)};
        why = fmt::format(
            "the job whose store is at {} is complete without us: another process "
            "may have our rank, {}",
            store->address().text(), options.place.rank);
      } catch (const DistributedError& error) {
        if (!store->lost() || options.place.rank == 0) throw;
        why = error.what();
      }
    }
    const bool refused =
        greeting == bootstrap::Greeting::refused || greeting == bootstrap::Greeting::other_version;
    if (!refused) last_other = Clock::now();
    if (Clock::now() - last_other > kRefusalPatience) break;
  } while (pause.wait(deadline));
  fail<DistributedError>(kOp, "rank {} has not found the store of its job after {:.1f} s: {}",
                         options.place.rank, seconds(Clock::now() - begin), why);
}

// ---- Rendezvous methods

Where always(Target target) {
  return [target = std::move(target)](std::string&) { return std::optional<Target>(target); };
}

std::string this_start() { return fmt::format("start {}", bootstrap::restart_count()); }

/// Rank 0 serves at an address that all know.
Where at_known_place(const bootstrap::StorePlace& at, const bootstrap::Place& place,
                     links::Deadline deadline, Rendezvous::Served& served) {
  Target target{at, bootstrap::job_token() + "#" + this_start()};
  if (place.rank == 0) {
    served.server = serve(at, place, target.token, deadline);
    target.at = {false, own_host(at), {served.server->address().port}, {}};
  }
  return always(std::move(target));
}

/// Rank 0 writes into a file where it serves.
Where by_file(const std::string& path, const bootstrap::Place& place, links::Deadline deadline,
              Rendezvous::Served& served) {
  FERRITE_CHECK(path.starts_with('/'), ValueError, kOp,
                "expected file:// and an absolute path, got \"file://{}\"", path);
  if (place.rank == 0) {
    const char* host = std::getenv("MASTER_ADDR");
    const bootstrap::StorePlace at{false, host && *host ? host : "localhost", {0}, "any"};
    const std::string token = bootstrap::random_token();
    served.server = serve(at, place, token, deadline);
    const std::uint16_t port = served.server->address().port;
    served.file = std::make_unique<bootstrap::RendezvousFile>(
        path, bootstrap::RendezvousNote{{at.host, port}, token, this_start(), links::host_name()});
    return always({{false, own_host(at), {port}, {}}, token});
  }
  return [path](std::string& why) -> std::optional<Target> {
    std::string unsafe;
    const auto note = bootstrap::read_rendezvous_note(path, &unsafe);
    if (!note || note->start != this_start()) {
      why = !unsafe.empty() ? unsafe
                            : fmt::format("rank 0 has not written {}{}", path,
                                          note ? " (what is there is an earlier start's)" : "");
      return std::nullopt;
    }
    FERRITE_CHECK(note->host == links::host_name() || !links::is_loopback(note->address.host),
                  ValueError, kOp,
                  "rank 0 serves the store at {} of its host, {}, which we on {} cannot reach: set "
                  "MASTER_ADDR for rank 0 to an address that all can reach",
                  note->address.text(), note->host, links::host_name());
    return Target{{false, note->address.host, {note->address.port}, {}}, note->token};
  };
}

}  // namespace

Rendezvous::Rendezvous(const bootstrap::Place& place, std::unique_ptr<Served> served,
                       std::shared_ptr<Store> store, std::shared_ptr<bootstrap::TcpMonitor> monitor)
    : place_(place),
      served_(std::move(served)),
      store_(std::move(store)),
      monitor_(std::move(monitor)) {}

Rendezvous::~Rendezvous() { leave(std::chrono::seconds(2)); }

std::shared_ptr<bootstrap::Monitor> Rendezvous::monitor() const { return monitor_; }

void Rendezvous::leave(Milliseconds linger) {
  const std::unique_ptr<Served> served = std::move(served_);
  if (!served) return;
  monitor_->leave();
  if (served->server) served->server->wait_until_left(linger);
}

std::unique_ptr<Rendezvous> rendezvous(const InitOptions& options) {
  const Milliseconds timeout = links::limited(options.timeout);
  const links::Deadline deadline = Clock::now() + timeout;
  const std::string_view method = options.init_method;
  const bootstrap::Place place = bootstrap::place_in_job(options.rank, options.world_size);
  auto served = std::make_unique<Rendezvous::Served>();
  Where where;
  bootstrap::JoinOptions join{place, {}, "rank 0", false, timeout};
  if (method == "env://") {
    const bootstrap::StorePlace at = bootstrap::store_place(place);
    if (at.served_by_launcher) {
      join.owner = "the launcher";
      join.of_many_starts = true;
      where = always({at, bootstrap::job_token()});
    } else {
      where = at_known_place(at, place, deadline, *served);
    }
  } else if (method.starts_with("tcp://")) {
    const links::Address address = links::parse_address(method.substr(6), "what follows tcp://");
    where = at_known_place({false, address.host, {address.port}, "of init_method"}, place, deadline,
                           *served);
  } else if (method.starts_with("file://")) {
    where = by_file(std::string(method.substr(7)), place, deadline, *served);
  } else {
    fail<ValueError>(kOp,
                     "expected env://, tcp://host:port or file:///path as init_method, got "
                     "\"{}\"",
                     method);
  }
  Met met = meet(where, join, deadline);
  return std::make_unique<Rendezvous>(
      place, std::move(served),
      std::make_shared<PrefixStore>(met.joined.prefix + "/job", std::move(met.store)),
      std::move(met.joined.monitor));
}

}  // namespace ferrite::parallel
