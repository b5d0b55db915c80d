#include "tests/world/simulated_listener.hpp"

#include <algorithm>
#include <utility>

namespace farandole::testing {

void simulated_listener::connect(caller caller_entry) {
  const auto which = next_++;
  if (const auto evicted = table_.accept(which, caller_entry.source, world_.current_time()))
    evict(evicted->which);
  const auto hello = caller_entry.hello;
  callers_.emplace(which, std::move(caller_entry));
  if (hello)
    later(*hello, [which](simulated_listener& self) {
      self.table_.ready(which);
      self.serve();
    });
  serve();
}

void simulated_listener::close() {
  for (const auto& [which, caller_entry] : std::exchange(callers_, {})) {
    table_.remove(which);
    caller_entry.evicted();
  }
}

void simulated_listener::serve() {
  while (const auto next = table_.begin_next(world_.current_time()))
    if (const auto& ends = callers_.at(*next).ends)
      later(*ends, [which = *next](simulated_listener& self) { self.settle(which); });
  const auto due = table_.next_due();
  if (!due || (looks_ && *looks_ <= *due))
    return;
  looks_ = due;
  later(std::max<duration>(*due - world_.current_time(), {}), [due = *due](simulated_listener& self) {
    if (self.looks_ == due)
      self.look_again();
  });
}

void simulated_listener::look_again() {
  looks_.reset();
  for (const auto& eviction : table_.overdue(world_.current_time()))
    evict(eviction.which);
  serve();
}

void simulated_listener::settle(handshake_table::connection which) {
  auto found = callers_.extract(which);
  if (found.empty())
    return;
  table_.remove(which);
  found.mapped().shaken();
  serve();
}

void simulated_listener::evict(handshake_table::connection which) {
  if (auto found = callers_.extract(which); !found.empty())
    found.mapped().evicted();
}

void simulated_listener::later(duration wait, std::function<void(simulated_listener&)> action) {
  world_.later(wait, [self = weak_from_this(), action = std::move(action)] {
    if (const auto listener = self.lock())
      action(*listener);
  });
}

} // namespace farandole::testing
