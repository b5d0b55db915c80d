// The messages between the launcher and the agent of a host, as plain values; placement.capnp defines their meaning.
// Decoding checks all fields. Arguments, environment and output may hold any bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/envelope.hpp"

namespace farandole {

/// The number of a process within its job.
using process_number = std::uint32_t;

/// Standard output, standard error, and the channel: what a worker sends to the program that has called the launcher.
inline constexpr int output_streams = 3;
inline constexpr int channel_stream = 2;
/// Of input. The channel is the other stream of input.
inline constexpr int standard_input_stream = 0;

/// Largest number of bytes in one message about the output or input of a process.
inline constexpr std::size_t most_stream_bytes = std::size_t{1} << 20;

struct host_address {
  std::string interface;
  std::string address; ///< numeric, without a scope

  friend bool operator==(const host_address&, const host_address&) = default;
};

struct agent_hello {
  std::uint32_t wire_version = farandole::wire_version;
  std::string version;
  std::string program; ///< path of the agent's program, for messages
  std::string host;    ///< the name that the agent was given, or the host's own name
  std::string machine; ///< equal for all names of one machine
  std::vector<host_address> addresses;
  std::string reached; ///< the launcher's address at which the agent reached it
  std::string own;     ///< the address of this host on that connection
  std::int32_t cores = 1;
  std::int32_t slots = 0; ///< 0: the user gave no number

  friend bool operator==(const agent_hello&, const agent_hello&) = default;
};

struct start_request {
  process_number number = 0;
  std::vector<std::string> arguments;
  std::vector<std::string> environment; ///< "NAME=value"; replaces and extends the agent's own environment
  std::string directory;                ///< empty: that of the agent
  std::uint32_t window_bytes = 0;       ///< of each stream, before the first output_consumed
  bool joins_job = false;               ///< inherits the job's secret
  std::string channel_variable = {};    ///< names the descriptor of the channel; empty: it has none
  bool keeps_input = false;             ///< process_input feeds its standard input; otherwise that is empty
  std::uint32_t linger_ms = 0; ///< longest wait for the end of the output after the end of the process

  friend bool operator==(const start_request&, const start_request&) = default;
};

struct process_signal {
  process_number number = 0;
  std::int32_t signal = 0;

  friend bool operator==(const process_signal&, const process_signal&) = default;
};

struct process_input {
  process_number number = 0;
  int stream = channel_stream;
  std::string bytes;  ///< at most most_stream_bytes
  bool ended = false; ///< no further bytes follow; only for standard input

  friend bool operator==(const process_input&, const process_input&) = default;
};

struct process_input_taken {
  process_number number = 0;
  int stream = channel_stream;
  std::uint32_t bytes = 0;

  friend bool operator==(const process_input_taken&, const process_input_taken&) = default;
};

struct output_consumed {
  process_number number = 0;
  int stream = 0;
  std::uint32_t bytes = 0;

  friend bool operator==(const output_consumed&, const output_consumed&) = default;
};

struct process_started {
  process_number number = 0;
  std::int32_t process = 0; ///< process id
  std::string warning;

  friend bool operator==(const process_started&, const process_started&) = default;
};

struct process_output {
  process_number number = 0;
  int stream = 0;
  std::string bytes; ///< at most most_stream_bytes
  bool ended = false;

  friend bool operator==(const process_output&, const process_output&) = default;
};

struct process_ended {
  process_number number = 0;
  std::int32_t code = 0;
  std::int32_t signal = 0;
  std::string failure; ///< why it could not be started; empty if it ran

  friend bool operator==(const process_ended&, const process_ended&) = default;
};

struct process_finished {
  process_number number = 0;

  friend bool operator==(const process_finished&, const process_finished&) = default;
};

/// A program asks to run a command on a host of the job.
struct command_request {
  std::uint32_t wire_version = farandole::wire_version;
  std::string host;

  friend bool operator==(const command_request&, const command_request&) = default;
};

/// The number of its process.
struct command_accepted {
  process_number number = 0;

  friend bool operator==(const command_accepted&, const command_accepted&) = default;
};

/// The number of the process that a request to an agent or one of its reports is about; empty for other messages.
std::optional<process_number> process_of(const envelope& message);

envelope encode(const agent_hello& value);
envelope encode(const start_request& value);
envelope encode(const process_signal& value);
envelope encode(const process_input& value);
envelope encode(const process_input_taken& value);
envelope encode(const output_consumed& value);
envelope encode(const process_started& value);
envelope encode(const process_output& value);
envelope encode(const process_ended& value);
envelope encode(const process_finished& value);
envelope encode(const command_request& value);
envelope encode(const command_accepted& value);
/// The messages without fields.
envelope agent_accepted_message();
envelope leave_host_message();
envelope host_leaving_message();

expected<agent_hello> decode_agent_hello(const envelope& message);
expected<start_request> decode_start_request(const envelope& message);
expected<process_signal> decode_process_signal(const envelope& message);
expected<process_input> decode_process_input(const envelope& message);
expected<process_input_taken> decode_process_input_taken(const envelope& message);
expected<output_consumed> decode_output_consumed(const envelope& message);
expected<process_started> decode_process_started(const envelope& message);
expected<process_output> decode_process_output(const envelope& message);
expected<process_ended> decode_process_ended(const envelope& message);
expected<process_finished> decode_process_finished(const envelope& message);
expected<command_request> decode_command_request(const envelope& message);
expected<command_accepted> decode_command_accepted(const envelope& message);

} // namespace farandole
