#include "collectives/transport/shm/sealed_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "collectives/transport/shm/pages.hpp"
namespace farandole {

namespace {

constexpr int wanted_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

error failed(const std::string& name, const std::string& doing) {
  return {error_kind::unknown, name + ": " + doing + " failed: " + std::strerror(errno)};
}

error refused(const std::string& name, const std::string& reason) {
  return {error_kind::precondition, name + " refused: " + reason};
}

} // namespace

expected<descriptor> make_sealed(const std::string& name, std::size_t bytes) {
  auto in_one_word = "farandole " + name;
  std::replace(in_one_word.begin(), in_one_word.end(), ' ', '-');
  descriptor shared(memfd_create(in_one_word.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!shared)
    return failed(name, "memfd_create");
  if (ftruncate(shared.get(), static_cast<off_t>(bytes)) != 0)
    return failed(name, "setting its size to " + std::to_string(bytes) + " bytes");
  if (fcntl(shared.get(), F_ADD_SEALS, wanted_seals) != 0)
    return failed(name, "sealing");
  return shared;
}

error check_sealed(const std::string& name, const descriptor& shared, std::size_t bytes) {
  struct stat status {};
  if (fstat(shared.get(), &status) != 0)
    return failed(name, "looking at the descriptor");
  if (static_cast<std::uint64_t>(status.st_size) != bytes)
    return refused(name, "it has " + std::to_string(status.st_size) + " bytes, not " + std::to_string(bytes));
  const int seals = fcntl(shared.get(), F_GET_SEALS);
  if (seals < 0 || (seals & wanted_seals) != wanted_seals)
    return refused(name, "it is not sealed against a change of size");
  return {};
}

shared_mapping::shared_mapping(const descriptor& shared, std::size_t bytes, in_children in_children,
                               std::size_t offset) {
  const std::size_t room = bytes + huge_page_bytes;
  void* found = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED)
    return;
  auto* first = static_cast<std::byte*>(found);
  const auto before =
      (huge_page_bytes - reinterpret_cast<std::uintptr_t>(first) % huge_page_bytes) % huge_page_bytes;
  void* base = mmap(first + before, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                    shared.get(), static_cast<off_t>(offset));
  if (base == MAP_FAILED) {
    munmap(first, room);
    return;
  }
  const std::size_t end = before + rounded_up(bytes, page_bytes);
  if (before > 0)
    munmap(first, before);
  if (end < room)
    munmap(first + end, room - end);
  if (in_children == in_children::absent) {
    madvise(base, bytes, MADV_DONTFORK);
    process_ = getpid();
  }
  base_ = static_cast<std::byte*>(base);
  bytes_ = bytes;
}

shared_mapping::~shared_mapping() {
  if (base_ && (process_ == 0 || process_ == getpid()))
    munmap(base_, bytes_);
}

shared_mapping::shared_mapping(shared_mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)),
      process_(std::exchange(other.process_, 0)) {}

shared_mapping& shared_mapping::operator=(shared_mapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(process_, other.process_);
  return *this;
}

} // namespace farandole
