#include "collectives/transport/shm/caller_collective.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "collectives/transport/shm/placed_rows.hpp"

namespace farandole {

namespace {

/// Maximum size of a slot. Larger tensors pass through several slots, so that the staged data stays in the
/// cache of a core.
constexpr std::size_t most_slot_bytes = std::size_t{1} << 20;
constexpr std::uint32_t ring_slots = 4;
/// Number of collectives of large tensors that a member can run at the same time.
constexpr std::size_t rings = 4;

round_need::event event_of(shm_channel::counter which) {
  if (which == &member_progress::packed)
    return round_need::event::packed;
  return which == &member_progress::reduced ? round_need::event::reduced : round_need::event::released;
}

/// Distributes rows evenly. The first members get one more row each if there is a remainder.
std::vector<std::int64_t> even_rows(std::int64_t rows, std::uint32_t members) {
  std::vector<std::int64_t> parts(members, rows / members);
  for (std::int64_t member = 0; member < rows % members; ++member)
    ++parts[static_cast<std::size_t>(member)];
  return parts;
}

} // namespace

caller_collective::caller_collective(caller_job job)
    : shm_channel(job.fast_path.rank(), job.fast_path.members()), job_(std::move(job)) {
  assert(job_.cell.task().use == fast_path_use::collective);
}

caller_collective::~caller_collective() {
  release();
}

// After a round was given up, a slow member may still read the staged data, but it discards it; so the
// staging memory can be freed at once. A slow member may also still write into the result until the
// generation ends; so that memory is abandoned and not reused.
void caller_collective::release() {
  if (staged_ && complete_)
    job_.fast_path.heap().give_back_when(*staged_,
                                         [where = &job_.fast_path, cell = job_.cell,
                                          last = static_cast<std::uint32_t>(job_.first_step + steps())] {
                                           for (std::uint32_t member = 0; member < where->members(); ++member)
                                             if (!where->progress(cell, member).released.has_reached(last))
                                               return false;
                                           return true;
                                         });
  else if (staged_)
    job_.fast_path.heap().give_back(*staged_);
  staged_.reset();
  if (result_ && shown_place_ && !complete_)
    result_memory::abandon(std::move(result_));
}

bool caller_collective::prepare() {
  describe();
  if (!take_staging())
    return false;
  take_place();
  return row_of(bundle_.operation).rows != row_use::segmented || own_segment();
}

void caller_collective::show() {
  if (!row_of(bundle_.operation).first_dim_free()) {
    bundle_.parts[0].output = result_ ? result_.get() : job_.tensor.output;
    streams_.lay_out(bundle_, members());
    collective_ = make_collective({bundle_, streams_, *this, job_.first_step, false});
    collective_->run(); // stages the first chunks; the later stages wait until all members have published
  }
  job_.fast_path.show(job_.cell, job_.round, own_descriptor());
}

void caller_collective::describe() {
  const auto& task = job_.cell.task();
  bundle_.operation = task.operation;
  bundle_.dtype = task.dtype;
  bundle_.reduce_op = task.reduce_op;
  bundle_.prescale = task.prescale;
  bundle_.postscale = task.postscale;
  bundle_.root = task.root;
  bundle_.parts.push_back({job_.tensor.input, job_.tensor.output, job_.tensor.bytes, {}});
  if (row_of(task.operation).rows == row_use::segmented)
    for (const auto rows : even_rows(job_.tensor.rows, members()))
      bundle_.sent.push_back(static_cast<std::size_t>(rows) * job_.tensor.row_bytes);
}

/// Maximum number of bytes that one collective stages for a member.
std::size_t caller_collective::most_staged() const {
  const auto share = job_.fast_path.staging(rank()).size() / rings;
  return std::min(share, ring_slots * most_slot_bytes) / ring_slots / share_alignment * share_alignment *
         ring_slots;
}

// All members must use the same slot size, so it depends only on values that every member knows before it
// publishes.
bool caller_collective::take_staging() {
  const auto most_slot = most_staged() / ring_slots;
  auto wanted = job_.tensor.bytes;
  switch (row_of(bundle_.operation).rows) {
  case row_use::whole:
    break;
  case row_use::segmented:
    wanted =
        members() * rounded_up(*std::max_element(bundle_.sent.begin(), bundle_.sent.end()), share_alignment);
    break;
  case row_use::gathered:
  case row_use::dealt:
    wanted = most_staged(); // the sizes of the members differ
  }
  if (most_slot < members() * share_alignment)
    return false;
  slot_bytes_ = std::clamp(rounded_up(wanted, share_alignment), members() * share_alignment, most_slot);
  slots_ = wanted > slot_bytes_ ? ring_slots : 1;
  if (bundle_.operation == operation::broadcast && static_cast<std::uint32_t>(bundle_.root) != rank())
    return true; // this member stages nothing
  staged_ = job_.fast_path.heap().take(slots_ * slot_bytes_);
  return staged_.has_value();
}

void caller_collective::take_place() {
  const bool free_rows = row_of(bundle_.operation).first_dim_free();
  if (!free_rows || !job_.fast_path.heaps())
    return;
  result_ = job_.results.take(job_.expected_bytes, job_.fast_path.heaps()->own);
  shown_place_ = result_ != nullptr;
}

row_descriptor caller_collective::own_descriptor() const {
  row_destination destination{job_.fast_path.heaps() ? 0 : row_destination::no_heap, 0};
  if (shown_place_)
    destination = {job_.fast_path.heaps()->own->offset_of(result_.get()), result_.get_deleter().bytes};
  std::vector<std::int64_t> rows = job_.tensor.splits;
  if (row_of(bundle_.operation).rows == row_use::gathered)
    rows.assign(members(), job_.tensor.rows);
  return row_descriptor(staged_ ? staged_->at : 0, destination, rows, members());
}

caller_collective::state caller_collective::advance() try {
  if (problem_)
    return state::failed;
  if (!opened_) {
    if (!job_.fast_path.ready(job_.cell, job_.round))
      return state::waits;
    problem_ = open();
    if (problem_)
      return state::failed;
  }
  switch (collective_->run()) {
  case wait_status::satisfied:
    complete_ = true;
    return state::done;
  case wait_status::would_block:
    return state::waits;
  case wait_status::failed:
    break;
  }
  return problem_ ? state::failed : state::given_up;
} catch (const std::bad_alloc&) {
  problem_ = {error_kind::unknown, "no memory"}; // short enough that the string allocates nothing
  return state::failed;
}

error caller_collective::open() {
  auto all = job_.fast_path.descriptors(job_.cell, job_.round, own_descriptor());
  if (!all)
    return all.error();
  for (std::uint32_t member = 0; member < members(); ++member) {
    const auto staging = job_.fast_path.staging(member);
    const auto at = (*all)[member].staged_at();
    const auto needed = slots_ * slot_bytes_;
    if (at > staging.size() || needed > staging.size() - at || at % share_alignment != 0)
      return {error_kind::unknown, "local member " + std::to_string(member) + " stages " +
                                       std::to_string(needed) + " bytes at " + std::to_string(at) +
                                       ", beyond its memory"};
    bases_.push_back(staging.data() + at);
  }
  if (row_of(bundle_.operation).first_dim_free())
    if (auto problem = lay_out_rows(*all))
      return problem;
  constexpr std::size_t many_bytes = worth_moving_bytes;
  if (std::max(job_.tensor.bytes, result_bytes_) >= many_bytes)
    job_.fast_path.spread(job_.cell, job_.round);
  opened_ = true;
  return {};
}

// Members write into each other's results if all have a destination that is large enough, otherwise the
// data goes through the slots.
error caller_collective::lay_out_rows(std::span<const row_descriptor> all) {
  auto plan = plan_rows(bundle_.operation, all, rank(), job_.tensor.row_bytes);
  if (!plan)
    return plan.error();
  first_dims_ = plan->rows;
  if (plan->placed) {
    std::vector<placed_copy> copies;
    for (const auto& peer_write : plan->peer_writes) {
      auto* const to = job_.fast_path.heaps()->views[peer_write.member].at(peer_write.at, peer_write.bytes);
      if (!to)
        return {error_kind::unknown, "local member " + std::to_string(peer_write.member) +
                                         " has no place for " + std::to_string(peer_write.bytes) +
                                         " bytes where it says"};
      copies.push_back({job_.tensor.input + peer_write.from, to, peer_write.bytes});
    }
    result_bytes_ = plan->bytes;
    collective_ = make_placed_rows({bundle_, streams_, *this, job_.first_step, false}, std::move(copies));
    return {};
  }
  if (result_ && std::exchange(shown_place_, false))
    result_.reset(); // all members see that a destination is too small, so no member writes into any
  if (!own_result(plan->bytes))
    return {error_kind::unknown, "no memory for the " + std::to_string(plan->bytes) + " bytes that come"};
  bundle_.parts[0].output = result_.get();
  if (row_of(bundle_.operation).rows == row_use::gathered) {
    bundle_.gathered = plan->received;
  } else {
    bundle_.sent = plan->sent;
    bundle_.received = plan->received;
    bundle_.longest = plan->longest;
  }
  streams_.lay_out(bundle_, members());
  collective_ = make_collective({bundle_, streams_, *this, job_.first_step, false});
  return {};
}

bool caller_collective::own_segment() {
  first_dims_ = {even_rows(job_.tensor.rows, members())[rank()]};
  result_bytes_ = bundle_.sent[rank()];
  return job_.tensor.output || own_result(result_bytes_);
}

bool caller_collective::own_result(std::size_t bytes) {
  result_ = job_.results.take(bytes);
  result_bytes_ = bytes;
  return result_ != nullptr;
}

// ---- implementation of shm_channel ---------------------------------------------------------------

std::byte* caller_collective::slot(std::uint32_t member, std::uint64_t step) {
  auto* const base = bases_.empty() ? job_.fast_path.staging(rank()).data() + staged_->at : bases_[member];
  return base + (step - job_.first_step) % slots_ * slot_bytes_;
}

std::byte* caller_collective::own_slot(std::uint64_t step, std::size_t bytes) {
  auto* const own = slot(rank(), step);
  job_.fast_path.heap().prefault(static_cast<std::size_t>(own - job_.fast_path.staging(rank()).data()) +
                                 bytes);
  return own;
}

wait_status caller_collective::await(counter which, std::uint32_t member, std::uint64_t reached) {
  if (!opened_)
    return wait_status::would_block; // need() still says `shown`: it waits for all members
  const auto wanted = static_cast<std::uint32_t>(reached);
  const auto& theirs = job_.fast_path.progress(job_.cell, member).*which;
  if (!theirs.has_reached(wanted)) {
    wait_for({event_of(which), member, wanted});
    return wait_status::would_block;
  }
  if (theirs.proves(wanted))
    return wait_status::satisfied;
  problem_ = {error_kind::unknown, "found the progress of local member " + std::to_string(member) +
                                       " damaged in shared memory: it does not match its checksum"};
  return wait_status::failed;
}

// No member reads the slots at the start of a round, so their first use needs no wait.
wait_status caller_collective::await_slot(std::uint64_t step) {
  return step - job_.first_step < slots_ ? wait_status::satisfied : shm_channel::await_slot(step);
}

void caller_collective::publish(counter which, std::uint64_t reached) {
  (job_.fast_path.progress(job_.cell, rank()).*which).publish(static_cast<std::uint32_t>(reached));
}

wait_status caller_collective::commit(bool last) {
  if (!opened_)
    return wait_status::would_block; // a root may have staged everything before the others have published
  if (!std::exchange(begun_, true) &&
      job_.fast_path.begin_output(job_.cell, job_.round) == round_outcome::given_up)
    return wait_status::failed;
  if (last && job_.fast_path.complete(job_.cell, job_.round) == round_outcome::given_up)
    return wait_status::failed;
  return wait_status::satisfied;
}

} // namespace farandole
