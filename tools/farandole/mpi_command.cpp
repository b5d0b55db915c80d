#include "tools/farandole/mpi_command.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <set>
#include <utility>

#include "messages/values/printable.hpp"
#include "tools/farandole/cli/shell_words.hpp"

namespace farandole {

namespace {

using words = std::vector<std::string>;

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

bool is_hydra(mpi_kind kind) {
  return kind == mpi_kind::mpich || kind == mpi_kind::intel;
}

words own_flags(mpi_kind kind, bool tcp_only) {
  if (kind == mpi_kind::open_mpi || kind == mpi_kind::open_mpi_5)
    return {"-mca", "pml", "ob1", "-mca", "btl", "^openib"};
  return kind == mpi_kind::spectrum && tcp_only ? words{"-tcp"} : words{};
}

words default_binding(mpi_kind kind) {
  if (kind == mpi_kind::intel)
    return {};
  if (kind == mpi_kind::spectrum)
    return {"-bind-to", "socket", "-map-by", "socket", "-rank-by", "core"};
  const std::string dashes = kind == mpi_kind::open_mpi_5 ? "--" : "-";
  return {dashes + "bind-to", "none", dashes + "map-by", "slot"};
}

std::string joined(const std::vector<std::string>& names, const std::string& separator = ",") {
  std::string text;
  for (const auto& name : names)
    text += (text.empty() ? "" : separator) + name;
  return text;
}

/// Whether an interface is named by its network: "10.0.0.0/8".
bool is_network(const std::string& interface) {
  return interface.find('/') != std::string::npos;
}

bool has_blank(const std::string& word) {
  return word.find_first_of(" \t\r\n") != std::string::npos;
}

/// Composes one command line: each method appends one part.
class composition {
public:
  composition(mpi_kind kind, const mpi_request& request) : kind_(kind), request_(request) {
    std::copy_if(request.hosts.begin(), request.hosts.end(), std::back_inserter(hosts_),
                 [](const host_slots& host) { return host.slots > 0; });
  }

  expected<mpi_command> compose() && {
    append_base();
    for (auto add : {&composition::append_hosts, &composition::append_binding})
      if (auto problem = (this->*add)())
        return problem;
    append_large_cluster();
    for (auto add : {&composition::append_ssh, &composition::append_interfaces, &composition::append_output})
      if (auto problem = (this->*add)())
        return problem;
    append_variables();
    if (auto problem = append_split("--mpi-args", request_.mpi_args))
      return problem;
    append(request_.command);
    return std::move(command_);
  }

private:
  void append(const words& more) { command_.words.insert(command_.words.end(), more.begin(), more.end()); }

  void add_variable(const std::string& name, const std::string& value) {
    command_.environment.push_back(name + "=" + value);
  }

  error append_split(const std::string& option, std::string_view text) {
    const auto parts = split_shell_words(text);
    if (!parts)
      return wrong(option + "='" + printable_name(text) +
                   "' cannot be split into words: " + parts.error().text);
    append(*parts);
    return {};
  }

  void append_base() {
    append({"mpirun"});
    append(is_hydra(kind_) ? words{"-l"} : words{"--allow-run-as-root", "--tag-output"});
    append({"-np", std::to_string(request_.processes)});
  }

  error append_hosts() {
    for (const auto& host : hosts_)
      if (host.name.find(':') != std::string::npos)
        return wrong("mpirun takes no IPv6 address such as '" + printable_name(host.name) +
                     "' in its list of hosts; give the host a name, or leave out --mpi");
    if (hosts_.empty())
      return {};
    if (is_hydra(kind_))
      return append_hydra_hosts();
    words entries;
    for (const auto& host : hosts_)
      entries.push_back(host.name + ":" + std::to_string(host.slots));
    append({"-H", joined(entries)});
    return {};
  }

  error append_hydra_hosts() {
    const auto& first = hosts_.front();
    words names;
    for (const auto& host : hosts_) {
      if (host.slots != first.slots)
        return wrong("mpirun of " + std::string(to_string(kind_)) +
                     " starts equally many processes on every host, but '" + printable_name(first.name) +
                     "' has " + std::to_string(first.slots) + " slots and '" + printable_name(host.name) +
                     "' has " + std::to_string(host.slots) +
                     "; give all hosts the same number, or leave out --mpi");
      names.push_back(host.name);
    }
    append({"-ppn", std::to_string(first.slots), "-hosts", joined(names)});
    return {};
  }

  /// The binding, and the flags of the implementation.
  error append_binding() {
    if (!request_.binding_args.empty() && is_hydra(kind_))
      return wrong("--binding-args is for Open MPI and Spectrum MPI, but this is " +
                   std::string(to_string(kind_)) + "; pass its options with --mpi-args");
    if (request_.traits.flags)
      return append_split("--mpi-flags", *request_.traits.flags);
    if (request_.binding_args.empty())
      append(command_.binding = default_binding(kind_));
    else if (auto problem = append_split("--binding-args", request_.binding_args))
      return problem;
    append(command_.flags = own_flags(kind_, request_.tcp_only));
    return {};
  }

  /// A parameter of the component that starts daemons by ssh. PRRTE, of Open MPI 5, renamed that component and has
  /// an option of its own; it ignores the old spelling without a warning.
  words remote_shell_parameter(const std::string& name, const std::string& value) const {
    if (kind_ == mpi_kind::open_mpi_5)
      return {"--prtemca", "plm_ssh_" + name, value};
    return {"-mca", "plm_rsh_" + name, value};
  }

  void append_large_cluster() {
    if (!is_hydra(kind_) && hosts_.size() >= request_.traits.large_cluster) {
      append(remote_shell_parameter("no_tree_spawn", "true"));
      append(remote_shell_parameter("num_concurrent", std::to_string(hosts_.size())));
    }
  }

  error append_ssh() {
    for (const auto& word : request_.remote_shell)
      if (has_blank(word))
        return wrong("mpirun cannot use a remote shell with a blank in a word, such as '" +
                     printable_name(word) + "' (FARANDOLE_RSH); write a script that calls it, and name that");
    if (has_blank(request_.ssh_identity_file))
      return wrong("mpirun cannot pass ssh an identity file with a blank in its path, such as '" +
                   printable_name(request_.ssh_identity_file) +
                   "' (--ssh-identity-file); copy or link the file to a path without blanks");
    words options;
    if (request_.ssh_port > 0)
      options.insert(options.end(), {"-p", std::to_string(request_.ssh_port)});
    if (!request_.ssh_identity_file.empty())
      options.insert(options.end(), {"-i", request_.ssh_identity_file});
    const auto& shell = request_.remote_shell;
    if (!is_hydra(kind_)) {
      if (!shell.empty())
        add_variable(kind_ == mpi_kind::open_mpi_5 ? "PRTE_MCA_plm_ssh_agent" : "OMPI_MCA_plm_rsh_agent",
                     joined(shell, " "));
      if (!options.empty())
        append(remote_shell_parameter("args", joined(options, " ")));
      return {};
    }
    if (!shell.empty() || !options.empty())
      append({"-bootstrap=ssh"});
    if (!shell.empty()) { // Hydra takes one program, and its arguments together with the options
      add_variable(kind_ == mpi_kind::intel ? "I_MPI_HYDRA_BOOTSTRAP_EXEC" : "HYDRA_LAUNCHER_EXEC",
                   shell.front());
      options.insert(options.begin(), shell.begin() + 1, shell.end());
    }
    if (options.empty())
      return {};
    if (kind_ == mpi_kind::intel)
      append({"-bootstrap-exec-args", joined(options, " ")});
    else // MPICH has no option for it
      add_variable("HYDRA_LAUNCHER_EXTRA_ARGS", joined(options, " "));
    return {};
  }

  error append_interfaces() {
    const auto& interfaces = request_.interfaces;
    if (interfaces.empty())
      return {};
    if (!is_hydra(kind_)) {
      append({"-mca", "btl_tcp_if_include", joined(interfaces)});
      if (names_interfaces_for_nccl())
        append({"-x", "NCCL_SOCKET_IFNAME=" + joined(interfaces)});
      return {};
    }
    if (interfaces.size() > 1)
      return wrong("mpirun of " + std::string(to_string(kind_)) + " takes one network interface, but " +
                   std::to_string(interfaces.size()) + " are named (--network-interfaces " +
                   printable_name(joined(interfaces)) + "); name one of them");
    if (is_network(interfaces.front()))
      return wrong("mpirun of " + std::string(to_string(kind_)) +
                   " takes the name of a network interface, but '" + printable_name(interfaces.front()) +
                   "' is a network (--network-interfaces); name the interface, or leave out --mpi");
    append({"-iface", interfaces.front(), "-genv", "NCCL_SOCKET_IFNAME", interfaces.front()});
    return {};
  }

  /// NCCL knows interfaces by name only. Where a network is given, an interface may have another name on each host.
  bool names_interfaces_for_nccl() const {
    return !request_.interfaces.empty() && std::ranges::none_of(request_.interfaces, is_network);
  }

  error append_output() {
    if (!request_.output_filename.empty())
      append({is_hydra(kind_) ? "-outfile-pattern" : "--output-filename", request_.output_filename});
    if (!request_.timestamps)
      return {};
    if (is_hydra(kind_))
      return wrong("mpirun of " + std::string(to_string(kind_)) +
                   " prints no timestamps; leave out --prefix-output-with-timestamp, or --mpi");
    append({"--timestamp-output"});
    return {};
  }

  /// Hydra passes its whole environment.
  void append_variables() {
    if (is_hydra(kind_))
      return;
    std::set<std::string> names(request_.variables.begin(), request_.variables.end());
    // Open MPI 4 prefers a name without a value to the value that was given with the interfaces.
    if (names_interfaces_for_nccl())
      names.erase("NCCL_SOCKET_IFNAME");
    for (const auto& name : names)
      append({"-x", name});
  }

  mpi_kind kind_;
  const mpi_request& request_;
  std::vector<host_slots> hosts_;
  mpi_command command_;
};

/// The first number after `marker`; 0 if there is none.
std::int32_t number_after(std::string_view text, std::string_view marker) {
  auto at = text.find(marker);
  if (at == std::string_view::npos)
    return 0;
  at = text.find_first_of("0123456789", at + marker.size());
  std::int32_t number = 0;
  if (at != std::string_view::npos)
    std::from_chars(text.data() + at, text.data() + text.size(), number);
  return number;
}

} // namespace

std::string_view to_string(mpi_kind kind) {
  switch (kind) {
  case mpi_kind::open_mpi:
  case mpi_kind::open_mpi_5:
    return "Open MPI";
  case mpi_kind::spectrum:
    return "Spectrum MPI";
  case mpi_kind::mpich:
    return "MPICH";
  case mpi_kind::intel:
    break;
  }
  return "Intel MPI";
}

expected<mpi_kind> detect_mpi(std::string_view version_text) {
  const auto names = [version_text](std::string_view marker) {
    return version_text.find(marker) != std::string_view::npos;
  };
  if (names("IBM Spectrum MPI"))
    return mpi_kind::spectrum;
  if (names("Intel(R) MPI"))
    return mpi_kind::intel;
  if (names("Open MPI"))
    return number_after(version_text, "Open MPI") >= 5 ? mpi_kind::open_mpi_5 : mpi_kind::open_mpi;
  if (names("OpenRTE"))
    return mpi_kind::open_mpi;
  if (names("MPICH") || names("HYDRA"))
    return mpi_kind::mpich;
  constexpr std::size_t longest_quote = 120;
  const auto line = trimmed(version_text.substr(0, version_text.find('\n')));
  return wrong(
      "'mpirun --version' printed '" + printable_name(line.substr(0, longest_quote)) +
      "', which names none of Open MPI, IBM Spectrum MPI, MPICH and Intel(R) MPI; put the mpirun of one of "
      "them first on PATH, or leave out --mpi: the command is then launched without MPI");
}

expected<mpi_command> make_mpi_command(mpi_kind kind, const mpi_request& request) {
  return composition(kind, request).compose();
}

std::vector<std::string> with_search_paths(std::vector<std::string> environment,
                                           const environment_lookup& launcher) {
  for (const std::string name : {"PATH", "PYTHONPATH"}) {
    const bool present = std::any_of(environment.begin(), environment.end(),
                                     [&](const std::string& entry) { return entry.starts_with(name + "="); });
    if (const auto value = launcher(name); value && !present)
      environment.push_back(name + "=" + *value);
  }
  return environment;
}

} // namespace farandole
