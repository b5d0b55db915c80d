// What a simulated worker asks of the others, and what must come of it.
#include <algorithm>
#include <utility>

#include "tests/world/elastic_worker.hpp"

namespace farandole::testing {

std::int64_t elastic_worker::mix(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(
      dice::mixed(static_cast<std::uint64_t>(a) * 31 + static_cast<std::uint64_t>(b)) >> 8);
}

set_key elastic_worker::set(std::uint32_t number) const {
  auto key = global_set_of(shared_->generation, shared_->members);
  key.number = number;
  return key;
}

void elastic_worker::ask(door& where, std::uint32_t set_number, const std::string& name, operation what,
                         reduce_op how, std::vector<std::int64_t> in, answer told) {
  auto one = std::make_shared<asked>();
  one->name = name;
  one->in = std::move(in);
  one->out.resize(one->in.size());
  one->set = set(set_number);
  one->count = counts_[{one->set, name}]++;
  one->since = stage_.world.now();
  signature like;
  like.operation = what;
  like.dtype = dtype::int64;
  like.reduce_op = how;
  like.root = what == operation::broadcast ? 0 : -1;
  like.shape = {static_cast<std::int64_t>(one->in.size())};
  auto operation = where.submit({one->name,
                                 like,
                                 reinterpret_cast<const std::byte*>(one->in.data()),
                                 reinterpret_cast<std::byte*>(one->out.data()),
                                 0,
                                 {},
                                 told_by::waiting});
  if (!operation)
    return failed(operation.error());
  asked_.push_back(one);
  one->operation = std::move(*operation);
  one->operation->on_settled([this, one, told = std::move(told), mine = incarnation_] {
    ++one->settled;
    const auto problem = one->operation->problem;
    const bool on_board = one->operation->seat != nullptr;
    // The caller's thread wakes some time later.
    after(std::chrono::microseconds(1 + draw_.below(20)), [this, one, told, mine, problem, on_board] {
      one->operation = {};
      if (!problem)
        stage_.log.brought(one->set, one->name, one->count, one->out);
      if (on_board)
        stage_.log.ended_on_board(one->set, one->name, one->count, !problem);
      if (mine == incarnation_)
        told(*one, problem);
    });
  });
  if (is_on_board(one->operation->now())) {
    where.look_after(*one->operation);
    wait_on_board(one, incarnation_, std::chrono::microseconds(30));
  }
}

// A caller's thread that wakes and goes on with what it waits for, ever less often.
void elastic_worker::wait_on_board(const std::shared_ptr<asked>& one, std::uint64_t incarnation,
                                   std::chrono::microseconds longest) {
  constexpr std::chrono::microseconds longest_of_all{20'000};
  const auto part =
      static_cast<std::uint64_t>(mix(++looks_, slot_)) % static_cast<std::uint64_t>(longest.count());
  after(std::chrono::microseconds(1 + part), [this, one, incarnation, longest, longest_of_all] {
    const auto operation = one->operation; // it may be settled here, and forgotten
    if (!operation || incarnation != incarnation_ || operation->try_settle())
      return;
    if (is_on_board(operation->now()))
      wait_on_board(one, incarnation, std::min(2 * longest, longest_of_all));
  });
}

std::optional<silence_watch::standing_member> elastic_worker::standing_now() const {
  if (gone_ || !shared_ || !shared_->alive || shared_->generation != last_generation_)
    return std::nullopt;
  silence_watch::standing_member now{slot_, in_since_, {}};
  const auto oldest =
      std::ranges::find_if(asked_, [](const std::shared_ptr<asked>& one) { return one->settled == 0; });
  if (oldest != asked_.end())
    now.waits_since = (*oldest)->since;
  return now;
}

std::vector<std::int32_t> elastic_worker::slots_with_it() const {
  std::vector<std::int32_t> slots;
  for (const auto& one : shared_->members)
    slots.push_back(one.slot);
  return slots;
}

std::int64_t elastic_worker::part_of(std::int32_t slot, std::int64_t round, std::size_t tensor) const {
  return mix(mix(slot + 1, round), static_cast<std::int64_t>(tensor)) >> 8;
}

std::int64_t elastic_worker::sum(std::int64_t round, std::size_t tensor, bool in_set) const {
  std::int64_t all = 0;
  for (const auto& one : shared_->members)
    if (!in_set || one.rank > 0)
      all += part_of(one.slot, round, tensor);
  return all;
}

} // namespace farandole::testing
