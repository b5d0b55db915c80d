#include "tools/farandole/build_xla.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "tools/farandole/cli/frameworks.hpp"

namespace farandole {

int run_build_xla(const std::string& called_as, const std::vector<std::string>& words) {
  const auto python = find_python(called_as);
  if (!python) {
    std::cerr << "farandole build-xla: no Python was found beside this command or on PATH" << std::endl;
    return 1;
  }
  std::vector<std::string> command{*python, "-m", "farandole.xla.build"};
  command.insert(command.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (auto& word : command)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(python->c_str(), arguments.data());
  std::cerr << "farandole build-xla: " << *python << " cannot be run: " << std::strerror(errno) << std::endl;
  return 1;
}

} // namespace farandole
