#include "messages/wire/stalls.hpp"

#include <algorithm>

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
using wire_form::write_numbers;

using body_reader = wire::Envelope::Body::Reader;
using body_kind = wire::Envelope::Body;

} // namespace

envelope encode(const address& from, const stall_notice& value) {
  return write(from, [&](auto body) {
    auto to = body.initStalls();
    to.setSource(static_cast<std::uint8_t>(value.source));
    to.setCount(value.count);
    auto tensors =
        to.initTensors(static_cast<kj::uint>(std::min(value.tensors.size(), most_stalled_tensors)));
    for (kj::uint i = 0; i < tensors.size(); ++i) {
      const auto& tensor = value.tensors[i];
      const auto name = tensor.name.substr(0, label_limit_bytes);
      tensors[i].setName(text_of(name));
      tensors[i].setWaited(static_cast<std::uint64_t>(tensor.waited.count()));
      write_numbers(tensors[i].initMissing(count_of(tensor.missing)), tensor.missing);
    }
  });
}

envelope encode(const address& from, const stall_report& value) {
  const auto text = shortened(value.text);
  return write(from, [&](auto body) {
    auto to = body.initStallReport();
    to.setText(text_of(text));
    to.setOver(value.over);
  });
}

expected<stall_notice> decode_stall_notice(const envelope& message) {
  return decode<stall_notice>(
      message, body_kind::STALLS, "notice of a stall",
      [](body_reader body, stall_notice& value, validation& so_far) {
        auto from = body.getStalls();
        so_far.require(from.getSource() <= static_cast<std::uint8_t>(stall_source::fast_path),
                       "its source is unknown");
        value.source = static_cast<stall_source>(from.getSource());
        value.count = from.getCount();
        auto tensors = from.getTensors();
        if (!so_far.require(tensors.size() <= most_stalled_tensors && tensors.size() <= value.count,
                            "it has too many tensors"))
          return;
        for (const auto entry : tensors) {
          stalled_tensor tensor;
          tensor.name = read_text(entry.getName(), label_limit_bytes, "a name is too long", so_far);
          so_far.require(entry.getWaited() < std::uint64_t{1} << 62, "a time is out of range");
          tensor.waited = std::chrono::nanoseconds(entry.getWaited());
          auto missing = entry.getMissing();
          if (!so_far.require(missing.size() <= static_cast<std::size_t>(member_limit),
                              "there are too many ranks"))
            return;
          for (const auto rank : missing) {
            so_far.require(rank >= 0 && rank < member_limit, "a rank is out of range");
            so_far.require(tensor.missing.empty() || tensor.missing.back() < rank, "ranks do not ascend");
            tensor.missing.push_back(rank);
          }
          value.tensors.push_back(std::move(tensor));
        }
      });
}

expected<stall_report> decode_stall_report(const envelope& message) {
  return decode<stall_report>(message, body_kind::STALL_REPORT, "report of a stall",
                              [](body_reader body, stall_report& value, validation& so_far) {
                                auto from = body.getStallReport();
                                value.text = read_text(from.getText(), text_limit_bytes,
                                                       "its text is too long", so_far);
                                value.over = from.getOver();
                              });
}

} // namespace farandole
