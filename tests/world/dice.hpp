// Random numbers for the simulated world. The standard library's distributions differ between
// implementations; these do not, so a seed gives the same job everywhere.
#pragma once

#include <cstdint>

namespace farandole::testing {

class dice {
public:
  explicit dice(std::uint64_t seed) : state_(seed) {}
  /// A stream of its own for each combination of numbers.
  template <class... More>
  dice(std::uint64_t seed, std::uint64_t first, More... more) : dice(mixed(seed ^ mixed(first)), more...) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    return mixed(state_);
  }
  /// From 0 to n − 1.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  bool one_in(std::uint64_t n) { return n != 0 && below(n) == 0; }

  static std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

private:
  std::uint64_t state_;
};

} // namespace farandole::testing
