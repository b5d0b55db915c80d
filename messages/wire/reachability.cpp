#include "messages/wire/reachability.hpp"

#include "messages/wire/decoding.hpp"

namespace farandole {

namespace {

using wire_form::count_of;
using wire_form::decode;
using wire_form::read_label;
using wire_form::read_text;
using wire_form::shortened;
using wire_form::text_limit_bytes;
using wire_form::text_of;
using wire_form::validation;
using wire_form::write;
using wire_form::write_each;

using body_reader = wire::Envelope::Body::Reader;
using body_kind = wire::Envelope::Body;
using addresses_reader = capnp::List<wire::TestedAddress>::Reader;

constexpr const char* too_many = "it has too many addresses";

void write_address(wire::TestedAddress::Builder to, const tested_address& value) {
  to.setAddress(text_of(value.address));
  to.setPort(value.port);
  const auto problem = shortened(value.problem);
  to.setProblem(text_of(problem));
}

std::vector<tested_address> read_addresses(addresses_reader from, validation& so_far) {
  std::vector<tested_address> values;
  if (so_far.require(from.size() <= most_tested_addresses, too_many))
    for (const auto entry : from)
      values.push_back({read_label(entry.getAddress(), so_far), entry.getPort(),
                        read_text(entry.getProblem(), text_limit_bytes, "a reason is too long", so_far)});
  return values;
}

} // namespace

envelope encode(const address_test& value) {
  return write({}, [&](auto body) {
    auto to = body.initTestAddresses();
    auto listen = to.initListen(count_of(value.listen));
    for (kj::uint i = 0; i < listen.size(); ++i)
      listen.set(i, text_of(value.listen[i]));
    write_each(to.initDial(count_of(value.dial)), value.dial, write_address);
    to.setTimeoutMilliseconds(value.timeout_ms);
  });
}

envelope encode(const address_report& value) {
  return write({}, [&](auto body) {
    auto to = body.initAddressesTested();
    write_each(to.initListening(count_of(value.listening)), value.listening, write_address);
    write_each(to.initDialled(count_of(value.dialled)), value.dialled, write_address);
  });
}

expected<address_test> decode_address_test(const envelope& message) {
  return decode<address_test>(message, body_kind::TEST_ADDRESSES, "test of addresses",
                              [](body_reader body, address_test& value, validation& so_far) {
                                auto from = body.getTestAddresses();
                                auto listen = from.getListen();
                                if (so_far.require(listen.size() <= most_tested_addresses, too_many))
                                  for (const auto entry : listen)
                                    value.listen.push_back(read_label(entry, so_far));
                                value.dial = read_addresses(from.getDial(), so_far);
                                value.timeout_ms = from.getTimeoutMilliseconds();
                              });
}

expected<address_report> decode_address_report(const envelope& message) {
  return decode<address_report>(message, body_kind::ADDRESSES_TESTED, "report about addresses",
                                [](body_reader body, address_report& value, validation& so_far) {
                                  auto from = body.getAddressesTested();
                                  value.listening = read_addresses(from.getListening(), so_far);
                                  value.dialled = read_addresses(from.getDialled(), so_far);
                                });
}

} // namespace farandole
