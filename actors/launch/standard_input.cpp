#include "actors/launch/standard_input.hpp"

namespace farandole {

standard_input_actor::behavior_type
standard_input(standard_input_actor::stateful_pointer<standard_input_state> self, input_reader* reader) {
  return self->state.begin(reader);
}

standard_input_actor::behavior_type standard_input_state::begin(input_reader* reader) {
  reader_ = reader;
  self_->set_down_handler([this](const caf::down_msg&) {
    slot_ = nullptr;
    reader_->end();
  });
  return {
      [this](const slot_input_taken& event) { reader_->allow(event.bytes); },
      [this](const slot_made& event) {
        slot_ = event.slot;
        self_->monitor(event.slot);
      },
      [this](start_atom) { reader_->allow(window_bytes); },
      [this](close_atom) {
        reader_->end();
        self_->quit();
      },
      [this](const input_read& input) { forward(input); },
  };
}

void standard_input_state::forward(const input_read& input) {
  if (slot_)
    self_->send(slot_, slot_input{input.bytes, caf::actor_cast<standard_input_actor>(self_),
                                  standard_input_stream, input.bytes.empty()});
}

} // namespace farandole
