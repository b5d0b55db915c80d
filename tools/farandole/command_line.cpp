#include "tools/farandole/command_line.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "collectives/transport/registry/forced_path.hpp"
#include "messages/settings/known_variables.hpp"
#include "tools/farandole/cli/arguments.hpp"
#include "tools/farandole/config_file.hpp"
#include "tools/farandole/elastic_options.hpp"
#include "tools/farandole/help_layout.hpp"
#include "tools/farandole/ignored_options.hpp"
#include "tools/farandole/run_options.hpp"

namespace farandole {

namespace {

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

/// The options as given, before values are derived from them.
struct given {
  bool version = false;
  bool check_build = false;
  bool gloo = false, mpi = false, jsrun = false;
  bool disable_cache = false; ///< accepted without effect: nothing is cached
  std::int32_t processes = 0;
  std::int32_t ssh_port = 0;
  std::string hosts, hostfile, config_file, agents, remote_hosts;
  std::vector<std::string> interface_lists, interfaces;
  elastic_options elastic;
  std::map<std::string, std::string> flags; ///< of settings
  std::vector<std::string> warnings;
  run_request request;
};

void add_setting(CLI::App& app, const setting_row& row, given& into) {
  const std::string doc = std::string(row.doc) + " (" + std::string(row.environment) + ")";
  const auto keep = [&into](std::string_view flag) {
    return [&into, flag = std::string(flag)](const std::string& value) { into.flags[flag] = value; };
  };
  if (row.type != setting_type::flag) {
    const char* type = row.type == setting_type::integer ? "INT"
                       : row.type == setting_type::text  ? "TEXT"
                       : row.unit == "s"                 ? "SECONDS"
                                                         : "NUMBER";
    auto* option = app.add_option_function<std::string>(std::string(row.flag), keep(row.flag), doc);
    option->type_name(type);
    if (!row.has_effect)
      option->group(ignored_group);
    return;
  }
  auto* on = app.add_flag_callback(
      std::string(row.flag), [set = keep(row.flag)] { set("1"); }, doc);
  auto* off = app.add_flag_callback(
      std::string(row.flag_off), [set = keep(row.flag_off)] { set("1"); },
      "The opposite of " + std::string(row.flag) + ".");
  on->excludes(off);
  if (!row.has_effect)
    on->group(ignored_group);
  const bool shown = row.flag_off.starts_with("--no-") && row.needs != "tuner" && row.needs != "timeline" &&
                     row.needs != "MPI";
  if (!shown)
    off->group("");
}

void add_settings(CLI::App& app, given& into) {
  for (const auto& row : setting_table())
    if (!row.flag.empty())
      add_setting(app, row, into);
  const auto old = [&](const std::string& name, const char* flag) {
    app.add_flag_callback(
           name,
           [&into, name, flag] {
             into.flags[flag] = "1";
             into.warnings.push_back("DeprecationWarning: " + name + " is deprecated; use " + flag);
           },
           "")
        ->group("");
  };
  old("--log-hide-timestamp", "--log-without-timestamp");
  old("--no-log-hide-timestamp", "--log-with-timestamp");
}

void add_launch_options(CLI::App& app, given& into) {
  auto& request = into.request;
  app.add_flag("-v,--version", into.version, "Prints the version of the interface.");
  app.add_option("--num-proc", into.processes, "Number of processes to start.")->type_name("INT");
  app.add_flag("--check-build", into.check_build,
               "Shows the capabilities of this build and all settings; starts no job.");
  app.add_flag("--disable-cache", into.disable_cache,
               "Accepted for compatibility: nothing is cached between jobs, and hosts are always checked.");
  app.add_option("--network-interfaces", into.interface_lists, "Interfaces to use, separated by commas.")
      ->type_name("A,B");
  app.add_option("--network-interface", into.interfaces, "Interface to use; may be repeated.")
      ->type_name("NAME");
  app.add_option("--output-filename", request.output_folder,
                 "Folder for copies of the output: FOLDER/rank.N/stdout and stderr.")
      ->type_name("FOLDER");
  app.add_flag("--verbose", request.verbose, "Prints each step.");
  app.add_option(
         "--call-descriptor", request.call_descriptor,
         "Connected socket that the launcher inherits from the program that has called it, and on which it "
         "exchanges messages with the workers (horovod.run).")
      ->type_name("INT");
  app.add_option(
         "--caller-address", request.caller_address,
         "The program that has called the launcher starts the workers, on any host, and they reach the "
         "launcher at this address of this host (gloo_run.launch_gloo).")
      ->type_name("IP");
  app.add_option("--config-file", into.config_file, "Settings as YAML; options take precedence.")
      ->type_name("FILE");
  app.add_flag("--prefix-output-with-timestamp", request.prefix_timestamp,
               "Prefixes each line with the time.");
  app.add_flag("--tcp", request.tcp_only, "Keeps NCCL off InfiniBand (NCCL_IB_DISABLE=1).");

  auto* hosts =
      app.add_option("-H,--hosts", into.hosts, "Hosts and their slots. Other hosts are reached by ssh.")
          ->type_name("NAME:SLOTS,...");
  app.add_option("--remote-hosts", into.remote_hosts,
                 "Hosts that are reached by ssh even if their names are those of this host.")
      ->type_name("A,B");
  auto* file = app.add_option("--hostfile", into.hostfile, "File with a line 'name slots=N' for each host.")
                   ->type_name("FILE");
  auto* script = app.add_option("--host-discovery-script", request.discovery_script,
                                "Program that prints the available hosts, a line 'name:slots' each; run "
                                "again after FARANDOLE_DISCOVERY_INTERVAL (1 s). Makes the job elastic.")
                     ->type_name("FILE");
  auto* agents =
      app.add_option("--agents", into.agents,
                     "Waits for N agents that you start on the hosts (farandole agent); MIN:MAX in an "
                     "elastic job, whose hosts are those that come and go.")
          ->type_name("N|MIN:MAX");
  app.add_option("-p,--ssh-port", into.ssh_port, "Port of ssh on other hosts.")
      ->type_name("INT")
      ->check(CLI::Range(1, 65535).description(""));
  app.add_option("-i,--ssh-identity-file", request.ssh_identity_file, "Key for ssh.")->type_name("FILE");
  hosts->excludes(file)->excludes(script);
  file->excludes(script);
  agents->excludes(hosts)->excludes(file)->excludes(script);
  auto* gloo = app.add_flag("--gloo", into.gloo, "Launches without MPI, which is the default.");
  auto* mpi = app.add_flag("--mpi", into.mpi, "Launches by mpirun; not offered yet.");
  auto* jsrun = app.add_flag("--jsrun", into.jsrun, "Launches by jsrun; not offered yet.");
  gloo->excludes(mpi)->excludes(jsrun);
  mpi->excludes(jsrun);
}

std::unique_ptr<CLI::App> make_app(const std::string& program, given& into) {
  auto app = std::make_unique<CLI::App>("Starts a distributed training job.", program);
  app->formatter(help_layout());
  app->set_help_flag("-h,--help", "Prints this.");
  app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_launch_options(*app, into);
  for (const auto* list : {"--network-interfaces", "--network-interface"})
    app->get_option(list)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->expected(1, 1 << 20);
  app->option_defaults()->group("Settings");
  add_settings(*app, into);
  app->option_defaults()->group("Elastic jobs");
  add_elastic_options(*app, into.elastic);
  app->get_option("--elastic-timeout")->group("Elastic jobs");
  app->option_defaults()->group("Options");
  add_ignored_options(*app);
  app->get_option("--blacklist-cooldown-range")->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  app->footer(help_footer(program));
  return app;
}

bool is_setting(const std::string& flag) {
  const auto table = setting_table();
  return std::any_of(table.begin(), table.end(), [&](const setting_row& row) { return row.flag == flag; });
}

std::vector<option_shape> shapes_of(const CLI::App& app) {
  std::vector<option_shape> shapes;
  for (const auto* option : app.get_options()) {
    option_shape shape;
    for (const auto& name : option->get_lnames())
      (shape.name.empty() ? shape.name : shape.aliases.emplace_back()) = "--" + name;
    for (const auto& name : option->get_snames())
      shape.aliases.push_back("-" + name);
    if (const char* also = alias_of(shape.name))
      shape.aliases.emplace_back(also);
    const bool is_cooldown = shape.name == "--blacklist-cooldown-range";
    shape.values = option->get_expected_min() == 0 ? 0 : is_cooldown ? 2 : 1;
    // The table of settings has its own error messages for numbers.
    shape.whole_numbers = (option->get_type_name() == "INT" && !is_setting(shape.name)) || is_cooldown;
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

/// The options in a form that is unambiguous to CLI11, in reverse order, which CLI11 requires.
std::vector<std::string> canonical(const std::vector<given_option>& options) {
  std::vector<std::string> words;
  for (const auto& option : options) {
    if (option.values.size() == 1 && !option.values.front().empty()) {
      words.push_back(option.name + "=" + option.values.front());
      continue;
    }
    words.push_back(option.name);
    words.insert(words.end(), option.values.begin(), option.values.end());
  }
  std::reverse(words.begin(), words.end());
  return words;
}

bool is_core_list(std::string_view text) {
  for (;;) {
    const auto comma = text.find(',');
    const auto entry = text.substr(0, comma);
    if (entry.empty() || entry.find_first_not_of("0123456789") != std::string_view::npos)
      return false;
    if (comma == std::string_view::npos)
      return true;
    text.remove_prefix(comma + 1);
  }
}

error load_settings(given& options, const surroundings& around) {
  setting_sources sources{around.environment, {}, options.flags};
  if (!options.config_file.empty()) {
    auto file = read_config_file(options.config_file);
    if (!file)
      return file.error();
    sources.file = std::move(*file);
  }
  auto values = settings::load(sources);
  if (!values)
    return values.error();
  options.request.values = std::move(*values);
  for (const auto& line : options.request.values.warnings())
    options.warnings.push_back("WARNING: " + line);
  auto& loaded = options.request.values;
  const auto& cores = loaded.text(setting::thread_affinity);
  const auto source = loaded.source(setting::thread_affinity);
  if (source != setting_source::environment && loaded.is_set(setting::thread_affinity) &&
      !is_core_list(cores))
    return wrong("thread affinity (--thread-affinity) = '" + cores +
                 "' is no core id and no comma list of them");
  if (options.gloo || options.mpi)
    return loaded.assign(setting::controller, options.mpi ? "mpi" : "gloo", setting_source::flag);
  return {};
}

error refuse_other_modes(const given& options, const surroundings& around) {
  const auto& values = options.request.values;
  const auto later = [](const std::string& text, const std::string& needs) {
    return wrong(text + " needs " + needs +
                 ", not offered yet; jobs of a fixed size on this host are (-np N)");
  };
  if (options.jsrun)
    return later("--jsrun", "the launch by jsrun");
  if (options.mpi)
    return later("--mpi", "the launch by mpirun");
  const bool by_file = values.source(setting::controller) == setting_source::file;
  if (by_file && values.text(setting::controller) == "mpi")
    return later("'controller: mpi' in the config file", "the launch by mpirun");
  if (!options.gloo && around.has_jsrun && around.environment("LSB_JOBID"))
    return wrong(
        "inside an LSF job that has jsrun, the launch by jsrun is the default, which is not offered yet; "
        "--gloo launches on this host");
  return {};
}

/// The names of a comma-separated list.
std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  for (std::stringstream rest{std::string(list)}; rest.good();) {
    std::string name;
    std::getline(rest, name, ',');
    if (!name.empty())
      names.push_back(name);
  }
  return names;
}

error find_interfaces(given& options) {
  std::set<std::string> values;
  const auto add = [&](std::string_view list) {
    for (const auto& name : names_in(list))
      if (values.insert(name).second)
        options.request.interfaces.push_back(name);
  };
  for (const auto& list : options.interface_lists)
    add(list);
  for (const auto& name : options.interfaces) {
    if (name.find(',') != std::string::npos)
      options.warnings.push_back(
          "DeprecationWarning: a comma list for --network-interface is deprecated; use "
          "--network-interfaces");
    add(name);
  }
  return {};
}

/// Parses "N" or "MIN:MAX".
error find_agents(const std::string& text, run_request& request) {
  const auto colon = text.find(':');
  const auto low = parse_slots(text.substr(0, colon));
  const auto high = colon == std::string::npos ? low : parse_slots(text.substr(colon + 1));
  if (!low || !high || *low < 1 || *high < *low || *high > most_slots)
    return wrong("--agents " + text + " is neither a number of agents nor MIN:MAX, as in --agents 2:8");
  if (*high != *low && !request.elastic)
    return wrong("--agents " + text + ": only an elastic job (--min-np) can have a range of hosts");
  request.fewest_agents = *low;
  request.most_agents = *high;
  if (request.values.text(setting::secret_file).empty())
    return wrong(
        "--agents needs a secret that the agents have, too: set FARANDOLE_SECRET_FILE to a file with it "
        "(umask 077; openssl rand -hex 16 > secret)");
  return {};
}

error find_hosts(const CLI::App& app, given& options) {
  auto& request = options.request;
  if (!options.agents.empty())
    return find_agents(options.agents, request);
  for (const char* name : {"--hosts", "--hostfile", "--host-discovery-script"})
    if (app.count(name) > 0 && app.get_option(name)->results().back().empty())
      return wrong(std::string("the value of ") + name +
                   " is empty; name the hosts, as in -H localhost:4, or "
                   "leave the option out to use this host");
  if (!request.discovery_script.empty())
    return find_script(request.discovery_script);
  if (request.elastic && options.hosts.empty() && options.hostfile.empty())
    return wrong(
        "an elastic job needs to know its hosts: -H localhost:" + std::to_string(request.scheduler.limit) +
        ", --hostfile, --host-discovery-script, or --agents");
  if (options.hosts.empty() && options.hostfile.empty()) {
    request.hosts = {{"localhost", request.processes}};
    return {};
  }
  std::string text = options.hosts;
  if (!options.hostfile.empty()) {
    std::ifstream file(options.hostfile);
    std::ostringstream content;
    if (!file || !(content << file.rdbuf()))
      return wrong("host file " + options.hostfile + " cannot be read");
    text = content.str();
  }
  auto hosts = options.hostfile.empty() ? parse_hosts(text) : parse_hostfile(text);
  if (!hosts)
    return hosts.error();
  if (auto places = place(*hosts, request.processes); !places)
    return places.error();
  request.hosts = std::move(*hosts);
  return {};
}

error conclude(given& options, const CLI::App& app, const surroundings& around) {
  auto& request = options.request;
  if (options.version) {
    request.value = run_request::kind::version;
    return {};
  }
  if (auto problem = load_settings(options, around))
    return problem;
  for (const auto& text : {no_effect_warning(ignored_names(app, options.request.values)),
                           unknown_variables_warning(around.variables)})
    if (!text.empty())
      options.warnings.push_back("WARNING: " + text);
  if (options.check_build) {
    request.value = run_request::kind::check;
    return {};
  }
  if (auto problem = refuse_other_modes(options, around))
    return problem;
  if (app.count("--ssh-port") > 0)
    request.ssh_port = options.ssh_port;
  const bool agents_decide = !options.agents.empty() && app.count("--min-num-proc") > 0;
  if (app.count("--num-proc") == 0 && agents_decide)
    options.processes = options.elastic.fewest;
  else if (app.count("--num-proc") == 0)
    return wrong("the following arguments are required: -np/--num-proc");
  if (options.processes < 1 || options.processes > most_slots)
    return wrong("-np " + std::to_string(options.processes) + " is out of range: 1 to " +
                 std::to_string(most_slots));
  if (request.command.empty())
    return wrong("there is no command to run");
  for (const auto& name : names_in(options.remote_hosts))
    request.remote_hosts.insert(name);
  if (!request.caller_address.empty() && (request.call_descriptor < 0 || !options.agents.empty() ||
                                          request.values.text(setting::secret_file).empty()))
    return wrong("--caller-address " + request.caller_address +
                 " is for programs that start the workers themselves: it needs --call-descriptor and "
                 "FARANDOLE_SECRET_FILE, and cannot be combined with --agents");
  if (auto problem = find_interfaces(options))
    return problem;
  request.processes = options.processes;
  if (auto problem = plan_elasticity(app, options.elastic, options.request, options.warnings))
    return problem;
  if (auto problem = objection_to_path(options.request.values))
    return problem;
  return find_hosts(app, options);
}

} // namespace

expected<run_request> parse_run(const std::string& program, std::span<const std::string> words,
                                const surroundings& around) {
  given options;
  const auto app = make_app(program, options);
  const bool only_checks = program.ends_with(" check");
  const auto in_context = [&](const std::string& text) {
    return wrong("usage: " + program +
                 (only_checks ? " [options]" : " [-h] -np NUM_PROC [options] command ...") + "\n" + program +
                 ": error: " + text);
  };
  auto parsed = parse_arguments(shapes_of(*app), words);
  if (!parsed)
    return in_context(parsed.error().text);
  options.request.command = std::move(parsed->command);
  if (only_checks && !options.request.command.empty())
    return in_context("it takes no command (got: " + options.request.command.front() + "); see " + program +
                      " --help");
  try { // CLI11 reports errors by exceptions
    auto tokens = canonical(parsed->options);
    app->parse(tokens);
  } catch (const CLI::CallForHelp&) {
    options.request.value = run_request::kind::help;
    options.request.text = only_checks ? check_help(program) : app->help();
    return options.request;
  } catch (const CLI::ParseError& problem) {
    return in_context(problem.what());
  }
  if (auto problem = conclude(options, *app, around))
    return in_context(problem.text);
  options.request.warnings = std::move(options.warnings);
  return options.request;
}

std::vector<option_description> run_options() {
  given options;
  return described_for_run(*make_app("farandole run", options));
}

} // namespace farandole
