// Feeds arbitrary bytes to the parser of --config-file, which must return flat keys and texts, or an error
// that names the file. Values that pass the check can be loaded as settings.
#include "messages/settings/settings.hpp"
#include "tests/fuzz/choices.hpp"
#include "tools/farandole/config_file.hpp"

using namespace farandole;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto file = parse_config("job.yaml", std::string(text_of(std::as_bytes(std::span(data, size)))));
  const auto checked = file ? check_config(*file) : file.error();
  if (!checked) {
    require(checked.error().kind == error_kind::invalid_argument &&
            checked.error().text.starts_with("config file job.yaml"));
    return 0;
  }
  require(static_cast<bool>(settings::load({{}, file->values, {}})));
  return 0;
}
