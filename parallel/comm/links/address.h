// Addresses that ranks publish through the store, and mutual authentication of a connection's ends.
//
// Each rank's address contains a nonce, new for every mesh, and travels through the store, whose
// connections are sealed. All keys of a connection are derived from the store's secret, the mesh's
// name, both nonces, both ranks, and whether it is within one host: a proof is valid for one
// connection of one mesh, in one direction. The ends therefore need not wait for each other's
// challenges: the opening side sends Hello, with its proof, followed by its data; the accepting
// side answers with its own proof.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::links {

struct LinkAddress {
  /// 16 random bytes in hexadecimal.
  std::string nonce;
  Address tcp;
  /// The same for processes that can share memory; "" for those that must not.
  std::string host;
  /// Abstract name of a Unix socket: it is in no file system and vanishes with the process.
  std::string unix_name;
  /// Whether this rank seals its TCP traffic (sealed_frames.h).
  bool sealed = true;

  std::string text() const;
  /// DistributedError for anything but the output of text().
  static LinkAddress parse(std::string_view text);
  /// Whether ranks with these addresses share memory.
  bool is_beside(const LinkAddress& other) const { return !host.empty() && host == other.host; }
};

/// Boot id and network namespace: processes must have both in common to connect to a Unix socket
/// with an abstract name. "" if the system does not provide them.
std::string host_identity();

inline constexpr std::size_t kLinkProof = 32;

/// Keys of the connection through which one rank sends to another.
struct LinkKeys {
  std::string opener_proof, admitter_proof;
  std::string frames;  ///< for the opener's data
};

/// The ranks of a mesh, as known to each of them.
struct LinkMembers {
  std::string secret;  ///< the store's
  std::string mesh;    ///< group and name, unique among the job's meshes
  int rank = 0;        ///< of this process
  std::vector<LinkAddress> addresses;

  LinkKeys keys(int from, int to) const;
};

/// The first message of a connection.
struct Hello {
  std::uint64_t magic = kMagic;
  std::int64_t from = 0;  ///< rank
  std::array<char, kLinkProof> proof{};

  static constexpr std::uint64_t kMagic = 0x32306b6e696c6665;
};
static_assert(sizeof(Hello) == 48);

}  // namespace ferrite::parallel::links
