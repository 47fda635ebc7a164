// ferrite-run: starts, watches and restarts the workers of a distributed program.
#include <fcntl.h>
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/terminal.h"
#include "ferrite/core/version.h"
#include "ferrite/parallel/launcher/agent.h"
#include "ferrite/parallel/launcher/host.h"
#include "ferrite/parallel/launcher/options.h"

int main(int argc, char** argv) {
  using namespace ferrite;
  using namespace ferrite::launcher;
  // A descriptor of the launcher must not get the number of a standard stream.
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  try {
    const Options options = parse_options({argv + 1, argv + argc});
    if (options.version) {
      fmt::print("ferrite-run {}\n", version());
      return 0;
    }
    if (options.help) {
      std::fputs(help_text().c_str(), stdout);
      return 0;
    }
    return Agent(options).run();
  } catch (const CannotStart& error) {
    fmt::print(stderr, "{}", terminal::error_line(error.what()));
    return error.code;
  } catch (const ValueError& error) {
    fmt::print(stderr, "{}", terminal::error_line(error.what()));
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}", terminal::error_line(error.what()));
    return 1;
  }
}
