#include "messages/wire/rendezvous_recovery.hpp"

#include <cstdio>

#include "messages/wire/decoding.hpp"
#include "messages/wire/failed_host_form.hpp"
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

/// A launcher never reuses a number, so a long-running job may have more slots than members are allowed.
constexpr kj::uint slot_limit = 1U << 20;

} // namespace

std::string epoch_text(std::uint64_t epoch) {
  char text[32];
  std::snprintf(text, sizeof text, "%llu.%08llx", static_cast<unsigned long long>(epoch >> 32U),
                static_cast<unsigned long long>(epoch & 0xffffffffU));
  return text;
}

std::uint64_t next_epoch(std::uint64_t last, std::uint32_t draw) {
  return (((last >> 32U) + 1) << 32U) | draw;
}

envelope encode(const address& from, const returning& value) {
  return write(from, [&](wire::Envelope::Body::Builder body) {
    auto to = body.initReturning();
    to.setWireVersion(value.wire_version);
    to.setGeneration(value.generation);
    to.setRank(value.rank);
    to.setSlot(value.slot);
    to.setHost(text_of(value.host));
    to.setProcess(value.process);
    to.setEpoch(value.epoch);
  });
}

envelope encode(const address& from, const resumed& value) {
  return write(from, [&](wire::Envelope::Body::Builder body) {
    auto to = body.initResumed();
    to.setGeneration(value.generation);
    to.setEpoch(value.epoch);
    to.setChanges(value.changes);
    to.setRemovalsOnly(value.removals_only);
  });
}

envelope encode(const address& from, const superseded& value) {
  return write(from,
               [&](wire::Envelope::Body::Builder body) { body.initSuperseded().setEpoch(value.epoch); });
}

envelope encode(const address& from, const slot_report& value) {
  return write(from, [&](wire::Envelope::Body::Builder body) {
    auto to = body.initSlots();
    to.setWireVersion(value.wire_version);
    to.setJob(value.job);
    to.setEpoch(value.epoch);
    to.setComplete(value.complete);
    write_each(to.initSlots(count_of(value.slots)), value.slots,
               [](auto slot, const reported_slot& reported_slot) {
                 slot.setNumber(reported_slot.number);
                 slot.setRetired(reported_slot.retired);
                 slot.setEnded(reported_slot.ended);
                 slot.setHow(text_of(shortened(reported_slot.manner)));
               });
    wire_form::write(to.initFailed(count_of(value.failed)), value.failed);
  });
}

envelope encode(const address& from, const formed& value) {
  return write(from, [&](wire::Envelope::Body::Builder body) {
    auto to = body.initFormed();
    to.setGeneration(value.generation);
    to.setEpoch(value.epoch);
    write_numbers(to.initSlots(count_of(value.slots)), value.slots);
  });
}

expected<returning> decode_returning(const envelope& message) {
  return decode<returning>(
      message, body_kind::RETURNING, "return", [](body_reader body, returning& value, validation& so_far) {
        auto from = body.getReturning();
        value.wire_version = from.getWireVersion();
        // In another version no other field is read; the receiver answers with both version numbers.
        if (value.wire_version != wire_version)
          return;
        value.generation = from.getGeneration();
        value.rank = from.getRank();
        value.slot = from.getSlot();
        value.host = read_text(from.getHost(), text_limit_bytes, "the host is too long", so_far);
        value.process = from.getProcess();
        value.epoch = from.getEpoch();
        so_far.require(value.generation > 0, "generations count from 1");
        so_far.require(value.rank >= 0 && value.rank < member_limit, "the rank is out of range");
        so_far.require(value.slot >= 0, "the slot is out of range");
      });
}

expected<resumed> decode_resumed(const envelope& message) {
  return decode<resumed>(message, body_kind::RESUMED, "answer to a return",
                         [](body_reader body, resumed& value, validation& so_far) {
                           auto from = body.getResumed();
                           value.generation = from.getGeneration();
                           value.epoch = from.getEpoch();
                           value.changes = from.getChanges();
                           value.removals_only = from.getRemovalsOnly();
                           so_far.require(value.generation > 0, "generations count from 1");
                         });
}

expected<superseded> decode_superseded(const envelope& message) {
  return decode<superseded>(message, body_kind::SUPERSEDED, "notice of a higher epoch",
                            [](body_reader body, superseded& value, validation&) {
                              value.epoch = body.getSuperseded().getEpoch();
                            });
}

expected<slot_report> decode_slot_report(const envelope& message) {
  return decode<slot_report>(message, body_kind::SLOTS, "report on slots",
                             [](body_reader body, slot_report& value, validation& so_far) {
                               auto from = body.getSlots();
                               value.wire_version = from.getWireVersion();
                               if (value.wire_version != wire_version)
                                 return;
                               value.job = from.getJob();
                               value.epoch = from.getEpoch();
                               value.complete = from.getComplete();
                               auto slots = from.getSlots();
                               if (!so_far.require(slots.size() <= slot_limit, "there are too many slots"))
                                 return;
                               value.slots.reserve(slots.size());
                               for (auto entry : slots) {
                                 auto& slot = value.slots.emplace_back();
                                 slot.number = entry.getNumber();
                                 slot.retired = entry.getRetired();
                                 slot.ended = entry.getEnded();
                                 slot.manner = read_text(entry.getHow(), text_limit_bytes,
                                                         "a reason is too long", so_far);
                                 so_far.require(slot.number >= 0, "a slot is out of range");
                               }
                               value.failed = wire_form::read(from.getFailed(), so_far);
                             });
}

expected<formed> decode_formed(const envelope& message) {
  return decode<formed>(
      message, body_kind::FORMED, "news of a generation",
      [](body_reader body, formed& value, validation& so_far) {
        auto from = body.getFormed();
        value.generation = from.getGeneration();
        value.epoch = from.getEpoch();
        auto slots = from.getSlots();
        so_far.require(value.generation > 0, "generations count from 1");
        if (!so_far.require(slots.size() >= 1 && slots.size() <= static_cast<kj::uint>(member_limit),
                            "the number of members is out of range"))
          return;
        for (const auto slot : slots)
          value.slots.push_back(slot);
      });
}

} // namespace farandole
