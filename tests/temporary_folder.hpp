// A folder for the files of one test.
#pragma once

#include <stdlib.h>

#include <cassert>
#include <filesystem>
#include <string>

namespace farandole::testing {

/// Removed, with its files, at the end of its scope.
class temporary_folder {
public:
  temporary_folder() : path_((std::filesystem::temp_directory_path() / "test.XXXXXX").string()) {
    const auto* made = ::mkdtemp(path_.data());
    assert(made);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

} // namespace farandole::testing
