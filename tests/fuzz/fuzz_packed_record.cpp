// Feeds arbitrary bytes as the file of a packed trace. Bytes that do not begin as gzip does are taken as they are, so the
// fuzzer reaches what is packed without a valid checksum. The result must have the size of a record, or be refused.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "messages/record/event_region.hpp"
#include "messages/record/packed_record.hpp"
#include "messages/values/descriptor.hpp"
#include "tests/fuzz/choices.hpp"

using namespace farandole;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const descriptor packed{::memfd_create("fuzz-packed", MFD_CLOEXEC)};
  const descriptor record{::memfd_create("fuzz-record", MFD_CLOEXEC)};
  require(packed && record && ::pwrite(packed.get(), data, size, 0) == static_cast<ssize_t>(size));
  static_cast<void>(is_packed_record(packed.get()));
  static_cast<void>(rank_in_packed_record(packed.get()));
  const auto problem = unpack_record(packed.get(), record.get());
  if (problem) {
    require(!problem.text.empty());
    return 0;
  }
  struct stat facts {};
  require(::fstat(record.get(), &facts) == 0 &&
          layout_of(static_cast<std::size_t>(facts.st_size)).has_value());
  return 0;
}
