#include "messages/wire/records.hpp"

#include <cassert>

#include "messages/wire/decoding.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

namespace {

using wire_form::count_of;
using wire_form::decode;
using wire_form::label_limit_bytes;
using wire_form::read_text;
using wire_form::shortened;
using wire_form::text_limit_bytes;
using wire_form::text_of;
using wire_form::validation;
using wire_form::write;

using body_reader = wire::Envelope::Body::Reader;
using body_kind = wire::Envelope::Body;

constexpr std::size_t most_notices = 1024;

capnp::Data::Reader data_of(const std::string& bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}

std::string read_bytes(capnp::Data::Reader bytes, std::size_t limit, const char* rule, validation& so_far) {
  if (!so_far.require(bytes.size() <= limit, rule))
    return {};
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

void write_task(wire::RecordOrder::Builder to, const record_task& value) {
  to.setAction(static_cast<std::uint8_t>(value.action));
  to.setSteps(value.limits.steps);
  to.setBytes(value.limits.bytes);
}

record_task read_task(wire::RecordOrder::Reader from, validation& so_far) {
  if (!so_far.require(from.getAction() <= static_cast<std::uint8_t>(record_action::end_traces),
                      "its action is unknown"))
    return {};
  return {static_cast<record_action>(from.getAction()), {from.getSteps(), from.getBytes()}};
}

} // namespace

envelope encode(const write_records& value) {
  assert(value.folder.size() <= label_limit_bytes);
  return write(address{}, [&](auto body) {
    auto to = body.initWriteRecords();
    to.setWireVersion(value.wire_version);
    to.setFolder(data_of(value.folder));
    to.setCaller(value.caller);
    write_task(to.initOrder(), value.task);
  });
}

envelope encode(const records_written& value) {
  const auto problem = shortened(value.problem);
  return write(address{}, [&](auto body) {
    auto to = body.initRecordsWritten();
    to.setProblem(text_of(problem));
    to.setFiles(value.files);
    to.setCaller(value.caller);
    auto notices =
        to.initNotices(static_cast<kj::uint>(std::min<std::size_t>(value.notices.size(), most_notices)));
    for (kj::uint i = 0; i < notices.size(); ++i)
      notices.set(i, text_of(shortened(value.notices[i])));
  });
}

envelope encode(const record_request& value) {
  return write(address{}, [&](auto body) {
    auto to = body.initSendRecords();
    to.setRequest(value.number);
    write_task(to.initOrder(), value.task);
  });
}

envelope encode(const record_part& value) {
  assert(value.bytes.size() <= most_record_part_bytes);
  return write(address{}, [&](auto body) {
    auto to = body.initRecordPart();
    to.setRequest(value.request);
    to.setSlot(value.slot);
    to.setOffset(value.offset);
    to.setBytes(data_of(value.bytes));
  });
}

envelope encode(const record_part_taken& value) {
  return write(address{}, [&](auto body) { body.initRecordPartTaken().setRequest(value.request); });
}

envelope encode(const records_sent& value) {
  const auto problem = shortened(value.problem);
  return write(address{}, [&](auto body) {
    auto to = body.initRecordsSent();
    to.setRequest(value.request);
    to.setProblem(text_of(problem));
  });
}

expected<write_records> decode_write_records(const envelope& message) {
  return decode<write_records>(
      message, body_kind::WRITE_RECORDS, "request for records",
      [](body_reader body, write_records& value, validation& so_far) {
        auto from = body.getWriteRecords();
        value.wire_version = from.getWireVersion();
        // In another version no other field is read; the receiver answers with both version numbers.
        if (value.wire_version != wire_version)
          return;
        value.caller = from.getCaller();
        value.task = read_task(from.getOrder(), so_far);
        value.folder = read_bytes(from.getFolder(), label_limit_bytes, "its path is too long", so_far);
        // Traces are written to a folder only at their end.
        so_far.require(value.folder.starts_with('/') ||
                           (value.folder.empty() && value.task.action == record_action::begin_traces),
                       "its path is not absolute");
        so_far.require(value.folder.find('\0') == std::string::npos, "its path contains a zero byte");
      });
}

expected<records_written> decode_records_written(const envelope& message) {
  return decode<records_written>(
      message, body_kind::RECORDS_WRITTEN, "answer about records",
      [](body_reader body, records_written& value, validation& so_far) {
        auto from = body.getRecordsWritten();
        value.problem = read_text(from.getProblem(), text_limit_bytes, "its problem is too long", so_far);
        value.files = from.getFiles();
        value.caller = from.getCaller();
        auto notices = from.getNotices();
        if (!so_far.require(notices.size() <= most_notices, "it has too many notices"))
          return;
        for (const auto notice : notices)
          value.notices.push_back(read_text(notice, text_limit_bytes, "a notice is too long", so_far));
      });
}

expected<record_request> decode_record_request(const envelope& message) {
  return decode<record_request>(message, body_kind::SEND_RECORDS, "request for records",
                                [](body_reader body, record_request& value, validation& so_far) {
                                  auto from = body.getSendRecords();
                                  value = {from.getRequest(), read_task(from.getOrder(), so_far)};
                                });
}

expected<record_part> decode_record_part(const envelope& message) {
  return decode<record_part>(
      message, body_kind::RECORD_PART, "part of a record",
      [](body_reader body, record_part& value, validation& so_far) {
        auto from = body.getRecordPart();
        value.request = from.getRequest();
        value.slot = from.getSlot();
        so_far.require(value.slot >= 0 && value.slot < member_limit, "its slot is out of range");
        value.offset = from.getOffset();
        value.bytes = read_bytes(from.getBytes(), most_record_part_bytes, "it is too long", so_far);
        so_far.require(value.offset <= most_record_bytes - most_record_part_bytes,
                       "its position is out of range");
      });
}

expected<record_part_taken> decode_record_part_taken(const envelope& message) {
  return decode<record_part_taken>(message, body_kind::RECORD_PART_TAKEN, "acknowledgement of a record",
                                   [](body_reader body, record_part_taken& value, validation&) {
                                     value.request = body.getRecordPartTaken().getRequest();
                                   });
}

expected<records_sent> decode_records_sent(const envelope& message) {
  return decode<records_sent>(message, body_kind::RECORDS_SENT, "end of the records",
                              [](body_reader body, records_sent& value, validation& so_far) {
                                auto from = body.getRecordsSent();
                                value.request = from.getRequest();
                                value.problem = read_text(from.getProblem(), text_limit_bytes,
                                                          "its problem is too long", so_far);
                              });
}

} // namespace farandole
