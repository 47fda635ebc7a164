#include "ferrite/parallel/ddp/model_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "ferrite/autograd/grad_mode.h"

namespace ferrite::parallel::ddp {

namespace {

constexpr char kEndOfValue = '\n', kEndOfName = '\t';

std::string serialize(const std::vector<Property>& properties) {
  std::string text;
  for (const Property& p : properties) text += p.what + kEndOfName + p.value + kEndOfValue;
  return text;
}

std::vector<Property> parse(std::string_view text) {
  std::vector<Property> properties;
  while (!text.empty()) {
    const std::size_t name = text.find(kEndOfName), end = text.find(kEndOfValue, name);
    properties.push_back(
        {std::string(text.substr(0, name)), std::string(text.substr(name + 1, end - name - 1))});
    text.remove_prefix(end + 1);
  }
  return properties;
}

/// FNV-1a.
std::int64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<std::int64_t>(h);
}

/// Every rank's text.
std::vector<std::string> gather_texts(ProcessGroup& group, const std::string& text,
                                      std::int64_t longest) {
  const Device device = exchange_device(group);
  Tensor mine = empty({longest}, {.dtype = kUInt8, .device = kCPU});
  std::memset(mine.data_ptr(), 0, static_cast<std::size_t>(longest));
  std::memcpy(mine.data_ptr(), text.data(), text.size());
  const Tensor all = empty({group.size() * longest}, {.dtype = kUInt8, .device = device});
  group.all_gather(all, mine.to(device)).synchronize();
  const Tensor here = all.cpu();
  std::vector<std::string> texts;
  for (int rank = 0; rank < group.size(); ++rank) {
    const char* begin = static_cast<const char*>(here.data_ptr()) + rank * longest;
    texts.emplace_back(begin, strnlen(begin, static_cast<std::size_t>(longest)));
  }
  return texts;
}

std::string difference(int rank, const std::vector<Property>& first,
                       const std::vector<Property>& other) {
  const std::size_t common = std::min(first.size(), other.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (first[i].what == other[i].what && first[i].value == other[i].value) continue;
    if (first[i].what == other[i].what)
      return fmt::format("{} is {} on rank 0 and {} on rank {}", first[i].what, first[i].value,
                         other[i].value, rank);
    return fmt::format("where rank 0 has {}, {}, rank {} has {}, {}", first[i].what, first[i].value,
                       rank, other[i].what, other[i].value);
  }
  const bool more = other.size() > common;
  const Property& extra = (more ? other : first)[common];
  return fmt::format("rank {} has {}, {}, which rank {} does not have", more ? rank : 0, extra.what,
                     extra.value, more ? 0 : rank);
}

}  // namespace

std::vector<Property> describe_model(const nn::Module& module) {
  std::vector<Property> out;
  const std::vector<nn::NamedTensor> parameters = module.named_parameters(),
                                     buffers = module.named_buffers();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, t] = parameters[i];
    // Gradients travel in the order in which they lie.
    const bool channels_last = t.suggest_memory_format() != kContiguous;
    out.push_back({fmt::format("parameter {}", i),
                   fmt::format("'{}' ({}{}{}, {})", name, t.dtype(), t.shape(),
                               channels_last ? " channels-last" : "",
                               t.requires_grad() ? "requires a gradient" : "frozen")});
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto& [name, t] = buffers[i];
    out.push_back(
        {fmt::format("buffer {}", i), fmt::format("'{}' ({}{})", name, t.dtype(), t.shape())});
  }
  return out;
}

void check_agreement(ProcessGroup& group, const std::vector<Property>& properties) {
  const std::string text = serialize(properties);
  const std::vector<std::int64_t> known =
      gather_numbers(group, {hash(text), static_cast<std::int64_t>(text.size())});
  std::int64_t longest = 0;
  bool agree = true;
  for (std::size_t r = 0; r < known.size(); r += 2) {
    agree = agree && known[r] == known[0] && known[r + 1] == known[1];
    longest = std::max(longest, known[r + 1]);
  }
  if (agree) return;
  const std::vector<std::string> texts = gather_texts(group, text, longest);
  std::vector<int> others;
  for (int r = 1; r < group.size(); ++r)
    if (texts[static_cast<std::size_t>(r)] != texts[0]) others.push_back(r);
  FERRITE_CHECK(
      others.empty(), DistributedError, "ddp",
      "the ranks of group '{}' do not have the same model and options: {}{}", group.name(),
      difference(others[0], parse(texts[0]), parse(texts[static_cast<std::size_t>(others[0])])),
      others.size() == 1 ? std::string()
                         : fmt::format(" (ranks {} differ from rank 0)", fmt::join(others, ", ")));
}

std::vector<std::int64_t> gather_numbers(ProcessGroup& group,
                                         const std::vector<std::int64_t>& values) {
  const NoGradGuard guard;
  const Device device = exchange_device(group);
  const auto count = static_cast<std::int64_t>(values.size());
  const Tensor mine = from_vector(values, {count}).to(device);
  const Tensor all = empty({group.size() * count}, {.dtype = kInt64, .device = device});
  group.all_gather(all, mine).synchronize();
  return all.cpu().to_vector<std::int64_t>();
}

}  // namespace ferrite::parallel::ddp
