// ferrite-inspect: what is in a file of tensors.
#include <iostream>

#include "ferrite/data/inspect/command.h"

int main(int argc, char** argv) {
  const int status = ferrite::inspect::run({argv + 1, argv + argc}, std::cout, std::cerr);
  std::cout.flush();
  return status == 0 && !std::cout ? 1 : status;  // such as a full disk
}
