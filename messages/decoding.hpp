// What all encoders and decoders of this folder share: opening a message afresh, so that reading it many
// times never wears out its limits; the first broken rule, kept as a value; text and lists with bounds. Only
// messages/ includes this header.
#pragma once

#include <capnp/serialize.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "messages/envelope.hpp"
#include "messages/negotiation.hpp"

namespace farandole::wire_form {

/// Longest list of anything in one message.
inline constexpr std::size_t list_limit = std::size_t{1} << 20;
/// Longest reason or explanation; senders cut theirs to it.
inline constexpr std::size_t text_limit_bytes = std::size_t{64} << 10;

/// Remembers the first rule that was broken. Rules are literals, so checking costs a branch and no
/// allocation.
class verdict {
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

/// Copies a text of at most `most` bytes; a longer one breaks `rule` and reads as empty.
inline std::string read_text(capnp::Text::Reader text, std::size_t most, const char* rule, verdict& so_far) {
  if (!so_far.require(text.size() <= most, rule))
    return {};
  return {text.begin(), text.size()};
}

inline capnp::Text::Reader text_of(const std::string& text) {
  return {text.c_str(), text.size()};
}

/// The text, cut at a character's border to what decoders take.
inline std::string shortened(const std::string& text) {
  if (text.size() <= text_limit_bytes)
    return text;
  auto size = text_limit_bytes;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U)
    --size;
  return text.substr(0, size);
}

/// Words that a text takes behind its pointer.
constexpr std::size_t words_of_text(std::size_t bytes) {
  return bytes / sizeof(capnp::word) + 1;
}

/// A message of this sender, whose body `fill(body)` writes in about so many words.
template <class Fill>
envelope write(const address& from, std::size_t guess_words, Fill&& fill) {
  return envelope::write(
      [&](wire::Envelope::Builder root) {
        root.setGeneration(from.generation);
        root.setSet(from.set);
        root.setSource(from.source);
        fill(root.initBody());
      },
      guess_words + 16);
}

inline error malformed(std::string_view what, std::string_view why) {
  return {error_kind::invalid_argument, "malformed " + std::string{what} + ": " + std::string{why}};
}

/// Opens `message`, checks that its body is a `kind`, and hands the body's union to `read(body, value,
/// verdict&)`. Whatever goes wrong, in form or in a rule, comes back as an error that begins with "malformed
/// `what`".
template <class Value, class Read>
expected<Value> decode(const envelope& message, wire::Envelope::Body::Which kind, std::string_view what,
                       Read&& read) {
  if (!message || message.kind() != kind)
    return malformed(what, "the message holds something else");
  try {
    auto bytes = message.bytes();
    kj::ArrayPtr<const capnp::word> words{reinterpret_cast<const capnp::word*>(bytes.data()),
                                          bytes.size() / sizeof(capnp::word)};
    capnp::ReaderOptions options;
    // An honest message is traversed once; pointers that share an object are paid for each time they are
    // followed.
    options.traversalLimitInWords = 2 * words.size() + 1024;
    options.nestingLimit = static_cast<int>(message_limits{}.nesting);
    capnp::FlatArrayMessageReader reader{words, options};
    Value value;
    verdict so_far;
    read(reader.getRoot<wire::Envelope>().getBody(), value, so_far);
    if (!so_far.good())
      return malformed(what, so_far.broken());
    return expected<Value>{std::move(value)};
  } catch (const kj::Exception& problem) {
    return malformed(what, problem.getDescription().cStr());
  }
}

} // namespace farandole::wire_form
