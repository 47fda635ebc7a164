// Data from other processes: parsers of messages, of command lines, and of rendezvous files.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "ferrite/examples/compare_parallel/planning/stragglers.h"
#include "ferrite/parallel/comm/bootstrap/monitor_table.h"
#include "ferrite/parallel/comm/bootstrap/rendezvous_file.h"
#include "ferrite/parallel/comm/bootstrap/store_protocol.h"
#include "ferrite/parallel/comm/bootstrap/store_table.h"
#include "ferrite/parallel/comm/links/address.h"
#include "ferrite/parallel/comm/links/listener.h"
#include "ferrite/parallel/comm/links/sealed_frames.h"
#include "ferrite/parallel/launcher/node_messages.h"
#include "ferrite/parallel/launcher/options.h"
#include "ferrite/tests/fuzz/fuzz.h"

namespace ferrite::fuzz {
namespace {

using data::Bytes;
using parallel::bootstrap::protocol::Command;
using parallel::bootstrap::protocol::Reader;
using parallel::bootstrap::protocol::Writer;
using Seeds = std::vector<std::string>;

// ---- The store and the monitor, after the greeting

constexpr std::size_t kStoreBytes = std::size_t{1} << 20;

/// For a join. The cost of a large world or many runs depends on these numbers, not on the number
/// of bytes.
bool is_large_world(Reader message) {
  message.text(512);
  message.number<std::uint32_t>();
  return message.number<std::uint32_t>() > 64;
}

/// Messages with their lengths, as parsed by the store's server, each after a byte that says which
/// of 8 clients sends it (or disconnects), and how long after the previous one.
void run_store(Bytes bytes) {
  std::size_t answered = 0;
  const auto send = [&](parallel::bootstrap::ClientId, std::string message) {
    if (message.size() < 5 ||
        parallel::bootstrap::protocol::message_size(message) != message.size() - 4)
      std::abort();
    answered += message.size();
  };
  parallel::bootstrap::StoreTable keys(kStoreBytes, send);
  parallel::bootstrap::MonitorTable monitor(send);
  parallel::bootstrap::TimePoint now{};
  int joins = 0;
  std::string_view rest = text_of(bytes);
  while (rest.size() >= 5) {
    const auto head = static_cast<unsigned char>(rest[0]);
    const parallel::bootstrap::ClientId client = 2 + head % 8;
    now += std::chrono::milliseconds((head >> 3 & 7) * 50);
    const std::size_t size = parallel::bootstrap::protocol::message_size(rest.substr(1));
    bool sound = size > 0 && size <= rest.size() - 5 && (head & 0x80) == 0;
    if (sound) {
      Reader message(rest.substr(5, size));
      const auto command = message.number<std::uint8_t>();
      if (static_cast<Command>(command) == Command::join)
        sound = !is_large_world(message) && ++joins <= 64;
      if (sound && parallel::bootstrap::StoreTable::is_command(command))
        sound = keys.handle(client, static_cast<Command>(command), message, now);
      else
        sound = sound && parallel::bootstrap::MonitorTable::is_command(command) &&
                monitor.handle(client, static_cast<Command>(command), message, now);
    }
    if (!sound) {
      keys.disconnected(client);
      monitor.disconnected(client, now);
    }
    if (keys.bytes() > kStoreBytes) std::abort();
    keys.expire(now);
    monitor.tick(now);
    if (size > rest.size() - 5) break;
    rest.remove_prefix(5 + size);
  }
  monitor.present_ranks(now);
  monitor.forgive(std::chrono::seconds(1));
  monitor.close();
}

std::string from(int client, Writer message) {
  return std::string(1, static_cast<char>(client)) + message.take();
}

std::string join(int rank, int world_size) {
  Writer message(Command::join);
  message.text("run").number(rank).number(world_size).number(300u).number(100u).text("host, 1");
  return from(rank, message);
}

Seeds seeds_of_store() {
  const auto set = [](int i, std::string_view key, std::string_view value) {
    return from(i % 8, Writer(Command::set).number(std::uint32_t(i)).text(key).text(value));
  };
  const auto get = [](int i, std::string_view key) {
    return from(
        i % 8,
        std::move(
            Writer(Command::get).number(std::uint32_t(i)).text(key).number(std::uint64_t{200})));
  };
  const auto beat = [](int client, std::uint64_t sequence, int groups) {
    Writer message(Command::beat);
    message.number(std::uint32_t(groups));
    for (int i = 0; i < groups; ++i)
      message.text(fmt::format("group {}", i))
          .number(std::uint8_t{1})
          .number(sequence)
          .text("all_reduce")
          .number(std::uint8_t{1})
          .number(std::uint64_t{5});
    return from(client, message);
  };
  std::string store =
      get(1, "key") + set(0, "key", "value") + get(2, "key") + get(3, "none") +
      from(
          4,
          std::move(
              Writer(Command::add).number(std::uint32_t{9}).text("sum").number(std::int64_t{-3}))) +
      from(5, Writer(Command::missing)
                  .number(std::uint32_t{9})
                  .number(std::uint32_t{2})
                  .text("key")
                  .text("other")) +
      from(6, Writer(Command::erase).number(std::uint32_t{9}).text("key"));
  std::string monitor = join(0, 2) + join(1, 2) + beat(0, 3, 2) + beat(1, 2, 2) +
                        from(0, Writer(Command::blame)
                                    .number(std::uint32_t{4})
                                    .text("group 0")
                                    .number(std::uint64_t{3})) +
                        from(0x39, Writer(Command::failure).text("group 1").text("why")) +
                        from(0x38, Writer(Command::leave)) + from(0x81, Writer(Command::leave));
  // Ranks that are silent, and questions that nothing answers.
  std::string questions = join(0, 2) + join(1, 2);
  for (int i = 0; i < 20'000; ++i)
    questions += from(
        i % 2,
        Writer(Command::blame).number(std::uint32_t(i)).text("group 0").number(std::uint64_t{3}));
  std::string many, waits, expiring;
  for (int i = 0; i < 20'000; ++i) {
    many += set(i, fmt::format("key {}", i), "v");
    waits += get(i, "none");
  }
  // All expire at once, after clients without waits have left.
  for (int i = 0; i < 20'000; ++i) expiring += get(0, "none");
  for (int i = 0; i < 20'000; ++i) expiring += from(0x81, Writer(Command::leave));
  for (int i = 0; i < 4; ++i) expiring += from(0x39, Writer(Command::leave));
  return {store,    monitor,  store + monitor,
          many,     waits,    join(0, 1) + beat(0, 1, 4000) + beat(0, 2, 4000),
          expiring, questions};
}

const Registered kStore({.name = "store",
                         .run = run_store,
                         .seeds = seeds_of_store,
                         .microseconds_per_byte = 50,
                         .memory_per_byte = 1000});

// ---- Links

void run_link_card(Bytes bytes) {
  const auto address = parallel::links::LinkAddress::parse(text_of(bytes));
  // Writing the result and reading it again must give the same.
  if (parallel::links::LinkAddress::parse(address.text()).text() != address.text()) std::abort();
}

const Registered kLinkCard(
    {.name = "link_card", .run = run_link_card, .seeds = [] {
       parallel::links::LinkAddress address;
       address.tcp = {"127.0.0.1", 29500};
       const std::string bare = address.text();
       address.host = "boot/net:[1]";
       address.unix_name = "ferrite-link-0";
       return Seeds{bare, address.text(), std::string(1'000'000, ' ') + bare};
     }});

/// A connection to a rank's listener. The first byte says which of the fields are valid; the rest
/// is sent in two parts. A connection with an invalid field must be rejected.
void run_link_hello(Bytes bytes) {
  static parallel::links::LinkListener listener("127.0.0.1", true, 64);
  static const parallel::links::LinkMembers members = [] {
    parallel::links::LinkAddress mine = listener.address(), other, last;
    mine.host = other.host = "boot/net:[1]";
    other.nonce = std::string(32, 'a');
    last.nonce = std::string(32, 'b');  // until it comes, the listener is open
    return parallel::links::LinkMembers{
        .secret = "a secret", .mesh = "default/links", .rank = 0, .addresses = {mine, other, last}};
  }();
  static const std::string proof = members.keys(1, 0).opener_proof;
  listener.admit(members);  // again, because each rank is admitted once
  if (bytes.empty()) return;
  const unsigned right = bytes[0];
  std::string text(text_of(bytes.subspan(1)));
  parallel::links::Hello hello;
  const bool whole = text.size() >= sizeof hello;
  if (whole) {
    std::memcpy(&hello, text.data(), sizeof hello);
    if (right & 1) hello.magic = parallel::links::Hello::kMagic;
    if (right & 2) hello.from = 1;
    if (right & 4) std::memcpy(hello.proof.data(), proof.data(), hello.proof.size());
    std::memcpy(text.data(), &hello, sizeof hello);
  }
  const parallel::links::Fd socket = parallel::links::connect_to_unix(listener.address().unix_name);
  if (!socket.valid()) std::abort();
  const std::size_t first = std::min<std::size_t>(text.size(), right >> 4);
  for (const std::string& part : {text.substr(0, first), text.substr(first, 4096)}) {
    if (!part.empty() && send(socket.get(), part.data(), part.size(), MSG_NOSIGNAL) < 0) break;
    listener.take(0);
  }
  const bool welcome = whole && hello.magic == parallel::links::Hello::kMagic && hello.from == 1 &&
                       std::memcmp(hello.proof.data(), proof.data(), hello.proof.size()) == 0;
  if (listener.take(1).has_value() != welcome) std::abort();
}

const Registered kLinkHello({.name = "link_hello", .run = run_link_hello, .seeds = [] {
                               const parallel::links::Hello hello;
                               const std::string bytes(reinterpret_cast<const char*>(&hello),
                                                       sizeof hello);
                               return Seeds{"\x07" + bytes, "\x27" + bytes + "more", "\x06" + bytes,
                                            "\x07" + bytes.substr(0, 20)};
                             }});

// ---- Sealed frames

/// Frames of a known key, changed at one position if the first byte says so: the opened data must
/// be a prefix of the sealed data. The rest is opened unchanged too.
void run_sealed_frames(Bytes bytes) {
  if (bytes.size() < 4) return;
  const std::string key(32, 'k');
  const std::string text(text_of(bytes.subspan(4)));
  parallel::links::SealedChannel sender(key, key), receiver(key, key), stranger(key, key);
  std::string frames = sender.seal(text), opened;
  const std::size_t at = (bytes[1] | bytes[2] << 8 | bytes[3] << 16) % (frames.size() + 1);
  const bool changed = (bytes[0] & 7) != 0 && at < frames.size();
  if (changed) frames[at] = static_cast<char>(frames[at] ^ 1 << (bytes[0] & 7));
  const bool first = receiver.open(std::string_view(frames).substr(0, at), opened);
  const bool second = first && receiver.open(std::string_view(frames).substr(at), opened);
  if (!text.starts_with(opened) || (!changed && (!second || opened != text)) ||
      (changed && opened == text))
    std::abort();
  stranger.open(text, opened);
}

const Registered kSealedFrames({.name = "sealed_frames", .run = run_sealed_frames, .seeds = [] {
                                  parallel::links::SealedChannel channel(std::string(32, 'k'),
                                                                         std::string(32, 'k'));
                                  const std::string start("\0\5\0\0", 4), change("\1\5\0\0", 4);
                                  return Seeds{start, start + "hello", change + "hello",
                                               start + channel.seal("hello"),
                                               start + std::string(1'000'000, 'x')};
                                }});

// ---- Starting a job

void run_rendezvous(Bytes bytes) {
  static const std::string path = [] {
    return fmt::format("{}/ferrite-fuzz-{}", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
                       getpid());
  }();
  std::ofstream(path, std::ios::binary) << text_of(bytes);
  const auto note = parallel::bootstrap::read_rendezvous_note(path);
  unlink(path.c_str());
  if (!note) return;
  const parallel::bootstrap::RendezvousFile file(path, *note);
  const auto again = parallel::bootstrap::read_rendezvous_note(path);
  if (!again || again->address.text() != note->address.text() || again->token != note->token)
    std::abort();
}

const Registered kRendezvous({.name = "rendezvous", .run = run_rendezvous, .seeds = [] {
                                const std::string sound =
                                    "ferrite rendezvous 1\nlocalhost:29500\ntoken\nstart\nhost\n\n"
                                    "end\n";
                                return Seeds{sound, sound.substr(0, 40),
                                             "ferrite rendezvous 1\n[::1]:1\n\n\n\n\nend\n",
                                             "ferrite rendezvous 1\n[[[a]]:9\n\n\n\n\nend\n",
                                             std::string(2'000'000, 'a')};
                              }});

/// Every kind of message in turn: an agent knows the kind from the key.
void run_nodes(Bytes bytes) {
  const std::string text(text_of(bytes));
  const auto again = [&](auto read) {
    try {
      const std::string written = launcher::to_json(read(text));
      if (launcher::to_json(read(written)) != written) std::abort();
    } catch (const DistributedError&) {
    }
  };
  again(launcher::node_entry_of);
  again(launcher::plan_of);
  again(launcher::report_of);
  again(launcher::verdict_of);
}

Seeds seeds_of_nodes() {
  launcher::RankReport report{};
  report.what = "exit status 1";
  report.tail = "the last line \xff\n";
  launcher::Verdict verdict{};
  const std::string without = launcher::to_json(verdict);
  verdict.first = report;
  std::string many = "{";
  for (int i = 0; i < 50'000; ++i) many += fmt::format("\"{}\":1,", i);
  return {launcher::to_json(launcher::NodeEntry{"host", 2}),
          launcher::to_json(launcher::Plan{.number = 1,
                                           .max_restarts = 3,
                                           .first_ranks = {0, 2},
                                           .world_size = 4,
                                           .master_addr = "host",
                                           .master_port = 29500}),
          launcher::to_json(report),
          without,
          launcher::to_json(verdict),
          many + "\"host\":\"a\",\"workers\":1}",
          "{\"host\":" + std::string(300'000, '[') + std::string(300'000, ']') + "}"};
}

const Registered kNodes({.name = "nodes",
                         .run = run_nodes,
                         .seeds = seeds_of_nodes,
                         .microseconds_per_byte = 20,
                         .memory_per_byte = 400});

/// Arguments, each terminated by a zero; then the small grammars of options.
void run_options(Bytes bytes) {
  std::vector<std::string> arguments;
  std::string_view rest = text_of(bytes);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    arguments.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto refusable = [](auto&& parse) {
    try {
      parse();
    } catch (const Error&) {
    }
  };
  refusable([&] { launcher::parse_options(arguments); });
  if (arguments.empty()) return;
  const std::string& text = arguments[0];
  refusable([&] { launcher::parse_endpoint("--endpoint", text); });
  refusable([&] { launcher::StreamChoice::parse("--tee", text).of(1); });
  refusable([&] { parallel::links::parse_address(text, "the address"); });
  refusable([&] { planning::Stragglers::parse(text).quantile(0.99); });
}

const Registered kOptions({.name = "options",
                           .run = run_options,
                           .seeds =
                               [] {
                                 using namespace std::string_literals;
                                 std::string many;
                                 for (int i = 0; i < 30'000; ++i) many += fmt::format("{}:3,", i);
                                 return Seeds{
                                     "--nproc-per-node=2\0--tee\0"
                                     "3\0--rdzv-endpoint\0[::1]:29500\0train\0--lr\0"s,
                                     "--nnodes=2\0--node-rank=0\0--master-addr=a\0a\0"s,
                                     "0:1,1:2"s,
                                     "occasional:0.1:3"s,
                                     "host:29500"s,
                                     "--tee=" + many + "0:1"};
                               },
                           .microseconds_per_byte = 10,
                           .memory_per_byte = 200});

}  // namespace
}  // namespace ferrite::fuzz
