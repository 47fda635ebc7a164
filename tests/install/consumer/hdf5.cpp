#include <ferrite/data/hdf5/hdf5_dataset.h>

#include <cstring>
#include <iostream>

// A user of the component hdf5: opens the file that it is given, which is not there.
int main(int, char** argv) {
  try {
    ferrite::data::HDF5Rows rows(argv[1], {"images"});
  } catch (const ferrite::IoError& error) {
    std::cout << error.what() << '\n';
    return std::strstr(error.what(), argv[1]) ? 0 : 1;
  }
  return 1;
}
