// Proof of a shared token without sending it, using libcrypto.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace ferrite::parallel::links {

/// HMAC-SHA-256 (RFC 2104), 32 bytes.
std::string hmac_sha256(std::string_view key, std::string_view bytes);
/// A key, or a proof, for one purpose: HMAC-SHA-256 of `parts`, each preceded by its length, so
/// that different lists give different bytes. 32 bytes.
std::string derive(std::string_view secret, std::initializer_list<std::string_view> parts);
/// In a time that depends only on the sizes.
bool equal_secrets(std::string_view a, std::string_view b);
/// From the system-seeded generator; DistributedError if there is none.
std::string random_bytes(std::size_t count);
std::string hexadecimal(std::string_view bytes);

}  // namespace ferrite::parallel::links
