#include "ferrite/parallel/comm/links/address.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/secret.h"

namespace ferrite::parallel::links {

namespace {

constexpr std::string_view kVersion = "ferrite-link-2";
constexpr std::string_view kNothing = "-";
constexpr std::string_view kSealed = "sealed", kPlain = "plain";
constexpr std::size_t kNonceDigits = 32;

std::string or_nothing(const std::string& text) {
  return text.empty() ? std::string(kNothing) : text;
}
std::string or_empty(const std::string& text) { return text == kNothing ? "" : text; }

}  // namespace

std::string LinkAddress::text() const {
  return fmt::format("{} {} {} {} {} {} {}", kVersion, nonce, or_nothing(tcp.host), tcp.port,
                     or_nothing(host), or_nothing(unix_name), sealed ? kSealed : kPlain);
}

LinkAddress LinkAddress::parse(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::string version, tcp_host, host, unix_name, sealed;
  LinkAddress address;
  in >> version >> address.nonce >> tcp_host >> address.tcp.port >> host >> unix_name >> sealed;
  const bool hexadecimal = address.nonce.find_first_not_of("0123456789abcdef") == std::string::npos;
  FERRITE_CHECK(in && version == kVersion && address.nonce.size() == kNonceDigits && hexadecimal &&
                    (sealed == kSealed || sealed == kPlain),
                DistributedError, "link",
                "expected how to reach a rank, got \"{}\": is it of another version?", text);
  address.tcp.host = or_empty(tcp_host);
  address.host = or_empty(host);
  address.unix_name = or_empty(unix_name);
  address.sealed = sealed == kSealed;
  return address;
}

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> space{};
  const ssize_t n = readlink("/proc/self/ns/net", space.data(), space.size() - 1);
  if (boot.empty() || n <= 0) return "";
  return boot + "/" + space.data();
}

LinkKeys LinkMembers::keys(int from, int to) const {
  const LinkAddress& opener = addresses[static_cast<std::size_t>(from)];
  const LinkAddress& admitter = addresses[static_cast<std::size_t>(to)];
  const std::string session =
      derive(secret, {"ferrite link", mesh, opener.nonce, admitter.nonce, std::to_string(from),
                      std::to_string(to), opener.is_beside(admitter) ? "memory" : "tcp"});
  return {derive(session, {"opener"}), derive(session, {"admitter"}), derive(session, {"frames"})};
}

}  // namespace ferrite::parallel::links
