// Sealed frames: only sealed data can be opened.
#include "ferrite/parallel/comm/links/sealed_frames.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/generator.h"
#include "ferrite/parallel/comm/links/secret.h"

using namespace ferrite;
using namespace ferrite::parallel;

namespace {

const std::string kForth = links::derive("token", {"forth"}),
                  kBack = links::derive("token", {"back"});

std::string text_of(std::size_t n, std::uint64_t seed) {
  Generator random(seed);
  std::string text(n, '\0');
  for (char& c : text) c = static_cast<char>(random.next_below(256));
  return text;
}

constexpr std::size_t framed(std::size_t payload) {
  return links::kFrameHeader + payload + links::kFrameTag;
}

struct Ends {
  links::SealedChannel a{kForth, kBack}, b{kBack, kForth};
};

}  // namespace

TEST_CASE("frames: a tag is the GMAC that the standard has") {
  // AES-256-GCM without plain text, key 00 01 .. 1f, nonce 0, additional data 03 00 00 00 "abc";
  // then the same with nonce 1.
  std::string key;
  for (int i = 0; i < 32; ++i) key.push_back(static_cast<char>(i));
  links::FrameMac mac(key);
  const std::string payload = "abc";
  const auto bytes = std::as_bytes(std::span(payload.data(), payload.size()));
  const auto hex = [](const links::FrameMac::Tag& tag) {
    return links::hexadecimal({reinterpret_cast<const char*>(tag.data()), tag.size()});
  };
  CHECK(hex(mac.next(bytes)) == "ae0b4724387da2a50f8d705f0dfc1be8");
  CHECK(hex(mac.next(bytes)) == "b36166cada2f4b00ffa96c5f144547e0");
  CHECK_THROWS_AS(links::FrameMac("short"), ValueError);
}

TEST_CASE("frames: sealed data can be opened, in pieces of any size") {
  Generator random(1);
  Ends ends;
  std::string sent, got;
  for (const std::size_t n :
       {0ul, 1ul, 19ul, links::kMaxFrame - 1, links::kMaxFrame, links::kMaxFrame + 1, 300'000ul}) {
    const std::string text = text_of(n, n);
    sent += text;
    const std::string frames = ends.a.seal(text);
    CHECK(frames.size() == n + (n + links::kMaxFrame - 1) / links::kMaxFrame * framed(0));
    for (std::size_t at = 0; at < frames.size();) {
      const std::size_t piece = std::min(frames.size() - at, random.next_below(90'000) + 1);
      REQUIRE(ends.b.open(std::string_view(frames).substr(at, piece), got));
      at += piece;
    }
    CHECK_FALSE(ends.b.within_frame());
  }
  CHECK((got == sent));
  // The other direction has its own numbers and key.
  got.clear();
  CHECK(ends.a.open(ends.b.seal("back"), got));
  CHECK(got == "back");
}

TEST_CASE("frames: after any changed bit, the frame and all later ones are rejected") {
  const std::string text = text_of(40, 2);
  const std::string frames = Ends().a.seal(text);
  REQUIRE(frames.size() == framed(text.size()));
  for (std::size_t bit = 0; bit < 8 * frames.size(); ++bit) {
    CAPTURE(bit);
    Ends ends;
    std::string changed = frames, got;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    // A larger length makes the receiver wait for more data.
    changed += std::string(2 * framed(links::kMaxFrame), 'x');
    CHECK_FALSE(ends.b.open(changed, got));
    CHECK(got.empty());
    CHECK_FALSE(ends.b.open(frames, got));
    CHECK(got.empty());
  }
}

TEST_CASE("frames: none is taken twice, out of turn, from the other direction or another session") {
  std::string got;
  const auto takes = [&](auto&& channel, const std::string& frames) {
    got.clear();
    return channel.open(frames, got);
  };
  SUBCASE("repeated") {
    Ends ends;
    const std::string first = ends.a.seal("first");
    CHECK(takes(ends.b, first));
    CHECK_FALSE(takes(ends.b, first));
  }
  SUBCASE("dropped") {
    Ends ends;
    ends.a.seal("first");
    CHECK_FALSE(takes(ends.b, ends.a.seal("second")));
  }
  SUBCASE("reordered") {
    Ends ends;
    const std::string first = ends.a.seal("first");
    CHECK_FALSE(takes(ends.b, ends.a.seal("second") + first));
  }
  SUBCASE("reflected") {
    Ends ends;
    CHECK_FALSE(takes(ends.a, ends.a.seal("first")));
  }
  SUBCASE("of another key") {
    links::SealedChannel other(links::derive("token", {"other"}), kBack);
    CHECK_FALSE(takes(Ends().b, other.seal("first")));
  }
  SUBCASE("of no length, or of more than any has") {
    CHECK_FALSE(takes(Ends().b, std::string(100, '\0')));
    CHECK_FALSE(takes(Ends().b, std::string(4, '\xff')));
  }
  CHECK(got.empty());
}
