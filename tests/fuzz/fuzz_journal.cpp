// Feeds arbitrary bytes as the file of a journal to replay(). It must return a job or an error, must not read
// beyond the file, and the sound part must give the same result again. A decoded job must be the same after
// encoding and decoding it again.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "elastic/journal_format.hpp"

namespace {

using namespace farandole;

void require(bool holds) {
  if (!holds)
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  if (const auto image = decode_job_image(file))
    require(*decode_job_image(encode(*image)) == *image);
  if (const auto failed = decode_failed_hosts(file))
    require(*decode_failed_hosts(encode(*failed)) == *failed);
  const auto content = replay(file);
  if (!content) {
    require(!content.error().text.empty());
    return 0;
  }
  require(content->sound_bytes <= size);
  if (content->damage)
    require(content->damage->offset == content->sound_bytes && content->damage->record > 0 &&
            !content->damage->reason.empty());
  const auto again = replay(file.first(content->sound_bytes));
  require(again && !again->damage && again->job == content->job && again->failed == content->failed &&
          again->sound_bytes == content->sound_bytes);
  return 0;
}
