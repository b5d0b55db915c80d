#include "tests/models/checker.hpp"

#include "tests/models/engine.hpp"

namespace farandole::models {

exploration explore(const program& which, const std::optional<weakening>& changed) {
  return std::make_unique<engine>(which, changed)->run();
}

void require(bool holds, const char* claim) {
  if (!holds)
    running->fail(claim);
}

atomic_word::atomic_word(std::uint64_t initial) : location_(running->add_location(initial)) {}

std::uint64_t atomic_word::read(std::memory_order order, const std::source_location& from) const {
  return running->read(location_, order, from);
}
void atomic_word::write(std::uint64_t value, std::memory_order order, const std::source_location& from) {
  running->write(location_, value, order, from);
}
std::uint64_t atomic_word::modify(change change, std::uint64_t value, std::memory_order order,
                                  const std::source_location& from) {
  return running->modify(
      location_, [&](std::uint64_t old) { return change == change::add ? old + value : value; }, order, from);
}
bool atomic_word::exchange_if(std::uint64_t& expected, std::uint64_t desired, std::memory_order success,
                              std::memory_order failure, const std::source_location& from) {
  return running->exchange_if(location_, expected, desired, success, failure, from);
}

void fence(std::memory_order order, std::source_location from) {
  running->fence(order, from);
}
void sleep_while(const atomic_word& word, std::uint64_t mask, std::uint64_t value) {
  running->sleep_while(word.location_, mask, value);
}
void wake_sleepers(const atomic_word& word) {
  running->wake(word.location_);
}

plain::plain() : cell_(running->add_cell()) {}
std::uint64_t plain::read() const {
  running->touch(cell_, false);
  return value_;
}
void plain::write(std::uint64_t value) {
  running->touch(cell_, true);
  value_ = value;
}

std::string to_string(std::memory_order order) {
  switch (order) {
  case std::memory_order_relaxed:
    return "relaxed";
  case std::memory_order_acquire:
  case std::memory_order_consume:
    return "acquire";
  case std::memory_order_release:
    return "release";
  case std::memory_order_acq_rel:
    return "acq_rel";
  default:
    return "seq_cst";
  }
}

std::string to_string(const site& access_site) {
  static const char* const kinds[] = {"load", "store", "read-modify-write", "failed exchange", "fence"};
  return access_site.file + ":" + std::to_string(access_site.line) + ":" +
         std::to_string(access_site.column) + " (" + kinds[static_cast<std::size_t>(access_site.kind)] + ")";
}

std::vector<std::memory_order> weaker_orders(access kind, std::memory_order order) {
  std::vector<std::memory_order> all;
  if (order == std::memory_order_relaxed)
    return all;
  const bool reads = kind != access::store, writes = kind != access::load && kind != access::failed_exchange;
  const bool strongest = order == std::memory_order_seq_cst;
  if (reads && writes && strongest)
    all.push_back(std::memory_order_acq_rel);
  if (reads && (strongest || order == std::memory_order_acq_rel))
    all.push_back(std::memory_order_acquire);
  if (writes && (strongest || order == std::memory_order_acq_rel))
    all.push_back(std::memory_order_release);
  all.push_back(std::memory_order_relaxed);
  return all;
}

} // namespace farandole::models
