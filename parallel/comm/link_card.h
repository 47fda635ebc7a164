// What ranks tell each other, through the store, of how they are to be reached.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "parallel/comm/socket.h"

namespace ferrite::parallel {

/// Secret: who has it has read the store.
using LinkToken = std::array<unsigned char, 16>;

/// From the system's source of randomness; DistributedError where there is none.
LinkToken random_link_token();

struct LinkCard {
  LinkToken token{};
  Address tcp;
  /// The same for processes that can share memory; "" for those that must not.
  std::string host;
  /// Abstract name of a Unix socket: it is in no file system and goes with the process.
  std::string unix_name;

  std::string text() const;
  /// DistributedError for anything but what text() gives.
  static LinkCard parse(std::string_view text);
};

/// Boot and network name space: what processes must have in common to meet at a Unix socket of an
/// abstract name. "" where the system does not say.
std::string host_identity();

/// What a connection starts with.
struct Hello {
  std::uint64_t magic = kMagic;
  std::int64_t from = 0;  ///< rank
  LinkToken to_token{}, from_token{};

  static constexpr std::uint64_t kMagic = 0x31306b6e696c6665;
};
static_assert(sizeof(Hello) == 48);

}  // namespace ferrite::parallel
