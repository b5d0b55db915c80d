#include "actors/launch/labelled_output.hpp"

#include <unistd.h>

#include <ctime>
#include <utility>

namespace farandole {

labelled_output::labelled_output(const slot_spec& spec, output_writer* writer, caller_output* caller)
    : writer_(writer), caller_(caller), slot_(spec.slot), timestamp_(spec.timestamp),
      targets_{{output_prefix("[" + spec.label + "]<stdout>:", spec.process.keeps_input), STDOUT_FILENO,
                spec.files[0]},
               {output_prefix("[" + spec.label + "]<stderr>:", spec.process.keeps_input), STDERR_FILENO,
                spec.files[1]}} {}

void labelled_output::write(int stream, std::string_view bytes) {
  if (stream == channel_stream) {
    if (caller_)
      caller_->send(slot_, bytes);
    return;
  }
  if (stream == 1)
    last_errors_.take(bytes);
  pass_on(targets_[stream], targets_[stream].prefix.take(bytes, stamp()));
}

void labelled_output::end(int stream) {
  if (stream == channel_stream)
    return;
  auto& ended = targets_[stream];
  pass_on(ended, ended.prefix.end(stamp()));
  if (const int file = std::exchange(ended.file, -1); file >= 0)
    writer_->close(file);
}

bool labelled_output::full(int stream) const {
  return stream == channel_stream ? caller_ && caller_->full() : writer_->full();
}

void labelled_output::when_there_is_room(int stream, std::function<void()> action) {
  if (stream == channel_stream && caller_)
    caller_->when_there_is_room(std::move(action));
  else
    writer_->when_there_is_room(std::move(action));
}

void labelled_output::pass_on(const target& to, std::string text) {
  if (text.empty())
    return;
  if (to.file >= 0)
    writer_->write(to.file, text);
  writer_->write(to.descriptor, std::move(text));
}

std::string labelled_output::stamp() const {
  if (!timestamp_)
    return {};
  const std::time_t current_time = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&current_time, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", &parts)};
}

} // namespace farandole
