#include "tools/farandole/trace/trace_file.hpp"

namespace farandole {

namespace {

/// "T" writes the bytes as they are.
const char* mode_of(const std::string& path) {
  return path.ends_with(".gz") ? "wbe" : "wbeT";
}

} // namespace

trace_file::trace_file(const std::string& path) : buffer_(path) {
  if (!buffer_.is_open())
    stream_.setstate(std::ios::badbit);
}

bool trace_file::close() {
  return buffer_.close() && stream_.good();
}

trace_file::buffer::buffer(const std::string& path)
    : file_(::gzopen(path.c_str(), mode_of(path)), ::gzclose) {
  setp(bytes_.data(), bytes_.data() + bytes_.size());
}

bool trace_file::buffer::close() {
  return file_ && write() && ::gzclose(file_.release()) == Z_OK;
}

trace_file::buffer::int_type trace_file::buffer::overflow(int_type byte) {
  if (!write())
    return traits_type::eof();
  if (!traits_type::eq_int_type(byte, traits_type::eof()))
    sputc(traits_type::to_char_type(byte));
  return traits_type::not_eof(byte);
}

bool trace_file::buffer::write() {
  const auto count = static_cast<unsigned>(pptr() - pbase());
  setp(bytes_.data(), bytes_.data() + bytes_.size());
  return count == 0 || (file_ && ::gzwrite(file_.get(), bytes_.data(), count) == static_cast<int>(count));
}

} // namespace farandole
