// A known tensor's place on the board: the board of this generation and its cell there. Shared by the door
// and by the operations that sit there, so the window stays mapped while a framework thread reads it.
#pragma once

#include <memory>
#include <utility>

#include "actors/door/result_memory.hpp"
#include "collectives/paths/local/board.hpp"

namespace farandole {

class board_seat {
public:
  /// `results`: for outputs whose size is known only once all have come.
  board_seat(std::shared_ptr<farandole::board> where, board_cell cell,
             std::shared_ptr<result_memory> results = nullptr)
      : board_(std::move(where)), cell_(cell), results_(std::move(results)) {}

  farandole::board& board() const { return *board_; }
  const board_cell& cell() const { return cell_; }
  result_memory& results() const { return *results_; }

private:
  std::shared_ptr<farandole::board> board_;
  board_cell cell_;
  std::shared_ptr<result_memory> results_;
};

} // namespace farandole
