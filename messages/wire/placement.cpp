#include "messages/wire/placement.hpp"

#include <cassert>

#include "messages/wire/decoding.hpp"

namespace farandole {

namespace {

using wire_form::count_of;
using wire_form::decode;
using wire_form::list_limit;
using wire_form::read_label;
using wire_form::read_text;
using wire_form::shortened;
using wire_form::text_limit_bytes;
using wire_form::text_of;
using wire_form::validation;
using wire_form::write;
using wire_form::write_each;

using body_builder = wire::Envelope::Body::Builder;
using body_reader = wire::Envelope::Body::Reader;
using body_kind = wire::Envelope::Body;

constexpr std::size_t most_addresses = 4096;
constexpr std::int32_t highest_signal = 64;

capnp::Data::Reader data_of(const std::string& bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}

std::string read_bytes(capnp::Data::Reader data) {
  return {reinterpret_cast<const char*>(data.begin()), data.size()};
}

std::string read_piece(capnp::Data::Reader data, validation& so_far) {
  return so_far.require(data.size() <= most_stream_bytes, "it has too many bytes") ? read_bytes(data) : "";
}

void write_all(capnp::List<capnp::Data>::Builder to, const std::vector<std::string>& values) {
  for (kj::uint i = 0; i < to.size(); ++i)
    to.set(i, data_of(values[i]));
}

std::vector<std::string> read_all(capnp::List<capnp::Data>::Reader from, validation& so_far) {
  std::vector<std::string> values;
  if (so_far.require(from.size() <= list_limit, "a list is too long"))
    for (const auto entry : from) {
      values.push_back(read_bytes(entry));
      so_far.require(values.back().find('\0') == std::string::npos,
                     "a text for a process contains a zero byte");
    }
  return values;
}

int read_stream(std::uint8_t number, validation& so_far) {
  return so_far.require(number < output_streams, "there is no such stream") ? number : 0;
}

int read_input_stream(std::uint8_t number, validation& so_far) {
  const bool known = number == standard_input_stream || number == channel_stream;
  return so_far.require(known, "there is no such stream of input") ? number : channel_stream;
}

/// Decodes only the number of a process, because the rest of the message is not read here.
template <class Read>
std::optional<process_number> read_number(const envelope& message, body_kind::Which kind, Read read) {
  const auto decoded = decode<process_number>(
      message, kind, "message about a process",
      [&](body_reader body, process_number& value, validation&) { value = read(body).getNumber(); });
  return decoded ? std::optional(*decoded) : std::nullopt;
}

} // namespace

envelope encode(const agent_hello& value) {
  return write(address{}, [&](body_builder body) {
    auto to = body.initAgentHello();
    to.setWireVersion(value.wire_version);
    to.setVersion(text_of(value.version));
    to.setProgram(text_of(value.program));
    to.setHost(text_of(value.host));
    to.setMachine(text_of(value.machine));
    to.setReached(text_of(value.reached));
    to.setOwn(text_of(value.own));
    to.setCores(value.cores);
    to.setSlots(value.slots);
    write_each(to.initAddresses(count_of(value.addresses)), value.addresses,
               [](auto entry, const host_address& host_address) {
                 entry.setInterface(text_of(host_address.interface));
                 entry.setAddress(text_of(host_address.address));
               });
  });
}

envelope encode(const start_request& value) {
  return write(address{}, [&](body_builder body) {
    auto to = body.initStartProcess();
    to.setNumber(value.number);
    write_all(to.initArguments(count_of(value.arguments)), value.arguments);
    write_all(to.initEnvironment(count_of(value.environment)), value.environment);
    to.setDirectory(data_of(value.directory));
    to.setWindow(value.window_bytes);
    to.setJoinsJob(value.joins_job);
    to.setChannelVariable(text_of(value.channel_variable));
    to.setKeepsInput(value.keeps_input);
    to.setLingerMilliseconds(value.linger_ms);
  });
}

envelope encode(const process_signal& value) {
  return write(address{}, [&](body_builder body) {
    auto to = body.initSignalProcess();
    to.setNumber(value.number);
    to.setSignal(value.signal);
  });
}

envelope encode(const process_input& value) {
  assert(value.bytes.size() <= most_stream_bytes);
  return write(address{}, [&](body_builder body) {
    auto to = body.initProcessInput();
    to.setNumber(value.number);
    to.setStream(static_cast<std::uint8_t>(value.stream));
    to.setBytes(data_of(value.bytes));
    to.setEnded(value.ended);
  });
}

envelope encode(const process_input_taken& value) {
  return write(address{}, [&](body_builder body) {
    auto to = body.initInputTaken();
    to.setNumber(value.number);
    to.setStream(static_cast<std::uint8_t>(value.stream));
    to.setBytes(value.bytes);
  });
}

envelope encode(const output_consumed& value) {
  return write(address{}, [&](body_builder body) {
    auto to = body.initOutputConsumed();
    to.setNumber(value.number);
    to.setStream(static_cast<std::uint8_t>(value.stream));
    to.setBytes(value.bytes);
  });
}

envelope encode(const process_started& value) {
  return write(address{}, [&](body_builder body) {
    auto to = body.initProcessStarted();
    to.setNumber(value.number);
    to.setProcess(value.process);
    to.setWarning(text_of(shortened(value.warning)));
  });
}

envelope encode(const process_output& value) {
  assert(value.bytes.size() <= most_stream_bytes);
  return write(address{}, [&](body_builder body) {
    auto to = body.initProcessOutput();
    to.setNumber(value.number);
    to.setStream(static_cast<std::uint8_t>(value.stream));
    to.setBytes(data_of(value.bytes));
    to.setEnded(value.ended);
  });
}

envelope encode(const process_ended& value) {
  return write(address{}, [&](body_builder body) {
    auto to = body.initProcessEnded();
    to.setNumber(value.number);
    to.setCode(value.code);
    to.setSignal(value.signal);
    to.setFailure(text_of(shortened(value.failure)));
  });
}

envelope encode(const process_finished& value) {
  return write(address{}, [&](body_builder body) { body.initProcessFinished().setNumber(value.number); });
}

envelope encode(const command_request& value) {
  return write(address{}, [&](body_builder body) {
    auto to = body.initRunCommand();
    to.setWireVersion(value.wire_version);
    to.setHost(text_of(value.host));
  });
}

envelope encode(const command_accepted& value) {
  return write(address{}, [&](body_builder body) { body.initCommandAccepted().setNumber(value.number); });
}

envelope agent_accepted_message() {
  return write(address{}, [](body_builder body) { body.setAgentAccepted(); });
}

envelope leave_host_message() {
  return write(address{}, [](body_builder body) { body.setLeaveHost(); });
}

envelope host_leaving_message() {
  return write(address{}, [](body_builder body) { body.setHostLeaving(); });
}

std::optional<process_number> process_of(const envelope& message) {
  const auto kind = message.kind();
  switch (kind) {
  case body_kind::START_PROCESS:
    return read_number(message, kind, [](body_reader body) { return body.getStartProcess(); });
  case body_kind::SIGNAL_PROCESS:
    return read_number(message, kind, [](body_reader body) { return body.getSignalProcess(); });
  case body_kind::PROCESS_INPUT:
    return read_number(message, kind, [](body_reader body) { return body.getProcessInput(); });
  case body_kind::OUTPUT_CONSUMED:
    return read_number(message, kind, [](body_reader body) { return body.getOutputConsumed(); });
  case body_kind::PROCESS_STARTED:
    return read_number(message, kind, [](body_reader body) { return body.getProcessStarted(); });
  case body_kind::PROCESS_OUTPUT:
    return read_number(message, kind, [](body_reader body) { return body.getProcessOutput(); });
  case body_kind::PROCESS_ENDED:
    return read_number(message, kind, [](body_reader body) { return body.getProcessEnded(); });
  case body_kind::PROCESS_FINISHED:
    return read_number(message, kind, [](body_reader body) { return body.getProcessFinished(); });
  case body_kind::INPUT_TAKEN:
    return read_number(message, kind, [](body_reader body) { return body.getInputTaken(); });
  default:
    return {};
  }
}

expected<agent_hello> decode_agent_hello(const envelope& message) {
  return decode<agent_hello>(message, body_kind::AGENT_HELLO, "hello of an agent",
                             [](body_reader body, agent_hello& value, validation& so_far) {
                               auto from = body.getAgentHello();
                               value.wire_version = from.getWireVersion();
                               value.version = read_label(from.getVersion(), so_far);
                               value.program = read_label(from.getProgram(), so_far);
                               value.host = read_label(from.getHost(), so_far);
                               // In another version no other field is read; the receiver answers with both versions.
                               if (value.wire_version != wire_version)
                                 return;
                               value.machine = read_label(from.getMachine(), so_far);
                               value.reached = read_label(from.getReached(), so_far);
                               value.own = read_label(from.getOwn(), so_far);
                               value.cores = from.getCores();
                               value.slots = from.getSlots();
                               so_far.require(!value.host.empty(), "it names no host");
                               so_far.require(value.cores > 0, "it has no cores");
                               so_far.require(value.slots >= 0, "its number of slots is negative");
                               auto list = from.getAddresses();
                               if (so_far.require(list.size() <= most_addresses, "it has too many addresses"))
                                 for (const auto entry : list)
                                   value.addresses.push_back({read_label(entry.getInterface(), so_far),
                                                              read_label(entry.getAddress(), so_far)});
                             });
}

expected<start_request> decode_start_request(const envelope& message) {
  return decode<start_request>(message, body_kind::START_PROCESS, "start of a process",
                               [](body_reader body, start_request& value, validation& so_far) {
                                 auto from = body.getStartProcess();
                                 value.number = from.getNumber();
                                 value.arguments = read_all(from.getArguments(), so_far);
                                 value.environment = read_all(from.getEnvironment(), so_far);
                                 value.directory = read_bytes(from.getDirectory());
                                 value.window_bytes = from.getWindow();
                                 value.joins_job = from.getJoinsJob();
                                 value.channel_variable = read_label(from.getChannelVariable(), so_far);
                                 value.keeps_input = from.getKeepsInput();
                                 value.linger_ms = from.getLingerMilliseconds();
                                 so_far.require(!value.arguments.empty(), "it names no program");
                                 so_far.require(value.directory.find('\0') == std::string::npos,
                                                "its directory contains a zero byte");
                                 so_far.require(value.window_bytes > 0, "its window is empty");
                               });
}

expected<process_signal> decode_process_signal(const envelope& message) {
  return decode<process_signal>(message, body_kind::SIGNAL_PROCESS, "signal",
                                [](body_reader body, process_signal& value, validation& so_far) {
                                  auto from = body.getSignalProcess();
                                  value.number = from.getNumber();
                                  value.signal = from.getSignal();
                                  so_far.require(value.signal > 0 && value.signal <= highest_signal,
                                                 "there is no such signal");
                                });
}

expected<process_input> decode_process_input(const envelope& message) {
  return decode<process_input>(message, body_kind::PROCESS_INPUT, "input of a process",
                               [](body_reader body, process_input& value, validation& so_far) {
                                 auto from = body.getProcessInput();
                                 value.number = from.getNumber();
                                 value.stream = read_input_stream(from.getStream(), so_far);
                                 value.bytes = read_piece(from.getBytes(), so_far);
                                 value.ended = from.getEnded();
                                 so_far.require(!value.ended || value.stream == standard_input_stream,
                                                "only standard input can end");
                               });
}

expected<process_input_taken> decode_process_input_taken(const envelope& message) {
  return decode<process_input_taken>(message, body_kind::INPUT_TAKEN, "acknowledgement of input",
                                     [](body_reader body, process_input_taken& value, validation& so_far) {
                                       auto from = body.getInputTaken();
                                       value.number = from.getNumber();
                                       value.stream = read_input_stream(from.getStream(), so_far);
                                       value.bytes = from.getBytes();
                                     });
}

expected<output_consumed> decode_output_consumed(const envelope& message) {
  return decode<output_consumed>(message, body_kind::OUTPUT_CONSUMED, "acknowledgement of output",
                                 [](body_reader body, output_consumed& value, validation& so_far) {
                                   auto from = body.getOutputConsumed();
                                   value.number = from.getNumber();
                                   value.stream = read_stream(from.getStream(), so_far);
                                   value.bytes = from.getBytes();
                                 });
}

expected<process_started> decode_process_started(const envelope& message) {
  return decode<process_started>(message, body_kind::PROCESS_STARTED, "report of a start",
                                 [](body_reader body, process_started& value, validation& so_far) {
                                   auto from = body.getProcessStarted();
                                   value.number = from.getNumber();
                                   value.process = from.getProcess();
                                   value.warning = read_text(from.getWarning(), text_limit_bytes,
                                                             "its warning is too long", so_far);
                                 });
}

expected<process_output> decode_process_output(const envelope& message) {
  return decode<process_output>(message, body_kind::PROCESS_OUTPUT, "output of a process",
                                [](body_reader body, process_output& value, validation& so_far) {
                                  auto from = body.getProcessOutput();
                                  value.number = from.getNumber();
                                  value.stream = read_stream(from.getStream(), so_far);
                                  value.bytes = read_piece(from.getBytes(), so_far);
                                  value.ended = from.getEnded();
                                });
}

expected<process_ended> decode_process_ended(const envelope& message) {
  return decode<process_ended>(
      message, body_kind::PROCESS_ENDED, "report of an end",
      [](body_reader body, process_ended& value, validation& so_far) {
        auto from = body.getProcessEnded();
        value.number = from.getNumber();
        value.code = from.getCode();
        value.signal = from.getSignal();
        value.failure = read_text(from.getFailure(), text_limit_bytes, "its failure is too long", so_far);
        so_far.require(value.code >= 0 && value.code <= 255, "the exit code is out of range");
        so_far.require(value.signal >= 0 && value.signal <= highest_signal, "there is no such signal");
      });
}

expected<process_finished> decode_process_finished(const envelope& message) {
  return decode<process_finished>(message, body_kind::PROCESS_FINISHED, "report that output is complete",
                                  [](body_reader body, process_finished& value, validation&) {
                                    value.number = body.getProcessFinished().getNumber();
                                  });
}

expected<command_request> decode_command_request(const envelope& message) {
  return decode<command_request>(message, body_kind::RUN_COMMAND, "request to run a command",
                                 [](body_reader body, command_request& value, validation& so_far) {
                                   auto from = body.getRunCommand();
                                   value.wire_version = from.getWireVersion();
                                   value.host = read_label(from.getHost(), so_far);
                                   so_far.require(!value.host.empty(), "it names no host");
                                 });
}

expected<command_accepted> decode_command_accepted(const envelope& message) {
  return decode<command_accepted>(message, body_kind::COMMAND_ACCEPTED, "acceptance of a command",
                                  [](body_reader body, command_accepted& value, validation&) {
                                    value.number = body.getCommandAccepted().getNumber();
                                  });
}

} // namespace farandole
