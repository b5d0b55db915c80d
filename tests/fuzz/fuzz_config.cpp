// Feeds arbitrary bytes to the parser of --config-file, which must return flat keys and texts, or an error
// with a text. Then loads the values as settings.
#include "messages/settings/settings.hpp"
#include "tests/fuzz/choices.hpp"
#include "tools/farandole/config_file.hpp"

using namespace farandole;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto values = parse_config(std::string(text_of(std::as_bytes(std::span(data, size)))));
  if (!values) {
    require(values.error().kind == error_kind::invalid_argument && !values.error().text.empty());
    return 0;
  }
  const auto loaded = settings::load({{}, *values, {}});
  require(loaded || !loaded.error().text.empty());
  return 0;
}
