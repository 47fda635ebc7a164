#include "ferrite/metrics/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <climits>
#include <system_error>

#include "ferrite/core/error.h"
#include "ferrite/data/file.h"

namespace ferrite::metrics {

using data::append_little;

namespace {

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    table[i] = crc;
  }
  return table;
}();

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  if (gethostname(name, sizeof name) != 0 || !*name) return "localhost";
  name[HOST_NAME_MAX] = '\0';
  return name;
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

/// The time for a file's name. TensorBoard reads the files of a folder in the order of their names,
/// so a run resumed within the same second needs a later one.
std::int64_t time_after_others(const std::filesystem::path& folder) {
  auto time = static_cast<std::int64_t>(wall_time());
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::int64_t other = 0;
    if (name.starts_with(kPrefix) &&
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), other).ec ==
            std::errc())
      time = std::max(time, other + 1);
  }
  return time;
}

std::filesystem::path file_in(const std::filesystem::path& folder, const std::string& suffix) {
  static std::atomic<int> next{0};
  return folder / fmt::format("{}{:010}.{}.{}.{}{}", kPrefix, time_after_others(folder),
                              host_name(), getpid(), next++, suffix);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const char c : bytes)
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

std::string tfrecord(std::string_view data) {
  std::string record;
  record.reserve(data.size() + 16);
  append_little(record, std::uint64_t{data.size()});
  append_little(record, masked_crc32c(record));
  record += data;
  append_little(record, masked_crc32c(data));
  return record;
}

// ---- ProtoMessage

void ProtoMessage::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) encoded_.push_back(static_cast<char>(value | 0x80));
  encoded_.push_back(static_cast<char>(value));
}

ProtoMessage& ProtoMessage::integer(std::uint32_t field, std::int64_t value) {
  key(field, 0);
  varint(static_cast<std::uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::float32(std::uint32_t field, float value) {
  key(field, 5);
  append_little(encoded_, std::bit_cast<std::uint32_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::float64(std::uint32_t field, double value) {
  key(field, 1);
  append_little(encoded_, std::bit_cast<std::uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::bytes(std::uint32_t field, std::string_view value) {
  key(field, 2);
  varint(value.size());
  encoded_ += value;
  return *this;
}

ProtoMessage& ProtoMessage::float64s(std::uint32_t field, std::span<const double> values) {
  key(field, 2);
  varint(values.size() * sizeof(double));
  for (const double v : values) append_little(encoded_, std::bit_cast<std::uint64_t>(v));
  return *this;
}

// ---- EventFile

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

EventFile::EventFile(const std::filesystem::path& folder, const std::string& suffix,
                     std::int64_t max_queue, double flush_seconds)
    : file_(file_in(folder, suffix), "SummaryWriter", Existing::replace),
      max_queue_(max_queue),
      flush_seconds_(flush_seconds) {
  file_.append(
      tfrecord(ProtoMessage().float64(1, wall_time()).bytes(3, "brain.Event:2").encoded()));
}

EventFile::~EventFile() {
  try {
    flush();
  } catch (const std::exception&) {
  }
}

void EventFile::add(const ProtoMessage& event) {
  const std::string record = tfrecord(event.encoded());
  std::lock_guard lock(mutex_);
  if (waiting_events_ == 0) since_write_.reset();
  waiting_ += record;
  ++waiting_events_;
  if (waiting_events_ >= max_queue_ || since_write_.seconds() >= flush_seconds_) write_out();
}

void EventFile::flush() {
  std::lock_guard lock(mutex_);
  write_out();
}

void EventFile::write_out() {
  if (waiting_.empty()) return;
  file_.append(waiting_);
  waiting_.clear();
  waiting_events_ = 0;
}

}  // namespace ferrite::metrics
