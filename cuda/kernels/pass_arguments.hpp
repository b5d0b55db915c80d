// The argument of a kernel: a structure that the driver copies when it launches the kernel. It holds the
// pieces, so no memory of the device is needed for them. Kernels exist for a small and a large structure: a
// driver copies less for the small one, and drivers before CUDA 12.1 take no larger ones.
#pragma once

#include <cstdint>

namespace farandole::kernels {

struct piece_entry {
  std::uint64_t input = 0; ///< address; 0: the neutral value
  std::uint64_t output = 0;
  std::uint64_t end = 0; ///< number of elements of this piece and of those before it
};

struct pass_header {
  double scale = 1.0;
  std::uint64_t neutral = 0; ///< an element, in the first bytes
  std::uint64_t share = 0;   ///< elements of a block, at most most_share
  std::uint32_t count = 0;   ///< of pieces, none of which is empty
};

template <unsigned Pieces>
struct pass_arguments {
  static constexpr unsigned most_pieces = Pieces;
  pass_header header;
  piece_entry pieces[Pieces];
};

/// What all drivers take, and those of CUDA 12.1 and later.
inline constexpr unsigned small_bytes = 4096, large_bytes = 32764;
inline constexpr int large_version = 12010;

using small_arguments = pass_arguments<(small_bytes - sizeof(pass_header)) / sizeof(piece_entry)>;
using large_arguments = pass_arguments<(large_bytes - sizeof(pass_header)) / sizeof(piece_entry)>;
static_assert(sizeof(small_arguments) <= small_bytes && sizeof(large_arguments) <= large_bytes);

inline constexpr unsigned threads_of_block = 128;
/// So many blocks of a kernel are on a multiprocessor at once, on every GPU: 1,024 threads with at most 64
/// registers each. No kernel gets more blocks, so that all of them begin at once and end at about the same
/// time.
inline constexpr unsigned blocks_of_multiprocessor = 8;
/// Threads count with 32 bits.
inline constexpr std::uint64_t most_share = std::uint64_t{1} << 31;
/// Of the wider of both types: all threads of a block move 16 bytes.
inline constexpr unsigned least_block_bytes = 16 * threads_of_block;

} // namespace farandole::kernels
