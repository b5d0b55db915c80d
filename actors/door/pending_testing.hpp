// Two members of one process, each with an operation of the same name on the board.
#pragma once

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/door/pending.hpp"
#include "collectives/paths/local/lending_testing.hpp"
#include "collectives/paths/paths_testing.hpp"

namespace farandole::testing {

struct pair_of_members {
  /// An alltoall of one row for each, of so many floats; `arena_bytes`: 0 where members have no arena. Or an
  /// allreduce of two such rows.
  explicit pair_of_members(std::int64_t floats = 1, std::size_t arena_bytes = 0,
                           operation kind = operation::alltoall)
      : floats(floats), kind(kind), circles(make_circles(2, true, arena_bytes)) {
    window_layout layout;
    layout.members = 2;
    layout.board_bytes = 4096;
    layout.chunk_bytes = 4096;
    windows = make_windows(layout);
    constexpr waiting patient{waiting::look::giving_way, std::chrono::microseconds(5), yield_ledger(true)};
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      auto board = std::make_shared<farandole::board>(windows[rank], rank, patient, circles[rank]);
      board_task task;
      task.operation = kind;
      task.bytes = shows_bytes() ? 2 * static_cast<std::size_t>(floats) * sizeof(float) : notice_bytes(2);
      auto cell = board->open(1, 0, farandole::board::footprint(task.bytes), task);
      REQUIRE(cell);
      seats[rank] = std::make_shared<board_seat>(board, *cell, std::make_shared<result_memory>());
    }
  }

  /// Rank r gives rows of 10 r and of 10 r + 1.
  void sit(std::uint32_t rank, std::uint64_t round = 0) {
    begin(rank, round);
    if (shows_bytes())
      return seats[rank]->board().publish(seats[rank]->cell(), round, tensor(rank));
    operations[rank]->take_place();
    show(rank, round, operations[rank]->own_notice());
  }

  /// All of it but for its notice.
  void begin(std::uint32_t rank, std::uint64_t round) {
    tensors[rank].assign(static_cast<std::size_t>(floats), static_cast<float>(10 * rank));
    tensors[rank].resize(2 * static_cast<std::size_t>(floats), static_cast<float>(10 * rank + 1));
    auto& one = operations[rank];
    one = pending_ptr::make();
    one->name.assign(1, 't');
    one->signature.operation = kind;
    one->signature.shape = {2, floats};
    if (kind == operation::alltoall)
      one->splits = {1, 1};
    one->input = tensor(rank);
    one->bytes = tensors[rank].size() * sizeof(float);
    one->lends = !shows_bytes();
    if (shows_bytes()) {
      sums[rank].resize(tensors[rank].size());
      one->output = reinterpret_cast<std::byte*>(sums[rank].data());
    }
    one->seat = seats[rank];
    one->round = round;
    one->start_on_board();
  }

  void show(std::uint32_t rank, std::uint64_t round, const std::vector<std::uint64_t>& notice) {
    seats[rank]->board().publish(seats[rank]->cell(), round, std::as_bytes(std::span(notice)).data());
  }

  const std::byte* tensor(std::uint32_t rank) const {
    return reinterpret_cast<const std::byte*>(tensors[rank].data());
  }

  std::vector<float> result(std::uint32_t rank) const {
    const auto& bytes = operations[rank]->outcome.bytes;
    const auto* first = reinterpret_cast<const float*>(bytes.data());
    return {first, first + bytes.size() / sizeof(float)};
  }

  bool shows_bytes() const { return kind == operation::allreduce; }

  std::int64_t floats; ///< in a row
  operation kind;
  std::vector<std::shared_ptr<lending_circle>> circles;
  std::vector<std::shared_ptr<window>> windows;
  std::shared_ptr<board_seat> seats[2];
  pending_ptr operations[2];
  std::vector<float> tensors[2];
  std::vector<float> sums[2]; ///< of an allreduce
};

} // namespace farandole::testing
