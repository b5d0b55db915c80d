#include "tests/models/engine.hpp"

#include <cstdlib>
#include <utility>

namespace farandole::models {

engine* running = nullptr;

// ---- the search ----------------------------------------------------------------------------------

exploration engine::run() {
  running = this;
  do {
    play();
    if (found_.executions > most_executions)
      found_.failure = "more executions than can be explored";
  } while (found_.failure.empty() && next_path());
  running = nullptr;
  return found_;
}

bool engine::next_path() {
  while (!path_.empty() && path_.back().taken + 1 == path_.back().options)
    path_.pop_back();
  if (path_.empty())
    return false;
  ++path_.back().taken;
  return true;
}

std::size_t engine::choose(std::size_t options) {
  assert(options > 0);
  if (options == 1)
    return 0;
  if (depth_ == path_.size())
    path_.push_back({options, 0});
  assert(path_[depth_].options == options && "threads do the same when they see the same");
  return path_[depth_++].taken;
}

void engine::play() {
  depth_ = steps_ = pruned_ = 0;
  current_ = most_threads;
  ended_ = false;
  locations_.clear();
  cells_.clear();
  fences_ = {};
  threads_.clear();
  scenario current = which_();
  assert(!current.threads.empty() && current.threads.size() <= most_threads);
  threads_.resize(current.threads.size());
  // Each thread runs up to its first access of an atomic.
  starting_ = true;
  for (current_ = 0; current_ < threads_.size(); ++current_) {
    self().body = current.threads[current_];
    self().knows.clock[current_] = 1;
    getcontext(&self().context);
    self().context.uc_stack.ss_sp = stacks_[current_].get();
    self().context.uc_stack.ss_size = stack_bytes;
    self().context.uc_link = nullptr;
    makecontext(&self().context, &engine::enter, 0);
    swapcontext(&outside_, &self().context);
    if (!found_.failure.empty())
      return;
  }
  starting_ = false;
  current_ = most_threads;
  schedule();
  if (in_thread())
    swapcontext(&outside_, &self().context);
  if (!ended_ || !found_.failure.empty())
    return;
  current_ = most_threads;
  ++found_.executions;
  try {
    current.at_end();
  } catch (const std::string& reason) {
    found_.failure = reason;
  }
}

void engine::enter() {
  running->self().body();
  running->self().current = thread::state::ended;
  if (running->starting_)
    running->leave();
  running->schedule();
  setcontext(&running->self().context);
}

/// Registers the next access of the calling thread, and returns when it is its turn.
void engine::announce(const step& next) {
  self().next = next;
  if (starting_)
    return leave();
  const auto own = current_;
  schedule();
  if (current_ != own)
    swapcontext(&threads_[own].context, &self().context);
}

/// Sets current_ to the thread that takes the next step, or to most_threads if the execution is over.
void engine::schedule() {
  std::vector<std::size_t> candidates;
  bool all_ended = true, can_go_on = false;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    all_ended = all_ended && threads_[i].current == thread::state::ended;
    if (threads_[i].current != thread::state::ready)
      continue;
    can_go_on = true;
    if ((pruned_ >> i & 1) == 0)
      candidates.push_back(i);
  }
  const auto asking = current_;
  current_ = most_threads;
  ended_ = all_ended;
  if (all_ended || (can_go_on && candidates.empty()))
    ;
  else if (!can_go_on || ++steps_ > most_steps)
    found_.failure = can_go_on ? "the threads go on for ever" : "threads sleep that nobody will wake";
  else {
    const auto taken = choose(candidates.size());
    for (std::size_t i = 0; i < taken; ++i)
      pruned_ |= 1u << candidates[i];
    current_ = candidates[taken];
    for (std::size_t i = 0; i < threads_.size(); ++i)
      if (dependent(threads_[i].next, self().next))
        pruned_ &= ~(1u << i);
    return;
  }
  // The execution is over: the calling thread returns to play().
  if (asking < threads_.size()) {
    current_ = asking;
    leave();
  }
}

void engine::fail(std::string reason) {
  if (!in_thread())
    throw reason;
  found_.failure = std::move(reason);
  leave();
  std::abort(); // no thread continues a failed execution
}

std::memory_order engine::order_of(access kind, std::memory_order declared,
                                   const std::source_location& from) {
  site site{from.file_name(), from.line(), from.column(), kind};
  const bool weakened = changed_ && changed_->operation_site == site;
  found_.operations.emplace(std::move(site), declared);
  return weakened ? changed_->order : declared;
}

} // namespace farandole::models
