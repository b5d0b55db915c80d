// Explores every execution of a few threads that the C++20 memory model allows, and reports the first one
// that breaks a claim. The lock-free code of the product is compiled against `model_atomics` (below) instead
// of std::atomic. Each load may then return any value that coherence and happens-before allow, each store may
// take any place in the modification order that they allow, and the threads take turns in every order.
// Executions are enumerated by depth-first search with replay; of the orders that differ only in independent
// operations, one is executed (sleep sets).
//
// The semantics are those of RC11 (no load reads from a store that program order and reads-from put after
// it), expressed as views: each thread and each message has, for each location, the oldest message that may
// still be read. See Norris and Demsky, CDSChecker (OOPSLA 2013), and Kang et al., A promising
// semantics (POPL 2017), section 4.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace farandole::models {

enum class access : std::uint8_t { load, store, read_modify_write, failed_exchange, fence };

/// An atomic operation in the source. A compare-and-exchange counts as two: one for success and one for
/// failure.
struct site {
  std::string file;
  unsigned line = 0;
  unsigned column = 0;
  access kind = access::load;

  friend auto operator<=>(const site&, const site&) = default;
};
std::string to_string(const site& access_site);
std::string to_string(std::memory_order order);

/// Every order that is weaker than `order` and that this kind of operation may have. Fences: relaxed stands
/// for none.
std::vector<std::memory_order> weaker_orders(access kind, std::memory_order order);

/// The threads of one execution, created anew for each execution. While a thread accesses atomics, its stack
/// must not hold an object with a destructor, because an execution that need not be completed is abandoned
/// without unwinding.
struct scenario {
  std::vector<std::function<void()>> threads; ///< at most 3
  /// Called after all threads have returned; atomics have their newest values.
  std::function<void()> at_end = [] {};
};
using program = std::function<scenario()>;

struct weakening {
  site operation_site;
  std::memory_order order;
};

struct exploration {
  std::uint64_t executions = 0;                 ///< number of completed executions
  std::string failure;                          ///< reason of the first failure; empty: no failure
  std::map<site, std::memory_order> operations; ///< executed operations, with their orders in the source
};

/// Runs every execution of `which` up to the first that fails, with one operation weakened if `changed` is
/// set.
exploration explore(const program& which, const std::optional<weakening>& changed = std::nullopt);

/// In a thread or at_end: ends the execution as failed unless `holds`.
void require(bool holds, const char* claim);

/// sleep_while() sleeps while `word` has this value (FUTEX_WAIT); wake_sleepers() wakes all threads that
/// sleep on it (FUTEX_WAKE). As futex(2)
/// promises, these calls are totally ordered for one word. The model assumes no further barriers of the
/// kernel.
class atomic_word;
void sleep_while(const atomic_word& word, std::uint64_t mask, std::uint64_t value);
void wake_sleepers(const atomic_word& word);

class atomic_word {
public:
  atomic_word(const atomic_word&) = delete;
  atomic_word& operator=(const atomic_word&) = delete;

protected:
  explicit atomic_word(std::uint64_t initial);
  std::uint64_t read(std::memory_order order, const std::source_location& from) const;
  void write(std::uint64_t value, std::memory_order order, const std::source_location& from);
  /// Adds `value` (modulo 2^64), or stores it. Returns the old value.
  enum class change : std::uint8_t { add, replace };
  std::uint64_t modify(change change, std::uint64_t value, std::memory_order order,
                       const std::source_location& from);
  bool exchange_if(std::uint64_t& expected, std::uint64_t desired, std::memory_order success,
                   std::memory_order failure, const std::source_location& from);

private:
  friend void sleep_while(const atomic_word& word, std::uint64_t mask, std::uint64_t value);
  friend void wake_sleepers(const atomic_word& word);
  std::size_t location_;
};

/// Stands in for std::atomic of an integer.
template <class T>
class atomic : public atomic_word {
public:
  atomic(T initial = {}) : atomic_word(static_cast<std::uint64_t>(initial)) {}
  T load(std::memory_order order, std::source_location from = std::source_location::current()) const {
    return static_cast<T>(read(order, from));
  }
  void store(T value, std::memory_order order, std::source_location from = std::source_location::current()) {
    write(static_cast<std::uint64_t>(value), order, from);
  }
  T fetch_add(T value, std::memory_order order, std::source_location from = std::source_location::current()) {
    return static_cast<T>(modify(change::add, static_cast<std::uint64_t>(value), order, from));
  }
  T fetch_sub(T value, std::memory_order order, std::source_location from = std::source_location::current()) {
    return static_cast<T>(modify(change::add, -static_cast<std::uint64_t>(value), order, from));
  }
  T exchange(T value, std::memory_order order, std::source_location from = std::source_location::current()) {
    return static_cast<T>(modify(change::replace, static_cast<std::uint64_t>(value), order, from));
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success, std::memory_order failure,
                               std::source_location from = std::source_location::current()) {
    auto observed = static_cast<std::uint64_t>(expected);
    const bool done = exchange_if(observed, static_cast<std::uint64_t>(desired), success, failure, from);
    expected = static_cast<T>(observed);
    return done;
  }
  /// Never fails spuriously: every caller retries in a loop.
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success, std::memory_order failure,
                             std::source_location from = std::source_location::current()) {
    return compare_exchange_strong(expected, desired, success, failure, from);
  }
};

void fence(std::memory_order order, std::source_location from = std::source_location::current());

/// Memory that is not atomic. Two accesses are a failure if one of them writes and neither happens before the
/// other.
class plain {
public:
  plain();
  plain(const plain&) = delete;
  plain& operator=(const plain&) = delete;
  std::uint64_t read() const;
  void write(std::uint64_t value);

private:
  std::size_t cell_;
  std::uint64_t value_ = 0;
};

/// The argument of the product's protocol templates in these tests; the product uses machine_atomics.
struct model_atomics {
  template <class T>
  using atomic = models::atomic<T>;
  static void fence(std::memory_order order, std::source_location from = std::source_location::current()) {
    models::fence(order, from);
  }
  template <class T>
  static std::uint32_t load_low_half(const models::atomic<T>& word, std::memory_order order,
                                     std::source_location from = std::source_location::current()) {
    return static_cast<std::uint32_t>(word.load(order, from));
  }
};

} // namespace farandole::models
