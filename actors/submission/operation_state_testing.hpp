// Two members of one process, each with an operation of the same name on the fast path.
#pragma once

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/submission/operation_state.hpp"
#include "collectives/transport/paths_testing.hpp"

namespace farandole::testing {

/// The collective that the members run, on tensors of two rows of `floats` elements each.
struct pair_shape {
  operation kind =
      operation::alltoall; ///< sends one row to each member; or another operation that can use the fast path
  std::int64_t floats = 1;
  bool in_cells = false;                             ///< an allreduce or a broadcast of a small tensor
  std::size_t heap_bytes = 0;                        ///< 0: members have no result heap
  std::size_t staging_bytes = std::size_t{64} << 10; ///< a slot has a sixteenth of it
  bool in_place = false;
};

struct pair_of_members {
  explicit pair_of_members(const pair_shape& pair_shape) : shape(pair_shape) {
    segment_layout layout;
    layout.members = 2;
    layout.fast_path_bytes = 4096;
    layout.chunk_bytes = 4096;
    layout.staging_bytes = shape.staging_bytes;
    layout.heap_bytes = shape.heap_bytes;
    segments = make_segments(layout);
    constexpr futex_wait patient{futex_wait::polling::yielding, std::chrono::microseconds(5),
                                 yield_policy(true)};
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      if (shape.heap_bytes > 0)
        heaps[rank] = *result_heaps::open(*segments[rank], rank);
      auto fast_path = std::make_shared<farandole::shm_fast_path>(segments[rank], rank, patient, heaps[rank]);
      fast_path_task task;
      task.operation = shape.kind;
      task.use = shape.in_cells ? fast_path_use::bytes : fast_path_use::collective;
      task.root = shape.kind == operation::broadcast ? 0 : -1;
      task.bytes = shape.in_cells ? tensor_bytes() : farandole::shm_fast_path::collective_cell_bytes(2);
      auto cell = fast_path->open(1, 0, farandole::shm_fast_path::footprint(task.bytes), task);
      REQUIRE(cell);
      slots[rank] = std::make_shared<fast_path_slot>(fast_path, *cell, std::make_shared<result_memory>());
    }
  }

  /// Prepares and publishes the operation of a rank. The input of rank r has a row of 10 r and a row of 10 r + 1.
  void publish(std::uint32_t rank, std::uint64_t round = 0) {
    begin(rank);
    REQUIRE(try_publish(rank, round));
  }

  /// Returns false if the operation cannot take the fast-path slot.
  bool try_publish(std::uint32_t rank, std::uint64_t round) {
    if (!operations[rank]->take_slot(slots[rank], round))
      return false;
    operations[rank]->show();
    return true;
  }

  /// Prepares the operation, but does not assign a slot.
  void begin(std::uint32_t rank) {
    tensors[rank].assign(static_cast<std::size_t>(shape.floats), static_cast<float>(10 * rank));
    tensors[rank].resize(2 * static_cast<std::size_t>(shape.floats), static_cast<float>(10 * rank + 1));
    auto& operation = operations[rank];
    operation = operation_state_ptr::make();
    operation->name.assign(1, 't');
    operation->signature.operation = shape.kind;
    operation->signature.shape = {2, shape.floats};
    if (shape.kind == operation::alltoall)
      operation->splits = {1, 1};
    operation->input = reinterpret_cast<const std::byte*>(tensors[rank].data());
    operation->bytes = tensor_bytes();
    operation->owns_output = allocates();
    if (!allocates()) {
      outputs[rank].assign(tensors[rank].size(), -1);
      operation->output = reinterpret_cast<std::byte*>((shape.in_place ? tensors : outputs)[rank].data());
    }
  }

  std::vector<float> result(std::uint32_t rank) const {
    if (!allocates())
      return shape.in_place ? tensors[rank] : outputs[rank];
    const auto& bytes = operations[rank]->outcome.bytes;
    const auto* first = reinterpret_cast<const float*>(bytes.data());
    return {first, first + bytes.size() / sizeof(float)};
  }

  std::vector<float> wanted(std::uint32_t rank) const {
    const auto own = static_cast<float>(rank);
    switch (shape.kind) {
    case operation::allreduce:
      return rows({10, 12});
    case operation::broadcast:
      return rows({0, 1});
    case operation::reducescatter:
      return rows({10 + 2 * own});
    case operation::allgather:
      return rows({0, 1, 10, 11});
    default:
      return rows({own, 10 + own});
    }
  }

  std::vector<float> rows(const std::vector<float>& values) const {
    std::vector<float> all;
    for (const auto value : values)
      all.insert(all.end(), static_cast<std::size_t>(shape.floats), value);
    return all;
  }

  /// Lets both continue their operations until neither can any more.
  void play() {
    for (int turn = 0; turn < 100; ++turn)
      for (const auto& operation : operations)
        operation->try_settle();
  }

  std::size_t tensor_bytes() const { return 2 * static_cast<std::size_t>(shape.floats) * sizeof(float); }
  bool allocates() const { return row_of(shape.kind).has_rows(); }

  pair_shape shape;
  std::vector<std::shared_ptr<shm_segment>> segments;
  std::shared_ptr<const result_heaps> heaps[2];
  std::shared_ptr<fast_path_slot> slots[2];
  operation_state_ptr operations[2];
  std::vector<float> tensors[2];
  std::vector<float> outputs[2];
};

/// Every kind of collective that callers run: in one chunk, in several chunks, in place, and into the result heap.
inline std::vector<pair_shape> all_collectives() {
  constexpr std::size_t little = std::size_t{16} << 10, heap = std::size_t{4} << 20;
  return {
      {operation::allreduce, 5},
      {operation::allreduce, 1000, false, 0, little},
      {operation::allreduce, 1000, false, 0, little, true},
      {operation::broadcast, 5},
      {operation::broadcast, 1000, false, 0, little, true},
      {operation::reducescatter, 5},
      {operation::reducescatter, 1000, false, 0, little},
      {operation::allgather, 5},
      {operation::allgather, 1000, false, 0, little},
      {operation::allgather, 1000, false, heap},
      {operation::alltoall, 5},
      {operation::alltoall, 1000, false, 0, little},
      {operation::alltoall, 1000, false, heap},
  };
}

} // namespace farandole::testing
