#include "collectives/paths/local/local.hpp"

#include <algorithm>
#include <cassert>
#include <string>

#include "collectives/operation.hpp"
#include "collectives/paths/bundle_bytes.hpp"
#include "collectives/paths/local/local_job.hpp"

namespace farandole {

namespace {

/// Up to here every member reduces everything itself: the bytes are cheaper than a second round of waking
/// each other.
constexpr std::size_t at_once_bytes = std::size_t{128} << 10;

/// The part of a chunk of `bytes` that this member reduces.
chunk_range share_of(std::size_t bytes, std::uint32_t member, std::uint32_t members) {
  const std::size_t each = rounded_up((bytes + members - 1) / members, share_alignment);
  const std::size_t from = std::min(bytes, each * member);
  return {from, std::min(each, bytes - from)};
}

} // namespace

local_path::local_path(std::shared_ptr<window> shared, std::uint32_t rank, waiting policy,
                       std::size_t single_copy_bytes, probe watch)
    : window_(std::move(shared)), rank_(rank), members_(window_->layout().members), waiting_(policy),
      room_(window_, rank, usable_cores()), single_copy_bytes_(single_copy_bytes), probe_(std::move(watch)),
      inputs_(members_) {
  assert(rank_ < members_);
}

outcome local_path::run(const work& bundle, const limits& until) {
  if (broken_)
    return {broken_, nullptr};
  if (auto problem = refuse(bundle))
    return {problem, nullptr};
  lay_out(bundle);
  const tensor_stream& own = streams_[streams_.size() == 1 ? 0 : rank_];
  job now{bundle, until, own, step_, slot_bytes()};
  if (longest_stream(bundle) >= worth_moving_bytes)
    room_.begin(step_);
  bool done = false;
  switch (bundle.operation) {
  case operation::allreduce:
    done = bundle.reduce_op == reduce_op::adasum ? adaptive_sum(now) : allreduce(now);
    break;
  case operation::allgather:
    done = allgather(now);
    break;
  case operation::broadcast:
    done = broadcast(now);
    break;
  case operation::alltoall:
    done = alltoall(now);
    break;
  case operation::reducescatter:
    done = reducescatter(now);
    break;
  default:
    done = barrier(now);
  }
  assert(done == !now.problem);
  broken_ = now.problem;
  return {now.problem, nullptr};
}

std::size_t local_path::longest_stream(const work& bundle) const {
  if (row_of(bundle.operation).rows == row_use::dealt)
    return bundle.longest * members_;
  std::size_t longest = 0;
  for (const auto& stream : streams_)
    longest = std::max(longest, stream.bytes());
  return longest;
}

std::size_t local_path::slot_bytes() const {
  return window_->layout().chunk_bytes / share_alignment * share_alignment;
}

error local_path::refuse(const work& bundle) const {
  if (auto problem = why_not_on_cpu(bundle, members_))
    return problem;
  const std::size_t sizes = bundle.parts.size() * members_;
  const auto rows = row_of(bundle.operation).rows;
  if (rows == row_use::gathered)
    assert(bundle.gathered.size() == sizes);
  if (rows == row_use::dealt)
    assert(bundle.received.size() == sizes);
  if (rows == row_use::dealt || rows == row_use::segmented) {
    assert(bundle.sent.size() == sizes);
    if (window_->layout().chunk_bytes / members_ < share_alignment)
      return {error_kind::unimplemented, "slots of " + std::to_string(window_->layout().chunk_bytes) +
                                             " bytes have no room for " + std::to_string(members_) +
                                             " destinations"};
  }
  if (bundle.operation == operation::broadcast)
    assert(bundle.root >= 0 && static_cast<std::uint32_t>(bundle.root) < members_);
  return {};
}

void local_path::lay_out(const work& bundle) {
  const auto by_member = [&](std::vector<tensor_stream>& streams, const std::vector<std::size_t>& sizes) {
    streams.resize(members_);
    for (auto& one : streams)
      one.clear();
    for (std::size_t i = 0; i < sizes.size(); ++i)
      streams[i % members_].append(sizes[i]);
  };
  switch (row_of(bundle.operation).rows) {
  case row_use::gathered:
    return by_member(streams_, bundle.gathered);
  case row_use::dealt:
    by_member(received_, bundle.received);
    [[fallthrough]];
  case row_use::segmented:
    return by_member(streams_, bundle.sent);
  case row_use::whole:
    streams_.resize(1);
    streams_[0].clear();
    for (const auto& part : bundle.parts)
      streams_[0].append(part.input_bytes);
  }
}

// ---- allreduce -----------------------------------------------------------------------------------

bool local_path::allreduce(job& now) {
  const std::size_t bytes = now.stream.bytes();
  if (bytes == 0)
    return true;
  if (bytes <= std::min(at_once_bytes / members_, now.chunk_bytes))
    return allreduce_at_once(now);
  // With few chunks, smaller ones let the members work at the same time sooner.
  now.chunk_bytes = std::clamp(rounded_up(bytes / 4, share_alignment),
                               std::min(least_chunk_bytes, now.chunk_bytes), now.chunk_bytes);
  now.chunks = chunks_of(bytes, now.chunk_bytes);
  return allreduce_in_chunks(now);
}

/// One round: everybody shows everything, and reduces it all, straight into the outputs.
bool local_path::allreduce_at_once(job& now) {
  const work& bundle = now.bundle;
  const std::uint64_t step = step_++;
  const std::size_t bytes = now.stream.bytes();
  observe(local_phase::pack, step);
  if (!await_slot(now, step))
    return false;
  std::byte* const own = own_slot(step, bytes);
  now.stream.each(0, bytes,
                  [&](const tensor_stream::piece& piece) { copy_input(bundle, piece, own + piece.at); });
  publish(&member_counters::packed, step + 1);
  observe(local_phase::reduce, step);
  if (!await_all(now, &member_counters::packed, step + 1))
    return false;
  observe(local_phase::unpack, step);
  now.stream.each(0, bytes, [&](const tensor_stream::piece& piece) {
    std::byte* const output = bundle.parts[piece.part].output;
    if (!output)
      return;
    for (std::uint32_t member = 0; member < members_; ++member)
      inputs_[member] = slot(member, step) + piece.at;
    if (const std::byte* input = bundle.parts[piece.part].input)
      inputs_[rank_] = input + piece.offset;
    reduce_inputs(bundle, output + piece.offset, inputs_, piece.bytes);
  });
  publish(&member_counters::released, step + 1);
  return true;
}

/// Two rounds a chunk, one chunk ahead: while a member reduces chunk k, its chunk k+1 is there for the
/// others.
bool local_path::allreduce_in_chunks(job& now) {
  step_ += now.chunks;
  // A chunk is packed, reduced and unpacked at a time; with only two slots each would wait for the others'
  // unpacking.
  const std::size_t ahead = window_->layout().slots > 2 ? 1 : 0;
  for (std::size_t k = 0; k < now.chunks + ahead; ++k) {
    if (k < now.chunks && !pack_chunk(now, k))
      return false;
    if (k >= ahead && !reduce_share(now, k - ahead))
      return false;
    if (k >= 2 * ahead && !unpack_shares(now, k - 2 * ahead))
      return false;
  }
  return ahead == 0 || unpack_shares(now, now.chunks - 1);
}

bool local_path::pack_chunk(job& now, std::size_t chunk) {
  const std::uint64_t step = now.first + chunk;
  observe(local_phase::pack, step);
  if (!await_slot(now, step))
    return false;
  const auto [from, bytes] = now.chunk(chunk);
  std::byte* const own = own_slot(step, bytes);
  const auto copy = [&, from = from](std::size_t begin, std::size_t end) {
    now.stream.each(from + begin, end - begin, [&](const tensor_stream::piece& piece) {
      copy_input(now.bundle, piece, own + begin + piece.at);
    });
  };
  // This member's own share is read where it stands, when it stands in one piece.
  const chunk_range share = share_of(bytes, rank_, members_);
  if (input_in_place(now.bundle, now.stream.sole_piece(from + share.from, share.bytes))) {
    copy(0, share.from);
    copy(share.from + share.bytes, bytes);
  } else {
    copy(0, bytes);
  }
  publish(&member_counters::packed, step + 1);
  return true;
}

bool local_path::reduce_share(job& now, std::size_t chunk) {
  const std::uint64_t step = now.first + chunk;
  observe(local_phase::reduce, step);
  const auto [from, bytes] = now.chunk(chunk);
  const chunk_range share = share_of(bytes, rank_, members_);
  if (share.bytes == 0)
    return true;
  if (!await_all(now, &member_counters::packed, step + 1))
    return false;
  for (std::uint32_t member = 0; member < members_; ++member)
    inputs_[member] = slot(member, step) + share.from;
  if (const auto* input = input_in_place(now.bundle, now.stream.sole_piece(from + share.from, share.bytes)))
    inputs_[rank_] = input;
  reduce_inputs(now.bundle, slot(rank_, step) + share.from, inputs_, share.bytes);
  publish(&member_counters::reduced, step + 1);
  return true;
}

bool local_path::unpack_shares(job& now, std::size_t chunk) {
  const std::uint64_t step = now.first + chunk;
  observe(local_phase::unpack, step);
  const auto [from, bytes] = now.chunk(chunk);
  for (std::uint32_t i = 0; i < members_; ++i) {
    const std::uint32_t owner = (rank_ + i) % members_; // each begins elsewhere, with what is there already
    const chunk_range share = share_of(bytes, owner, members_);
    if (share.bytes == 0)
      continue;
    if (owner != rank_ && !await(now, owner, &member_counters::reduced, step + 1))
      return false;
    const std::byte* const reduced = slot(owner, step) + share.from;
    now.stream.each(from + share.from, share.bytes, [&](const tensor_stream::piece& piece) {
      copy_output(now.bundle, piece, reduced + piece.at);
    });
  }
  publish(&member_counters::released, step + 1);
  return true;
}

// ---- waiting for each other ----------------------------------------------------------------------

/// Own slot of this step may be written once nobody reads the step that used it before.
bool local_path::await_slot(job& now, std::uint64_t step) {
  // Before the window has gone round once, the number is below zero, which every counter has reached.
  return await_all(now, &member_counters::released, step + 1 - window_->layout().slots);
}

bool local_path::await_all(job& now, counter which, std::uint64_t reached) {
  for (std::uint32_t i = 1; i < members_; ++i)
    if (!await(now, (rank_ + i) % members_, which, reached))
      return false;
  return true;
}

bool local_path::await(job& now, std::uint32_t member, counter which, std::uint64_t reached) {
  if (probe_)
    probe_(local_phase::wait, reached);
  const auto end =
      waiting_.until_reached(window_->counters(member).*which, static_cast<std::uint32_t>(reached),
                             now.until.abort.word(), now.until.deadline);
  // Even what is there already is not taken after an abort: the other members may be gone.
  if (end == wait_end::reached && !now.until.abort.raised())
    return (window_->counters(member).*which).proves(static_cast<std::uint32_t>(reached)) ||
           damaged(now, member, "progress");
  return end == wait_end::expired ? too_late(now, member) : gave_up(now);
}

bool local_path::gave_up(job& now) {
  now.problem = {error_kind::disconnected, doing(now) + "was given up: the group has changed"};
  return false;
}

bool local_path::too_late(job& now, std::uint32_t member) {
  now.problem = {error_kind::timed_out, doing(now) + "waited for local member " + std::to_string(member) +
                                            " until the " + now.until.deadline_setting + " passed"};
  return false;
}

bool local_path::damaged(job& now, std::uint32_t member, const char* part) {
  now.problem = {error_kind::unknown, doing(now) + "found the " + part + " of local member " +
                                          std::to_string(member) +
                                          " damaged in shared memory: it does not match its checksum"};
  return false;
}

std::string local_path::doing(const job& now) {
  return std::string(row_of(now.bundle.operation).name) + " (bundle " + std::to_string(now.bundle.sequence) +
         ") ";
}

void local_path::publish(counter which, std::uint64_t reached) {
  (window_->counters(rank_).*which).publish(static_cast<std::uint32_t>(reached));
}

void local_path::observe(local_phase phase, std::uint64_t step) {
  room_.look();
  if (probe_)
    probe_(phase, step);
}

std::byte* local_path::slot(std::uint32_t member, std::uint64_t step) const {
  return window_->slot(member, static_cast<std::uint32_t>(step % window_->layout().slots));
}

std::byte* local_path::own_slot(std::uint64_t step, std::size_t bytes) {
  window_->prefault(rank_, static_cast<std::uint32_t>(step % window_->layout().slots), bytes);
  return slot(rank_, step);
}

} // namespace farandole
