#include "tools/farandole/placers/ssh.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

ssh_options plain() {
  ssh_options options;
  options.program.own = "/opt/bin/farandole";
  options.program.launcher = {"10.0.0.1", "10.1.0.1"};
  return options;
}

constexpr const char* plain_line =
    "exec sh -c 'if test -x \"/opt/bin/farandole\"; then exec \"/opt/bin/farandole\" \"$@\"; else exec "
    "farandole "
    "\"$@\"; fi' farandole agent --launcher 10.0.0.1:4711,10.1.0.1:4711 --secret-file - --host b";

std::vector<std::string> command(const ssh_options& options) {
  const std::string hosts[] = {"b"};
  return ssh_placer(options).command(hosts, 4711);
}

} // namespace

TEST_CASE("ssh is called without a terminal or a password, with port and key after the host") {
  auto options = plain();
  options.port = 2222;
  options.identity_file = "/home/me/key";
  CHECK(command(options) == std::vector<std::string>{"ssh", "-o", "PasswordAuthentication=no", "-o",
                                                     "StrictHostKeyChecking=no", "-o", "BatchMode=yes", "b",
                                                     "-p", "2222", "-i", "/home/me/key", plain_line});
  CHECK_FALSE(ssh_placer(options).takes_all_hosts);
  CHECK(ssh_placer(options).programs == "/opt/bin/farandole, farandole on PATH");
}

TEST_CASE(
    "another remote shell is called with the host and the command line, and named where it cannot be run") {
  auto options = plain();
  options.remote_shell = {"ssh", "-F", "my config"};
  options.origin = "FARANDOLE_RSH";
  CHECK(command(options) == std::vector<std::string>{"ssh", "-F", "my config", "b", plain_line});
  CHECK(ssh_placer(options).remedy == "; check the remote shell (FARANDOLE_RSH): ssh -F 'my config'");
}

TEST_CASE("port and key go to another remote shell only if it is ssh, before the options of its own") {
  auto options = plain();
  options.port = 2222;
  options.identity_file = "key";
  options.remote_shell = {"/usr/bin/ssh", "-p", "22"};
  CHECK(command(options) ==
        std::vector<std::string>{"/usr/bin/ssh", "-p", "2222", "-i", "key", "-p", "22", "b", plain_line});
  options.remote_shell = {"/etc/mpi/kubexec.sh"};
  CHECK(command(options) == std::vector<std::string>{"/etc/mpi/kubexec.sh", "b", plain_line});
}

TEST_CASE("a host or pod that does not exist yet is told from other failures by what ssh and kubectl print") {
  using lines = std::deque<std::string>;
  const lines unresolved{"a greeting", "ssh: Could not resolve hostname b: Name or service not known"};
  CHECK(says_host_is_missing(unresolved, true));
  CHECK_FALSE(says_host_is_missing(unresolved, false));
  for (const bool names_appear : {false, true}) {
    const auto is_missing = [&](const std::string& line) {
      return says_host_is_missing(lines{line, "+ exit"}, names_appear);
    };
    CHECK(is_missing("Error from server (NotFound): pods \"b\" not found"));
    CHECK(is_missing("Error from server (BadRequest): pod b does not have a host assigned"));
    CHECK(is_missing("error: unable to upgrade connection: container not found (\"worker\")"));
    CHECK_FALSE(is_missing("ssh: connect to host b port 22: Connection refused"));
    CHECK_FALSE(is_missing("command terminated with exit code 127"));
    CHECK_FALSE(says_host_is_missing(lines{}, names_appear));
  }
}

TEST_CASE("a name that ssh cannot resolve is expected to appear only in a pod") {
  const std::deque<std::string> unresolved{"ssh: Could not resolve hostname b: Name or service not known"};
  auto options = plain();
  CHECK_FALSE(ssh_placer(options).host_is_missing(unresolved));
  options.names_appear = true;
  CHECK(ssh_placer(options).host_is_missing(unresolved));
}

TEST_CASE("a given remote program is used where the host has no other, and quoted for any login shell") {
  auto options = plain();
  options.program.remote = "/opt/it's $HOME/\"farandole\"";
  CHECK(agent_command_line(agent_words(options.program, 4711), "b") ==
        "exec sh -c 'if test -x \"/opt/bin/farandole\"; then exec \"/opt/bin/farandole\" \"$@\"; "
        "elif command -v farandole >/dev/null; then exec farandole \"$@\"; "
        "else exec \"/opt/it'\\''s \\$HOME/\\\"farandole\\\"\" \"$@\"; fi' farandole agent "
        "--launcher 10.0.0.1:4711,10.1.0.1:4711 --secret-file - --host b");
  CHECK(ssh_placer(options).programs ==
        "/opt/bin/farandole, farandole on PATH, /opt/it's $HOME/\"farandole\" (FARANDOLE_REMOTE_PROGRAM)");
}

TEST_CASE("ssh forwards ports of a host that cannot reach the launcher, and the agent reads which ones") {
  auto options = plain();
  options.port = 2222;
  options.program.dial_timeout = std::chrono::seconds(10);
  CHECK(command(options).back().find(
            "--launcher 10.0.0.1:4711,10.1.0.1:4711 --dial-timeout 10 --secret-file -") != std::string::npos);
  const forward_target targets[] = {{"10.0.0.1", 4711}, {"fd00::1", 4712}};
  const auto words = ssh_placer(options).forwarding_command("b", targets);
  CHECK(words ==
        std::vector<std::string>{
            "ssh", "-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes",
            "b", "-p", "2222", "-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=INFO", "-R",
            "127.0.0.1:0:10.0.0.1:4711", "-R", "127.0.0.1:0:[fd00::1]:4712",
            "exec sh -c 'if test -x \"/opt/bin/farandole\"; then exec \"/opt/bin/farandole\" \"$@\"; "
            "else exec farandole \"$@\"; fi' farandole agent --forwarded --secret-file - --host b"});
}

TEST_CASE("only ssh can forward ports, under any path") {
  auto options = plain();
  options.program.dial_timeout = std::chrono::seconds(10);
  options.remote_shell = {"/usr/bin/ssh", "-F", "my config"};
  CHECK(ssh_placer(options).forwarding_command);
  options.remote_shell = {"/etc/mpi/kubexec.sh"};
  CHECK_FALSE(ssh_placer(options).forwarding_command);
  CHECK(command(options).back().find("--dial-timeout") == std::string::npos);
}
