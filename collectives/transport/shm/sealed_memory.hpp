// Memory of fixed size that processes share through a file descriptor (memfd). Seals prevent any process
// from shrinking it while another process uses it. A process that adopts a descriptor checks its seals and
// size before it maps the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Creates sealed memory. It is zero-filled and takes no physical memory before it is written. `name` is
/// used in errors and in the name that the kernel shows.
expected<descriptor> make_sealed(const std::string& name, std::size_t bytes);
/// Returns `precondition` unless `shared` is sealed memory of exactly `bytes` bytes.
error check_sealed(const std::string& name, const descriptor& shared, std::size_t bytes);

/// A mapping of sealed memory into this process.
class shared_mapping {
public:
  enum class in_children : std::uint8_t {
    absent, ///< a forked child does not inherit the mapping, so it cannot disturb its parent's job
    shared  ///< a forked child shares the mapping with its parent
  };
  shared_mapping() = default;
  /// Maps `bytes` bytes from `offset` (a multiple of the page size) on. The mapping starts at a multiple of
  /// 2 MiB, so that the kernel can use huge pages on request. Empty, with errno set, if the mapping fails.
  shared_mapping(const descriptor& shared, std::size_t bytes, in_children in_children,
                 std::size_t offset = 0);
  ~shared_mapping();
  shared_mapping(shared_mapping&& other) noexcept;
  shared_mapping& operator=(shared_mapping&& other) noexcept;

  explicit operator bool() const { return base_ != nullptr; }
  std::byte* data() const { return base_; }
  std::size_t size() const { return bytes_; }

private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  int process_ = 0; ///< if `absent`: the process that has the mapping; a forked child must not unmap it
};

} // namespace farandole
