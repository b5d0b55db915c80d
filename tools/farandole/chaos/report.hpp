// What a disturbed run has shown, as a table.
#pragma once

#include <string>
#include <vector>

#include "tools/farandole/chaos/schedule.hpp"
#include "tools/farandole/chaos/timeline.hpp"

namespace farandole::chaos {

struct outcome {
  fault what;
  std::string hit; ///< "rank 2 (slot 5)"; empty: nobody was hit
  std::string note;
  recovery got;
};

/// One row for each fault, with a line of headings.
std::string table_of(const std::vector<outcome>& outcomes);

} // namespace farandole::chaos
