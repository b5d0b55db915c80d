#include "messages/settings/known_variables.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "messages/settings/settings.hpp"

using namespace farandole;
namespace fs = std::filesystem;

extern const char source_folder[]; // CMake defines it

namespace {

std::string warning_of(std::vector<std::string> variables) {
  return unknown_variables_warning(variables);
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

/// The product's sources by path, without tests.
std::map<std::string, std::string> sources() {
  std::map<std::string, std::string> found;
  for (const char* folder : {"messages", "collectives", "elastic", "actors", "bindings", "tools/farandole"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_folder) / folder)) {
      const auto path = entry.path();
      const auto kind = path.extension();
      const bool is_source =
          kind == ".cpp" || kind == ".hpp" || kind == ".h" || kind == ".c" || kind == ".py";
      if (is_source && !path.stem().string().ends_with("_test"))
        found[path.string()] = content_of(path);
    }
  return found;
}

} // namespace

TEST_CASE("a mistyped variable is named with the nearest known one", "[known variables]") {
  CHECK(warning_of({"HOROVOD_FUSION_TRESHOLD"}) ==
        "unknown environment variable: HOROVOD_FUSION_TRESHOLD (did you mean HOROVOD_FUSION_THRESHOLD?); "
        "nothing reads it");
  CHECK(warning_of({"PATH", "HOROVOD_RANK", "FARANDOLE_CPU_PAHT", "HOROVOD_XYZZY_PLUGH"}) ==
        "unknown environment variables: FARANDOLE_CPU_PAHT (did you mean FARANDOLE_CPU_PATH?), "
        "HOROVOD_XYZZY_PLUGH; nothing reads them");
}

TEST_CASE("a variable with the other prefix is recognised", "[known variables]") {
  CHECK(warning_of({"FARANDOLE_LOG_LEVEL"}).find("did you mean HOROVOD_LOG_LEVEL?") != std::string::npos);
  CHECK(warning_of({"HOROVOD_FAST_PATH"}).find("did you mean FARANDOLE_FAST_PATH?") != std::string::npos);
}

TEST_CASE("every setting's variable, and variables that other programs read, are known",
          "[known variables]") {
  for (const auto& row : setting_table())
    CHECK(is_known_variable(row.environment));
  CHECK(warning_of({"HOROVOD_WITH_PYTORCH", "HOROVOD_WITHOUT_MPI", "HOROVOD_GPU_OPERATIONS",
                    "HOROVOD_NCCL_HOME", "FARANDOLE_MAX_NP", "FARANDOLE_RESET_LIMIT", "FARANDOLE_TEST_FAULT",
                    "FARANDOLE_TESTING", "_HOROVOD_SECRET_KEY", "HOME"})
            .empty());
}

TEST_CASE("variables that Kubernetes sets for a service are known, and a port without a service is not",
          "[known variables]") {
  CHECK(warning_of({"HOROVOD_MASTER_SERVICE_HOST", "HOROVOD_MASTER_SERVICE_PORT", "HOROVOD_MASTER_PORT",
                    "HOROVOD_MASTER_PORT_22_TCP_ADDR"})
            .empty());
  CHECK(warning_of({"HOROVOD_GLO_RENDEZVOUS_PORT"}).find("HOROVOD_GLOO_RENDEZVOUS_PORT") !=
        std::string::npos);
}

TEST_CASE("a long list of unknown variables is cut", "[known variables]") {
  std::vector<std::string> variables;
  for (char letter = 'A'; letter <= 'Z'; ++letter)
    variables.push_back(std::string("HOROVOD_XYZZYPLUGH_") + letter);
  CHECK(warning_of(variables).find("HOROVOD_XYZZYPLUGH_J and 16 more; ") != std::string::npos);
}

TEST_CASE("every variable that the sources read is known", "[known variables]") {
  const std::regex reading(
      R"((?:getenv|environment|lookup|environ\.get|environ\.pop|environ\.setdefault|from_environment)\(\s*"((?:FARANDOLE|HOROVOD)_[A-Z0-9_]+)\"|environ\["((?:FARANDOLE|HOROVOD)_[A-Z0-9_]+)\"|"((?:FARANDOLE|HOROVOD)_[A-Z0-9_]+)\" (?:not )?in os\.environ)");
  std::set<std::string> read;
  for (const auto& [path, text] : sources())
    for (std::sregex_iterator found(text.begin(), text.end(), reading), end; found != end; ++found)
      for (std::size_t group : {1, 2, 3})
        if ((*found)[group].matched) {
          const auto name = (*found)[group].str();
          read.insert(name);
          INFO(path << " reads " << name);
          CHECK(is_known_variable(name));
        }
  CHECK(read.contains("FARANDOLE_ELASTIC_EVENTS"));
  CHECK(read.contains("FARANDOLE_TEST_FAULT"));
}

// A change that makes a setting work removes the mark, and a setting that is no longer read gets it.
TEST_CASE("exactly the settings that no source reads are marked as without effect", "[known variables]") {
  std::string everything;
  std::map<std::string, std::string> names; // the enumerator of each variable
  for (const auto& [path, text] : sources()) {
    const bool of_table = path.find("/settings/rows/") != std::string::npos;
    if (of_table) {
      const std::regex row(R"(\.id = setting::([a-z_]+)(?:.|\n)*?\.environment = "([A-Z0-9_]+)\")");
      for (std::sregex_iterator found(text.begin(), text.end(), row), end; found != end; ++found)
        names[(*found)[2].str()] = (*found)[1].str();
    } else if (!path.ends_with("/worker_environment.cpp") && !path.ends_with("/command_line.cpp") &&
               !path.ends_with("/settings_page.cpp") && !path.ends_with("/basics.py") &&
               !path.ends_with("/config_parser.py")) {
      everything += text; // the excepted files pass settings on, or only look at how they were written
    }
  }
  REQUIRE(names.size() == setting_table().size());
  for (const auto& row : setting_table()) {
    const auto name = names[std::string(row.environment)];
    const bool for_scripts = row.doc.find("Set by the launcher.") != std::string_view::npos;
    const bool read = std::regex_search(everything, std::regex("setting::" + name + "\\b")) ||
                      everything.find("\"" + std::string(row.environment) + "\"") != std::string::npos;
    INFO(row.environment);
    CHECK(row.has_effect == (read || for_scripts));
  }
}
