#include "collectives/transport/p2p/goodbye.hpp"

#include <cstring>

namespace farandole {
namespace {

constexpr std::uint32_t mark = 0x31657962;

template <class T>
T read(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, &bytes[offset], sizeof value);
  return value;
}

template <class T>
void write(goodbye::encoded& bytes, std::size_t offset, T value) {
  std::memcpy(&bytes[offset], &value, sizeof value);
}

constexpr bool is_rank_or_none(std::int32_t rank, std::int32_t members) {
  return rank >= -1 && rank < members;
}

} // namespace

goodbye::encoded goodbye::encode() const {
  encoded bytes{};
  write(bytes, 0, awaited.bytes);
  write(bytes, 8, awaited.peer);
  write(bytes, 12, static_cast<std::uint8_t>(awaited.phase));
  write(bytes, 13, static_cast<std::uint8_t>(awaited.receives));
  write(bytes, 16, culprit);
  write(bytes, 20, mark);
  return bytes;
}

std::optional<goodbye> goodbye::decode(std::span<const std::byte> bytes, std::int32_t members) {
  if (bytes.size() != size || read<std::uint32_t>(bytes, 20) != mark || read<std::uint16_t>(bytes, 14) != 0)
    return std::nullopt;
  const auto phase = read<std::uint8_t>(bytes, 12);
  const auto receives = read<std::uint8_t>(bytes, 13);
  if (phase > static_cast<std::uint8_t>(message_phase::barrier) || receives > 1)
    return std::nullopt;
  goodbye decoded;
  decoded.awaited = {read<std::int32_t>(bytes, 8), static_cast<message_phase>(phase), receives == 1,
                     read<std::uint64_t>(bytes, 0)};
  decoded.culprit = read<std::int32_t>(bytes, 16);
  if (!is_rank_or_none(decoded.culprit, members) || !is_rank_or_none(decoded.awaited.peer, members))
    return std::nullopt;
  return decoded;
}

} // namespace farandole
