#include "messages/wire/membership.hpp"

#include <algorithm>
#include <cassert>

#include "messages/values/printable.hpp"
#include "messages/wire/decoding.hpp"
#include "messages/wire/departure_form.hpp"
#include "messages/wire/kept_set_form.hpp"

namespace farandole {

namespace {

using wire_form::decode;
using wire_form::read_label;
using wire_form::read_text;
using wire_form::shortened;
using wire_form::text_limit_bytes;
using wire_form::text_of;
using wire_form::validation;
using wire_form::write;

using body_reader = wire::Envelope::Body::Reader;
using body_kind = wire::Envelope::Body;

constexpr const char* rank_rule = "a rank is out of range";

std::string read_address(capnp::Data::Reader bytes, validation& so_far) {
  if (!so_far.require(bytes.size() <= path_address_limit_bytes, "the address of a data path is too long"))
    return {};
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

void read_path_addresses(wire::PathAddresses::Reader from, path_addresses& value, validation& so_far) {
  value.rank = from.getRank();
  so_far.require(is_rank(value.rank), rank_rule);
  if (!so_far.require(from.getPaths().size() <= path_limit, "path addresses names too many data paths"))
    return;
  for (auto getPath : from.getPaths()) {
    auto path = read_label(getPath.getPath(), so_far);
    const auto is_this = [&path](const path_address& other) { return other.path == path; };
    so_far.require(std::none_of(value.paths.begin(), value.paths.end(), is_this),
                   "path addresses names a data path twice");
    value.paths.push_back({std::move(path), read_address(getPath.getAddress(), so_far)});
  }
}

void write_path_addresses(wire::PathAddresses::Builder to, const path_addresses& value) {
  to.setRank(value.rank);
  auto list = to.initPaths(static_cast<kj::uint>(value.paths.size()));
  for (kj::uint i = 0; i < list.size(); ++i) {
    const auto& address = value.paths[i].address;
    list[i].setPath(text_of(value.paths[i].path));
    list[i].setAddress({reinterpret_cast<const kj::byte*>(address.data()), address.size()});
  }
}

} // namespace

std::string path_addresses::address_of(std::string_view path) const {
  for (const auto& address : paths)
    if (address.path == path)
      return address.address;
  return {};
}

envelope encode(const address& from, const hello& value) {
  return write(from, [&](auto body) {
    auto to = body.initHello();
    to.setWireVersion(value.wire_version);
    to.setSlot(value.slot);
    to.setSize(value.size);
    to.setHost(text_of(value.host));
    to.setHostName(text_of(value.host_name));
    to.setAddress(text_of(value.address));
    to.setProcess(value.process);
    to.setEpoch(value.epoch);
    to.setProgress(value.progress);
    to.setKeepsSets(value.keeps_sets);
    to.setStateGeneration(value.state_generation);
    wire_form::write(to.initSets(static_cast<kj::uint>(value.sets.size())), value.sets);
  });
}

envelope encode(const address& from, const refused& value) {
  auto reason = shortened(value.reason);
  return write(from, [&](auto body) {
    auto to = body.initRefused();
    to.setReason(text_of(reason));
    to.setDismissed(value.dismissed);
    to.setCulprit(value.culprit);
  });
}

envelope encode(const address& from, const awaited& value) {
  assert(value.missing.size() <= awaited_limit);
  return write(from, [&](auto body) {
    auto to = body.initAwaited();
    to.setWaitedSeconds(value.waited_seconds);
    to.setArrived(value.arrived);
    to.setSize(value.size);
    to.setReport(value.report);
    auto list = to.initMissing(static_cast<kj::uint>(value.missing.size()));
    for (kj::uint i = 0; i < list.size(); ++i) {
      list[i].setSlot(value.missing[i].slot);
      list[i].setHost(text_of(value.missing[i].host));
    }
  });
}

envelope encode(const address& from, const lost& value) {
  auto reason = shortened(value.reason);
  return write(from, [&](auto body) {
    auto to = body.initLost();
    to.setGeneration(value.generation);
    to.setRank(value.rank);
    to.setReason(text_of(reason));
    to.setStuck(value.stuck);
  });
}

envelope encode(const address& from, const changed& value) {
  return write(from, [&](auto body) {
    auto to = body.initChanged();
    to.setGeneration(value.generation);
    to.setCount(value.count);
    to.setRemovalsOnly(value.removals_only);
  });
}

envelope encode(const address& from, const farewell& value) {
  return write(from, [&](auto body) {
    auto to = body.initFarewell();
    to.setGeneration(value.generation);
    to.setDepartedRank(value.departed.rank);
    wire_form::write(to.initDeparture(), value.departed.manner);
    to.setInterrupted(value.interrupted);
  });
}

envelope encode(const address& from, const greeting& value) {
  return write(from, [&](auto body) {
    auto to = body.initGreeting();
    to.setWireVersion(value.wire_version);
    to.setRank(value.rank);
  });
}

envelope encode(const address& from, const path_addresses& value) {
  return write(from, [&](auto body) { write_path_addresses(body.initPathAddresses(), value); });
}

envelope encode(const address& from, const member_path_addresses& value) {
  assert(value.members.size() <= static_cast<std::size_t>(member_limit));
  return write(from, [&](auto body) {
    auto list = body.initMemberPathAddresses().initMembers(static_cast<kj::uint>(value.members.size()));
    for (kj::uint i = 0; i < list.size(); ++i)
      write_path_addresses(list[i], value.members[i]);
  });
}

expected<hello> decode_hello(const envelope& message) {
  return decode<hello>(
      message, body_kind::HELLO, "hello", [](body_reader body, hello& value, validation& so_far) {
        auto from = body.getHello();
        value.wire_version = from.getWireVersion();
        // In another version no other field is read; the receiver answers with both version numbers.
        if (value.wire_version != wire_version)
          return;
        value.slot = from.getSlot();
        value.size = from.getSize();
        value.host = read_label(from.getHost(), so_far);
        value.host_name = printable_name(read_label(from.getHostName(), so_far));
        value.address = read_label(from.getAddress(), so_far);
        value.process = from.getProcess();
        value.epoch = from.getEpoch();
        value.progress = from.getProgress();
        value.keeps_sets = from.getKeepsSets();
        value.state_generation = from.getStateGeneration();
        value.sets = wire_form::read(from.getSets(), member_limit, so_far);
        so_far.require(is_rank(value.slot), "the slot is out of range");
        so_far.require(value.size >= 1 && value.size <= member_limit, "the size is out of range");
      });
}

expected<refused> decode_refused(const envelope& message) {
  return decode<refused>(
      message, body_kind::REFUSED, "refusal", [](body_reader body, refused& value, validation& so_far) {
        auto from = body.getRefused();
        value.reason = read_text(from.getReason(), text_limit_bytes, "its reason is too long", so_far);
        value.dismissed = from.getDismissed();
        value.culprit = from.getCulprit();
        so_far.require(value.culprit == -1 || is_rank(value.culprit), "the slot is out of range");
      });
}

expected<awaited> decode_awaited(const envelope& message) {
  return decode<awaited>(
      message, body_kind::AWAITED, "list of missing members",
      [](body_reader body, awaited& value, validation& so_far) {
        auto from = body.getAwaited();
        value.waited_seconds = from.getWaitedSeconds();
        value.arrived = from.getArrived();
        value.size = from.getSize();
        value.report = from.getReport();
        so_far.require(value.size <= static_cast<std::uint32_t>(member_limit), "the size is out of range");
        auto list = from.getMissing();
        if (!so_far.require(list.size() <= awaited_limit, "too many members are listed"))
          return;
        for (auto member : list) {
          value.missing.push_back({member.getSlot(), read_label(member.getHost(), so_far)});
          const auto count = value.missing.size();
          so_far.require(value.missing.back().slot >= 0 &&
                             (count == 1 || value.missing[count - 2].slot < value.missing.back().slot),
                         "the slots are not ascending");
        }
      });
}

expected<lost> decode_lost(const envelope& message) {
  return decode<lost>(
      message, body_kind::LOST, "loss", [](body_reader body, lost& value, validation& so_far) {
        auto from = body.getLost();
        value.generation = from.getGeneration();
        value.rank = from.getRank();
        value.reason = read_text(from.getReason(), text_limit_bytes, "its reason is too long", so_far);
        value.stuck = from.getStuck();
        so_far.require(value.rank == -1 || is_rank(value.rank), rank_rule);
      });
}

expected<changed> decode_changed(const envelope& message) {
  return decode<changed>(message, body_kind::CHANGED, "change of the members",
                         [](body_reader body, changed& value, validation& so_far) {
                           auto from = body.getChanged();
                           value.generation = from.getGeneration();
                           value.count = from.getCount();
                           value.removals_only = from.getRemovalsOnly();
                           so_far.require(value.count > 0, "changes count from 1");
                         });
}

expected<farewell> decode_farewell(const envelope& message) {
  return decode<farewell>(
      message, body_kind::FAREWELL, "farewell", [](body_reader body, farewell& value, validation& so_far) {
        auto from = body.getFarewell();
        value.generation = from.getGeneration();
        value.departed = {from.getDepartedRank(), wire_form::read(from.getDeparture(), so_far)};
        value.interrupted = from.getInterrupted();
        so_far.require(value.departed.rank == -1 || is_rank(value.departed.rank), rank_rule);
      });
}

expected<greeting> decode_greeting(const envelope& message) {
  return decode<greeting>(message, body_kind::GREETING, "greeting",
                          [](body_reader body, greeting& value, validation& so_far) {
                            auto from = body.getGreeting();
                            value.wire_version = from.getWireVersion();
                            value.rank = from.getRank();
                            so_far.require(is_rank(value.rank), rank_rule);
                          });
}

expected<path_addresses> decode_path_addresses(const envelope& message) {
  return decode<path_addresses>(message, body_kind::PATH_ADDRESSES, "path addresses",
                                [](body_reader body, path_addresses& value, validation& so_far) {
                                  read_path_addresses(body.getPathAddresses(), value, so_far);
                                });
}

expected<member_path_addresses> decode_member_path_addresses(const envelope& message) {
  return decode<member_path_addresses>(
      message, body_kind::MEMBER_PATH_ADDRESSES, "path addresses of the members",
      [](body_reader body, member_path_addresses& value, validation& so_far) {
        auto list = body.getMemberPathAddresses().getMembers();
        if (!so_far.require(list.size() <= static_cast<kj::uint>(member_limit),
                            "the number of members is out of range"))
          return;
        value.members.reserve(list.size());
        for (auto entry : list) {
          auto before = value.members.empty() ? -1 : value.members.back().rank;
          read_path_addresses(entry, value.members.emplace_back(), so_far);
          so_far.require(value.members.back().rank > before, "members are not in rank order");
          if (!so_far.good())
            return;
        }
      });
}

} // namespace farandole
