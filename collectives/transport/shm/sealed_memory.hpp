// Memory of one size for ever that processes share by its descriptor. It is sealed, so nobody can shrink it
// under another; who adopts a descriptor looks at seals and size before it maps anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Zero everywhere, and takes no memory before it is written. `name`: in errors, and as the kernel shows it.
expected<descriptor> make_sealed(const std::string& name, std::size_t bytes);
/// `precondition` unless that is sealed memory of just so many bytes.
error check_sealed(const std::string& name, const descriptor& shared, std::size_t bytes);

/// How such memory stands in this process.
class shared_mapping {
public:
  enum class in_children : std::uint8_t {
    absent, ///< a forked child has nothing there: it must not be able to disturb its parent's job
    shared  ///< a forked child reads, and writes, what its parent does
  };
  shared_mapping() = default;
  /// Begins at a multiple of 2 MiB, so that the kernel may use huge pages if asked to. Empty (errno) when it
  /// cannot be had.
  /// `offset`: of the part that is mapped, in whole pages.
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
  int process_ = 0; ///< nothing to take away in another, where children have none
};

} // namespace farandole
