// The file by which ranks find the store of rank 0.
#pragma once

#include <optional>
#include <string>

#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::bootstrap {

struct RendezvousNote {
  links::Address address;
  std::string token;  ///< secret: the file is readable for its owner alone
  std::string start;  ///< which start of the job it is of
  std::string host;   ///< that rank 0 runs on
};

/// Nothing where there is no such file, or none that is whole; never an error.
std::optional<RendezvousNote> read_rendezvous_note(const std::string& path);

/// The file, as long as this lives. It appears at once and whole, in place of what was there.
class RendezvousFile {
 public:
  /// IoError where it cannot be written.
  RendezvousFile(std::string path, const RendezvousNote& note);
  ~RendezvousFile();  ///< removes it, unless another has taken its place
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

 private:
  const std::string path_, token_;
};

/// 128 bits of the system's randomness, in hexadecimal.
std::string random_token();

}  // namespace ferrite::parallel::bootstrap
