// An immutable message: written once, then read in place, without a copy, by all of its readers. Within a
// process it is shared by pointer; between processes its words are sent unchanged. Reading is bounded: a
// message that is too large, too deep or malformed is an error, never a crash.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/envelope.capnp.h"

namespace farandole {

/// Both ends of a link must have the same version. Incremented with every change of a schema.
inline constexpr std::uint32_t wire_version = 21;

/// Limits of the cost of a message for its reader, checked before any field is used.
struct message_limits {
  std::size_t bytes = std::size_t{64} << 20; ///< largest serialised message
  unsigned nesting = 16;                     ///< deepest pointer chain
};

/// Builds a message in a workspace that its thread reuses for the next one; flat() copies the message into an
/// array of its exact size. A builder must not move to another thread.
class message_builder {
public:
  message_builder();

  template <class Root>
  typename Root::Builder root() {
    return builder_.initRoot<Root>();
  }

  /// The message with its segment table.
  kj::Array<capnp::word> flat() { return capnp::messageToFlatArray(builder_); }

  struct released {
    void operator()(capnp::word* memory) const { std::free(memory); }
  };
  using words = std::unique_ptr<capnp::word, released>;

private:
  struct workspace {
    workspace();
    ~workspace();
    workspace(const workspace&) = delete;
    workspace& operator=(const workspace&) = delete;
    words memory;
  };

  workspace space_;
  capnp::MallocMessageBuilder builder_;
};

/// Thread-safe to copy and to read from several threads.
class envelope {
public:
  envelope() = default;

  /// Creates an envelope from the message that `fill(wire::Envelope::Builder)` writes.
  template <class Fill>
  static envelope write(Fill&& fill) {
    message_builder builder;
    fill(builder.root<wire::Envelope>());
    return envelope{builder.flat(), {}};
  }

  /// Copies and checks bytes from another process: whole words, one well-formed segment table, a root, within
  /// the limits. Fields are still read lazily: the decoders in this folder detect malformed fields.
  static expected<envelope> parse(std::span<const std::byte> bytes, const message_limits& limits = {});

  explicit operator bool() const { return words_ != nullptr; }

  /// Valid as long as any copy of this envelope lives. May throw kj::Exception if fields are malformed, and also
  /// after very many reads, because the traversal limit applies to all reads together. Decoders open `bytes()`
  /// with a new reader instead.
  wire::Envelope::Reader read() const;

  /// The message as it is sent.
  std::span<const std::byte> bytes() const;

  std::uint64_t generation() const { return generation_; }
  std::uint32_t set() const { return set_; }
  std::int32_t source() const { return source_; }
  std::int32_t target() const { return target_; }
  wire::Envelope::Body::Which kind() const { return kind_; }

private:
  struct words;
  envelope(kj::Array<capnp::word> flat, const message_limits& limits);

  std::shared_ptr<const words> words_;
  std::uint64_t generation_ = 0;
  std::uint32_t set_ = 0;
  std::int32_t source_ = -1;
  std::int32_t target_ = -1;
  wire::Envelope::Body::Which kind_ = wire::Envelope::Body::NONE;
};

} // namespace farandole
