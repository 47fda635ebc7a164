#include "ferrite/parallel/launcher/host.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/bootstrap/rendezvous_file.h"

namespace ferrite::launcher {
namespace {

enum class Found { no, not_executable, yes };

Found look_for(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return Found::no;
  if (!S_ISREG(info.st_mode) || access(path.c_str(), X_OK) != 0) return Found::not_executable;
  return Found::yes;
}

[[noreturn]] void cannot_execute(const std::string& name, const std::string& path) {
  const bool script = name.ends_with(".py");
  throw CannotStart(
      fmt::format(
          "[{}] {} is not an executable file{}", kOp, path,
          script ? fmt::format(" (scripts: ferrite-run [OPTIONS] python3 {} ...)", name) : ""),
      126);
}

bool same_address(const sockaddr* a, const sockaddr* b) {
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  if (a->sa_family == AF_INET6)
    return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                       &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
  return false;
}

}  // namespace

int usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::string job_token(const Options& options) {
  const char* given = std::getenv("FERRITE_TOKEN");
  if (given && *given) return given;
  return options.nnodes == 1 ? parallel::bootstrap::random_token()
                             : "ferrite-run " + options.run_id;
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  const bool good = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  FERRITE_CHECK(good, DistributedError, kOp, "no free port: {}", std::strerror(error));
  return ntohs(address.sin_port);
}

bool is_this_machine(const std::string& host) {
  if (host == "localhost" || host == host_name()) return true;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  ifaddrs* own = nullptr;
  if (getifaddrs(&own) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> interfaces(own, &freeifaddrs);
  for (const addrinfo* a = found; a; a = a->ai_next)
    for (const ifaddrs* i = own; i; i = i->ifa_next)
      if (i->ifa_addr && same_address(a->ai_addr, i->ifa_addr)) return true;
  return false;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    const Found found = look_for(name);
    if (found == Found::not_executable) cannot_execute(name, name);
    if (found == Found::no)
      throw CannotStart(fmt::format("[{}] there is no program {}", kOp, name), 127);
    return name;
  }
  const char* path = std::getenv("PATH");
  std::string_view folders = path ? path : "/usr/local/bin:/usr/bin:/bin";
  std::string refused;
  for (;;) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const std::string file = (end == 0 ? "." : std::string(folders.substr(0, end))) + "/" + name;
    const Found found = look_for(file);
    if (found == Found::yes) return file;
    if (found == Found::not_executable && refused.empty()) refused = file;
    if (end == folders.size()) break;
    folders.remove_prefix(end + 1);
  }
  const Found here = look_for(name);
  if (here == Found::not_executable) cannot_execute(name, name);
  if (!refused.empty()) cannot_execute(name, refused);
  throw CannotStart(
      fmt::format("[{}] there is no program {} on the PATH{}", kOp, name,
                  here == Found::yes ? fmt::format(" (but one in this folder: ./{})", name) : ""),
      127);
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace ferrite::launcher
