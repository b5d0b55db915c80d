#include "actors/pmi/pmi1_client.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

namespace farandole {
namespace {

/// All processes share one space of keys, so the rank of the process that put a value is part of the key.
std::string key_of(std::int32_t rank, const std::string& key) {
  return "farandole-" + key + "-" + std::to_string(rank);
}

error socket_failed(const std::string& call) {
  return {error_kind::unknown,
          "the socket of the process manager (PMI_FD) failed: " + call + ": " + std::strerror(errno)};
}

std::size_t number_in(const pmi_line& line, std::string_view key) {
  const auto text = line.field(key);
  std::size_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() ? number : 0;
}

} // namespace

expected<std::unique_ptr<process_manager>> pmi1_client::connect(int socket, std::int32_t rank,
                                                                std::int32_t size, time_point deadline) {
  std::unique_ptr<pmi1_client> client(new pmi1_client(socket, rank, size));
  if (auto problem = client->begin(deadline))
    return problem;
  return std::unique_ptr<process_manager>(std::move(client));
}

error pmi1_client::begin(time_point deadline) {
  struct stat facts {};
  if (::fstat(socket_, &facts) != 0 || !S_ISSOCK(facts.st_mode))
    return {
        error_kind::precondition,
        "the descriptor " + std::to_string(socket_) +
            " (PMI_FD) is no socket in this process: start the process so that it inherits the launcher's "
            "descriptors (close_fds=False)"};
  device_ = facts.st_dev;
  inode_ = facts.st_ino;
  const auto hello = ask(encode_pmi_line("init", {{"pmi_version", "1"}, {"pmi_subversion", "1"}}),
                         "response_to_init", deadline);
  if (!hello)
    return hello.error();
  if (hello->field("pmi_version") != "1")
    return failed({error_kind::unknown, "the process manager serves version " +
                                            std::string(hello->field("pmi_version")) +
                                            " of PMI, and not version 1"});
  const auto limits = ask(encode_pmi_line("get_maxes", {}), "maxes", deadline);
  if (!limits)
    return limits.error();
  most_value_bytes_ = number_in(*limits, "vallen_max");
  const auto space = ask(encode_pmi_line("get_my_kvsname", {}), "my_kvsname", deadline);
  if (!space)
    return space.error();
  space_ = space->field("kvsname");
  if (!is_pmi_value(space_))
    return failed({error_kind::unknown, "the process manager named no space of keys"});
  return {};
}

error pmi1_client::put(const std::string& key, const std::string& value, time_point deadline) {
  if (!is_pmi_value(value) || value.size() >= most_value_bytes_)
    return {error_kind::invalid_argument,
            "a value of " + std::to_string(value.size()) +
                " bytes does not fit into the process manager, whose limit is " +
                std::to_string(most_value_bytes_)};
  const auto own_key = key_of(rank_, key);
  const auto reply = ask(encode_pmi_line("put", {{"kvsname", space_}, {"key", own_key}, {"value", value}}),
                         "put_result", deadline);
  return reply ? error{} : reply.error();
}

error pmi1_client::fence(time_point deadline) {
  const auto reply = ask(encode_pmi_line("barrier_in", {}), "barrier_out", deadline);
  return reply ? error{} : reply.error();
}

expected<std::string> pmi1_client::get(std::int32_t rank, const std::string& key, time_point deadline) {
  const auto full_key = key_of(rank, key);
  const auto reply =
      ask(encode_pmi_line("get", {{"kvsname", space_}, {"key", full_key}}), "get_result", deadline);
  if (!reply)
    return reply.error();
  return std::string(reply->field("value"));
}

void pmi1_client::finish(time_point deadline) {
  if (!failure_ && is_same_socket())
    static_cast<void>(ask(encode_pmi_line("finalize", {}), "finalize_ack", deadline));
}

expected<pmi_line> pmi1_client::ask(const std::string& request, std::string_view reply_command,
                                    time_point deadline) {
  if (failure_)
    return failure_;
  if (auto problem = send_request(request, deadline))
    return failed(std::move(problem));
  const auto text = receive_line(deadline);
  if (!text)
    return failed(text.error());
  auto reply = parse_pmi_line(*text);
  if (!reply)
    return failed(reply.error());
  if (auto problem = objection_to_reply(*reply, reply_command))
    return failed(std::move(problem));
  return reply;
}

error pmi1_client::send_request(std::string_view request, time_point deadline) {
  while (!request.empty()) {
    const auto sent = ::send(socket_, request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      request.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
      return socket_failed("send");
    if (auto problem = wait_for(POLLOUT, deadline))
      return problem;
  }
  return {};
}

expected<std::string> pmi1_client::receive_line(time_point deadline) {
  std::string line;
  std::array<char, 1024> bytes{};
  while (line.size() < most_pmi_line_bytes) {
    const auto count = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count == 0)
      return error{error_kind::unknown,
                   "the process manager closed its socket (PMI_FD): mpirun or srun has ended"};
    if (count < 0 && errno != EAGAIN && errno != EINTR)
      return socket_failed("recv");
    if (count < 0) {
      if (auto problem = wait_for(POLLIN, deadline))
        return problem;
      continue;
    }
    line.append(bytes.data(), static_cast<std::size_t>(count));
    const auto end = line.find('\n');
    if (end == std::string::npos)
      continue;
    if (end + 1 != line.size())
      return error{error_kind::unknown, "the process manager sent more than one line for one request"};
    line.resize(end);
    return line;
  }
  return error{error_kind::unknown, "the process manager sent a line of more than " +
                                        std::to_string(most_pmi_line_bytes) + " bytes"};
}

error pmi1_client::wait_for(short events, time_point deadline) {
  using std::chrono::milliseconds;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left <= milliseconds::zero())
      return {error_kind::timed_out, "the process manager did not answer in time"};
    pollfd waited{socket_, events, 0};
    const int ready =
        ::poll(&waited, 1, static_cast<int>(std::min<milliseconds::rep>(left.count(), 1'000'000)));
    if (ready > 0)
      return {};
    if (ready < 0 && errno != EINTR)
      return socket_failed("poll");
  }
}

error pmi1_client::failed(error problem) {
  failure_ = problem;
  return problem;
}

bool pmi1_client::is_same_socket() const {
  struct stat facts {};
  return ::fstat(socket_, &facts) == 0 && facts.st_dev == device_ && facts.st_ino == inode_;
}

} // namespace farandole
