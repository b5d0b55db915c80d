#include "messages/settings/secret_variable.hpp"

#include <cstdlib>
#include <mutex>

namespace farandole {

namespace {

/// The environment belongs to the whole process, and so does a value that was moved from it.
struct moved_value {
  std::mutex mutex;
  std::optional<std::string> text;
};

moved_value& moved() {
  static auto& value = *new moved_value; // leaked on purpose: threads may read it while the process exits
  return value;
}

} // namespace

std::optional<std::string> secret_variable() {
  if (const char* text = std::getenv(secret_variable_name.data()))
    return text;
  const std::lock_guard lock(moved().mutex);
  return moved().text;
}

void take_secret_variable() {
  const char* text = std::getenv(secret_variable_name.data());
  if (!text)
    return;
  const std::lock_guard lock(moved().mutex);
  moved().text = text;
  ::unsetenv(secret_variable_name.data());
}

} // namespace farandole
