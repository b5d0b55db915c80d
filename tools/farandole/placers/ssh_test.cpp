#include "tools/farandole/placers/ssh.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

ssh_options plain() {
  ssh_options options;
  options.own_program = "/opt/bin/farandole";
  options.launcher = {"10.0.0.1", "10.1.0.1"};
  return options;
}

constexpr const char* plain_line =
    "exec sh -c 'if test -x \"/opt/bin/farandole\"; then exec \"/opt/bin/farandole\" \"$@\"; else exec "
    "farandole "
    "\"$@\"; fi' farandole agent --launcher 10.0.0.1:4711,10.1.0.1:4711 --secret-file - --host b";

} // namespace

TEST_CASE("ssh is called without a terminal or a password, with port and key after the host") {
  auto options = plain();
  options.port = 2222;
  options.identity_file = "/home/me/key";
  CHECK(ssh_placer(options).command("b", 4711) ==
        std::vector<std::string>{"ssh", "-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no",
                                 "-o", "BatchMode=yes", "b", "-p", "2222", "-i", "/home/me/key", plain_line});
}

TEST_CASE("another remote shell is called with the host and the command line") {
  auto options = plain();
  options.remote_shell = "ssh -F config";
  CHECK(ssh_placer(options).command("b", 4711) ==
        std::vector<std::string>{"ssh", "-F", "config", "b", plain_line});
}

TEST_CASE("a given remote program is used, and quoted for any login shell") {
  auto options = plain();
  options.remote_program = "/opt/it's $HOME/\"farandole\"";
  CHECK(agent_command_line(options, "b", 4711) ==
        "exec sh -c 'exec \"/opt/it'\\''s \\$HOME/\\\"farandole\\\"\" \"$@\"' farandole agent --launcher "
        "10.0.0.1:4711,10.1.0.1:4711 --secret-file - --host b");
}
