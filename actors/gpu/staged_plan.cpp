#include "actors/gpu/staged_plan.hpp"

#include <algorithm>

#include "collectives/operation.hpp"

namespace farandole {

namespace {

constexpr std::size_t alignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Whether each element of the result depends on the same element of the inputs alone, so that tensors can be cut.
bool by_elements(const work& bundle) {
  return row_of(bundle.operation).rows == row_use::whole &&
         !(row_of(bundle.operation).reduces && bundle.reduce_op == reduce_op::adasum);
}

void append(std::vector<chunk_piece>& pieces, staged_chunk& chunk, std::size_t part, std::size_t offset,
            std::size_t bytes) {
  pieces.push_back({part, offset, bytes, chunk.host_bytes});
  chunk.host_bytes += aligned(bytes);
}

std::vector<staged_chunk> cut(const work& bundle, std::size_t chunk_bytes) {
  std::vector<staged_chunk> chunks(1);
  std::size_t filled = 0;
  for (std::size_t part = 0; part < bundle.parts.size(); ++part) {
    std::size_t offset = 0;
    do {
      if (filled == chunk_bytes) {
        chunks.emplace_back();
        filled = 0;
      }
      const auto bytes = std::min(bundle.parts[part].input_bytes - offset, chunk_bytes - filled);
      append(chunks.back().inputs, chunks.back(), part, offset, bytes);
      filled += bytes;
      offset += bytes;
    } while (offset < bundle.parts[part].input_bytes);
  }
  return chunks;
}

// reducescatter: the own segment. Other operations on rows write into memory that the core has allocated.
std::size_t segment_bytes(const work& bundle, std::size_t part, std::size_t own_rank) {
  const auto members = bundle.sent.size() / bundle.parts.size();
  return bundle.sent[part * members + own_rank];
}

staged_chunk whole(const work& bundle, std::size_t own_rank) {
  staged_chunk chunk;
  for (std::size_t part = 0; part < bundle.parts.size(); ++part)
    append(chunk.inputs, chunk, part, 0, bundle.parts[part].input_bytes);
  if (row_of(bundle.operation).rows == row_use::segmented)
    for (std::size_t part = 0; part < bundle.parts.size(); ++part)
      append(chunk.outputs, chunk, part, 0, segment_bytes(bundle, part, own_rank));
  return chunk;
}

bool is_root(const work& bundle, std::size_t own_rank) {
  return static_cast<std::size_t>(bundle.root) == own_rank;
}

} // namespace

std::vector<staged_chunk> chunks_of(const work& bundle, std::size_t chunk_bytes, std::size_t own_rank) {
  const auto element = size_of(bundle.dtype);
  if (by_elements(bundle))
    return cut(bundle, std::max(element, chunk_bytes / element * element));
  return {whole(bundle, own_rank)};
}

work host_work_of(const work& bundle, const staged_chunk& chunk, std::byte* memory) {
  work host = bundle;
  host.memory = memory_kind::host;
  host.parts.clear();
  for (std::size_t i = 0; i < chunk.inputs.size(); ++i) {
    const auto& piece = chunk.inputs[i];
    const auto& source = bundle.parts[piece.part];
    part target;
    target.input_bytes = piece.bytes;
    target.owns_output = source.owns_output;
    if (source.input != nullptr || source.output != nullptr) {
      target.input = memory + piece.host_offset;
      target.output = source.owns_output      ? source.output
                      : chunk.outputs.empty() ? memory + piece.host_offset
                                              : memory + chunk.outputs[i].host_offset;
    }
    host.parts.push_back(std::move(target));
  }
  return host;
}

std::vector<staged_piece> copied_out(const work& bundle, const staged_chunk& chunk, std::byte* memory,
                                     std::size_t own_rank) {
  std::vector<staged_piece> pieces;
  if (row_of(bundle.operation).has_root && !is_root(bundle, own_rank))
    return pieces;
  for (const auto& piece : chunk.inputs)
    if (const auto* input = bundle.parts[piece.part].input; input != nullptr && piece.bytes > 0)
      pieces.push_back(
          {const_cast<std::byte*>(input) + piece.offset, memory + piece.host_offset, piece.bytes});
  return pieces;
}

std::vector<staged_piece> copied_in(const work& bundle, const staged_chunk& chunk, std::byte* memory,
                                    std::size_t own_rank) {
  std::vector<staged_piece> pieces;
  const bool root = row_of(bundle.operation).has_root && is_root(bundle, own_rank);
  for (const auto& piece : chunk.outputs.empty() ? chunk.inputs : chunk.outputs) {
    const auto& part = bundle.parts[piece.part];
    if (part.output == nullptr || part.owns_output || piece.bytes == 0 || (root && part.output == part.input))
      continue;
    pieces.push_back({part.output + piece.offset, memory + piece.host_offset, piece.bytes});
  }
  return pieces;
}

} // namespace farandole
