#include "messages/envelope.hpp"

#include <algorithm>
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

flat_builder::flat_builder(std::size_t guess_words)
    : flat_(kj::heapArray<capnp::word>(std::max<std::size_t>(guess_words, 8) + 1)) {
  // Cap'n Proto builds on zeroes only.
  std::memset(static_cast<void*>(flat_.begin()), 0, flat_.size() * sizeof(capnp::word));
}

kj::ArrayPtr<capnp::word> flat_builder::allocateSegment(kj::uint minimum_words) {
  if (!first_given_) {
    first_given_ = true;
    if (minimum_words < flat_.size())
      return flat_.slice(1, flat_.size());
  }
  std::size_t words = std::max<std::size_t>(minimum_words, flat_.size());
  for (auto& segment : more_)
    words = std::max(words, segment.size());
  auto segment = kj::heapArray<capnp::word>(words);
  std::memset(static_cast<void*>(segment.begin()), 0, words * sizeof(capnp::word));
  more_.push_back(kj::mv(segment));
  return more_.back();
}

kj::Array<capnp::word> flat_builder::finish(std::size_t& used_words) {
  auto segments = getSegmentsForOutput();
  if (segments.size() == 1 && segments[0].begin() == flat_.begin() + 1) {
    used_words = segments[0].size() + 1;
    // The table of one segment: its count less one, then its length, both 32 bits, little-endian.
    auto* table = reinterpret_cast<unsigned char*>(flat_.begin());
    for (int byte = 0; byte < 4; ++byte)
      table[4 + byte] = static_cast<unsigned char>(segments[0].size() >> (8 * byte));
    return kj::mv(flat_);
  }
  auto copy = capnp::messageToFlatArray(segments);
  used_words = copy.size();
  return copy;
}

struct envelope::words {
  words(kj::Array<capnp::word> array, std::size_t used_words, const message_limits& limits)
      : flat(kj::mv(array)), used(flat.slice(0, used_words)), reader(used, reader_options(limits)) {}

  kj::Array<capnp::word> flat;
  kj::ArrayPtr<const capnp::word> used;
  mutable capnp::FlatArrayMessageReader reader;
};

envelope::envelope(kj::Array<capnp::word> flat, std::size_t used_words)
    : words_(std::make_shared<const words>(kj::mv(flat), used_words, message_limits{})) {
  load_header();
}

expected<envelope> envelope::parse(std::span<const std::byte> bytes, const message_limits& limits) {
  auto malformed = [](std::string why) {
    return error{error_kind::invalid_argument, "malformed message: " + why};
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
    envelope result;
    auto size = flat.size();
    result.words_ = std::make_shared<const words>(kj::mv(flat), size, limits);
    result.load_header();
    return result;
  } catch (const kj::Exception& problem) {
    return malformed(problem.getDescription().cStr());
  }
}

wire::Envelope::Reader envelope::read() const {
  return words_->reader.getRoot<wire::Envelope>();
}

std::span<const std::byte> envelope::bytes() const {
  auto view = words_->used.asBytes();
  return {reinterpret_cast<const std::byte*>(view.begin()), view.size()};
}

void envelope::load_header() {
  auto root = read();
  generation_ = root.getGeneration();
  set_ = root.getSet();
  source_ = root.getSource();
  target_ = root.getTarget();
  kind_ = root.getBody().which();
}

} // namespace farandole
