#include "actors/launch/program.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace farandole {

namespace {

bool is_file(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

bool is_folder(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

bool is_executable(const std::string& path) {
  return is_file(path) && ::access(path.c_str(), X_OK) == 0;
}

std::string instead(const std::string& command) {
  return "; did you mean \"" + command + "\"?";
}

error not_found(const std::string& command) {
  std::string text = command + ": command not found";
  if (is_file(command))
    text += command.ends_with(".py") ? instead("python " + command)
            : is_executable(command) ? instead("./" + command)
                                     : std::string();
  return {error_kind::invalid_argument, text};
}

error not_executable(const std::string& path) {
  if (is_folder(path))
    return {error_kind::precondition, path + " is a directory"};
  const auto remedy = path.ends_with(".py") ? instead("python " + path) : "; make it so: chmod +x " + path;
  return {error_kind::precondition, path + ": permission denied: the file is not executable" + remedy};
}

} // namespace

expected<std::string> find_program(const std::string& command, std::string_view path) {
  if (command.find('/') != std::string::npos) {
    if (is_executable(command))
      return command;
    if (is_file(command) || is_folder(command))
      return not_executable(command);
    return start_failure(command, ::access(command.c_str(), F_OK) == 0 ? EACCES : errno);
  }
  std::string candidate, unusable;
  for (std::string_view rest = path; !command.empty();) {
    const auto colon = rest.find(':');
    const auto folder = rest.substr(0, colon);
    candidate = (folder.empty() ? "." : std::string(folder)) + "/" + command;
    if (is_executable(candidate))
      return candidate;
    if (unusable.empty() && is_file(candidate))
      unusable = candidate;
    if (colon == std::string_view::npos)
      break;
    rest.remove_prefix(colon + 1);
  }
  return unusable.empty() ? not_found(command) : not_executable(unusable);
}

error start_failure(const std::string& program, int error_number) {
  if (error_number == ENOENT && is_file(program))
    return {error_kind::precondition,
            program + ": bad interpreter: the program that the file's first line names does not exist"};
  const bool missing = error_number == ENOENT || error_number == ENOTDIR;
  return {missing ? error_kind::invalid_argument : error_kind::precondition,
          program + ": " + std::strerror(error_number)};
}

int start_failure_code(const error& problem) {
  constexpr int not_executable_code = 126, not_found_code = 127;
  return problem.kind == error_kind::precondition ? not_executable_code : not_found_code;
}

} // namespace farandole
