#include "ferrite/parallel/comm/links/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <climits>
#include <cstdint>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/sealed_frames.h"

namespace ferrite::parallel::links {

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  prepare_libcrypto();
  std::string digest(32, '\0');
  unsigned size = 0;
  // A null key would mean the previous one.
  const char* const start = key.empty() ? "" : key.data();
  const bool ok = key.size() <= INT_MAX &&
                  HMAC(EVP_sha256(), start, static_cast<int>(key.size()),
                       reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                       reinterpret_cast<unsigned char*>(digest.data()), &size) != nullptr;
  FERRITE_CHECK(ok && size == digest.size(), DistributedError, "secret",
                "libcrypto cannot compute HMAC-SHA-256");
  return digest;
}

std::string derive(std::string_view secret, std::initializer_list<std::string_view> parts) {
  std::string bytes;
  for (const std::string_view part : parts) {
    auto size = std::uint64_t{part.size()};
    for (int i = 0; i < 8; ++i, size >>= 8) bytes.push_back(static_cast<char>(size & 0xff));
    bytes.append(part);
  }
  return hmac_sha256(secret, bytes);
}

bool equal_secrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_bytes(std::size_t count) {
  prepare_libcrypto();
  std::string out(count, '\0');
  FERRITE_CHECK(count <= INT_MAX && RAND_bytes(reinterpret_cast<unsigned char*>(out.data()),
                                               static_cast<int>(count)) == 1,
                DistributedError, "secret", "the system has no random numbers");
  return out;
}

std::string hexadecimal(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return out;
}

}  // namespace ferrite::parallel::links
