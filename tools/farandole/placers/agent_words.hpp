// The command that runs on a host and starts its agent, however a placer gets it there.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace farandole {

/// A host uses the first of these programs that it has: `own`, `farandole` on PATH, `remote`.
struct agent_program {
  std::string remote; ///< path of `farandole` on hosts that have neither of the others; may be empty
  std::string own;    ///< path of this program
  std::vector<std::string> launcher; ///< addresses of this host, all of which agents dial
  /// For reaching one of them. Afterwards an agent ends, so that it can be started with forwarded ports. 0: the start
  /// timeout.
  std::chrono::seconds dial_timeout{};

  /// The programs in the order in which a host looks for them, for messages.
  std::string candidates() const;
};

/// How an agent gets the job's secret.
enum class secret_way : std::uint8_t { standard_input, variable };

/// The words that start an agent, for execve. `host` is a text in double quotes for `sh` that expands to the name of the
/// host: "$SLURMD_NODENAME". Without it, the caller appends `--host NAME`.
std::vector<std::string> agent_words(const agent_program& program, std::uint16_t port,
                                     std::string_view host = {}, secret_way way = secret_way::standard_input);

/// The same for an agent that reads from its standard input, after the secret, which ports of its host are forwarded to
/// the launcher.
std::vector<std::string> forwarded_agent_words(const agent_program& program);

} // namespace farandole
