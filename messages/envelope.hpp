// An immutable message: written once, then read in place by whoever holds it. Inside a process it is shared
// by pointer; between processes its words travel as they are. Reading is bounded: a message that is too
// large, too deep or malformed is an error, never a crash.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "messages/envelope.capnp.h"
#include "messages/error.hpp"

namespace farandole {

/// Both ends of a link must have the same number. Raised with every change of a schema.
inline constexpr std::uint32_t wire_version = 12;

/// What a message may cost its reader, checked before a field of it is believed.
struct message_limits {
  std::size_t bytes = std::size_t{64} << 20; ///< largest serialised message
  unsigned nesting = 16;                     ///< deepest pointer chain
};

/// Builds a message right where it will stay: one array with room for the segment table in front, so that a
/// message that fits the guess is written once and never copied.
class flat_builder final : public capnp::MessageBuilder {
public:
  /// `guess_words`: how much the message will take; too little only costs a copy.
  explicit flat_builder(std::size_t guess_words);

  kj::ArrayPtr<capnp::word> allocateSegment(kj::uint minimum_words) override;

  /// The message with its segment table; `used_words` of the array count. Call once, at the end.
  kj::Array<capnp::word> finish(std::size_t& used_words);

private:
  kj::Array<capnp::word> flat_;
  std::vector<kj::Array<capnp::word>> more_;
  bool first_given_ = false;
};

/// Thread-safe to copy and to read from several threads.
class envelope {
public:
  envelope() = default;

  /// Takes what `fill(wire::Envelope::Builder)` wrote.
  template <class Fill>
  static envelope write(Fill&& fill, std::size_t guess_words = 64) {
    flat_builder builder{guess_words};
    fill(builder.initRoot<wire::Envelope>());
    std::size_t used_words = 0;
    auto flat = builder.finish(used_words);
    return envelope{kj::mv(flat), used_words};
  }

  /// Copies and checks bytes that came from outside: whole words, one well-formed segment table, a root,
  /// within the limits. Fields are still read lazily: the decoders in this folder catch what is malformed
  /// further in.
  static expected<envelope> parse(std::span<const std::byte> bytes, const message_limits& limits = {});

  explicit operator bool() const { return words_ != nullptr; }

  /// Valid as long as any copy of this envelope lives. May throw kj::Exception when fields are malformed, and
  /// after very many reads too: what may be traversed is limited over all of them. Decoders open `bytes()`
  /// afresh instead.
  wire::Envelope::Reader read() const;

  /// As it goes on the wire.
  std::span<const std::byte> bytes() const;

  std::uint64_t generation() const { return generation_; }
  std::uint32_t set() const { return set_; }
  std::int32_t source() const { return source_; }
  std::int32_t target() const { return target_; }
  wire::Envelope::Body::Which kind() const { return kind_; }

private:
  struct words;
  envelope(kj::Array<capnp::word> flat, std::size_t used_words);
  void load_header();

  std::shared_ptr<const words> words_;
  std::uint64_t generation_ = 0;
  std::uint32_t set_ = 0;
  std::int32_t source_ = -1;
  std::int32_t target_ = -1;
  wire::Envelope::Body::Which kind_ = wire::Envelope::Body::NONE;
};

} // namespace farandole
