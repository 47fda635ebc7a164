// Output folders, which are created and checked before hours of work depend on them.
#pragma once

#include <filesystem>
#include <string_view>

namespace examples {

/// Creates the folder if it is missing and checks that files can be created in it. Throws IoError,
/// tagged with `option`, the command-line option that names the folder.
void make_writable_folder(const std::filesystem::path& folder, std::string_view option);

}  // namespace examples
