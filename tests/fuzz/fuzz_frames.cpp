// Feeds arbitrary bytes as a stream of frames to frame_reader, cut into pieces. The cuts must change neither
// the messages nor the result, and the reader must hold at most one message and its header. The first byte
// selects the size of the pieces.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "actors/event_loop/framing.hpp"

namespace {

using namespace farandole;

constexpr std::size_t most_bytes = 1024;

struct outcome {
  std::vector<std::vector<std::byte>> messages;
  bool broken = false;
};

void require(bool holds) {
  if (!holds)
    std::abort();
}

outcome read(std::span<const std::byte> stream, std::size_t piece) {
  frame_reader reader{most_bytes};
  outcome result;
  for (std::size_t at = 0; at < stream.size() && !result.broken; at += piece) {
    result.broken = static_cast<bool>(reader.push(stream.subspan(at, std::min(piece, stream.size() - at))));
    while (auto message = reader.next()) {
      require(!result.broken && !message->empty() && message->size() % 8 == 0 &&
              message->size() <= most_bytes);
      result.messages.emplace_back(message->begin(), message->end());
    }
    require(reader.held_bytes() <= most_bytes + frame_header_bytes);
  }
  if (result.broken)
    require(static_cast<bool>(reader.push(stream)) && !reader.next());
  return result;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2)
    return 0;
  std::span stream{reinterpret_cast<const std::byte*>(data) + 1, size - 1};
  auto cut = read(stream, std::size_t{data[0]} + 1);
  auto whole = read(stream, stream.size());
  require(cut.broken == whole.broken);
  // A broken stream returns no message of the piece in which it broke, so smaller pieces may give more
  // messages.
  require(whole.messages.size() <= cut.messages.size());
  require(std::equal(whole.messages.begin(), whole.messages.end(), cut.messages.begin()));
  if (!whole.broken)
    require(whole.messages.size() == cut.messages.size());

  std::vector<std::byte> written;
  for (const auto& message : cut.messages)
    append_frame(written, message);
  require(std::ranges::equal(written, stream.first(written.size())));
  return 0;
}
