// Event files as TensorBoard reads them: protocol buffers (https://protobuf.dev/programming-guides/
// encoding) in the records of TFRecord files. What SummaryWriter is made of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "ferrite/metrics/append_file.h"
#include "ferrite/metrics/timer.h"

namespace ferrite::metrics {

/// CRC-32C (Castagnoli), as in iSCSI: 0xe3069283 for "123456789".
std::uint32_t crc32c(std::string_view bytes);
/// The form that TFRecord files store: rotated right by 15 bits, plus 0xa282ead8.
std::uint32_t masked_crc32c(std::string_view bytes);
/// One record: length (64 bits), masked CRC of the length, the data, masked CRC of the data; all
/// little-endian.
std::string tfrecord(std::string_view data);

/// A protocol buffers message, built field by field.
class ProtoMessage {
 public:
  ProtoMessage& integer(std::uint32_t field, std::int64_t value);
  ProtoMessage& float32(std::uint32_t field, float value);
  ProtoMessage& float64(std::uint32_t field, double value);
  ProtoMessage& bytes(std::uint32_t field, std::string_view value);
  ProtoMessage& message(std::uint32_t field, const ProtoMessage& value) {
    return bytes(field, value.encoded_);
  }
  /// A packed repeated field.
  ProtoMessage& float64s(std::uint32_t field, std::span<const double> values);

  const std::string& encoded() const { return encoded_; }

 private:
  void varint(std::uint64_t value);
  void key(std::uint32_t field, std::uint32_t wire_type) { varint(field << 3 | wire_type); }

  std::string encoded_;
};

/// Seconds since 1970.
double wall_time();

/// A file of Event messages. Thread-safe.
class EventFile {
 public:
  /// Creates `folder` and in it a file "events.out.tfevents.<time>.<host>.<pid>.<n><suffix>", which
  /// begins with the version record that TensorBoard expects. Events are buffered until there are
  /// `max_queue` of them or the oldest has waited for `flush_seconds`; both are checked when an
  /// event is added. IoError.
  EventFile(const std::filesystem::path& folder, const std::string& suffix, std::int64_t max_queue,
            double flush_seconds);
  /// Writes the buffered events; errors are dropped.
  ~EventFile();

  void add(const ProtoMessage& event);
  void flush();
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void write_out();

  std::mutex mutex_;
  AppendFile file_;
  const std::int64_t max_queue_;
  const double flush_seconds_;
  std::string waiting_;
  std::int64_t waiting_events_ = 0;
  Timer since_write_;
};

}  // namespace ferrite::metrics
