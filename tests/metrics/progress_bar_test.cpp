#include "ferrite/metrics/progress_bar.h"

#include <doctest/doctest.h>

#include <string>

using ferrite::metrics::BarStyle;
using ferrite::metrics::progress_line;

namespace {

/// Terminal columns of UTF-8 text: every character here is one column wide.
int columns_of(const std::string& text) {
  int columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return columns;
}

const std::string label = "epoch  3/10", left = "0:07";
const std::string status = "loss 0.1234 accuracy 0.900 12345 images/s";

}  // namespace

TEST_CASE("a progress line is never wider than the terminal") {
  for (const BarStyle style : {BarStyle::ascii, BarStyle::blocks})
    for (int columns = 0; columns <= 200; ++columns)
      for (const double fraction : {0.0, 1e-9, 0.01, 0.333, 0.5, 0.999, 1.0}) {
        CAPTURE(columns);
        CAPTURE(fraction);
        const std::string line = progress_line(label, fraction, status, left, columns, style);
        CHECK(columns_of(line) <= columns);
        CHECK(line.find('\n') == line.npos);
      }
}

TEST_CASE("a progress line fits the width: a bar, a shorter one, none, only the beginning") {
  const auto line = [](int columns) {
    return progress_line(label, 0.5, status, left, columns, BarStyle::ascii);
  };
  const std::string text = " 50% loss 0.1234 accuracy 0.900 12345 images/s 0:07 left";
  CHECK(line(200) == "epoch  3/10 |############            | " + text);
  CHECK(line(80) == "epoch  3/10 |####     | " + text);
  CHECK(line(76) == "epoch  3/10 |##   | " + text);
  CHECK(line(74) == "epoch  3/10 " + text);
  CHECK(line(20) == "epoch  3/10  50% los");
  CHECK(line(0).empty());
}

TEST_CASE("a progress line ends with the detail, which is cut first") {
  const auto line = [](int columns) {
    return progress_line(label, 0.5, status, left, columns, BarStyle::ascii, "31 MiB busy 87%");
  };
  const std::string text = " 50% loss 0.1234 accuracy 0.900 12345 images/s 0:07 left";
  CHECK(line(200) == "epoch  3/10 |############            | " + text + "  31 MiB busy 87%");
  CHECK(line(76) == "epoch  3/10 " + text + "  31 MiB");
  CHECK(line(60) == ("epoch  3/10 " + text).substr(0, 60));
}

TEST_CASE("progress lines count characters, not bytes") {
  using ferrite::metrics::test_line;
  const std::string name = "\xc3\xa9poque 1/2";  // a letter of two bytes
  CHECK(progress_line(name, 0.5, "a", "0:01", 36, BarStyle::ascii) ==
        name + " |###   |  50% a 0:01 left");
  CHECK(progress_line(name, 0.5, "a", "0:01", 1, BarStyle::ascii) == "\xc3\xa9");
  CHECK(test_line(name, 1) == std::string(10, ' ') + "  test  loss 1.0000");
}

TEST_CASE("a progress bar of blocks is drawn in eighths") {
  const auto bar = [](double fraction) {
    const std::string line = progress_line("x", fraction, "", "", 20, BarStyle::blocks);
    return line.substr(0, line.rfind('|') + 1);
  };
  CHECK(bar(0) == "x |    |");
  CHECK(bar(1) == "x |████|");
  CHECK(bar(2) == "x |████|");
  CHECK(bar(0.5 / 4) == "x |▌   |");
  CHECK(bar(2.875 / 4) == "x |██▉ |");
}

TEST_CASE("lines of training and test: what is given, below each other") {
  const std::string epoch = ferrite::metrics::progress_label("epoch", 3, 10);
  CHECK(epoch == "epoch  3/10");
  CHECK(ferrite::metrics::progress_label("epoch", 1, 5) == "epoch  1/5");
  CHECK(ferrite::metrics::progress_label("step", 20, 5000) == "step   20/5000");
  CHECK(ferrite::metrics::train_line(epoch, 0.59449, 0.7805, "19996 images/s") ==
        "epoch  3/10  train loss 0.5945 accuracy 0.7805  19996 images/s");
  CHECK(ferrite::metrics::train_line(epoch, 0.5) == "epoch  3/10  train loss 0.5000");
  CHECK(ferrite::metrics::test_line(epoch, 0.5, 0.75) ==
        "             test  loss 0.5000 accuracy 0.7500");
  CHECK(ferrite::metrics::test_line(epoch, {}, 0.75) == "             test  accuracy 0.7500");
}
