// What proves that two ends know the same token without either telling it.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace ferrite::parallel {

/// SHA-256 (FIPS 180-4), 32 bytes.
std::string sha256(std::string_view bytes);
/// HMAC-SHA-256 (RFC 2104), 32 bytes.
std::string hmac_sha256(std::string_view key, std::string_view bytes);
/// In a time that depends on the sizes alone.
bool equal_secrets(std::string_view a, std::string_view b);
/// From the system's generator; DistributedError where it has none.
std::string random_bytes(std::size_t count);
std::string hexadecimal(std::string_view bytes);

}  // namespace ferrite::parallel
