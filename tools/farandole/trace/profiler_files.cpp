#include "tools/farandole/trace/profiler_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <streambuf>
#include <system_error>
#include <utility>

#include "messages/values/descriptor.hpp"
#include "tools/farandole/trace/chrome_trace.hpp"
#include "tools/farandole/trace/xspace.hpp"

namespace farandole {

namespace {

constexpr std::size_t file_limit = 4'096;
constexpr int depth_limit = 8;
constexpr std::size_t xspace_limit = std::size_t{512} << 20;
constexpr std::string_view xspace_suffix = ".xplane.pb";

/// The bytes of a file, which may be compressed with gzip.
class file_text : public std::streambuf {
public:
  /// Owns the descriptor.
  explicit file_text(descriptor file) : file_(::gzdopen(file.get(), "rb"), ::gzclose) {
    if (file_)
      file.release();
  }

  bool is_damaged() const {
    int code = Z_MEM_ERROR;
    if (file_)
      ::gzerror(file_.get(), &code);
    return code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR; // that one: the file ends too early
  }

protected:
  int_type underflow() override {
    const auto count = file_ ? ::gzread(file_.get(), buffer_.data(), buffer_.size()) : 0;
    if (count <= 0)
      return traits_type::eof();
    setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
    return traits_type::to_int_type(buffer_.front());
  }

private:
  std::unique_ptr<std::remove_pointer_t<gzFile>, decltype(&::gzclose)> file_;
  std::array<char, 65'536> buffer_{};
};

bool is_xspace(const std::string& path) {
  return path.ends_with(xspace_suffix);
}

bool is_of_profiler(const std::string& path) {
  return is_xspace(path) || path.ends_with(".json") || path.ends_with(".json.gz");
}

/// JAX writes NAME.trace.json.gz beside NAME.xplane.pb, which has the same events and also their time.
bool has_xspace_beside(const std::string& path) {
  constexpr std::string_view suffix = ".trace.json.gz";
  std::error_code ignored;
  return path.ends_with(suffix) &&
         std::filesystem::exists(path.substr(0, path.size() - suffix.size()) + std::string(xspace_suffix),
                                 ignored);
}

profiler_facts read_xspace_file(file_text& text, const profiler_visitor& visit) {
  std::string bytes(65'536, '\0');
  std::size_t size = 0;
  while (const auto count =
             text.sgetn(bytes.data() + size, static_cast<std::streamsize>(bytes.size() - size))) {
    size += static_cast<std::size_t>(count);
    if (size >= xspace_limit) {
      profiler_facts facts;
      facts.defect = "it is larger than " + std::to_string(xspace_limit >> 20) + " MiB";
      return facts;
    }
    if (size == bytes.size())
      bytes.resize(std::min(2 * size, xspace_limit));
  }
  return read_xspace(std::as_bytes(std::span(bytes)).first(size), visit);
}

/// Adds the file, or why it cannot be used.
void read_file(const std::string& path, profiler_files& found) {
  auto facts = read_profiler_file(path, [](const profiler_event&) {});
  if (facts.merged || has_xspace_beside(path))
    return;
  const auto shown = std::to_string(facts.events) + " events";
  if (!facts.defect.empty())
    found.problems.push_back(
        path + (facts.events == 0 ? " is left out: " : " is shown with " + shown + " only: ") + facts.defect);
  else if (facts.events == 0)
    found.problems.push_back(path + " is left out: it has no events of torch.profiler, TensorFlow or JAX");
  if (facts.events == 0)
    return;
  if (!facts.base) {
    found.problems.push_back(path + " is left out: it does not say when its events happened (" +
                             (is_xspace(path) ? "profile_start_time" : "baseTimeNanoseconds") +
                             " is missing)");
    return;
  }
  found.files.push_back({path, is_xspace(path) ? "XProf" : "torch.profiler", std::move(facts)});
}

void search(const std::string& folder, std::vector<std::string>& files, profiler_files& found) {
  namespace fs = std::filesystem;
  std::error_code failure;
  for (fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, failure),
       end;
       !failure && entry != end; entry.increment(failure)) {
    std::error_code ignored;
    if (entry.depth() >= depth_limit)
      entry.disable_recursion_pending();
    if (!is_of_profiler(entry->path().string()) || entry->is_directory(ignored))
      continue;
    if (files.size() == file_limit) {
      found.problems.push_back(folder + " has more than " + std::to_string(file_limit) +
                               " traces of profilers; the others are left out");
      break;
    }
    files.push_back(entry->path().string());
  }
  if (failure)
    found.problems.push_back(folder + " cannot be read: " + failure.message());
}

} // namespace

profiler_facts read_profiler_file(const std::string& path, const profiler_visitor& visit) {
  descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  struct stat status {};
  profiler_facts facts;
  if (!file || ::fstat(file.get(), &status) != 0)
    facts.defect = std::string("it cannot be read: ") + std::strerror(errno);
  else if (!S_ISREG(status.st_mode))
    facts.defect = "it is no plain file";
  if (!facts.defect.empty())
    return facts;
  file_text text(std::move(file));
  facts = is_xspace(path) ? read_xspace_file(text, visit) : read_chrome_trace(text, visit);
  if (text.is_damaged())
    facts.defect = "its compressed data is damaged";
  return facts;
}

profiler_files find_profiler_files(const std::vector<std::string>& paths, const std::string& output) {
  profiler_files found;
  std::vector<std::string> files;
  for (const auto& path : paths) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored))
      search(path, files, found);
    else
      files.push_back(path);
  }
  for (auto& path : files) { // two paths may lead to one file
    std::error_code failure;
    auto canonical = std::filesystem::canonical(path, failure);
    if (!failure)
      path = canonical.string();
  }
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  for (const auto& path : files) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(path, output, ignored))
      read_file(path, found);
  }
  return found;
}

} // namespace farandole
