#include "tests/world/seeds.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <string_view>
#include <thread>
#include <utility>

namespace farandole::testing {

namespace {

thread_local std::uint64_t playing = 0;

void say(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

// Only what a signal handler may do.
void tell_seed(int signal) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), playing).ptr;
  say("\nin the midst of seed ");
  say({digits.data(), static_cast<std::size_t>(end - digits.data())});
  say(":\n");
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// While it stands, the seed that a thread plays is told if that ends the process.
class last_words {
public:
  last_words() {
    for (auto& [signal, before] : handlers_)
      before = std::signal(signal, tell_seed);
  }
  last_words(const last_words&) = delete;
  last_words& operator=(const last_words&) = delete;
  ~last_words() {
    for (const auto& [signal, before] : handlers_)
      std::signal(signal, before);
  }

private:
  std::array<std::pair<int, void (*)(int)>, 3> handlers_{{{SIGABRT, {}}, {SIGSEGV, {}}, {SIGFPE, {}}}};
};

} // namespace

void play_all(const std::vector<std::uint64_t>& seeds, const std::function<void(std::uint64_t seed)>& play) {
  const last_words told_at_the_end;
  std::atomic<std::size_t> next{0};
  auto work = [&] {
    for (auto i = next++; i < seeds.size(); i = next++) {
      playing = seeds[i];
      play(seeds[i]);
    }
  };
  std::vector<std::jthread> others;
  for (auto count = std::min<std::size_t>(std::thread::hardware_concurrency(), seeds.size()); count > 1;
       --count)
    others.emplace_back(work);
  work();
}

} // namespace farandole::testing
