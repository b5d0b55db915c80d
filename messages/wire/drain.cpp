#include "messages/wire/drain.hpp"

#include <cassert>

#include "messages/wire/decoding.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

namespace {

using wire_form::count_of;
using wire_form::decode;
using wire_form::read_text;
using wire_form::shortened;
using wire_form::text_limit_bytes;
using wire_form::text_of;
using wire_form::validation;
using wire_form::write;
using wire_form::write_each;
using wire_form::write_numbers;

using body_reader = wire::Envelope::Body::Reader;
using body_kind = wire::Envelope::Body;

constexpr auto limit = static_cast<std::size_t>(member_limit);

std::string read_host(capnp::Text::Reader text, validation& so_far) {
  return read_text(text, wire_form::label_limit_bytes, "a host is too long", so_far);
}

bool is_number(std::int32_t value) {
  return value >= 0 && value < member_limit;
}

} // namespace

envelope encode(const address& from, const leaving& value) {
  return write(from, [&](auto body) {
    auto to = body.initLeaving();
    to.setGeneration(value.generation);
    to.setSlot(value.slot);
  });
}

envelope encode(const address& from, const drain& value) {
  assert(value.ranks.size() <= limit && value.hosts.size() <= limit);
  return write(from, [&](auto body) {
    auto to = body.initDrain();
    to.setWireVersion(value.wire_version);
    to.setCaller(value.caller);
    write_numbers(to.initRanks(count_of(value.ranks)), value.ranks);
    auto hosts = to.initHosts(count_of(value.hosts));
    for (kj::uint i = 0; i < hosts.size(); ++i)
      hosts.set(i, text_of(value.hosts[i]));
  });
}

envelope encode(const address& from, const draining& value) {
  assert(value.leavers.size() <= limit);
  const auto problem = shortened(value.problem);
  return write(from, [&](auto body) {
    auto to = body.initDraining();
    to.setProblem(text_of(problem));
    to.setAllOut(value.all_out);
    to.setCaller(value.caller);
    write_each(to.initLeavers(count_of(value.leavers)), value.leavers,
               [](auto entry, const leaver& departing) {
                 entry.setRank(departing.rank);
                 entry.setSlot(departing.slot);
                 entry.setHost(text_of(departing.host));
               });
  });
}

expected<leaving> decode_leaving(const envelope& message) {
  return decode<leaving>(
      message, body_kind::LEAVING, "wish to leave", [](body_reader body, leaving& value, validation& so_far) {
        auto from = body.getLeaving();
        value.generation = from.getGeneration();
        value.slot = from.getSlot();
        so_far.require(value.slot == -1 || is_number(value.slot), "a slot is out of range");
      });
}

expected<drain> decode_drain(const envelope& message) {
  return decode<drain>(message, body_kind::DRAIN, "drain",
                       [](body_reader body, drain& value, validation& so_far) {
                         auto from = body.getDrain();
                         value.wire_version = from.getWireVersion();
                         // In another version no other field is read; the receiver answers with both
                         // version numbers.
                         if (value.wire_version != wire_version)
                           return;
                         value.caller = from.getCaller();
                         auto ranks = from.getRanks();
                         auto hosts = from.getHosts();
                         if (!so_far.require(ranks.size() <= limit && hosts.size() <= limit,
                                             "there are too many ranks or hosts"))
                           return;
                         for (const auto rank : ranks) {
                           so_far.require(is_number(rank), "a rank is out of range");
                           value.ranks.push_back(rank);
                         }
                         for (const auto host : hosts)
                           value.hosts.push_back(read_host(host, so_far));
                       });
}

expected<draining> decode_draining(const envelope& message) {
  return decode<draining>(
      message, body_kind::DRAINING, "answer to a drain",
      [](body_reader body, draining& value, validation& so_far) {
        auto from = body.getDraining();
        value.problem = read_text(from.getProblem(), text_limit_bytes, "its problem is too long", so_far);
        value.all_out = from.getAllOut();
        value.caller = from.getCaller();
        auto list = from.getLeavers();
        if (!so_far.require(list.size() <= limit, "there are too many that leave"))
          return;
        for (const auto entry : list) {
          value.leavers.push_back({entry.getRank(), entry.getSlot(), read_host(entry.getHost(), so_far)});
          const auto& read = value.leavers.back();
          so_far.require(read.rank == -1 || is_number(read.rank), "a rank is out of range");
          so_far.require(is_number(read.slot), "a slot is out of range");
        }
      });
}

} // namespace farandole
