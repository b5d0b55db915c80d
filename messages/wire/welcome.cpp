#include "messages/wire/welcome.hpp"

#include <cassert>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "messages/values/printable.hpp"
#include "messages/wire/decoding.hpp"
#include "messages/wire/kept_set_form.hpp"

namespace farandole {

namespace {

using wire_form::count_of;
using wire_form::read_label;
using wire_form::text_of;
using wire_form::validation;
using wire_form::write_each;

/// Members share hosts, so each host is encoded once.
struct host_table {
  std::vector<const member*> hosts; ///< the first member of each host
  std::vector<kj::uint> of_member;

  explicit host_table(const std::vector<member>& members) {
    std::map<std::pair<std::string_view, std::string_view>, kj::uint> places;
    of_member.reserve(members.size());
    for (const auto& member : members) {
      const auto [found, is_new] =
          places.try_emplace({member.host, member.host_name}, static_cast<kj::uint>(hosts.size()));
      if (is_new)
        hosts.push_back(&member);
      of_member.push_back(found->second);
    }
  }
};

void write_roster(const roster& value, const host_table& table, wire::Roster::Builder to) {
  to.setGeneration(value.generation);
  to.setEpoch(value.epoch);
  to.setMustSync(value.must_sync);
  to.setSetsKept(value.sets_kept);
  wire_form::write(to.initSets(count_of(value.sets)), value.sets);
  write_each(to.initHosts(count_of(table.hosts)), table.hosts, [](auto host, const member* first) {
    host.setIdentity(text_of(first->host));
    host.setName(text_of(first->host_name));
  });
  auto place = table.of_member.begin();
  write_each(to.initMembers(count_of(value.members)), value.members,
             [&](auto entry, const member& member_info) {
               entry.setSlot(member_info.slot);
               entry.setHost(*place++);
               entry.setAddress(text_of(member_info.address));
             });
  write_each(to.initSettings(count_of(value.settings)), value.settings,
             [](auto setting, const setting_value& setting_value) {
               setting.setName(text_of(setting_value.name));
               setting.setValue(text_of(setting_value.value));
             });
}

/// A message refers to a host in a few bytes, but each decoded member gets a copy of its texts. All copies
/// together are limited to the size of a message.
bool read_members(capnp::List<wire::Host>::Reader hosts, capnp::List<wire::Member>::Reader listed,
                  std::vector<member>& members, validation& so_far) {
  std::vector<std::pair<std::string, std::string>> names;
  names.reserve(hosts.size());
  for (auto entry : hosts)
    names.emplace_back(read_label(entry.getIdentity(), so_far), read_label(entry.getName(), so_far));
  std::size_t bytes = 0;
  members.reserve(listed.size());
  for (auto entry : listed) {
    if (!so_far.require(entry.getHost() < names.size(), "a member is on a host that is not listed"))
      return false;
    const auto& [host, name] = names[entry.getHost()];
    bytes += host.size() + name.size();
    if (!so_far.require(bytes <= message_limits{}.bytes, "the hosts of all members are too long"))
      return false;
    member value;
    value.rank = static_cast<std::int32_t>(members.size());
    value.slot = entry.getSlot();
    value.host = host;
    value.host_name = printable_name(name);
    value.address = read_label(entry.getAddress(), so_far);
    if (!so_far.require(is_rank(value.slot), "a slot is out of range") || !so_far.good())
      return false;
    members.push_back(std::move(value));
  }
  set_places(members);
  return true;
}

void read_roster(wire::Roster::Reader from, welcome& value, validation& so_far) {
  value.generation = from.getGeneration();
  value.epoch = from.getEpoch();
  value.must_sync = from.getMustSync();
  value.sets_kept = from.getSetsKept();
  const auto hosts = from.getHosts();
  const auto members = from.getMembers();
  const auto settings = from.getSettings();
  const auto count = members.size();
  if (!so_far.require(count >= 1 && count <= static_cast<kj::uint>(member_limit) && hosts.size() <= count,
                      "the number of members is out of range") ||
      !so_far.require(settings.size() <= 4096, "there are too many settings") ||
      !so_far.require(value.rank >= 0 && value.rank < static_cast<std::int32_t>(count),
                      "a rank is out of range") ||
      !so_far.require(value.generation > 0, "generations count from 1"))
    return;
  value.sets = wire_form::read(from.getSets(), static_cast<std::int32_t>(count), so_far);
  if (!read_members(hosts, members, value.members, so_far))
    return;
  value.settings.reserve(settings.size());
  for (auto setting : settings)
    value.settings.push_back({read_label(setting.getName(), so_far), read_label(setting.getValue(), so_far)});
}

} // namespace

void set_places(std::vector<member>& members) {
  std::unordered_map<std::string_view, std::int32_t> on_host;
  std::vector<std::int32_t> with_local_rank;
  for (auto& member : members) {
    member.local_rank = on_host[member.host]++;
    const auto place = static_cast<std::size_t>(member.local_rank);
    if (place == with_local_rank.size())
      with_local_rank.push_back(0);
    member.cross_rank = with_local_rank[place]++;
  }
  for (auto& member : members) {
    member.local_size = on_host[member.host];
    member.cross_size = with_local_rank[static_cast<std::size_t>(member.local_rank)];
  }
}

std::vector<std::byte> encode(const roster& value) {
  assert(value.members.size() <= static_cast<std::size_t>(member_limit));
  const host_table table(value.members);
  return wire_form::bytes_of<wire::Roster>([&](wire::Roster::Builder to) { write_roster(value, table, to); });
}

envelope encode_welcome(const address& from, std::int32_t rank, bool joined_late,
                        std::span<const std::byte> encoded) {
  return wire_form::write(from, [&](auto body) {
    auto to = body.initWelcome();
    to.setRank(rank);
    to.setJoinedLate(joined_late);
    to.setRoster({reinterpret_cast<const kj::byte*>(encoded.data()), encoded.size()});
  });
}

envelope encode(const address& from, const welcome& value) {
  return encode_welcome(from, value.rank, value.joined_late, encode(static_cast<const roster&>(value)));
}

expected<welcome> decode_welcome(const envelope& message) {
  return wire_form::decode<welcome>(
      message, wire::Envelope::Body::WELCOME, "welcome",
      [](wire::Envelope::Body::Reader body, welcome& value, validation& so_far) {
        auto from = body.getWelcome();
        value.rank = from.getRank();
        value.joined_late = from.getJoinedLate();
        const auto bytes = from.getRoster();
        if (!so_far.require(bytes.size() > 0 && bytes.size() % sizeof(capnp::word) == 0,
                            "its list of members is not made of whole words"))
          return;
        // Data inside a word-aligned message is word-aligned too.
        kj::ArrayPtr<const capnp::word> words{reinterpret_cast<const capnp::word*>(bytes.begin()),
                                              bytes.size() / sizeof(capnp::word)};
        capnp::FlatArrayMessageReader inside{words, wire_form::limits_for(words.size())};
        read_roster(inside.getRoot<wire::Roster>(), value, so_far);
      });
}

} // namespace farandole
