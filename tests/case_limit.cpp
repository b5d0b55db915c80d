#include "tests/case_limit.hpp"

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farandole::testing {

namespace {

std::chrono::seconds chosen_limit = usual_case_limit;

/// A text that a signal handler may read while the test's thread writes it: at worst it prints a mixture of two texts.
class text {
public:
  void set(std::string_view value) {
    const auto size = std::min(value.size(), sizeof characters_);
    std::memcpy(characters_, value.data(), size);
    size_ = size;
  }
  std::string_view get() const { return {characters_, size_}; }

private:
  char characters_[1000];
  std::atomic<std::size_t> size_ = 0;
};

/// A copy of standard error, which tests may redirect. Its number is high: some shells of tests redirect only the
/// numbers below 10.
int log_descriptor = STDERR_FILENO;

text complaint;     ///< names the case that runs
text section;       ///< the name of the section that began last
text children_file; ///< the kernel's list of the processes that the test's thread has forked
std::atomic<const char*> assertion_file = nullptr; ///< the place of the last assertion of the case
std::atomic<std::size_t> assertion_line = 0;

// The handler calls only functions that are safe in a signal handler.

void print(std::string_view part) {
  [[maybe_unused]] const auto written = ::write(log_descriptor, part.data(), part.size());
}

void print(std::size_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  print({digits, static_cast<std::size_t>(end - digits)});
}

void kill_children() {
  char list[4096];
  const int file = ::open(children_file.get().data(), O_RDONLY | O_CLOEXEC);
  const auto size = ::read(file, list, sizeof list);
  for (const char* next = list; next < list + size; ++next) { // after each number there is a space
    pid_t child = 0;
    next = std::from_chars(next, list + size, child).ptr;
    if (child > 0)
      ::kill(child, SIGKILL);
  }
}

void expired(int) {
  print(complaint.get());
  print("  last section: ");
  print(section.get());
  if (const char* file = assertion_file) {
    print("\n  last assertion that was checked: ");
    print(file);
    print(":");
    print(assertion_line);
  }
  print("\n");
  kill_children();
  ::signal(SIGABRT, SIG_DFL); // Catch's handler is not safe here
  std::abort();
}

/// The limit of the next case.
std::chrono::seconds case_limit() {
  const char* const seconds = std::getenv("FARANDOLE_TEST_CASE_SECONDS");
  return seconds ? std::chrono::seconds{std::atoi(seconds)} : chosen_limit;
}

class case_limit_listener : public Catch::TestEventListenerBase {
public:
  explicit case_limit_listener(const Catch::ReporterConfig& config) : TestEventListenerBase(config) {
    if (const int copy = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100); copy >= 0)
      log_descriptor = copy;
    // No test and no library uses this signal, and its default action ends the process.
    struct sigaction action {};
    action.sa_handler = expired;
    ::sigaction(SIGRTMAX, &action, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMAX;
    if (::timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0)
      throw std::runtime_error("no timer limits the time of the test cases");
  }
  ~case_limit_listener() override { ::timer_delete(timer_); }
  case_limit_listener(const case_limit_listener&) = delete;
  case_limit_listener& operator=(const case_limit_listener&) = delete;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    StreamingReporterBase::testCaseStarting(info);
    const auto limit = case_limit();
    complaint.set("\nThe test case \"" + info.name + "\" (" + info.lineInfo.file + ":" +
                  std::to_string(info.lineInfo.line) + ") exceeds its limit of " +
                  std::to_string(limit.count()) + " s:\n");
    const auto process = std::to_string(::getpid());
    children_file.set("/proc/self/task/" + process + "/children" + '\0');
    assertion_file = nullptr;
    begin_ = std::chrono::steady_clock::now();
    arm(limit);
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    arm(std::chrono::seconds{0});
    StreamingReporterBase::testCaseEnded(stats);
    const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - begin_;
    durations_.emplace_back(duration.count(), stats.testInfo.name);
  }
  void sectionStarting(const Catch::SectionInfo& info) override {
    StreamingReporterBase::sectionStarting(info);
    section.set(info.name);
  }
  void assertionStarting(const Catch::AssertionInfo& info) override {
    assertion_line = info.lineInfo.line;
    assertion_file = info.lineInfo.file;
  }
  /// Prints the slowest of the cases that took a second or longer.
  void testRunEnded(const Catch::TestRunStats& stats) override {
    StreamingReporterBase::testRunEnded(stats);
    const auto shown = durations_.begin() + std::min<std::ptrdiff_t>(5, std::ssize(durations_));
    std::partial_sort(durations_.begin(), shown, durations_.end(), std::greater<>());
    for (auto slow = durations_.begin(); slow != shown && slow->first >= 1; ++slow)
      std::fprintf(stderr, "%6.1f s: %s\n", slow->first, slow->second.c_str());
  }

private:
  void arm(std::chrono::seconds limit) {
    itimerspec time{};
    time.it_value.tv_sec = limit.count(); // 0 disarms
    ::timer_settime(timer_, 0, &time, nullptr);
  }

  timer_t timer_{};
  std::chrono::steady_clock::time_point begin_;
  std::vector<std::pair<double, std::string>> durations_;
};

CATCH_REGISTER_LISTENER(case_limit_listener)

} // namespace

void limit_cases(std::chrono::seconds limit) {
  chosen_limit = limit;
}

} // namespace farandole::testing
