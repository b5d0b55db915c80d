// Feeds arbitrary bytes as the file of another profiler: the JSON of torch.profiler, or an XSpace of TensorFlow. The readers
// must pass events whose times can be added, whatever the bytes are, and the events must leave the merged trace valid JSON.
#include <nlohmann/json.hpp>

#include <sstream>
#include <string>

#include "tests/fuzz/choices.hpp"
#include "tools/farandole/trace/chrome_trace.hpp"
#include "tools/farandole/trace/json_events.hpp"
#include "tools/farandole/trace/xspace.hpp"

using namespace farandole;

// The first byte chooses the format.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  const auto input = std::as_bytes(std::span(data, size)).subspan(1);
  json_events json(std::chrono::nanoseconds{0});
  std::size_t events = 0;
  const auto visit = [&](const profiler_event& event) {
    if (event.phase == 'M') {
      json.name_thread(0, 1, event.name);
      return;
    }
    ++events;
    require(event.duration.count() >= 0);
    json.copy(event, {0, 1, event.time}, event.time + event.duration, 1);
  };
  profiler_facts facts;
  if (data[0] % 2 == 0) {
    std::stringbuf text{std::string(text_of(input))};
    facts = read_chrome_trace(text, visit, {1 << 20, 1 << 16});
  } else {
    facts = read_xspace(input, visit);
  }
  require(facts.events == events && facts.first <= facts.last);
  if (facts.base)
    require(*facts.base + facts.last >= *facts.base + facts.first);
  require(nlohmann::json::accept("[" + json.take() + "]"));
  return 0;
}
