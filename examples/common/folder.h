// Folders that a program will write into: made and tried before hours of work depend on them.
#pragma once

#include <filesystem>
#include <string_view>

namespace examples {

/// Makes the folder where it is missing and checks that files can be made in it. IoError names
/// `option`, which asked for it.
void make_writable_folder(const std::filesystem::path& folder, std::string_view option);

}  // namespace examples
