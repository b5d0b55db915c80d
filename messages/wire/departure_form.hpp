// Encoding of departures, for the messages that contain one. Only messages/ includes this header.
#pragma once

#include "messages/wire/decoding.hpp"
#include "messages/wire/departure.capnp.h"
#include "messages/wire/departure.hpp"

namespace farandole::wire_form {

inline void write(wire::Departure::Builder to, const departure& value) {
  to.setKind(static_cast<std::uint8_t>(value.kind));
  to.setException(text_of(value.exception));
  to.setSubmitted(value.submitted);
  to.setCode(value.code);
}

inline departure read(wire::Departure::Reader from, validation& so_far) {
  departure value;
  if (so_far.require(from.getKind() < departure_kind_count, "the kind of a departure is unknown"))
    value.kind = static_cast<departure_kind>(from.getKind());
  value.exception =
      read_text(from.getException(), exception_limit_bytes, "an exception's text is too long", so_far);
  so_far.require(printable_line(value.exception) == value.exception, "an exception's text is not printable");
  value.submitted = from.getSubmitted();
  value.code = from.getCode();
  return value;
}

} // namespace farandole::wire_form
