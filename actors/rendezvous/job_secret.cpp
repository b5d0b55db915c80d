#include "actors/rendezvous/job_secret.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "messages/values/descriptor.hpp"

namespace farandole {

namespace {

constexpr double least_bits = 128;
constexpr const char* recipe = "make one with: (umask 077; openssl rand -hex 16 > FILE)";

std::string trimmed(std::string text) {
  const auto end = text.find_last_not_of(" \t\r\n");
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text;
}

double bits_of_alphabet(std::string_view text) {
  const auto all = [&](auto holds) { return std::all_of(text.begin(), text.end(), holds); };
  if (all([](unsigned char c) { return std::isdigit(c) != 0; }))
    return std::log2(10);
  if (all([](unsigned char c) { return std::isxdigit(c) != 0; }))
    return 4;
  if (all([](unsigned char c) { return c >= ' ' && c < 127; }))
    return 6;
  return 8;
}

/// Returns the number of characters that an attacker would have to guess, given common patterns. A character does not
/// count if it ends a run of eight characters that has occurred in the text before, or a run of eight whose values
/// change by equal steps ("aaaaaaaa", "abcdefgh"). Random texts practically never contain such runs.
std::size_t unpredictable(std::string_view text) {
  constexpr std::size_t run = 8;
  std::size_t count = std::min(text.size(), run - 1);
  for (std::size_t end = run; end <= text.size(); ++end) {
    const auto last = text.substr(end - run, run);
    const bool repeats = text.find(last) < end - run;
    bool steps = true;
    for (std::size_t at = 2; at < run; ++at)
      steps = steps && last[at] - last[at - 1] == last[1] - last[0];
    count += repeats || steps ? 0 : 1;
  }
  return count;
}

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

} // namespace

double most_entropy_bits(std::string_view secret) {
  return static_cast<double>(unpredictable(secret)) * bits_of_alphabet(secret);
}

error check_secret(std::string_view secret, const std::string& origin) {
  const auto bits = most_entropy_bits(secret);
  if (bits >= least_bits)
    return {};
  return wrong("the secret of " + origin + " can be guessed: its " + std::to_string(secret.size()) +
               " characters hold " + std::to_string(static_cast<int>(bits)) +
               " bits at the most, and 128 (16 random bytes) are needed; " + recipe);
}

expected<std::string> read_secret_file(const std::string& path, const std::string& origin) {
  const auto unreadable = wrong(origin + " cannot be read or is empty");
  const descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0)
    return unreadable;
  if (!S_ISREG(facts.st_mode))
    return wrong(origin + " is no plain file; " + recipe);
  // Kubernetes mounts secrets for other users than root with exactly this mode, and with a group of the pod (fsGroup). No
  // umask leads to it: root has decided that this group may read the file.
  const bool for_group = facts.st_uid == 0 && ::geteuid() != 0 && (facts.st_mode & 0777) == 0440;
  if ((facts.st_mode & 077) != 0 && !for_group)
    return wrong(origin + " can be read or written by other users: end that with: chmod 600 " + path);
  if (facts.st_uid != ::geteuid() && facts.st_uid != 0)
    return wrong(origin + " belongs to another user (" + std::to_string(facts.st_uid) +
                 "), who therefore knows the secret; " + recipe);
  std::array<char, 4096> text{};
  const auto length = ::read(file.get(), text.data(), text.size());
  auto secret = trimmed({text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))});
  if (secret.empty())
    return unreadable;
  if (auto problem = check_secret(secret, origin))
    return problem;
  return secret;
}

expected<std::string> job_secret(const settings& values) {
  // Removed even if another source is used, so that programs that this process starts do not inherit it.
  if (values.is_set(setting::secret))
    take_secret_variable();
  const auto number = static_cast<int>(values.integer(setting::secret_descriptor));
  const auto& path = values.text(setting::secret_file);
  const auto variable = trimmed(values.text(setting::secret));
  if (number >= 0) {
    const auto origin = "FARANDOLE_SECRET_FD=" + std::to_string(number);
    // pread() leaves the file offset unchanged, so that later calls of init(), in this process and in forked
    // children, can read the secret again.
    std::array<char, 4096> text{};
    const auto length = ::pread(number, text.data(), text.size(), 0);
    if (length > 0) {
      ::fcntl(number, F_SETFD, FD_CLOEXEC);
      auto secret = trimmed({text.data(), static_cast<std::size_t>(length)});
      if (auto problem = check_secret(secret, origin))
        return problem;
      return secret;
    }
    if (path.empty() && variable.empty())
      return wrong(origin +
                   " cannot be read: start the process so that it inherits the launcher's descriptor "
                   "(close_fds=False), or pass FARANDOLE_SECRET_FILE");
  }
  if (!path.empty())
    return read_secret_file(path, "FARANDOLE_SECRET_FILE=" + path);
  if (variable.empty())
    return std::string();
  if (auto problem = check_secret(variable, std::string(secret_variable_name)))
    return problem;
  return variable;
}

expected<std::string> make_secret() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return error{error_kind::unknown, std::string("getrandom: ") + std::strerror(errno)};
  std::string text;
  for (const auto byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

expected<descriptor> shared_secret(const std::string& secret) {
  descriptor file{::memfd_create("farandole-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!file || ::write(file.get(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
    return error{error_kind::unknown,
                 std::string("the job's secret cannot be kept: ") + std::strerror(errno)};
  return file;
}

} // namespace farandole
