// What ranks tell each other, through the store, of how they are to be reached, and how the two
// ends of a connection prove who they are.
//
// Each rank's address has a nonce, new for every mesh, and comes through the store, whose
// connections are sealed. All keys of a connection are made of the store's secret, the mesh's name,
// both nonces, both ranks, and whether it is of one host: a proof fits one connection of one mesh,
// in one direction. So the ends need not wait for each other's challenges: who opens a connection
// sends Hello, with its proof, and then what it has to say; who admits it answers with its own
// proof.
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
  /// Abstract name of a Unix socket: it is in no file system and goes with the process.
  std::string unix_name;
  /// Whether this rank seals what it sends over TCP (sealed_frames.h).
  bool sealed = true;

  std::string text() const;
  /// DistributedError for anything but what text() gives.
  static LinkAddress parse(std::string_view text);
  /// Whether ranks of these addresses share memory.
  bool is_beside(const LinkAddress& other) const { return !host.empty() && host == other.host; }
};

/// Boot and network name space: what processes must have in common to meet at a Unix socket of an
/// abstract name. "" where the system does not say.
std::string host_identity();

inline constexpr std::size_t kLinkProof = 32;

/// Of the connection by which one rank sends to another.
struct LinkKeys {
  std::string opener_proof, admitter_proof;
  std::string frames;  ///< of what the opener sends
};

/// The ranks of a mesh, as each of them knows them.
struct LinkMembers {
  std::string secret;  ///< the store's
  std::string mesh;    ///< group and name, of no other mesh of the job
  int rank = 0;        ///< of this process
  std::vector<LinkAddress> addresses;

  LinkKeys keys(int from, int to) const;
};

/// What a connection starts with.
struct Hello {
  std::uint64_t magic = kMagic;
  std::int64_t from = 0;  ///< rank
  std::array<char, kLinkProof> proof{};

  static constexpr std::uint64_t kMagic = 0x32306b6e696c6665;
};
static_assert(sizeof(Hello) == 48);

}  // namespace ferrite::parallel::links
