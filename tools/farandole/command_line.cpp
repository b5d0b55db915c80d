#include "tools/farandole/command_line.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>

#include "collectives/transport/registry/forced_path.hpp"
#include "elastic/thread_affinity.hpp"
#include "messages/settings/known_variables.hpp"
#include "messages/settings/settings_page.hpp"
#include "tools/farandole/cli/arguments.hpp"
#include "tools/farandole/config_file.hpp"
#include "tools/farandole/elastic_options.hpp"
#include "tools/farandole/help_layout.hpp"
#include "tools/farandole/host_options.hpp"
#include "tools/farandole/run_options.hpp"

namespace farandole {

namespace {

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

/// Heading in the help for settings without effect.
constexpr const char* ignored_group = "Accepted without effect in this build";

/// The options as given, before values are derived from them.
struct given {
  bool version = false;
  bool check_build = false;
  bool gloo = false, mpi = false, jsrun = false;
  bool disable_cache = false; ///< accepted without effect: nothing is cached
  std::int32_t input_rank = -1;
  std::string config_file;
  host_options hosts;
  std::vector<std::string> interface_lists, interfaces;
  elastic_options elastic;
  std::map<std::string, std::string> flags; ///< of settings
  std::vector<std::string> warnings;
  run_request request;
};

/// The default as the flag takes it; empty if there is none, or for a switch, which is off.
std::string default_of(const setting_row& row) {
  const auto defaults = settings::built_in();
  if (row.type == setting_type::flag || defaults.plain(row.id).empty())
    return {};
  return row.flag_factor == 1 ? defaults.shown(row.id)
                              : shown_number(static_cast<double>(defaults.integer(row.id)) / row.flag_factor);
}

/// What the setting does, its possible values if they are few, its default and its environment variable.
std::string doc_of(const setting_row& row) {
  const auto values = row.choices.empty() ? "" : " Values: " + values_of(row) + ".";
  const auto by_default = default_of(row);
  return std::string(row.doc) + values + " (" + (by_default.empty() ? "" : "default: " + by_default + "; ") +
         std::string(row.environment) + ")";
}

void add_setting(CLI::App& app, const setting_row& row, given& into) {
  const auto doc = doc_of(row);
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
  if (!row.has_effect)
    on->group(ignored_group);
  const bool shown = row.flag_off.starts_with("--no-") && row.needs != "tuner" && row.needs != "MPI";
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

/// The options that only Farandole's own programs pass. The help does not show them.
void add_caller_options(CLI::App& app, run_request& request) {
  // Connected socket that the launcher inherits from the program that has called it, and on which it exchanges messages
  // with the workers (horovod.run).
  app.add_option("--call-descriptor", request.call_descriptor)->type_name("INT")->group("");
  // The program that has called the launcher starts the workers, on any host, and they reach the launcher at this address
  // of this host (gloo_run.launch_gloo).
  app.add_option("--caller-address", request.caller_address)->type_name("IP")->group("");
  // With --call-descriptor: the workers serve calls, and the caller changes their number (farandole.session). Makes the
  // job elastic.
  app.add_flag("--session", request.session)->group("");
  // Of callers that have looked at mpirun or at the hosts of a job of LSF themselves (mpi_run.py, js_run.py).
  app.add_option("--mpi-version", request.mpi.version_text)->group("");
  app.add_option("--mpi-flags", request.mpi.flags)->group("");
  app.add_option("--mpi-large-cluster", request.mpi.large_cluster)->group("");
  app.add_option("--print-rank-file", request.rank_file_cpus)->check(CLI::PositiveNumber)->group("");
}

void add_launch_options(CLI::App& app, given& into) {
  auto& request = into.request;
  app.add_flag("-v,--version", into.version, "Prints the version of the interface.");
  app.add_option(
         "--num-proc", into.hosts.processes,
         "Number of processes to start. May be left out in a job of Slurm, LSF or PBS, where all slots "
         "are used, and with --agents and --min-np, where the job starts with that minimum.")
      ->type_name("INT");
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
  app.add_option("--stdin", into.input_rank,
                 "Rank that receives the launcher's standard input, so that breakpoint() works in it; in an "
                 "elastic job, the number of one of the first workers. All others have an empty one.")
      ->type_name("RANK");
  app.add_flag("--verbose", request.verbose, "Prints each step.");
  app.add_option("--config-file", into.config_file, "Settings as YAML; options take precedence.")
      ->type_name("FILE");
  app.add_flag("--prefix-output-with-timestamp", request.prefix_timestamp,
               "Prefixes each line with the time.");
  app.add_flag("--tcp", request.tcp_only, "Keeps NCCL off InfiniBand (NCCL_IB_DISABLE=1).");

  add_host_options(app, into.hosts, request);
  auto* gloo = app.add_flag("--gloo", into.gloo, "Launches without MPI, which is the default.");
  auto* mpi =
      app.add_flag("--mpi", into.mpi, "Launches by mpirun of Open MPI, MPICH, Intel MPI or Spectrum MPI.");
  auto* jsrun = app.add_flag("--jsrun", into.jsrun, "Launches by jsrun, in a job of LSF.");
  app.add_option("--mpi-args", request.mpi_args,
                 "More arguments for mpirun or jsrun, as in a shell; write --mpi-args=\"...\".")
      ->type_name("TEXT");
  app.add_option("--binding-args", request.binding_args,
                 "Arguments for mpirun or jsrun that bind processes to cores, in place of the default ones.")
      ->type_name("TEXT");
  app.add_flag("--print-command", request.print_command,
               "With --mpi, or --jsrun and --binding-args: prints the command line of mpirun or jsrun for a "
               "shell, and starts nothing.");
  add_caller_options(app, request);
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
    const bool is_number = option->get_type_name() == "INT" || option->get_type_name() == "RANK";
    shape.whole_numbers = (is_number && !is_setting(shape.name)) || is_cooldown;
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

/// A switch of the settings and its opposite. The parser of the options does not know the names of hidden ones.
error refuse_opposites(const std::map<std::string, std::string>& flags) {
  const auto table = setting_table();
  const auto row = std::ranges::find_if(table, [&](const setting_row& each) {
    return !each.flag_off.empty() && flags.contains(std::string(each.flag)) &&
           flags.contains(std::string(each.flag_off));
  });
  if (row == table.end())
    return {};
  return wrong(std::string(row->flag) + " and " + std::string(row->flag_off) +
               " exclude each other; leave one of them out");
}

error load_settings(given& options, const surroundings& around) {
  if (auto problem = refuse_opposites(options.flags))
    return problem;
  setting_sources sources{around.environment, {}, options.flags};
  if (!options.config_file.empty()) {
    auto file = read_config_file(options.config_file);
    if (!file)
      return file.error();
    auto unknown = check_config(*file);
    if (!unknown)
      return unknown.error();
    for (const auto& line : *unknown)
      options.warnings.push_back("WARNING: " + line);
    sources.file = std::move(file->values);
  }
  auto values = settings::load(sources);
  if (!values)
    return values.error();
  options.request.values = std::move(*values);
  for (const auto& line : options.request.values.warnings())
    options.warnings.push_back("WARNING: " + line);
  auto& loaded = options.request.values;
  const auto& cores = loaded.text(setting::thread_affinity);
  if (loaded.source(setting::thread_affinity) == setting_source::flag && !parse_core_list(cores))
    return not_cores("", row_of(setting::thread_affinity).flag, cores);
  if (options.gloo)
    return loaded.assign(setting::controller, "gloo", setting_source::flag);
  return {};
}

/// Refuses options that exclude the launch by mpirun or jsrun. `mode` names the option that asked for it.
error refuse_beside(const std::string& mode, const CLI::App& app, const run_request& request) {
  for (const char* name : {"--min-num-proc", "--host-discovery-script", "--agents", "--rendezvous"})
    if (app.count(name) > 0)
      return wrong(
          mode + " and " + (std::string_view(name) == "--min-num-proc" ? "--min-np" : name) +
          " exclude each other: mpirun and jsrun start a fixed number of processes; leave one of them out");
  if (app.count("--stdin") > 0 && request.call_descriptor < 0) // for a caller, agents start the workers
    return wrong(mode + " and --stdin exclude each other: mpirun and jsrun decide themselves which process "
                        "gets the standard input; leave one of them out");
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

error find_launch_mode(const CLI::App& app, given& options, const surroundings& around) {
  const auto& values = options.request.values;
  auto& mode = options.request.mode;
  const bool in_lsf = around.environment("LSB_JOBID").has_value();
  const bool by_file = values.source(setting::controller) == setting_source::file &&
                       values.text(setting::controller) == "mpi" && !options.gloo && !options.jsrun;
  if (options.mpi || by_file) {
    mode = launch_mode::mpirun;
    return refuse_beside(options.mpi ? "--mpi" : "'controller: mpi' in the config file", app,
                         options.request);
  }
  if (options.request.rank_file_cpus > 0) {
    mode = launch_mode::jsrun;
    return {};
  }
  if (options.jsrun) {
    if (!in_lsf && !options.request.print_command)
      return wrong("--jsrun needs a job of LSF, and LSB_JOBID is not set; start this inside of one");
    mode = launch_mode::jsrun;
    return refuse_beside("--jsrun", app, options.request);
  }
  // The default in such a job. Elastic jobs, and agents that users start, need the launcher's own processes. jsrun needs
  // the CPUs of each rank, from CSM or from the user.
  const bool knows_cpus =
      !around.environment("CSM_ALLOCATION_ID").value_or("").empty() || app.count("--binding-args") > 0;
  if (in_lsf && around.has_jsrun && knows_cpus && !options.gloo && !refuse_beside("", app, options.request))
    mode = launch_mode::jsrun;
  return {};
}

void warn_of_unused_mpi_options(const CLI::App& app, given& options) {
  if (options.request.mode != launch_mode::agents)
    return;
  for (const char* name : {"--mpi-args", "--binding-args"})
    if (app.count(name) > 0)
      options.warnings.push_back(std::string("WARNING: ") + name +
                                 " has no effect: only --mpi and --jsrun start the processes by MPI");
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

error conclude(given& options, const CLI::App& app, const surroundings& around) {
  auto& request = options.request;
  if (options.version) {
    request.value = run_request::kind::version;
    return {};
  }
  if (auto problem = load_settings(options, around))
    return problem;
  for (const auto& text : {no_effect_warning(options.request.values.given_without_effect()),
                           unknown_variables_warning(around.variables)})
    if (!text.empty())
      options.warnings.push_back("WARNING: " + text);
  if (options.check_build) {
    request.value = run_request::kind::check;
    return {};
  }
  if (auto problem = find_launch_mode(app, options, around))
    return problem;
  if (request.print_command && request.mode != launch_mode::mpirun &&
      (request.mode != launch_mode::jsrun || request.binding_args.empty()))
    return wrong("--print-command prints the command line of mpirun or jsrun: give --mpi as well, or --jsrun "
                 "and --binding-args");
  warn_of_unused_mpi_options(app, options);
  if (app.count("--ssh-port") > 0)
    request.ssh_port = options.hosts.ssh_port;
  if (auto problem = find_hosts(app, options.hosts, request, around))
    return problem;
  if (auto problem = find_size(app, options.hosts, options.elastic.fewest, request, around))
    return problem;
  if (request.command.empty())
    return wrong("there is no command to run");
  for (const auto& name : names_in(options.hosts.remote_hosts))
    request.remote_hosts.insert(name);
  const bool has_secret = !request.values.text(setting::secret_file).empty() ||
                          !options.hosts.agents.empty() || request.mode != launch_mode::agents;
  if (!request.caller_address.empty() && (request.call_descriptor < 0 || !has_secret))
    return wrong(
        "--caller-address " + request.caller_address +
        " is for programs that start the workers or the agents themselves: it needs --call-descriptor "
        "and, without --agents or --mpi, FARANDOLE_SECRET_FILE");
  if (auto problem = find_interfaces(options))
    return problem;
  if (app.count("--stdin") > 0 && (options.input_rank < 0 || options.input_rank >= request.processes))
    return wrong("--stdin " + std::to_string(options.input_rank) + ": the job starts with " +
                 std::to_string(request.processes) + " workers (-np); give one of 0 to " +
                 std::to_string(request.processes - 1));
  request.input_rank = options.input_rank;
  if (auto problem = plan_elasticity(app, options.elastic, options.request, options.warnings))
    return problem;
  if (auto problem = objection_to_path(options.request.values))
    return problem;
  if (auto problem = check_hosts(options.hosts, request))
    return problem;
  warn_of_unused_host_options(app, options.hosts, request, around, options.warnings);
  return {};
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
