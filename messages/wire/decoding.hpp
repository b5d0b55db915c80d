// Helpers of all encoders and decoders of this folder. Only messages/ includes this header.
// - A message is opened by a new reader for each decoding, so that repeated reads never exhaust its limits.
// - The first broken rule is kept as a value.
// - Texts and lists are bounded.
#pragma once

#include <capnp/serialize.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "messages/wire/envelope.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole::wire_form {

/// Longest list in a message.
inline constexpr std::size_t list_limit = std::size_t{1} << 20;
/// Longest reason or explanation; senders truncate theirs to it.
inline constexpr std::size_t text_limit_bytes = std::size_t{64} << 10;

/// Remembers the first rule that was broken. Rules are literals, so checking costs a branch and no
/// allocation.
class validation {
public:
  bool require(bool holds, const char* rule) {
    if (!holds && !broken_)
      broken_ = rule;
    return holds;
  }
  bool good() const { return !broken_; }
  const char* broken() const { return broken_; }

private:
  const char* broken_ = nullptr;
};

/// Copies a text of at most `limit` bytes; a longer one breaks `rule` and reads as empty.
inline std::string read_text(capnp::Text::Reader text, std::size_t limit, const char* rule,
                             validation& so_far) {
  if (!so_far.require(text.size() <= limit, rule))
    return {};
  return {text.begin(), text.size()};
}

/// Longest host identity, host name, address, name of a path or setting.
inline constexpr std::size_t label_limit_bytes = 4096;

inline std::string read_label(capnp::Text::Reader text, validation& so_far) {
  return read_text(text, label_limit_bytes, "a host, an address or a setting is too long", so_far);
}

inline capnp::Text::Reader text_of(const std::string& text) {
  return {text.c_str(), text.size()};
}

/// The text, truncated at a character boundary to the length that decoders accept.
inline std::string shortened(const std::string& text) {
  if (text.size() <= text_limit_bytes)
    return text;
  auto size = text_limit_bytes;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U)
    --size;
  return text.substr(0, size);
}

/// The length of the list for these values.
template <class Values>
kj::uint count_of(const Values& values) {
  assert(values.size() <= list_limit);
  return static_cast<kj::uint>(values.size());
}

/// Fills a list of structs of the same length with `write_one(element, value)`.
template <class List, class Values, class Write>
void write_each(List to, const Values& values, Write&& write_one) {
  for (kj::uint i = 0; i < to.size(); ++i)
    write_one(to[i], values[i]);
}

/// Fills a list of numbers of the same length.
template <class List, class Values>
void write_numbers(List to, const Values& values) {
  for (kj::uint i = 0; i < to.size(); ++i)
    to.set(i, values[i]);
}

/// A message of this sender; `fill(body)` writes its body.
template <class Fill>
envelope write(const address& from, Fill&& fill) {
  return envelope::write([&](wire::Envelope::Builder root) {
    root.setGeneration(from.generation);
    root.setSet(from.set);
    root.setSource(from.source);
    fill(root.initBody());
  });
}

/// A valid message is traversed once. Cap'n Proto counts an object each time that a pointer to it is followed,
/// and a list each time that it is read.
inline capnp::ReaderOptions limits_for(std::size_t words) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 2 * words + 1024;
  options.nestingLimit = static_cast<int>(message_limits{}.nesting);
  return options;
}

inline error malformed(std::string_view text, std::string_view reason) {
  return {error_kind::invalid_argument, "malformed " + std::string{text} + ": " + std::string{reason}};
}

/// Opens `message`, checks that its body is a `kind`, and passes the body's union to `read(body, value,
/// validation&)`. A malformed message or a broken rule yields an error that begins with "malformed `text`".
template <class Value, class Read>
expected<Value> decode(const envelope& message, wire::Envelope::Body::Which kind, std::string_view text,
                       Read&& read) {
  if (!message || message.kind() != kind)
    return malformed(text, "the message holds something else");
  try {
    auto bytes = message.bytes();
    kj::ArrayPtr<const capnp::word> words{reinterpret_cast<const capnp::word*>(bytes.data()),
                                          bytes.size() / sizeof(capnp::word)};
    capnp::FlatArrayMessageReader reader{words, limits_for(words.size())};
    Value value;
    validation so_far;
    read(reader.getRoot<wire::Envelope>().getBody(), value, so_far);
    if (!so_far.good())
      return malformed(text, so_far.broken());
    return expected<Value>{std::move(value)};
  } catch (const kj::Exception& problem) {
    return malformed(text, problem.getDescription().cStr());
  }
}

/// Encodes a message without an envelope: for a file, or to share it between many envelopes.
template <class Root, class Fill>
std::vector<std::byte> bytes_of(Fill&& fill) {
  message_builder builder;
  fill(builder.template root<Root>());
  const auto flat = builder.flat();
  const auto bytes = std::as_bytes(std::span{flat.begin(), flat.size()});
  return {bytes.begin(), bytes.end()};
}

/// Decodes such a message by `read(root, value, validation&)`, like decode(). The bytes need no alignment.
template <class Value, class Root, class Read>
expected<Value> decode_bytes(std::span<const std::byte> bytes, std::string_view text, Read&& read) {
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0)
    return malformed(text, "it is not made of whole words");
  try {
    auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
    std::memcpy(words.begin(), bytes.data(), bytes.size());
    capnp::FlatArrayMessageReader reader{words, limits_for(words.size())};
    Value value;
    validation so_far;
    read(reader.getRoot<Root>(), value, so_far);
    if (!so_far.good())
      return malformed(text, so_far.broken());
    return expected<Value>{std::move(value)};
  } catch (const kj::Exception& problem) {
    return malformed(text, problem.getDescription().cStr());
  }
}

} // namespace farandole::wire_form
