#include "messages/envelope.hpp"

#include <cstring>

namespace farandole {

namespace {

capnp::ReaderOptions reader_options(const message_limits& limits) {
  capnp::ReaderOptions options;
  // Lists of empty structs cost no bytes but still count here, so amplification is bounded as well.
  options.traversalLimitInWords = 4 * (limits.bytes / sizeof(capnp::word)) + 1024;
  options.nestingLimit = static_cast<int>(limits.nesting);
  return options;
}

} // namespace

struct envelope::words {
  words(kj::Array<capnp::word> array, const message_limits& limits)
      : flat(kj::mv(array)), reader(flat, reader_options(limits)) {}

  kj::Array<capnp::word> flat;
  mutable capnp::FlatArrayMessageReader reader;
};

envelope::envelope(kj::Array<capnp::word> flat)
    : words_(std::make_shared<const words>(kj::mv(flat), message_limits{})) {
  load_header();
}

expected<envelope> envelope::parse(std::span<const std::byte> bytes, const message_limits& limits) {
  auto malformed = [](std::string why) { return error{error_kind::invalid_argument, "malformed message: " + why}; };
  if (bytes.size() > limits.bytes)
    return malformed(std::to_string(bytes.size()) + " bytes, at most " + std::to_string(limits.bytes) + " are taken");
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0)
    return malformed("length " + std::to_string(bytes.size()) + " is no positive multiple of 8");
  try {
    auto flat = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
    std::memcpy(flat.begin(), bytes.data(), bytes.size());
    if (capnp::expectedSizeInWordsFromPrefix(flat) != flat.size())
      return malformed("its segment table disagrees with its length");
    envelope result;
    result.words_ = std::make_shared<const words>(kj::mv(flat), limits);
    result.load_header();
    return result;
  } catch (const kj::Exception& problem) {
    return malformed(problem.getDescription().cStr());
  }
}

wire::Envelope::Reader envelope::read() const { return words_->reader.getRoot<wire::Envelope>(); }

std::span<const std::byte> envelope::bytes() const {
  auto view = words_->flat.asBytes();
  return {reinterpret_cast<const std::byte*>(view.begin()), view.size()};
}

void envelope::load_header() {
  auto root = read();
  generation_ = root.getGeneration();
  set_ = root.getSet();
  source_ = root.getSource();
  kind_ = root.getBody().which();
}

} // namespace farandole
