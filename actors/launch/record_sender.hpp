// Sends the event records that an agent holds, or the traces that it has written, to its launcher, in parts: the next one
// when the launcher has written the last one, so that at most one part is in memory.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch/worker_records.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/wire/envelope.hpp"

namespace farandole {

class record_sender {
public:
  /// `request`: the number that the launcher gave to its request.
  record_sender(std::uint32_t request, std::vector<held_record> records);
  record_sender(std::uint32_t request, written_traces traces);

  std::uint32_t request() const { return request_; }
  /// The next message; the last one is records_sent, and after it there is none. Reads memory of this host, and no disk.
  std::optional<envelope> next();

private:
  struct file {
    std::int32_t slot = 0;
    std::function<expected<descriptor>()> open;
  };

  bool open_next_file();
  std::optional<envelope> next_part();

  std::uint32_t request_;
  std::deque<file> files_;   ///< that were not opened yet
  descriptor open_;          ///< the file that is being sent; empty: none
  std::int32_t slot_ = 0;    ///< of that file
  std::uint64_t offset_ = 0; ///< of the next part
  std::string problem_;
  bool sent_ = false;
};

} // namespace farandole
