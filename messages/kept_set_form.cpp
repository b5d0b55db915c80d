#include "messages/kept_set_form.hpp"

#include "messages/set_change.hpp"

namespace farandole::wire_form {

namespace {

kept_set read(wire::KeptSet::Reader from, capnp::List<std::int32_t>::Reader members, std::int32_t below,
              verdict& so_far) {
  kept_set value;
  value.origin = {from.getBorn(), from.getByRule(), from.getPlace()};
  value.id = from.getId();
  so_far.require(value.id >= 1 && value.id <= set_limit, "the id of a process set is out of range");
  so_far.require(!value.origin.by_rule || value.origin.born == 0, "only init() gives process sets by rule");
  so_far.require(value.origin.by_rule == (members.size() == 0),
                 "a process set has no members, or has some and a rule");
  value.members.reserve(members.size());
  for (auto one : members) {
    if (!so_far.require(one >= 0 && one < below && (value.members.empty() || value.members.back() < one),
                        "the members of a process set are out of range, or do not ascend"))
      break;
    value.members.push_back(one);
  }
  return value;
}

} // namespace

void write(capnp::List<wire::KeptSet>::Builder to, const std::vector<kept_set>& values) {
  for (kj::uint i = 0; i < to.size(); ++i) {
    auto& one = values[i];
    to[i].setBorn(one.origin.born);
    to[i].setByRule(one.origin.by_rule);
    to[i].setPlace(one.origin.place);
    to[i].setId(one.id);
    auto members = to[i].initMembers(static_cast<kj::uint>(one.members.size()));
    for (kj::uint k = 0; k < members.size(); ++k)
      members.set(k, one.members[k]);
  }
}

std::vector<kept_set> read(capnp::List<wire::KeptSet>::Reader from, std::int32_t below, verdict& so_far) {
  std::vector<kept_set> values;
  if (!so_far.require(from.size() <= set_limit, "there are too many process sets"))
    return values;
  std::size_t members = 0;
  for (auto one : from) {
    const auto listed = one.getMembers(); // once: each time counts as reading all of it
    members += listed.size();
    if (!so_far.require(members <= list_limit, "the process sets have too many members in all"))
      return values;
    values.push_back(read(one, listed, below, so_far));
    so_far.require(values.size() < 2 || values[values.size() - 2].id < values.back().id,
                   "the ids of process sets do not ascend");
    if (!so_far.good())
      return values;
  }
  return values;
}

} // namespace farandole::wire_form
