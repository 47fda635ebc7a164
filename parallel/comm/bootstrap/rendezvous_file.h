// The file through which ranks find the store of rank 0.
#pragma once

#include <optional>
#include <string>

#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::bootstrap {

struct RendezvousNote {
  links::Address address;
  std::string token;  ///< secret: only its owner can read the file
  std::string start;  ///< the start of the job that it belongs to
  std::string host;   ///< host of rank 0
};

/// Nothing if there is no such file, it is incomplete, or another user can have written it, which
/// `why` then says; never an error.
std::optional<RendezvousNote> read_rendezvous_note(const std::string& path,
                                                   std::string* why = nullptr);

/// Owns the file. It appears atomically, replacing an existing one.
class RendezvousFile {
 public:
  /// IoError if it cannot be written.
  RendezvousFile(std::string path, const RendezvousNote& note);
  ~RendezvousFile();  ///< removes it, unless another file has replaced it
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

 private:
  const std::string path_, token_;
};

/// 128 random bits from the system, in hexadecimal.
std::string random_token();

}  // namespace ferrite::parallel::bootstrap
