// The elements of NCCL's types: their sizes, and their reduction.
#pragma once

#include <nccl.h>

#include <cstddef>

namespace fake_nccl {

/// 0 for types that the stand-in does not have.
std::size_t element_bytes(ncclDataType_t type);

/// Sum, product, minimum or maximum.
bool can_reduce(ncclRedOp_t op);

/// target[i] = target[i] op source[i]. Halves are computed in float, and rounded after each operation; integers wrap
/// around. The addresses need no alignment.
void reduce(unsigned char* target, const unsigned char* source, std::size_t count, ncclDataType_t type,
            ncclRedOp_t op);

} // namespace fake_nccl
