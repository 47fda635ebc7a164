#include "ferrite/core/terminal.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>

using namespace ferrite;
using terminal::Align;

namespace {

/// An environment variable with another value for the time of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Variable() { set(old_ ? old_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) const {
    if (value)
      setenv(name_, value, 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> old_;
};

/// A terminal, of which the program has the one end and the test the other.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(unsigned short columns) : screen_(posix_openpt(O_RDWR | O_NOCTTY)) {
    REQUIRE(screen_ >= 0);
    REQUIRE(grantpt(screen_) == 0);
    REQUIRE(unlockpt(screen_) == 0);
    const int fd = open(ptsname(screen_), O_RDWR | O_NOCTTY);
    REQUIRE(fd >= 0);
    winsize size{};
    size.ws_col = columns;
    ioctl(fd, TIOCSWINSZ, &size);
    stream_ = fdopen(fd, "w");
  }
  ~PseudoTerminal() {
    std::fclose(stream_);
    close(screen_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  std::FILE* stream() const { return stream_; }
  /// What has been printed since the last call. A terminal hands over what was written in pieces
  /// and late: a mark behind it says when all of it is there.
  std::string screen() const {
    std::fputc(mark, stream_);
    std::fflush(stream_);
    std::string text;
    for (char c = 0; read(screen_, &c, 1) == 1 && c != mark;) text += c;
    return text;
  }

 private:
  static constexpr char mark = '\a';
  int screen_;
  std::FILE* stream_ = nullptr;
};

/// A file, and what is in it.
class File {
 public:
  ~File() { std::fclose(stream_); }
  std::FILE* stream() const { return stream_; }
  std::string text() const {
    std::fflush(stream_);
    std::rewind(stream_);
    char text[1024];
    return {text, std::fread(text, 1, sizeof text, stream_)};
  }

 private:
  std::FILE* stream_ = std::tmpfile();
};

}  // namespace

TEST_CASE("styles and redrawn lines are for terminals that have them") {
  const PseudoTerminal pty(40);
  const Variable kind("TERM", "xterm");
  {
    const Variable none("NO_COLOR", nullptr);
    CHECK(terminal::redraws(pty.stream()));
    CHECK(terminal::has_styles(pty.stream()));
    CHECK(terminal::width(pty.stream()) == 40);
    CHECK(terminal::styled("no", terminal::Style::red, pty.stream()) == "\033[31mno\033[0m");
  }
  {
    const Variable none("NO_COLOR", "1");
    CHECK(terminal::redraws(pty.stream()));
    CHECK_FALSE(terminal::has_styles(pty.stream()));
    CHECK(terminal::styled("no", terminal::Style::red, pty.stream()) == "no");
  }
  const Variable dumb("TERM", "dumb");
  CHECK_FALSE(terminal::redraws(pty.stream()));
  CHECK_FALSE(terminal::has_styles(pty.stream()));
}

TEST_CASE("errors have one form") {
  const Variable none("NO_COLOR", "1");
  CHECK(terminal::error_line("no") == "error: no\n");
  CHECK(terminal::usage_error(nullptr, std::runtime_error("--epochs: no")) ==
        "error: --epochs: no\nRun with --help for more information.\n");
}

TEST_CASE("a line is cut to the terminal, replaced, and cleared at its end") {
  const PseudoTerminal pty(10);
  const Variable kind("TERM", "xterm");
  {
    terminal::Line line(pty.stream());
    CHECK(line.shown());
    line.show("a long line of text");
    CHECK(pty.screen() == "\r\033[Ka long li");
    line.show("b");
    CHECK(pty.screen() == "\r\033[Kb");
  }
  CHECK(pty.screen() == "\r\033[K");
}

TEST_CASE("a file gets neither lines that are redrawn nor styles") {
  const Variable kind("TERM", "xterm");
  const File file;
  terminal::Line line(file.stream());
  line.show("working");
  line.clear();
  CHECK_FALSE(line.shown());
  CHECK(terminal::width(file.stream()) == 80);
  terminal::Table table({{"name", Align::left}, {"n"}});
  table.add({"a", "1"});
  table.print(file.stream());
  CHECK(file.text() == "name  n\na     1\n");
}

TEST_CASE("a table: columns by their cells, numbers to the right, no spaces at the end") {
  terminal::Table table({{"layer", Align::left}, {"size"}, {"note", Align::left}});
  table.add({"fc", "84", ""});
  table.add({"größer", "1234567", "the last cell does not widen anything"});
  table.add_gap();
  table.add({"conv", "failed: no memory for this one"});
  CHECK(table.str() ==
        "layer      size  note\n"
        "fc           84\n"
        "größer  1234567  the last cell does not widen anything\n"
        "\n"
        "conv    failed: no memory for this one\n");
  terminal::Table wide({{"a", Align::left, 4}, {"b", Align::right, 3}});
  wide.add({"1", "2"});
  CHECK(wide.str() == "a       b\n1       2\n");
}

TEST_CASE("a table's heading is bold where that shows") {
  const PseudoTerminal pty(40);
  const Variable kind("TERM", "xterm");
  const Variable none("NO_COLOR", nullptr);
  terminal::Table table({{"n"}});
  table.add({"1"});
  table.print(pty.stream());
  CHECK(pty.screen() == "\033[1mn\033[0m\r\n1\r\n");
}

TEST_CASE("numbers are followed by a word in the singular or the plural") {
  CHECK(terminal::counted(1, "step") == "1 step");
  CHECK(terminal::counted(0, "step") == "0 steps");
  CHECK(terminal::counted(2, "process", "processes") == "2 processes");
}

TEST_CASE("help is wrapped, in columns, with topics and examples") {
  terminal::Help help("train [OPTIONS] FILE",
                      "Trains a network, and says after each epoch what "
                      "its loss is on images that it has not seen.");
  help.topic("Training");
  help.option("--epochs N", "passes over the images");
  help.option("--an-option-whose-name-is-long TEXT", "text");
  help.option("--lr NUMBER",
              "the learning rate at the beginning, from which it falls in half a "
              "cosine to zero");
  help.topic("Other options");
  help.option("-h, --help", "print this help");
  help.add(
      "Examples:\n  train --epochs 3    # a command is left as it is, however long it may be on "
      "its line");
  help.add("The status is 0.");
  CHECK(help.str(nullptr) ==
        "Usage: train [OPTIONS] FILE\n"
        "\n"
        "Trains a network, and says after each epoch what its loss is on images that it\n"
        "has not seen.\n"
        "\n"
        "Training:\n"
        "  --epochs N   passes over the images\n"
        "  --an-option-whose-name-is-long TEXT\n"
        "               text\n"
        "  --lr NUMBER  the learning rate at the beginning, from which it falls in half a\n"
        "               cosine to zero\n"
        "\n"
        "Other options:\n"
        "  -h, --help   print this help\n"
        "\n"
        "Examples:\n"
        "  train --epochs 3    # a command is left as it is, however long it may be on its line\n"
        "\n"
        "The status is 0.\n");
  const PseudoTerminal pty(50);
  const Variable kind("TERM", "xterm");
  const Variable none("NO_COLOR", nullptr);
  const std::string text = help.str(pty.stream());
  CHECK(
      text.starts_with("\033[1mUsage:\033[0m train [OPTIONS] FILE\n\n"
                       "Trains a network, and says after each epoch what\n"));
  CHECK(text.find("\n\033[1mTraining:\033[0m\n") != std::string::npos);
  CHECK(text.find("\n\033[1mExamples:\033[0m\n  train") != std::string::npos);
}

TEST_CASE("the heading of a table given as text is bold where that shows") {
  const PseudoTerminal pty(40);
  const Variable kind("TERM", "xterm");
  const Variable none("NO_COLOR", nullptr);
  CHECK(terminal::with_heading("n\n1\n", 0, pty.stream()) == "\033[1mn\033[0m\n1\n");
  CHECK(terminal::with_heading("two\n\nn\n1\n", 2, pty.stream()) == "two\n\n\033[1mn\033[0m\n1\n");
  CHECK(terminal::with_heading("n\n1\n", 0, nullptr) == "n\n1\n");
}
