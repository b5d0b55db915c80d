#include "messages/wire/kept_set_form.hpp"

#include "messages/wire/set_change.hpp"

namespace farandole::wire_form {

namespace {

kept_set read(wire::KeptSet::Reader from, capnp::List<std::int32_t>::Reader members, std::int32_t below,
              validation& so_far) {
  kept_set value;
  value.origin = {from.getBorn(), from.getByRule(), from.getPlace()};
  value.id = from.getId();
  so_far.require(value.id >= 1 && value.id <= set_limit, "the id of a process set is out of range");
  so_far.require(!value.origin.by_rule || value.origin.born == 0, "only init() gives process sets by rule");
  so_far.require(value.origin.by_rule == (members.size() == 0),
                 "a process set has no members, or has some and a rule");
  value.members.reserve(members.size());
  for (auto member : members) {
    if (!so_far.require(member >= 0 && member < below &&
                            (value.members.empty() || value.members.back() < member),
                        "the members of a process set are out of range, or do not ascend"))
      break;
    value.members.push_back(member);
  }
  return value;
}

} // namespace

void write(capnp::List<wire::KeptSet>::Builder to, const std::vector<kept_set>& values) {
  for (kj::uint i = 0; i < to.size(); ++i) {
    auto& entry = values[i];
    to[i].setBorn(entry.origin.born);
    to[i].setByRule(entry.origin.by_rule);
    to[i].setPlace(entry.origin.index);
    to[i].setId(entry.id);
    auto members = to[i].initMembers(static_cast<kj::uint>(entry.members.size()));
    for (kj::uint k = 0; k < members.size(); ++k)
      members.set(k, entry.members[k]);
  }
}

std::vector<kept_set> read(capnp::List<wire::KeptSet>::Reader from, std::int32_t below, validation& so_far) {
  std::vector<kept_set> values;
  if (!so_far.require(from.size() <= set_limit, "there are too many process sets"))
    return values;
  std::size_t members = 0;
  for (auto entry : from) {
    const auto listed = entry.getMembers(); // once: each call counts against the traversal limit
    members += listed.size();
    if (!so_far.require(members <= list_limit, "the process sets have too many members in all"))
      return values;
    values.push_back(read(entry, listed, below, so_far));
    so_far.require(values.size() < 2 || values[values.size() - 2].id < values.back().id,
                   "the ids of process sets do not ascend");
    if (!so_far.good())
      return values;
  }
  return values;
}

} // namespace farandole::wire_form
