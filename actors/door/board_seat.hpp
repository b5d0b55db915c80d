// A known tensor's place on the board: the board of this generation and its cell there. Shared by the door
// and by the operations that sit there, so the window stays mapped while a framework thread reads it.
#pragma once

#include <memory>
#include <utility>

#include "collectives/paths/local/board.hpp"

namespace farandole {

class board_seat {
public:
  board_seat(std::shared_ptr<farandole::board> where, board_cell cell)
      : board_(std::move(where)), cell_(cell) {}

  farandole::board& board() const { return *board_; }
  const board_cell& cell() const { return cell_; }

private:
  std::shared_ptr<farandole::board> board_;
  board_cell cell_;
};

} // namespace farandole
