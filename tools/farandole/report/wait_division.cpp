#include "tools/farandole/report/wait_division.hpp"

#include <algorithm>

#include "messages/record/event_kinds.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

namespace {

/// A rank whose part of a transfer takes longer than this many times the median is slow in it. Parts of equal size vary
/// by some percent from rank to rank.
constexpr double usual_variation = 1.1;

trace_time overlap(const wait_part& all, trace_time begin, trace_time end) {
  return std::max(trace_time{0}, std::min(all.end, end) - std::max(all.begin, begin));
}

/// Messages that follow each other in an operation: the result of an allreduce is sent when all parts have arrived.
int messages_in_row(std::uint8_t recorded) {
  const auto number = recorded & static_cast<std::uint8_t>(~adasum_detail);
  return number == static_cast<std::uint8_t>(operation::allreduce) ? 2 : 1;
}

/// The share `part` / `whole` of a length.
trace_time share_of(trace_time length, trace_time part, trace_time whole) {
  if (whole.count() <= 0)
    return trace_time{0};
  return std::chrono::duration_cast<trace_time>(
      length * (static_cast<double>(part.count()) / static_cast<double>(whole.count())));
}

/// Appends parts of one wait, from its begin to its end.
class part_writer {
public:
  part_writer(const wait_part& all, std::vector<wait_part>& parts)
      : all_(all), next_(all.begin), parts_(parts) {}

  /// The wait has this use from the end of the part before up to `end`. Returns the part, null if it is empty, for what else
  /// is known of it; the next call invalidates it.
  wait_part* fill(trace_time end, time_use use, std::int32_t rank = -1,
                  trace_time avoidable = trace_time{0}) {
    end = std::min(end, all_.end);
    if (end <= next_)
      return nullptr;
    auto& part = parts_.emplace_back(all_);
    part.begin = next_;
    part.end = end;
    part.use = use;
    part.rank = rank;
    part.avoidable = std::min(avoidable, end - next_);
    next_ = end;
    return &part;
  }
  trace_time next() const { return next_; }

private:
  wait_part all_;
  trace_time next_;
  std::vector<wait_part>& parts_;
};

} // namespace

wait_division::wait_division(std::span<const rank_trace> traces, const matched_calls& matched,
                             const traced_tensors& tensors)
    : traces_(traces), matched_(matched), tensors_(tensors), hosts_(traces) {
  const auto is_ready = [](const traced_call& call) { return call.ready.has_value(); };
  for (std::size_t i = 0; i < traces.size(); ++i) {
    trace_of_rank_.emplace(traces[i].rank, i);
    if (!leader_ && std::ranges::any_of(traces[i].calls, is_ready))
      leader_ = i;
  }
  if (leader_)
    delays_.emplace(traces, matched, hosts_, *leader_);
  for (std::size_t operation = 0; operation < matched.operations.size(); ++operation)
    operations_.push_back(facts_of(operation));
  collect_transfers();
}

wait_division::operation_facts wait_division::facts_of(std::size_t number) const {
  const auto& operation = matched_.operations[number];
  operation_facts facts;
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    if (!operation.calls[i])
      continue;
    const auto time = traces_[i].calls[*operation.calls[i]].called;
    auto& last = facts.last;
    if (!last) {
      facts.axis = traces_[i].axis;
      last = last_call{traces_[i].rank, i, time, std::nullopt};
    } else if (traces_[i].axis != facts.axis) {
      facts.comparable = false;
    } else if (time > last->time) {
      last = last_call{traces_[i].rank, i, time, last->time};
    } else {
      last->second = std::max(last->second.value_or(time), time);
    }
  }
  facts.by_leader = last_by_leader(operation);
  if (facts.comparable)
    facts.late = late_host_of(number);
  return facts;
}

// A relay requests for all ranks of its host, so of this host the rank that called last counts.
std::optional<wait_division::last_call>
wait_division::last_by_leader(const matched_operation& operation) const {
  const auto* on_leader =
      leader_ && operation.calls[*leader_] ? &traces_[*leader_].calls[*operation.calls[*leader_]] : nullptr;
  if (!on_leader || !on_leader->ready)
    return std::nullopt;
  last_call last;
  last.by_leader = true;
  last.rank = on_leader->ready->last;
  last.time = on_leader->ready->time;
  const auto reporter = trace_of_rank_.find(last.rank);
  if (reporter == trace_of_rank_.end())
    return last;
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    if (!operation.calls[i] || hosts_.of(i) != hosts_.of(reporter->second))
      continue;
    const auto called = traces_[i].calls[*operation.calls[i]].called;
    if (last.trace && called <= last.time)
      continue;
    last.time = called;
    last.trace = i;
    last.rank = traces_[i].rank;
  }
  return last;
}

std::optional<wait_division::late_host> wait_division::late_host_of(std::size_t number) const {
  if (!delays_)
    return std::nullopt;
  const auto& operation = matched_.operations[number];
  const auto& delays = delays_->of(number);
  if (std::ranges::all_of(delays, [](const host_delay& delay) { return delay.excess.count() == 0; }))
    return std::nullopt;
  std::optional<late_host> late;
  std::vector<std::optional<std::size_t>> last(hosts_.size()); // trace that calls last, by host
  const auto called = [&](std::size_t trace) { return traces_[trace].calls[*operation.calls[trace]].called; };
  for (std::size_t i = 0; i < traces_.size(); ++i)
    if (auto& of_host = last[hosts_.of(i)]; operation.calls[i] && (!of_host || called(i) > called(*of_host)))
      of_host = i;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    const auto& delay = delays[host];
    if (delay.excess.count() == 0 || !last[host] || !last[delay.cause])
      continue;
    const auto arrival = called(*last[host]) + delay.excess;
    if (!late || arrival > late->arrival)
      late = late_host{*last[delay.cause], delay.cause, arrival, delay.excess};
  }
  return late;
}

void wait_division::collect_transfers() {
  struct part {
    std::size_t trace;
    const traced_transfer* transfer;
    trace_time own() const { return transfer->ran - transfer->waited; }
  };
  std::map<bundle_key, std::vector<part>> bundles;
  for (std::size_t i = 0; i < traces_.size(); ++i)
    for (const auto& [bundle, transfer] : traces_[i].transfers)
      bundles[bundle].push_back({i, &transfer});
  std::vector<trace_time> times;
  for (const auto& [bundle, members] : bundles) {
    if (members.size() < 2)
      continue;
    transfer_facts facts;
    const auto axis = traces_[members.front().trace].axis;
    if (std::ranges::all_of(members,
                            [&](const part& member) { return traces_[member.trace].axis == axis; })) {
      const auto last =
          std::ranges::max_element(members, {}, [](const part& member) { return member.transfer->begin; });
      facts.last = last->trace;
      facts.last_begin = last->transfer->begin;
    }
    facts.measured =
        std::ranges::any_of(members, [](const part& member) { return member.transfer->waited.count() > 0; });
    times.clear();
    for (const auto& member : members)
      times.push_back(member.own());
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
    std::ranges::nth_element(times, middle);
    const auto median = *middle;
    const auto slowest = std::ranges::max_element(members, {}, &part::own);
    facts.slowest = slowest->trace;
    if (static_cast<double>(slowest->own().count()) > usual_variation * static_cast<double>(median.count()))
      facts.lag = slowest->own() - median;
    transfers_[bundle] = facts;
  }
}

const traced_call* wait_division::call_on(std::size_t operation, std::size_t trace) const {
  const auto& call = matched_.operations[operation].calls[trace];
  return call ? &traces_[trace].calls[*call] : nullptr;
}

std::optional<wait_division::last_call> wait_division::last_call_of(std::size_t operation,
                                                                    std::size_t waiting) const {
  const auto& facts = operations_[operation];
  // The leader also knows ranks that have no record here.
  if (facts.by_leader && (!facts.comparable || !facts.by_leader->trace)) {
    auto last = *facts.by_leader;
    const auto time = time_on(operation, waiting, last);
    if (!time)
      return std::nullopt;
    last.time = *time;
    return last;
  }
  return facts.comparable ? facts.last : std::nullopt;
}

std::optional<trace_time> wait_division::time_on(std::size_t operation, std::size_t waiting,
                                                 const last_call& by_leader) const {
  const auto& trace = traces_[waiting];
  if (by_leader.trace && traces_[*by_leader.trace].axis == trace.axis)
    return by_leader.time;
  const auto* on_leader = call_on(operation, *leader_);
  if (trace.axis == traces_[*leader_].axis)
    return on_leader->ready->time;
  const auto* own = call_on(operation, waiting);
  if (!own || !own->sequence || !on_leader->sequence)
    return std::nullopt;
  return own->scheduled - (on_leader->scheduled - on_leader->ready->time);
}

trace_time wait_division::error_between(std::size_t trace, std::size_t other) const {
  if (hosts_.of(trace) == hosts_.of(other))
    return trace_time{0};
  return traces_[trace].clock_error + traces_[other].clock_error;
}

// A rank is late for a call because it was outside the library for longer, or because it came out of its last wait later
// than the other rank, for example after it had copied for longer.
trace_time wait_division::excess_outside(std::size_t operation, std::size_t late, std::size_t waiting) const {
  const auto outside = [&](std::size_t trace) -> std::optional<trace_time> {
    const auto called = call_on(operation, trace)->called;
    const auto& waits = traces_[trace].waits;
    const auto next =
        std::ranges::partition_point(waits, [&](const traced_wait& wait) { return wait.begin < called; });
    if (next == waits.begin())
      return std::nullopt;
    return std::max(trace_time{0}, called - std::prev(next)->end);
  };
  const auto of_late = outside(late), of_waiting = outside(waiting);
  return of_late && of_waiting ? *of_late - *of_waiting : trace_time::max();
}

std::vector<wait_part> wait_division::parts_of(std::size_t trace) const {
  std::vector<wait_part> parts;
  trace_time covered = trace_time::min();
  for (const auto& wait : traces_[trace].waits) {
    const auto begin = std::max(wait.begin, covered);
    if (begin >= wait.end)
      continue;
    divide(trace, wait, begin, parts);
    covered = wait.end;
  }
  return parts;
}

void wait_division::divide(std::size_t trace, const traced_wait& wait, trace_time begin,
                           std::vector<wait_part>& parts) const {
  wait_part all;
  all.begin = begin;
  all.end = wait.end;
  if (!wait.call) {
    parts.push_back(all);
    return;
  }
  const auto& call = traces_[trace].calls[*wait.call];
  const auto operation = matched_.operation_of[trace][*wait.call];
  all.operation = operation;
  part_writer writer(all, parts);
  const auto last = last_call_of(operation, trace);
  if (last && last->trace != trace) {
    const auto from = std::max(begin, last->second.value_or(begin));
    const auto avoidable = std::max(trace_time{0}, last->time - from);
    if (auto* part = writer.fill(last->time, time_use::late_call, last->rank, avoidable)) {
      const auto outside = last->trace ? excess_outside(operation, *last->trace, trace) : trace_time::max();
      part->outside = std::clamp(outside, trace_time{0}, part->length());
      part->by_leader = last->by_leader;
      if (!last->by_leader)
        part->uncertain = std::min(part->length(), error_between(trace, *last->trace));
    }
  }
  if (call.round) {
    writer.fill(all.end, time_use::transfer);
    return;
  }
  const auto& late = operations_[operation].late;
  if (late && late->host != hosts_.of(trace))
    writer.fill(call.sequence ? std::min(late->arrival, call.scheduled) : late->arrival,
                time_use::late_message, traces_[late->last].rank, late->excess);
  if (!call.sequence) {
    writer.fill(all.end, time_use::negotiation);
    return;
  }
  // The schedule may have travelled long, too.
  if (late && late->host != hosts_.of(trace)) {
    const auto& own_delay = delays_->of(operation)[hosts_.of(trace)];
    if (own_delay.excess.count() > 0 && own_delay.cause == late->host) {
      writer.fill(call.scheduled - own_delay.excess, time_use::negotiation);
      writer.fill(call.scheduled, time_use::late_message, traces_[late->last].rank, own_delay.excess);
    }
  }
  writer.fill(call.scheduled, time_use::negotiation);
  const bundle_key bundle(tensors_.at(call.tensor).set, *call.sequence);
  const auto transfer = traces_[trace].transfers.find(bundle);
  if (transfer == traces_[trace].transfers.end()) {
    writer.fill(all.end, time_use::transfer);
    return;
  }
  writer.fill(transfer->second.begin, time_use::queue);
  if (writer.next() < all.end) {
    all.begin = writer.next();
    divide_transfer(trace, operation, bundle, all, parts);
  }
}

// A rank that begins last holds up the others until then, perhaps because it has received the schedule late. Afterwards they
// wait for the slowest part, but not all of that time: by as much as it takes longer than the median. Each of the messages
// that follow each other takes longer if a host has a slow link.
void wait_division::divide_transfer(std::size_t trace, std::size_t operation, const bundle_key& bundle,
                                    wait_part all, std::vector<wait_part>& parts) const {
  const auto& own = traces_[trace].transfers.at(bundle);
  part_writer writer(all, parts);
  const auto found = transfers_.find(bundle);
  if (found == transfers_.end()) {
    writer.fill(all.end, time_use::transfer);
    return;
  }
  const auto& facts = found->second;
  const auto& late = operations_[operation].late;
  const bool has_late_host = late && late->host != hosts_.of(trace);
  const auto excess = has_late_host ? late->excess : trace_time{0};
  const auto late_rank = has_late_host ? traces_[late->last].rank : -1;
  auto waited = facts.measured ? own.waited : own.end - own.begin;
  auto messages = messages_in_row(own.operation) * excess;
  auto common_begin = own.begin;
  if (facts.last && *facts.last != trace && facts.last_begin > own.begin && facts.last_begin < own.end) {
    const auto delay = std::min(facts.last_begin - own.begin, waited);
    const auto on_way = std::min(delay, excess);
    common_begin = own.begin + delay;
    waited -= delay;
    // If no other host begins late, the parts of all others arrive at this one meanwhile.
    if (has_late_host && hosts_.of(*facts.last) == late->host)
      messages = std::max(excess, messages - on_way);
    writer.fill(own.begin + on_way, time_use::late_message, late_rank, on_way);
    if (auto* part =
            writer.fill(common_begin, time_use::late_transfer, traces_[*facts.last].rank, delay - on_way))
      part->uncertain = std::min(part->length(), error_between(trace, *facts.last));
  }
  const auto lag = facts.measured && facts.slowest != trace ? std::min(waited, facts.lag) : trace_time{0};
  const auto on_way = std::min(waited - lag, messages);
  const auto waited_for = [&](trace_time part) {
    return share_of(part, overlap(all, common_begin, own.end), own.end - common_begin);
  };
  const auto end = std::min(all.end, own.end);
  const auto lost = waited_for(lag), lost_on_way = waited_for(on_way);
  writer.fill(end - lost - lost_on_way, time_use::transfer);
  writer.fill(end - lost, time_use::late_message, late_rank, lost_on_way);
  writer.fill(end, time_use::late_transfer, traces_[facts.slowest].rank, lost);
  writer.fill(all.end, time_use::transfer);
}

} // namespace farandole
