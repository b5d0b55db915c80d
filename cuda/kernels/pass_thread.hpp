// What a thread of a kernel does, and how the work is divided.
//
// The elements of all pieces, one piece behind the other, are divided into equal shares, one for each block,
// so blocks have equal numbers of bytes for any sizes of the pieces. A block finds its first piece
// by binary search, and goes on to the next one until its share ends. Its threads take turns: each moves 16
// bytes of the narrower type, a packet, where the addresses of the piece allow it, which is where input and
// output are both multiples of 16 at the same element. The elements before the first and behind the last of
// such places are moved one by one. A share that ends inside of a packet ends behind it instead, so all but
// the first and the last elements of a piece are in packets. Where the two addresses never are multiples of
// 16 together, all elements are moved one by one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/device_code.hpp"
#include "cuda/kernels/pass_arguments.hpp"

namespace farandole::kernels {

struct thread_place {
  std::uint32_t block = 0;
  std::uint32_t thread = 0; ///< in its block, of threads_of_block
};

/// The first piece that ends behind the position, or `count`.
FARANDOLE_HOST_DEVICE inline std::uint32_t piece_at(const piece_entry* pieces, std::uint32_t count,
                                                    std::uint64_t position) {
  std::uint32_t first = 0;
  while (count > 0) {
    const auto half = count / 2;
    if (pieces[first + half].end <= position) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

inline constexpr std::uint32_t packet_bytes = 16;

/// Elements that a thread loads and stores by accesses of 16 bytes. They stay in words until they are
/// computed with: that takes a fraction of the registers.
template <unsigned Bytes>
struct alignas(packet_bytes) packet {
  std::uint32_t words[Bytes / sizeof(std::uint32_t)];
};

/// Where the packets of a piece are, in elements of the piece.
template <class Source, class Target>
struct packet_layout {
  static constexpr unsigned narrower = sizeof(Source) < sizeof(Target) ? sizeof(Source) : sizeof(Target);
  static constexpr unsigned elements_of_packet = packet_bytes / narrower;

  std::uint64_t first = 0; ///< element of the first packet
  bool exists = false;

  FARANDOLE_HOST_DEVICE packet_layout(std::uint64_t input, std::uint64_t output) {
    const bool by_input = input != 0 && sizeof(Source) < sizeof(Target);
    const auto before = (packet_bytes - (by_input ? input : output) % packet_bytes) % packet_bytes;
    first = before / (by_input ? sizeof(Source) : sizeof(Target));
    exists = (output + first * sizeof(Target)) % packet_bytes == 0 &&
             (input == 0 || (input + first * sizeof(Source)) % packet_bytes == 0);
  }

  /// The place at or behind an element, at most `end`, where a share may end.
  FARANDOLE_HOST_DEVICE std::uint64_t place_for(std::uint64_t element, std::uint64_t end) const {
    if (!exists || element == 0)
      return element < end ? element : end;
    const auto behind = element > first ? element - first : 0;
    const auto packets = (behind + elements_of_packet - 1) / elements_of_packet;
    const auto place = first + packets * elements_of_packet;
    return place < end ? place : end;
  }
};

/// Moves elements of one piece.
template <class Operation>
class piece_pass {
public:
  using source = typename Operation::source;
  using target = typename Operation::target;
  using layout = packet_layout<source, target>;

  FARANDOLE_HOST_DEVICE piece_pass(const Operation& operation, std::uint64_t neutral,
                                   const piece_entry& piece)
      : operation_(operation), neutral_(neutral_element(neutral)),
        input_(reinterpret_cast<const source*>(piece.input)),
        output_(reinterpret_cast<target*>(piece.output)), layout_(piece.input, piece.output) {}

  /// The places where shares end are the same for both blocks.
  FARANDOLE_HOST_DEVICE void run(std::uint64_t begin, std::uint64_t end, std::uint64_t elements,
                                 thread_place place) const {
    begin = layout_.place_for(begin, elements);
    end = layout_.place_for(end, elements);
    auto packets_begin = begin > layout_.first ? begin : layout_.first;
    packets_begin = packets_begin < end && layout_.exists ? packets_begin : end;
    const auto packets = static_cast<std::uint32_t>((end - packets_begin) / layout::elements_of_packet);
    const auto packets_end = packets_begin + std::uint64_t{packets} * layout::elements_of_packet;
    run_packets(packets_begin, packets, place);
    run_elements(begin, packets_begin, packets_end, end, place);
  }

private:
  static constexpr unsigned elements_of_packet = layout::elements_of_packet;
  using source_packet = packet<elements_of_packet * sizeof(source)>;
  using target_packet = packet<elements_of_packet * sizeof(target)>;
  struct source_elements {
    source values[elements_of_packet];
  };
  struct target_elements {
    target values[elements_of_packet];
  };
  static constexpr unsigned turns = Operation::packets_at_once;

  static constexpr unsigned neutral_bytes = 8; ///< of which an element is the first

  FARANDOLE_HOST_DEVICE static target neutral_element(std::uint64_t neutral) {
    struct elements {
      target values[neutral_bytes / sizeof(target)];
    };
    return __builtin_bit_cast(elements, neutral).values[0];
  }

  FARANDOLE_HOST_DEVICE target_packet result_of(const source_packet& loaded) const {
    if constexpr (Operation::is_copy) {
      return loaded;
    } else {
      const auto elements = __builtin_bit_cast(source_elements, loaded);
      target_elements results;
      for (unsigned i = 0; i < elements_of_packet; ++i)
        results.values[i] = operation_(elements.values[i]);
      return __builtin_bit_cast(target_packet, results);
    }
  }

  FARANDOLE_HOST_DEVICE target_packet neutral_packet() const {
    target_elements results;
    for (unsigned i = 0; i < elements_of_packet; ++i)
      results.values[i] = neutral_;
    return __builtin_bit_cast(target_packet, results);
  }

  FARANDOLE_HOST_DEVICE void run_packets(std::uint64_t begin, std::uint32_t packets,
                                         thread_place place) const {
    auto* output = reinterpret_cast<target_packet*>(output_ + begin);
    auto i = place.thread;
    if (input_ == nullptr) {
      for (const auto neutral = neutral_packet(); i < packets; i += threads_of_block)
        output[i] = neutral;
      return;
    }
    const auto* input = reinterpret_cast<const source_packet*>(input_ + begin);
    for (; packets - i > (turns - 1) * threads_of_block && i < packets; i += turns * threads_of_block) {
      source_packet loaded[turns];
      for (unsigned turn = 0; turn < turns; ++turn)
        loaded[turn] = input[i + turn * threads_of_block];
      for (unsigned turn = 0; turn < turns; ++turn)
        output[i + turn * threads_of_block] = result_of(loaded[turn]);
    }
    for (; i < packets; i += threads_of_block)
      output[i] = result_of(input[i]);
  }

  /// The elements before and behind the packets.
  FARANDOLE_HOST_DEVICE void run_elements(std::uint64_t begin, std::uint64_t packets_begin,
                                          std::uint64_t packets_end, std::uint64_t end,
                                          thread_place place) const {
    const auto before = static_cast<std::uint32_t>(packets_begin - begin);
    const auto count = before + static_cast<std::uint32_t>(end - packets_end);
    for (auto i = place.thread; i < count; i += threads_of_block) {
      const auto element = i < before ? begin + i : packets_end + (i - before);
      output_[element] = input_ == nullptr ? neutral_ : operation_(input_[element]);
    }
  }

  const Operation& operation_;
  target neutral_;
  const source* input_;
  target* output_;
  layout layout_;
};

template <class Operation>
FARANDOLE_HOST_DEVICE inline void run_thread(const pass_header& header, const piece_entry* pieces,
                                             thread_place place) {
  const Operation operation(header.scale);
  const auto begin = place.block * header.share;
  const auto end = begin + header.share;
  for (auto index = piece_at(pieces, header.count, begin); index < header.count; ++index) {
    const auto piece_begin = index == 0 ? 0 : pieces[index - 1].end;
    if (piece_begin >= end)
      return;
    const auto& piece = pieces[index];
    const auto first = begin > piece_begin ? begin - piece_begin : 0;
    piece_pass<Operation>(operation, header.neutral, piece)
        .run(first, end - piece_begin, piece.end - piece_begin, place);
  }
}

} // namespace farandole::kernels
