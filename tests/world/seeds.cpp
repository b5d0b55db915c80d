#include "tests/world/seeds.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace farandole::testing {

namespace {

thread_local std::uint64_t playing = 0;

void say(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

// Uses only functions that a signal handler may call.
void print_seed(int signal) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), playing).ptr;
  say("\nA fatal signal arrived while this thread played seed ");
  say({digits.data(), static_cast<std::size_t>(end - digits.data())});
  say(":\n");
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// During its lifetime, a fatal signal prints the seed that the thread plays.
class signal_report {
public:
  signal_report() {
    for (auto& [signal, before] : handlers_)
      before = std::signal(signal, print_seed);
  }
  signal_report(const signal_report&) = delete;
  signal_report& operator=(const signal_report&) = delete;
  ~signal_report() {
    for (const auto& [signal, before] : handlers_)
      std::signal(signal, before);
  }

private:
  std::array<std::pair<int, void (*)(int)>, 3> handlers_{{{SIGABRT, {}}, {SIGSEGV, {}}, {SIGFPE, {}}}};
};

/// Prints the progress after each of `parts` equal parts of many seeds.
class progress {
public:
  progress(std::string test, const std::vector<std::uint64_t>& seeds)
      : test_(std::move(test)), count_(seeds.size()), base_(seeds.empty() ? 0 : seeds.front() - 1) {}

  void played(bool failed) {
    ++played_;
    failures_ += failed;
    if (count_ >= many && played_ % (count_ / parts) == 0 && played_ < count_)
      say("played " + text() + "\n");
  }
  void failed(std::uint64_t seed) {
    say("seed " + std::to_string(seed) + " fails; to replay it alone, run: world_test \"" + test_ +
        "\" --seed " + std::to_string(seed) + "\n");
  }
  void summarize() const {
    if (count_ >= many)
      say("ended: " + text() + "\n");
  }

private:
  std::string text() const {
    const auto took = std::chrono::steady_clock::now() - begin_;
    return std::to_string(played_) + " of " + std::to_string(count_) + " seeds after base " +
           std::to_string(base_) + ", " + std::to_string(failures_) + " failed, " +
           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(took).count()) + " s";
  }

  static constexpr std::size_t many = 10'000;
  static constexpr std::size_t parts = 50;

  std::string test_;
  std::size_t count_;
  std::uint64_t base_;
  std::size_t played_ = 0;
  std::size_t failures_ = 0;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

} // namespace

std::map<std::uint64_t, std::string> play_all(const std::string& test,
                                              const std::vector<std::uint64_t>& seeds,
                                              const std::function<std::string(std::uint64_t seed)>& play) {
  const signal_report seed_on_signal;
  progress report(test, seeds);
  std::atomic<std::size_t> next{0};
  std::mutex guard;
  std::map<std::uint64_t, std::string> wrong;
  const auto work = [&] {
    for (auto i = next++; i < seeds.size(); i = next++) {
      playing = seeds[i];
      auto text = play(seeds[i]);
      const std::lock_guard lock(guard);
      report.played(!text.empty());
      if (text.empty())
        continue;
      report.failed(seeds[i]);
      wrong[seeds[i]] = std::move(text);
      if (!keep_going())
        next = seeds.size();
    }
  };
  {
    std::vector<std::jthread> others;
    for (auto count = std::min<std::size_t>(std::thread::hardware_concurrency(), seeds.size()); count > 1;
         --count)
      others.emplace_back(work);
    work();
  }
  report.summarize();
  return wrong;
}

} // namespace farandole::testing
