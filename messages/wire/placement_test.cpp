#include "messages/wire/placement.hpp"

#include <catch2/catch.hpp>

#include "messages/wire/travelled_testing.hpp"

using namespace farandole;

namespace {

agent_hello hello_of_b() {
  return {wire_version,
          "1.0",
          "/opt/farandole",
          "b",
          "boot 7",
          {{"eth0", "10.0.0.2"}, {"eth1", "fd00::2"}},
          "10.0.0.1",
          "10.0.0.2",
          8,
          4};
}

template <class Value, class Decode>
void check_travel(const Value& value, Decode decode) {
  const auto arrived = decode(travelled(encode(value)));
  REQUIRE(arrived);
  CHECK(*arrived == value);
}

} // namespace

TEST_CASE("messages between launcher and agent arrive as they were sent") {
  check_travel(hello_of_b(), decode_agent_hello);
  check_travel(process_signal{7, 15}, decode_process_signal);
  check_travel(output_consumed{7, 1, 65536}, decode_output_consumed);
  check_travel(process_input{7, channel_stream, std::string("\0\xff", 2), false}, decode_process_input);
  check_travel(process_input{7, standard_input_stream, "x", true}, decode_process_input);
  check_travel(process_input_taken{7, standard_input_stream, 2}, decode_process_input_taken);
  check_travel(process_started{7, 4711, "there is no folder /data"}, decode_process_started);
  check_travel(process_output{7, 1, std::string("\0\xff\n", 3), true}, decode_process_output);
  check_travel(process_ended{7, 137, 9, ""}, decode_process_ended);
  check_travel(process_finished{7}, decode_process_finished);
  check_travel(command_request{wire_version, "b"}, decode_command_request);
  check_travel(command_accepted{7}, decode_command_accepted);
  CHECK(travelled(agent_accepted_message()).kind() == wire::Envelope::Body::AGENT_ACCEPTED);
  CHECK(travelled(leave_host_message()).kind() == wire::Envelope::Body::LEAVE_HOST);
  CHECK(travelled(host_leaving_message()).kind() == wire::Envelope::Body::HOST_LEAVING);
}

TEST_CASE("a start request carries arguments and variables of any size and any bytes but zero") {
  start_request request{7,
                        {"sh", "\xff\xfe\n\"'"},
                        {"A=" + std::string(3 << 20, 'x')},
                        "/tmp/\xe9",
                        65536,
                        true,
                        "CALL",
                        true,
                        2000};
  check_travel(request, decode_start_request);
  request.arguments.emplace_back("a\0b", 3);
  CHECK_FALSE(decode_start_request(encode(request)));
}

TEST_CASE("the hello of an agent of another version is read no further than version, program and host") {
  auto hello = hello_of_b();
  hello.wire_version = wire_version + 1;
  hello.cores = -1;
  const auto arrived = decode_agent_hello(travelled(encode(hello)));
  REQUIRE(arrived);
  CHECK(arrived->version == "1.0");
  CHECK(arrived->program == "/opt/farandole");
  CHECK(arrived->host == "b");
  CHECK(arrived->addresses.empty());
}

TEST_CASE("messages between launcher and agent that are out of range are refused") {
  auto hello = hello_of_b();
  hello.host.clear();
  CHECK_FALSE(decode_agent_hello(encode(hello)));
  hello = hello_of_b();
  hello.cores = 0;
  CHECK_FALSE(decode_agent_hello(encode(hello)));
  hello = hello_of_b();
  hello.slots = -1;
  CHECK_FALSE(decode_agent_hello(encode(hello)));
  hello = hello_of_b();
  hello.addresses.resize(5000);
  CHECK_FALSE(decode_agent_hello(encode(hello)));
  CHECK_FALSE(decode_start_request(encode(start_request{7, {}, {}, "", 1, true, "", false, 0})));
  CHECK_FALSE(decode_start_request(encode(start_request{7, {"true"}, {}, "", 0, true, "", false, 0})));
  CHECK_FALSE(decode_process_signal(encode(process_signal{7, 0})));
  CHECK_FALSE(decode_process_signal(encode(process_signal{7, 65})));
  CHECK_FALSE(decode_output_consumed(encode(output_consumed{7, 3, 1})));
  CHECK_FALSE(decode_process_output(encode(process_output{7, 3, "", false})));
  CHECK_FALSE(decode_process_input(encode(process_input{7, 1, "x", false})));
  CHECK_FALSE(decode_process_input(encode(process_input{7, channel_stream, "", true})));
  CHECK_FALSE(decode_process_input_taken(encode(process_input_taken{7, 1, 1})));
  CHECK_FALSE(decode_command_request(encode(command_request{wire_version, ""})));
  CHECK_FALSE(decode_process_ended(encode(process_ended{7, 256, 0, ""})));
  CHECK_FALSE(decode_process_ended(encode(process_signal{7, 9})));
}

TEST_CASE("requests and reports about a process name it; other messages name none") {
  CHECK(process_of(encode(start_request{7, {"true"}, {}, "", 1, true, "", false, 0})) == process_number{7});
  CHECK(process_of(encode(process_signal{8, 15})) == process_number{8});
  CHECK(process_of(encode(process_input{9, channel_stream, "x", false})) == process_number{9});
  CHECK(process_of(encode(output_consumed{10, 1, 5})) == process_number{10});
  CHECK(process_of(encode(process_started{11, 4711, ""})) == process_number{11});
  CHECK(process_of(encode(process_output{12, 1, "x", false})) == process_number{12});
  CHECK(process_of(encode(process_ended{13, 0, 0, ""})) == process_number{13});
  CHECK(process_of(encode(process_finished{14})) == process_number{14});
  CHECK(process_of(encode(process_input_taken{15, channel_stream, 1})) == process_number{15});
  CHECK_FALSE(process_of(encode(command_accepted{7})));
  CHECK_FALSE(process_of(leave_host_message()));
}
