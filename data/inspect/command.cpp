#include "ferrite/data/inspect/command.h"

#include <charconv>
#include <cstdio>
#include <iostream>
#include <optional>
#include <stdexcept>

#include "ferrite/core/error.h"
#include "ferrite/core/terminal.h"
#include "ferrite/core/version.h"
#include "ferrite/data/inspect/convert.h"
#include "ferrite/data/inspect/printable.h"
#include "ferrite/data/inspect/report.h"

namespace ferrite::inspect {

namespace {

terminal::Help help_of() {
  terminal::Help help(
      "ferrite-inspect [OPTIONS] FILE",
      "Shows what is in a file of tensors: each one's name, dtype, shape, sum and norm, and the "
      "other values. FILE is a .pth or .pt file of torch.save(), a safetensors file, an index of "
      "several or a folder that holds one, a checkpoint of Ferrite, NumPy's .npy or .npz, or an "
      "ONNX network, of which the weights are shown and converted. Its bytes tell the format, not "
      "its name.");
  help.topic("Show and compare");
  help.option("--json", "print JSON");
  help.option("--diff OTHER",
              "print what differs between FILE and OTHER, which may have another format: names, "
              "shapes, dtypes, and the greatest difference of values");
  help.topic("Convert");
  help.option("--convert OUT",
              "write FILE's contents to OUT, in the format of its extension: .safetensors, .pth, "
              ".pt, .npz or .npy");
  help.option("--tensors-only",
              "leave out values and metadata that OUT cannot hold, instead of refusing");
  help.option("--max-shard-size SIZE",
              "to .safetensors: divide it into files of at most SIZE bytes of tensors, and an "
              "index; 5GB is 5,000,000,000, 2GiB is 2,147,483,648");
  help.topic("Other options");
  help.option("-h, --help", "print this help");
  help.option("--version", "print the version of Ferrite");
  help.add(
      "Examples:\n"
      "  ferrite-inspect resnet18.pth\n"
      "  ferrite-inspect tuned.safetensors --diff resnet18.pth\n"
      "  ferrite-inspect resnet18.pth --convert resnet18.safetensors");
  help.add(
      "Exit status: 0; 1 if a file cannot be read, is damaged or cannot be converted; 2 for wrong "
      "arguments.");
  return help;
}

/// For styles and the width of a terminal; null if `out` is not standard output.
std::FILE* stream_of(const std::ostream& out) { return &out == &std::cout ? stdout : nullptr; }

/// An error may quote what a file says, and have several lines of its own.
std::string printable_lines(std::string_view text) {
  std::string out;
  for (const std::string_view line : terminal::text_split(text, '\n'))
    out.append(out.empty() ? "" : "\n").append(printable(line));
  return out;
}

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Arguments {
  std::string file;
  std::optional<std::string> diff, out;
  ConvertOptions convert;
  bool json = false, help = false, version = false;
};

std::uint64_t parse_size(const std::string& text) {
  struct Unit {
    std::string_view name;
    std::uint64_t bytes;
  };
  constexpr Unit kUnits[] = {
      {"", 1},          {"KB", 1'000},    {"MB", 1'000'000}, {"GB", 1'000'000'000},
      {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  std::uint64_t count = 0, bytes = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  for (const Unit& unit : kUnits)
    if (error == std::errc() && unit.name == std::string_view(rest, end) && count > 0 &&
        !__builtin_mul_overflow(count, unit.bytes, &bytes))
      return bytes;
  throw UsageError("--max-shard-size expects bytes above 0, such as 500000, 200MB or 2GiB, got '" +
                   text + "'");
}

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  std::vector<std::string> files;
  bool only_files = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto next = [&]() -> const std::string& {
      if (i + 1 == words.size()) throw UsageError(word + " expects a value");
      return words[++i];
    };
    if (only_files || !word.starts_with('-') || word == "-")
      files.push_back(word);
    else if (word == "--")
      only_files = true;
    else if (word == "--json")
      arguments.json = true;
    else if (word == "--diff")
      arguments.diff = next();
    else if (word == "--convert")
      arguments.out = next();
    else if (word == "--tensors-only")
      arguments.convert.tensors_only = true;
    else if (word == "--max-shard-size")
      arguments.convert.max_shard_size = parse_size(next());
    else if (word == "--help" || word == "-h")
      arguments.help = true;
    else if (word == "--version")
      arguments.version = true;
    else
      throw UsageError("there is no option " + word);
  }
  if (arguments.help || arguments.version) return arguments;
  if (files.size() != 1) throw UsageError(fmt::format("expected one file, got {}", files.size()));
  if (arguments.diff && arguments.out) throw UsageError("expected --diff or --convert, got both");
  if (!arguments.out && (arguments.convert.tensors_only || arguments.convert.max_shard_size > 0))
    throw UsageError("--tensors-only and --max-shard-size belong to --convert");
  if (arguments.out && arguments.json) throw UsageError("--convert prints nothing as JSON");
  arguments.file = files[0];
  return arguments;
}

void act(const Arguments& arguments, std::ostream& out) {
  const Contents contents = read_contents(arguments.file);
  if (arguments.out) return convert(contents, *arguments.out, arguments.convert);
  if (arguments.diff) {
    const Contents other = read_contents(*arguments.diff);
    out << (arguments.json ? diff_json(contents, other)
                           : diff_text(contents, other, arguments.file, *arguments.diff));
  } else {
    out << (arguments.json
                ? json_of(contents)
                : terminal::with_heading(text_of(contents, arguments.file), 2, stream_of(out)));
  }
}

}  // namespace

int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  try {
    const Arguments parsed = parse(arguments);
    if (parsed.help)
      out << help_of().str(stream_of(out));
    else if (parsed.version)
      out << "ferrite-inspect " << version() << '\n';
    else
      act(parsed, out);
    return 0;
  } catch (const UsageError& error) {
    err << terminal::usage_error(nullptr, error);
    return 2;
  } catch (const std::exception& error) {
    err << terminal::error_line(printable_lines(error.what()));
    return 1;
  }
}

}  // namespace ferrite::inspect
