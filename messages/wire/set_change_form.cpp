#include "messages/wire/set_change_form.hpp"

#include <cassert>

#include "messages/wire/membership.hpp"

namespace farandole::wire_form {

namespace {

void write_ranks(capnp::List<std::int32_t>::Builder to, const std::vector<std::int32_t>& ranks) {
  for (kj::uint i = 0; i < to.size(); ++i)
    to.set(i, ranks[i]);
}

// Requires only that the ranks ascend, equal ones included; stricter checks are left to the caller.
std::vector<std::int32_t> read_ranks(capnp::List<std::int32_t>::Reader from, validation& so_far) {
  std::vector<std::int32_t> ranks;
  if (!so_far.require(from.size() <= static_cast<kj::uint>(member_limit), "a process set has too many ranks"))
    return ranks;
  ranks.reserve(from.size());
  for (auto rank : from) {
    if (!so_far.require(ranks.empty() || ranks.back() <= rank, "a process set's ranks do not ascend"))
      return ranks;
    ranks.push_back(rank);
  }
  return ranks;
}

void write_event(wire::SetEvent::Builder to, const set_event& value) {
  to.setNumber(value.number);
  to.setId(value.id);
  to.setEnds(value.ends);
  write_ranks(to.initRanks(static_cast<kj::uint>(value.ranks.size())), value.ranks);
}

std::string read_reason(capnp::Text::Reader from, validation& so_far) {
  return read_text(from, text_limit_bytes, "the reason why a process set failed is too long", so_far);
}

} // namespace

void write(wire::SetChange::Builder to, const set_change& value) {
  assert(value.sets.size() <= set_limit); // checked when the caller requests the change
  to.setKind(static_cast<std::uint8_t>(value.kind));
  to.setId(value.id);
  auto sets = to.initSets(static_cast<kj::uint>(value.sets.size()));
  for (kj::uint i = 0; i < sets.size(); ++i)
    write_ranks(sets.init(i, static_cast<kj::uint>(value.sets[i].size())), value.sets[i]);
  auto ids = to.initIds(static_cast<kj::uint>(value.ids.size()));
  for (kj::uint i = 0; i < ids.size(); ++i)
    ids.set(i, value.ids[i]);
}

void write(capnp::List<wire::SetEvent>::Builder to, const std::vector<set_event>& values) {
  for (kj::uint i = 0; i < to.size(); ++i)
    write_event(to[i], values[i]);
}

void write(capnp::List<wire::SetFault>::Builder to, const std::vector<set_fault>& values) {
  for (kj::uint i = 0; i < to.size(); ++i) {
    to[i].setNumber(values[i].number);
    to[i].setReason(text_of(shortened(values[i].reason)));
  }
}

void write(capnp::List<wire::SetRestart>::Builder to, const std::vector<set_restart>& values) {
  for (kj::uint i = 0; i < to.size(); ++i) {
    to[i].setEnded(values[i].ended);
    if (values[i].begins)
      write_event(to[i].initBegins(), *values[i].begins);
    to[i].setReason(text_of(shortened(values[i].reason)));
    to[i].setGivenUp(values[i].given_up);
  }
}

set_change read(wire::SetChange::Reader from, validation& so_far) {
  set_change value;
  if (!so_far.require(from.getKind() < set_change_kind_count,
                      "the kind of a change of process sets is unknown") ||
      !so_far.require(from.getSets().size() <= set_limit, "too many process sets are asked for at once"))
    return value;
  value.kind = static_cast<set_change_kind>(from.getKind());
  value.id = from.getId();
  for (auto ranks : from.getSets()) {
    value.sets.push_back(read_ranks(ranks, so_far));
    if (!so_far.good())
      break;
  }
  const auto ids = from.getIds();
  if (!so_far.require(ids.size() == 0 ||
                          (value.kind == set_change_kind::create && ids.size() == from.getSets().size()),
                      "there are not as many ids as process sets"))
    return value;
  for (auto id : ids) {
    so_far.require(id <= set_limit, "the id of a process set is out of range");
    value.ids.push_back(id);
  }
  so_far.require(value.kind != set_change_kind::add || value.sets.size() == 1,
                 "one process set is added at a time");
  so_far.require(value.kind != set_change_kind::remove || value.sets.empty(),
                 "a process set is removed by its id");
  return value;
}

set_event read(wire::SetEvent::Reader from, std::int32_t members, validation& so_far) {
  set_event value;
  value.number = from.getNumber();
  value.id = from.getId();
  value.ends = from.getEnds();
  so_far.require(value.number != 0 && value.id != 0, "a process set's number is 0");
  value.ranks = read_ranks(from.getRanks(), so_far);
  so_far.require(!value.ranks.empty(), "a process set has no ranks");
  for (std::size_t i = 0; i < value.ranks.size(); ++i)
    so_far.require(value.ranks[i] >= 0 && value.ranks[i] < members &&
                       (i == 0 || value.ranks[i] != value.ranks[i - 1]),
                   "a process set's ranks are no members, or named twice");
  return value;
}

set_fault read(wire::SetFault::Reader from, validation& so_far) {
  set_fault value{from.getNumber(), read_reason(from.getReason(), so_far)};
  so_far.require(value.number != 0, "the global set does not restart");
  return value;
}

set_restart read(wire::SetRestart::Reader from, std::int32_t members, validation& so_far) {
  set_restart value;
  value.ended = from.getEnded();
  if (from.hasBegins())
    value.begins = read(from.getBegins(), members, so_far);
  value.reason = read_reason(from.getReason(), so_far);
  value.given_up = from.getGivenUp();
  so_far.require(value.ended != 0, "the global set does not restart");
  so_far.require(!value.begins || (value.ended < value.begins->number && !value.begins->ends),
                 "a process set restarts before its time");
  return value;
}

} // namespace farandole::wire_form
