// The operations of a simulated worker, and their expected results.
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

void elastic_worker::ask(submission_queue& queue, std::uint32_t set_number, const std::string& name,
                         operation op, reduce_op reduction, std::vector<std::int64_t> in, answer callback) {
  auto request = std::make_shared<asked>();
  request->name = name;
  request->in = std::move(in);
  request->output.resize(request->in.size());
  request->set = set(set_number);
  request->count = counts_[{request->set, name}]++;
  request->since = stage_.world.now();
  signature like;
  like.operation = op;
  like.dtype = dtype::int64;
  like.reduce_op = reduction;
  like.root = op == operation::broadcast ? 0 : -1;
  like.shape = {static_cast<std::int64_t>(request->in.size())};
  auto operation = queue.submit({request->name,
                                 like,
                                 reinterpret_cast<const std::byte*>(request->in.data()),
                                 reinterpret_cast<std::byte*>(request->output.data()),
                                 0,
                                 {},
                                 completion_mode::wait});
  if (!operation)
    return failed(operation.error());
  asked_.push_back(request);
  request->operation = std::move(*operation);
  request->operation->on_settled([this, request, callback = std::move(callback), number = incarnation_] {
    ++request->settled;
    const auto problem = request->operation->problem;
    const bool on_fast_path = request->operation->taken_slot != nullptr;
    // The calling thread wakes some time later.
    after(std::chrono::microseconds(1 + draw_.below(20)),
          [this, request, callback, number, problem, on_fast_path] {
            request->operation = {};
            if (!problem)
              stage_.log.brought(request->set, request->name, request->count, request->output);
            if (on_fast_path)
              stage_.log.ended_on_fast_path(request->set, request->name, request->count, !problem);
            if (number == incarnation_)
              callback(*request, problem);
          });
  });
  if (is_on_fast_path(request->operation->now())) {
    queue.settle_from_loop(*request->operation);
    wait_on_fast_path(request, incarnation_, std::chrono::microseconds(30));
  }
}

// Plays a calling thread that wakes and advances its operation, at growing intervals.
void elastic_worker::wait_on_fast_path(const std::shared_ptr<asked>& request, std::uint64_t incarnation,
                                       std::chrono::microseconds longest) {
  constexpr std::chrono::microseconds longest_of_all{20'000};
  const auto part =
      static_cast<std::uint64_t>(mix(++looks_, slot_)) % static_cast<std::uint64_t>(longest.count());
  after(std::chrono::microseconds(1 + part), [this, request, incarnation, longest, longest_of_all] {
    const auto operation = request->operation; // keeps it, since it may be settled and released here
    if (!operation || incarnation != incarnation_ || operation->try_settle())
      return;
    if (is_on_fast_path(operation->now()))
      wait_on_fast_path(request, incarnation, std::min(2 * longest, longest_of_all));
  });
}

std::optional<silence_watch::waiting_member> elastic_worker::waiting_now() const {
  if (gone_ || !shared_ || !shared_->alive || shared_->generation != last_generation_)
    return std::nullopt;
  silence_watch::waiting_member current{slot_, in_since_, {}};
  const auto oldest = std::ranges::find_if(
      asked_, [](const std::shared_ptr<asked>& request) { return request->settled == 0; });
  if (oldest != asked_.end())
    current.waits_since = (*oldest)->since;
  return current;
}

std::vector<std::int32_t> elastic_worker::slots_with_it() const {
  std::vector<std::int32_t> slots;
  for (const auto& member : shared_->members)
    slots.push_back(member.slot);
  return slots;
}

std::int64_t elastic_worker::part_of(std::int32_t slot, std::int64_t round, std::size_t tensor) const {
  return mix(mix(slot + 1, round), static_cast<std::int64_t>(tensor)) >> 8;
}

std::int64_t elastic_worker::sum(std::int64_t round, std::size_t tensor, bool in_set) const {
  std::int64_t all = 0;
  for (const auto& member : shared_->members)
    if (!in_set || member.rank > 0)
      all += part_of(member.slot, round, tensor);
  return all;
}

} // namespace farandole::testing
