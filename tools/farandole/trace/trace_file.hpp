// The file to which a trace is written: compressed with gzip if its name ends with .gz, which Perfetto and Chrome read.
#pragma once

#include <zlib.h>

#include <array>
#include <memory>
#include <ostream>
#include <streambuf>
#include <string>

namespace farandole {

class trace_file {
public:
  /// Creates the file, or empties it. On failure the stream is bad, and errno has the reason.
  explicit trace_file(const std::string& path);

  std::ostream& stream() { return stream_; }
  /// Writes the rest and closes the file. False if some of it could not be written; errno has the reason.
  bool close();

private:
  class buffer final : public std::streambuf {
  public:
    explicit buffer(const std::string& path);
    bool is_open() const { return file_ != nullptr; }
    bool close();

  private:
    int_type overflow(int_type byte) override;
    int sync() override { return write() ? 0 : -1; }
    bool write();

    std::unique_ptr<gzFile_s, decltype(&::gzclose)> file_;
    std::array<char, std::size_t{64} << 10> bytes_;
  };

  buffer buffer_;
  std::ostream stream_{&buffer_};
};

} // namespace farandole
