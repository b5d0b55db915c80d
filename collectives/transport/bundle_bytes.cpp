#include "collectives/transport/bundle_bytes.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <string>

#include "collectives/math/adasum.hpp"
#include "collectives/math/reduce.hpp"
#include "collectives/operation.hpp"
#include "collectives/transport/bulk_copy.hpp"

namespace farandole {

error why_not_on_cpu(const work& bundle, std::size_t members) {
  for (const auto& part : bundle.parts)
    if (part.location.device >= 0)
      return {error_kind::unimplemented, "a tensor on GPU " + std::to_string(part.location.device) +
                                             " cannot be moved by a path of the CPU"};
  if (row_of(bundle.operation).reduces && bundle.dtype == dtype::boolean)
    return {error_kind::unimplemented, std::string(to_string(bundle.reduce_op)) + " of bool is not defined"};
  if (row_of(bundle.operation).reduces && bundle.reduce_op == reduce_op::adasum) {
    if (!row_of(bundle.operation).takes_adasum)
      return {error_kind::unimplemented, "Adasum needs whole tensors: it has an allreduce only"};
    return why_no_adasum(bundle.dtype, members);
  }
  if (bundle.operation == operation::join)
    return {error_kind::unimplemented, "join moves nothing and has no path"};
  return {};
}

std::size_t bytes_of_inputs(const work& bundle) {
  std::size_t bytes = 0;
  for (const auto& part : bundle.parts)
    bytes += part.input_bytes;
  return bytes;
}

std::size_t larger_side(const work& bundle) {
  const auto& outputs = bundle.gathered.empty() ? bundle.received : bundle.gathered;
  return std::max(bytes_of_inputs(bundle), std::accumulate(outputs.begin(), outputs.end(), std::size_t{0}));
}

std::size_t start_of(std::span<const std::size_t> sizes, std::size_t part, std::size_t rank,
                     std::size_t members) {
  const auto before = sizes.subspan(part * members, rank);
  return std::accumulate(before.begin(), before.end(), std::size_t{0});
}

const std::byte* input_in_place(const work& bundle, const tensor_stream::piece& piece) {
  if (piece.bytes == 0 || !bundle.parts[piece.part].input)
    return nullptr;
  return bundle.parts[piece.part].input + piece.offset;
}

void copy_input(const work& bundle, const tensor_stream::piece& piece, std::byte* to) {
  if (const auto* input = bundle.parts[piece.part].input)
    bulk_copy(to, input + piece.offset, piece.bytes);
  else
    fill_neutral(bundle.dtype, bundle.reduce_op, to, piece.bytes / size_of(bundle.dtype));
}

void copy_output(const work& bundle, const tensor_stream::piece& piece, const std::byte* from) {
  if (auto* output = bundle.parts[piece.part].output)
    bulk_copy(output + piece.offset, from, piece.bytes);
}

void reduce_inputs(const work& bundle, std::byte* output, std::span<const std::byte* const> inputs,
                   std::size_t bytes) {
  // Adasum of a single vector is that vector.
  assert(bundle.reduce_op != reduce_op::adasum || inputs.size() == 1);
  const reduce_op op = bundle.reduce_op == reduce_op::adasum ? reduce_op::sum : bundle.reduce_op;
  reduce(bundle.dtype, op, output, inputs, bytes / size_of(bundle.dtype), bundle.prescale, bundle.postscale,
         inputs.size());
}

} // namespace farandole
