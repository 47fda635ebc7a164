#include <ferrite/core/device.h>
#include <ferrite/core/error.h>
#include <ferrite/version.h>

#include <iostream>
#include <string>

// Needs the library for its version, and to refuse the name of a device.
int main() {
  try {
    std::cout << ferrite::Device("gpu");
  } catch (const ferrite::Error& error) {
    std::cout << error.what() << '\n';
    return ferrite::version() == std::string(ferrite::kVersion) ? 0 : 1;
  }
  return 1;
}
