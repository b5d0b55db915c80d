// The file of a timeline: an array of JSON that is complete after every write, so that it can be read while the job
// runs and after the process was killed. Each write replaces the closing bracket by more records and a new bracket, in
// one system call. The kernel may cut that call short only between two pages, if the process is killed within it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class timeline_file {
public:
  /// Creates the file, or replaces the content of an existing one, and writes these records, of which there must be
  /// some. Fails if `path` is not a regular file, or if another process writes its timeline to it.
  static expected<timeline_file> create(const std::string& path, std::string_view records);

  timeline_file(timeline_file&&) noexcept = default;
  timeline_file& operator=(timeline_file&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(file_, other.file_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~timeline_file();

  /// Adds records that are joined by commas. If that fails, the file is as before, and must not be written to again.
  error append(std::string_view records);

private:
  timeline_file(std::string path, descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  error objection() const;
  error write(std::string_view text, std::uint64_t offset);

  std::string path_;
  descriptor file_;
  std::uint64_t size_ = 0;
};

} // namespace farandole
