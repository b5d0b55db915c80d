// Where framework threads enter: submit, and the board. The loop's side takes what was queued and tells what ids mean.
//
// Framework threads share one mutex here. The loop never waits for it: it posts news (ids learnt and forgotten) on a
// lock-free stack that the next submitter reads, takes the queue with one exchange, and where it must touch the table
// itself (retract, end) it only tries the lock and comes back later.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "actors/board_seat.hpp"
#include "actors/pending.hpp"
#include "messages/negotiation.hpp"

namespace farandole {

/// What a caller asks for; see bindings/cxx/farandole.hpp.
struct intent {
  std::string_view name;
  farandole::signature signature;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

/// One process set's door.
class door {
public:
  /// `ring` tells the loop that the queue is no longer empty; called from framework threads.
  /// At most `capacity` operations may be in flight.
  door(std::uint32_t set, std::int32_t size, std::size_t capacity, std::function<void()> ring);
  ~door();

  // ---- framework threads ----

  expected<pending_ptr> submit(const intent& what);
  /// All or none; they become ready together.
  expected<std::vector<pending_ptr>> submit_group(std::span<const intent> what);
  /// Takes an operation back if it has not been scheduled.
  void withdraw(pending& operation);
  /// Settles the operation if it sits on the board and its round is complete. True when settled.
  bool try_settle(pending& operation);

  // ---- the loop ----

  /// Everything queued since the last call, oldest first.
  std::vector<pending_ptr> take_queue();
  /// `name` is known as an id from now on, with this member's signature; on the board if `where` is given.
  void learn(const assignment& what, const signature& own, std::shared_ptr<board_seat> where);
  void forget(std::uint32_t id);

  /// What became of a try that must not wait.
  enum class attempt { done, busy };
  /// Forgets the id; an operation that waits on the board in just this round is taken back into `taken`.
  attempt retract(board_round what, pending_ptr& taken);
  /// No operation enters any more: submit answers `why`. What sits on the board is settled: well if its round is
  /// complete, else with `why`.
  attempt end(const error& why);

  // ---- anybody ----

  std::uint64_t submitted() const { return submitted_.load(std::memory_order_relaxed); }
  std::uint64_t on_board() const { return on_board_.load(std::memory_order_relaxed); }

private:
  struct entry {
    pending_ptr last;       ///< in flight, or settled and not yet swept
    std::uint32_t id = 0;   ///< 0: not known to the leader, as far as we heard
    farandole::signature signature;
    std::shared_ptr<board_seat> seat;
    std::uint64_t next_round = 0;
  };
  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using table = std::unordered_map<std::string, entry, text_hash, std::equal_to<>>;
  struct news {
    assignment learnt; ///< id 0: `forgotten` is meant
    farandole::signature own;
    std::shared_ptr<board_seat> where;
    std::uint32_t forgotten = 0;
    news* next = nullptr;
  };

  error check(const intent& what) const;
  bool in_flight(std::string_view name);
  entry& entry_of(std::string_view name);
  pending_ptr admit(const intent& what, std::uint32_t group, std::uint32_t group_size);
  bool sit_down(entry& known, const pending_ptr& operation);
  void stand_up(entry& known, pending& operation);
  void enqueue(pending_ptr operation);
  void post(news* item);
  void read_news();
  void apply(news& item);
  void forget_here(std::uint32_t id);
  void sweep();

  const std::uint32_t set_;
  const std::int32_t size_;
  const std::size_t capacity_;
  const std::function<void()> ring_;

  std::mutex mutex_;
  table table_;
  std::unordered_map<std::uint32_t, std::string> names_; ///< of ids
  error ended_;
  std::uint32_t next_group_ = 1;
  std::size_t sweep_at_ = 1024;

  std::atomic<pending*> queue_{nullptr};
  std::atomic<news*> news_{nullptr};
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> on_board_{0};
};

} // namespace farandole
