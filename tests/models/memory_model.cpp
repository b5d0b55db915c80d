// The values that an access may return, and its effects on other threads.
#include "tests/models/engine.hpp"

namespace farandole::models {

/// The oldest place that may be read; no message may be inserted before it.
stamp engine::minimum(std::size_t at, std::memory_order order) {
  const auto entry = self().knows.stamps[at];
  return order == std::memory_order_seq_cst ? std::max({entry, locations_[at].newest_sc, fences_[at]})
                                            : entry;
}

/// The newest message comes first, so that the first execution is the usual one.
std::vector<std::size_t> engine::readable(std::size_t at, std::memory_order order) {
  std::vector<std::size_t> all;
  const auto& history = locations_[at].history;
  for (auto i = history.size(); i-- > 0 && history[i].at >= minimum(at, order);)
    all.push_back(i);
  return all;
}

void engine::learn(std::size_t at, const message& from, std::memory_order order) {
  self().knows.stamps[at] = std::max(self().knows.stamps[at], from.at);
  self().loaded.join(from.told);
  if (acquires(order))
    self().knows.join(from.told);
  if (order == std::memory_order_seq_cst)
    locations_[at].newest_sc = std::max(locations_[at].newest_sc, from.at);
}

void engine::insert(std::size_t at, std::size_t behind, std::uint64_t value, std::memory_order order,
                    bool modifies) {
  auto& history = locations_[at].history;
  const bool last = behind + 1 == history.size();
  message fresh{
      value, last ? history[behind].at + 1 : (history[behind].at + history[behind + 1].at) / 2, {}, false};
  auto& me = self();
  me.knows.stamps[at] = fresh.at;
  fresh.told = releases(order) ? me.knows : me.fenced;
  fresh.told.stamps[at] = fresh.at;
  if (modifies) {
    fresh.told.join(history[behind].told); // continues the release sequence
    history[behind].followed = true;
  }
  if (order == std::memory_order_seq_cst)
    locations_[at].newest_sc = std::max(locations_[at].newest_sc, fresh.at);
  ++me.knows.clock[current_];
  history.insert(history.begin() + static_cast<std::ptrdiff_t>(behind) + 1, std::move(fresh));
}

std::uint64_t engine::read(std::size_t at, std::memory_order order, const std::source_location& from) {
  if (!in_thread())
    return locations_[at].history.back().value;
  order = order_of(access::load, order, from);
  announce({at, false, order == std::memory_order_seq_cst});
  const auto options = readable(at, order);
  const auto entry = locations_[at].history[options[choose(options.size())]];
  learn(at, entry, order);
  return entry.value;
}

void engine::write(std::size_t at, std::uint64_t value, std::memory_order order,
                   const std::source_location& from) {
  order = order_of(access::store, order, from);
  announce({at, true, order == std::memory_order_seq_cst});
  auto options = readable(at, order);
  std::erase_if(options, [&](std::size_t i) { return locations_[at].history[i].followed; });
  insert(at, options[choose(options.size())], value, order, false);
}

std::uint64_t engine::modify(std::size_t at, const change& next, std::memory_order order,
                             const std::source_location& from) {
  order = order_of(access::read_modify_write, order, from);
  announce({at, true, order == std::memory_order_seq_cst});
  auto options = readable(at, order);
  std::erase_if(options, [&](std::size_t i) { return locations_[at].history[i].followed; });
  const auto behind = options[choose(options.size())];
  const auto entry = locations_[at].history[behind];
  learn(at, entry, order);
  insert(at, behind, next(entry.value), order, true);
  return entry.value;
}

bool engine::exchange_if(std::size_t at, std::uint64_t& expected, std::uint64_t desired,
                         std::memory_order success, std::memory_order failure,
                         const std::source_location& from) {
  success = order_of(access::read_modify_write, success, from);
  failure = order_of(access::failed_exchange, failure, from);
  announce({at, true, success == std::memory_order_seq_cst || failure == std::memory_order_seq_cst});
  const auto& history = locations_[at].history;
  std::vector<std::size_t> options;
  const auto fails = [&](std::size_t i) { return history[i].value != expected; };
  for (const auto i : readable(at, std::memory_order_relaxed))
    if (history[i].at >= minimum(at, fails(i) ? failure : success) && (fails(i) || !history[i].followed))
      options.push_back(i);
  const auto behind = options[choose(options.size())];
  const auto entry = history[behind];
  if (entry.value != expected) {
    learn(at, entry, failure);
    expected = entry.value;
    return false;
  }
  learn(at, entry, success);
  insert(at, behind, desired, success, true);
  return true;
}

void engine::fence(std::memory_order order, const std::source_location& from) {
  order = order_of(access::fence, order, from);
  const bool consistent = order == std::memory_order_seq_cst;
  if (consistent)
    announce({most_locations, false, true});
  auto& me = self();
  if (acquires(order))
    me.knows.join(me.loaded);
  if (consistent) {
    for (std::size_t at = 0; at < locations_.size(); ++at)
      me.knows.stamps[at] = std::max(me.knows.stamps[at], locations_[at].newest_sc);
    me.knows.join_seen(fences_);
    fences_ = me.knows.stamps;
  }
  if (releases(order)) {
    me.fenced = me.knows;
    ++me.knows.clock[current_];
  }
}

void engine::sleep_while(std::size_t at, std::uint64_t mask, std::uint64_t value) {
  announce({at, true, false});
  self().knows.join_seen(locations_[at].by_futex.stamps);
  const auto options = readable(at, std::memory_order_relaxed);
  const auto entry = locations_[at].history[options[choose(options.size())]];
  learn(at, entry, std::memory_order_relaxed);
  if ((entry.value & mask) != (value & mask))
    return;
  self().current = thread::state::asleep;
  self().bed = at;
  announce({most_locations, false, false}); // returns after another thread has woken this one
}

void engine::wake(std::size_t at) {
  announce({at, true, false});
  locations_[at].by_futex.join_seen(self().knows.stamps);
  for (auto& other : threads_)
    if (other.current == thread::state::asleep && other.bed == at)
      other.current = thread::state::ready;
}

void engine::touch(std::size_t cell, bool writes) {
  if (!in_thread())
    return;
  auto& touched = cells_[cell];
  auto& clock = self().knows.clock;
  bool raced = touched.written > clock[touched.writer] && touched.writer != current_;
  for (std::size_t i = 0; i < threads_.size() && writes; ++i)
    raced = raced || (i != current_ && touched.reads[i] > clock[i]);
  if (raced)
    fail("two threads touch plain memory at the same time");
  if (writes) {
    touched.writer = current_;
    touched.written = clock[current_];
  } else
    touched.reads[current_] = clock[current_];
}

} // namespace farandole::models
