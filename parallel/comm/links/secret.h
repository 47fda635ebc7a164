// What proves that two ends know the same token without either telling it: functions of libcrypto.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace ferrite::parallel::links {

/// HMAC-SHA-256 (RFC 2104), 32 bytes.
std::string hmac_sha256(std::string_view key, std::string_view bytes);
/// A key, or a proof, for one purpose: HMAC-SHA-256 of `parts`, each behind its length, so that no
/// two lists of parts are the same bytes. 32 bytes.
std::string derive(std::string_view secret, std::initializer_list<std::string_view> parts);
/// In a time that depends on the sizes alone.
bool equal_secrets(std::string_view a, std::string_view b);
/// From the generator that the system seeds; DistributedError where it has none.
std::string random_bytes(std::size_t count);
std::string hexadecimal(std::string_view bytes);

}  // namespace ferrite::parallel::links
