#include "messages/wire/envelope.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace farandole {

namespace {

capnp::ReaderOptions reader_options(const message_limits& limits) {
  capnp::ReaderOptions options;
  // Lists of empty structs cost no bytes but still count here, so amplification is bounded as well.
  options.traversalLimitInWords = 4 * (limits.bytes / sizeof(capnp::word)) + 1024;
  options.nestingLimit = static_cast<int>(limits.nesting);
  return options;
}

/// A larger message has several segments, with longer pointers between them.
constexpr std::size_t workspace_words = (std::size_t{1} << 16) / sizeof(capnp::word);

thread_local message_builder::words of_the_last_builder;

} // namespace

// Cap'n Proto needs zeroed memory, and clears the part that it used when the builder is destroyed.
message_builder::workspace::workspace() : memory(std::move(of_the_last_builder)) {
  if (!memory)
    memory.reset(static_cast<capnp::word*>(std::calloc(workspace_words, sizeof(capnp::word))));
  if (!memory)
    throw std::bad_alloc();
}

message_builder::workspace::~workspace() {
  of_the_last_builder = std::move(memory);
}

message_builder::message_builder() : builder_(kj::arrayPtr(space_.memory.get(), workspace_words)) {}

struct envelope::words {
  words(kj::Array<capnp::word> array, const message_limits& limits)
      : flat(kj::mv(array)), reader(flat, reader_options(limits)) {}

  kj::Array<capnp::word> flat;
  mutable capnp::FlatArrayMessageReader reader;
};

envelope::envelope(kj::Array<capnp::word> flat, const message_limits& limits)
    : words_(std::make_shared<const words>(kj::mv(flat), limits)) {
  auto root = read();
  generation_ = root.getGeneration();
  set_ = root.getSet();
  source_ = root.getSource();
  target_ = root.getTarget();
  kind_ = root.getBody().which();
}

expected<envelope> envelope::parse(std::span<const std::byte> bytes, const message_limits& limits) {
  auto malformed = [](std::string reason) {
    return error{error_kind::invalid_argument, "malformed message: " + reason};
  };
  if (bytes.size() > limits.bytes)
    return malformed(std::to_string(bytes.size()) + " bytes, at most " + std::to_string(limits.bytes) +
                     " are taken");
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0)
    return malformed("length " + std::to_string(bytes.size()) + " is no positive multiple of 8");
  try {
    auto flat = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
    std::memcpy(flat.begin(), bytes.data(), bytes.size());
    if (capnp::expectedSizeInWordsFromPrefix(flat) != flat.size())
      return malformed("its segment table disagrees with its length");
    return envelope{kj::mv(flat), limits};
  } catch (const kj::Exception& problem) {
    return malformed(problem.getDescription().cStr());
  }
}

wire::Envelope::Reader envelope::read() const {
  return words_->reader.getRoot<wire::Envelope>();
}

std::span<const std::byte> envelope::bytes() const {
  auto view = words_->flat.asBytes();
  return {reinterpret_cast<const std::byte*>(view.begin()), view.size()};
}

} // namespace farandole
