// The sink on the launcher's host: prefixes every line with the worker's label, and queues it for the launcher's own
// output and for the copies in files. Bytes from the worker's channel go to the launcher's caller, if there is one.
#pragma once

#include "actors/launch/caller_output.hpp"
#include "actors/launch/last_lines.hpp"
#include "actors/launch/output_prefix.hpp"
#include "actors/launch/output_sink.hpp"
#include "actors/launch/output_writer.hpp"
#include "actors/launch/slot_spec.hpp"
#include "messages/wire/placement.hpp"

namespace farandole {

class labelled_output final : public output_sink {
public:
  /// `writer` and `caller` must outlive the sink. `caller` is null if no program has called the launcher.
  labelled_output(const slot_spec& spec, output_writer* writer, caller_output* caller);

  void write(int stream, std::string_view bytes) override;
  void end(int stream) override;
  bool full(int stream) const override;
  void when_there_is_room(int stream, std::function<void()> action) override;
  std::deque<std::string> last_lines() const override { return last_errors_.lines(); }

private:
  struct target {
    output_prefix prefix;
    int descriptor = -1;
    int file = -1; ///< -1: there is no copy
  };

  void pass_on(const target& to, std::string text);
  std::string stamp() const;

  output_writer* writer_;
  caller_output* caller_;
  std::int32_t slot_;
  bool timestamp_;
  target targets_[2];
  farandole::last_lines last_errors_;
};

} // namespace farandole
