#include "ferrite/parallel/comm/links/sealed_frames.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <utility>

#include "ferrite/core/error.h"

namespace ferrite::parallel::links {

namespace {

constexpr std::size_t kFrameKey = 32, kFrameNonce = 12;

const unsigned char* octets(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

void prepare_libcrypto() {
  [[maybe_unused]] static const int ready = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
}

struct FrameMac::Cipher {
  std::unique_ptr<EVP_CIPHER, decltype(&EVP_CIPHER_free)> method{nullptr, &EVP_CIPHER_free};
  std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> state{nullptr,
                                                                        &EVP_CIPHER_CTX_free};
};

FrameMac::FrameMac(std::string_view key) : cipher_(std::make_unique<Cipher>()) {
  prepare_libcrypto();
  FERRITE_CHECK(key.size() == kFrameKey, ValueError, "frames", "expected a key of {} bytes, got {}",
                kFrameKey, key.size());
  cipher_->method.reset(EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr));
  cipher_->state.reset(EVP_CIPHER_CTX_new());
  FERRITE_CHECK(cipher_->method && cipher_->state &&
                    EVP_EncryptInit_ex2(cipher_->state.get(), cipher_->method.get(),
                                        reinterpret_cast<const unsigned char*>(key.data()), nullptr,
                                        nullptr) == 1,
                DistributedError, "frames", "libcrypto has no AES-256-GCM");
}

FrameMac::~FrameMac() = default;
FrameMac::FrameMac(FrameMac&&) noexcept = default;
FrameMac& FrameMac::operator=(FrameMac&&) noexcept = default;

FrameMac::Tag FrameMac::next(std::span<const std::byte> payload) {
  std::array<unsigned char, kFrameNonce> nonce{};
  for (std::size_t i = 0; i < 8; ++i) nonce[i] = static_cast<unsigned char>(number_ >> (8 * i));
  ++number_;
  const auto head = header(payload.size());
  EVP_CIPHER_CTX* const state = cipher_->state.get();
  Tag tag;
  int none = 0;
  const bool ok =
      EVP_EncryptInit_ex2(state, nullptr, nullptr, nonce.data(), nullptr) == 1 &&
      EVP_EncryptUpdate(state, nullptr, &none, octets(head.data()), kFrameHeader) == 1 &&
      EVP_EncryptUpdate(state, nullptr, &none, octets(payload.data()),
                        static_cast<int>(payload.size())) == 1 &&
      EVP_EncryptFinal_ex(state, reinterpret_cast<unsigned char*>(tag.data()), &none) == 1 &&
      EVP_CIPHER_CTX_ctrl(state, EVP_CTRL_AEAD_GET_TAG, kFrameTag, tag.data()) == 1;
  FERRITE_CHECK(ok, DistributedError, "frames", "libcrypto cannot compute GMAC");
  return tag;
}

bool FrameMac::matches_next(std::span<const std::byte> payload, std::span<const std::byte> tag) {
  const Tag expected = next(payload);
  return tag.size() == kFrameTag && CRYPTO_memcmp(expected.data(), tag.data(), kFrameTag) == 0;
}

std::array<std::byte, kFrameHeader> FrameMac::header(std::size_t payload) {
  std::array<std::byte, kFrameHeader> out;
  for (std::size_t i = 0; i < kFrameHeader; ++i) out[i] = static_cast<std::byte>(payload >> 8 * i);
  return out;
}

std::size_t FrameMac::payload_of(std::span<const std::byte> header) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < kFrameHeader; ++i)
    size |= std::to_integer<std::size_t>(header[i]) << 8 * i;
  return size <= kMaxFrame ? size : 0;
}

std::string SealedChannel::seal(std::string_view bytes) {
  std::string frames;
  frames.reserve(bytes.size() + (bytes.size() / kMaxFrame + 1) * (kFrameHeader + kFrameTag));
  const auto append = [&](std::span<const std::byte> part) {
    frames.append(reinterpret_cast<const char*>(part.data()), part.size());
  };
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kMaxFrame))) {
    const auto payload = bytes_of(bytes.substr(0, kMaxFrame));
    append(FrameMac::header(payload.size()));
    append(payload);
    append(out_.next(payload));
  }
  return frames;
}

bool SealedChannel::open(std::string_view arrived, std::string& bytes) {
  if (broken_) return false;
  rest_.append(arrived);
  std::span<const std::byte> left = bytes_of(rest_);
  while (left.size() >= kFrameHeader) {
    const std::size_t size = FrameMac::payload_of(left.first(kFrameHeader));
    broken_ = size == 0;
    if (broken_ || left.size() < kFrameHeader + size + kFrameTag) break;
    const auto payload = left.subspan(kFrameHeader, size);
    broken_ = !in_.matches_next(payload, left.subspan(kFrameHeader + size, kFrameTag));
    if (broken_) break;
    bytes.append(reinterpret_cast<const char*>(payload.data()), size);
    left = left.subspan(kFrameHeader + size + kFrameTag);
  }
  rest_.erase(0, rest_.size() - left.size());
  return !broken_;
}

}  // namespace ferrite::parallel::links
