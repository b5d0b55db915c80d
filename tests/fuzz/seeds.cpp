// Writes the seeds of a fuzz target into a directory: fuzz_seeds TARGET DIRECTORY.
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/fuzz/samples.hpp"

int main(int count, char** arguments) {
  if (count != 3) {
    std::fputs("usage: fuzz_seeds TARGET DIRECTORY\n", stderr);
    return 2;
  }
  // A frame is a message behind its length in words and a zero; fuzz_frames takes one byte more in front.
  bool framed = std::string{arguments[1]} == "fuzz_frames";
  int number = 0;
  for (const auto& message : farandole::samples()) {
    std::ofstream file(std::string{arguments[2]} + "/seed-" + std::to_string(number++), std::ios::binary);
    auto bytes = message.bytes();
    auto words = bytes.size() / 8;
    if (framed)
      file << static_cast<char>(40 * number) << static_cast<char>(words) << static_cast<char>(words >> 8)
           << std::string(6, '\0');
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) {
      std::fprintf(stderr, "cannot write to %s\n", arguments[2]);
      return 1;
    }
  }
}
