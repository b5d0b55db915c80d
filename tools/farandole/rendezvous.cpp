#include "tools/farandole/rendezvous.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>

#include "actors/launch/launcher.hpp"
#include "messages/settings.hpp"

namespace farandole {

namespace {

constexpr const char* teaching = R"(
Prints "IP:PORT" on a line of its own once it listens, and serves one job of N members until SIGINT or SIGTERM.
Start each member, on any host that can reach IP, with

  HOROVOD_RANK=<0..N-1> HOROVOD_SIZE=N HOROVOD_GLOO_RENDEZVOUS_ADDR=IP HOROVOD_GLOO_RENDEZVOUS_PORT=PORT
  FARANDOLE_SECRET_FILE=<a file with the same secret>

Example:
  head -c 32 /dev/urandom | base64 > secret; chmod 600 secret
  farandole rendezvous --size 2 --bind 10.0.0.1 --port 4711 --secret-file secret)";

struct wishes {
  std::int32_t size = 0;
  std::string bind = "127.0.0.1";
  std::uint16_t port = 0;
  std::string secret_file;
};

expected<std::string> read_secret(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto end = text.find_last_not_of(" \t\r\n");
  text.resize(end == std::string::npos ? 0 : end + 1);
  if (text.empty())
    return error{error_kind::invalid_argument, "the secret file " + path + " cannot be read or is empty"};
  return text;
}

error serve(const wishes& wanted) {
  auto values = settings::load({process_environment(), {}, {}});
  if (!values)
    return values.error();
  const auto secret = read_secret(wanted.secret_file);
  if (!secret)
    return secret.error();
  launcher_options options;
  options.members.size = wanted.size;
  options.values = *values;
  options.secret = *secret;
  options.bind_ip = wanted.bind;
  options.port = wanted.port;
  auto started = launcher::open(options);
  if (!started)
    return started.error();
  std::cout << wanted.bind << ":" << (*started)->port() << std::endl;
  (*started)->serve();
  return {};
}

} // namespace

int run_rendezvous(std::vector<std::string> words) {
  wishes wanted;
  CLI::App app("Serves a job whose processes something else starts.", "farandole rendezvous");
  app.footer(teaching);
  app.add_option("--size", wanted.size, "number of members")->required()->check(CLI::Range(1, 65536));
  app.add_option("--bind", wanted.bind, "address of this host to listen on")->capture_default_str();
  app.add_option("--port", wanted.port, "port; 0: any free one")->capture_default_str();
  app.add_option("--secret-file", wanted.secret_file, "file that holds the job's secret")->required();
  std::reverse(words.begin(), words.end()); // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& problem) {
    const auto code = app.exit(problem);
    return code == 0 ? 0 : 2;
  }
  if (const auto problem = serve(wanted)) {
    std::cerr << "farandole rendezvous: " << problem.text << std::endl;
    return 2;
  }
  return 0;
}

} // namespace farandole
