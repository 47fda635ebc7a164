#include "ferrite/examples/common/folder.h"

#include <unistd.h>

#include <fstream>
#include <system_error>

#include "ferrite/core/error.h"

namespace examples {

void make_writable_folder(const std::filesystem::path& folder, std::string_view option) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  FERRITE_CHECK(!error, ferrite::IoError, option, "cannot create the folder '{}': {}",
                folder.string(), error.message());
  const std::filesystem::path probe = folder / fmt::format(".writable.{}", getpid());
  const bool written = std::ofstream(probe).put('\n').flush().good();
  std::filesystem::remove(probe, error);
  FERRITE_CHECK(written, ferrite::IoError, option, "cannot write to the folder '{}'",
                folder.string());
}

}  // namespace examples
