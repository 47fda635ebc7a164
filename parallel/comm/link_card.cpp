#include "parallel/comm/link_card.h"

#include <sys/random.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>

#include "core/error.h"

namespace ferrite::parallel {

namespace {

constexpr std::string_view kVersion = "ferrite-link-1";
constexpr std::string_view kNothing = "-";

std::string hex(const LinkToken& token) {
  std::string text;
  for (const unsigned char byte : token) text += fmt::format("{:02x}", byte);
  return text;
}

bool parse_hex(std::string_view text, LinkToken& token) {
  if (text.size() != 2 * token.size()) return false;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const char* const at = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(at, at + 2, token[i], 16);
    if (error != std::errc() || end != at + 2) return false;
  }
  return true;
}

std::string or_nothing(const std::string& text) {
  return text.empty() ? std::string(kNothing) : text;
}
std::string or_empty(const std::string& text) { return text == kNothing ? "" : text; }

}  // namespace

LinkToken random_link_token() {
  LinkToken token;
  FERRITE_CHECK(getentropy(token.data(), token.size()) == 0, DistributedError, "link",
                "the system has no random numbers");
  return token;
}

std::string LinkCard::text() const {
  return fmt::format("{} {} {} {} {} {}", kVersion, hex(token), or_nothing(tcp.host), tcp.port,
                     or_nothing(host), or_nothing(unix_name));
}

LinkCard LinkCard::parse(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::string version, token, tcp_host, host, unix_name;
  LinkCard card;
  in >> version >> token >> tcp_host >> card.tcp.port >> host >> unix_name;
  FERRITE_CHECK(in && version == kVersion && parse_hex(token, card.token), DistributedError, "link",
                "expected how to reach a rank, got \"{}\": is it of another version?", text);
  card.tcp.host = or_empty(tcp_host);
  card.host = or_empty(host);
  card.unix_name = or_empty(unix_name);
  return card;
}

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> space{};
  const ssize_t n = readlink("/proc/self/ns/net", space.data(), space.size() - 1);
  if (boot.empty() || n <= 0) return "";
  return boot + "/" + space.data();
}

}  // namespace ferrite::parallel
