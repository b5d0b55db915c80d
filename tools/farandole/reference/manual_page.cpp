#include "tools/farandole/reference/manual_page.hpp"

#include <cctype>

#include "messages/settings/settings.hpp"
#include "messages/settings/settings_page.hpp"

namespace farandole {

namespace {

constexpr std::string_view introduction = R"(.SH DESCRIPTION
Farandole runs collective operations across the workers of a distributed training job. \fBfarandole run\fR starts a job.
\fBhorovodrun\fR is the same as \fBfarandole run\fR.
.PP
The options of a command may be abbreviated as long as they are unambiguous.
)";

constexpr std::string_view exit_status = R"(.SH EXIT STATUS
\fBfarandole run\fR exits with 0 if all workers do, otherwise with the exit code of the first worker that failed. The
code of a worker that a signal killed is 128 and the number of the signal. The code is 2 if the command line is wrong,
127 if the command is not found, and 126 if it cannot be run.
)";

/// Text in which troff finds no commands.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n'))
      result += "\\&";
    result += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return result;
}

std::string bold(std::string_view text) {
  return "\\fB" + escaped(text) + "\\fR";
}

std::string heading_of_option(const option_description& option) {
  std::string text;
  for (const auto& name : option.names)
    text += (text.empty() ? "" : ", ") + bold(name);
  return option.value.empty() ? text : text + " \\fI" + escaped(option.value) + "\\fR";
}

std::string options_of(const command_description& command) {
  std::string text, heading;
  for (const auto& option : command.options) {
    if (option.heading != heading)
      text += ".PP\n" + bold(option.heading) + "\n";
    heading = option.heading;
    text += ".TP\n" + heading_of_option(option) + "\n" + escaped(option.doc) + "\n";
  }
  return text;
}

std::string section_of(const command_description& command) {
  auto summary = command.summary;
  summary.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(summary.front())));
  const auto text = ".SS farandole " + escaped(command.name) + "\n" + escaped(summary) + ".\n";
  if (command.options_of.empty())
    return text + options_of(command);
  return text + "Takes the options of " + bold("farandole " + command.options_of) + ".\n";
}

std::string environment() {
  std::string text =
      ".SH ENVIRONMENT\nOptions take precedence over a config file, and the file over these variables.\n";
  const auto defaults = settings::built_in();
  for (const auto& row : setting_table())
    text += ".TP\n" + bold(row.environment) + "\n" + escaped(row.doc) +
            " Default: " + escaped(defaults.shown(row.id)) + ". Values: " + escaped(values_of(row)) + ".\n";
  return text;
}

std::string verbatim(const std::string& content) {
  return ".nf\n" + escaped(content) + (content.ends_with('\n') ? "" : "\n") + ".fi\n";
}

} // namespace

std::string manual_page(std::span<const command_description> commands, std::string_view version,
                        const std::string& examples) {
  std::string text =
      ".\\\" Made by 'farandole manual'.\n.TH FARANDOLE 1 \"\" \"Farandole " + std::string(version) +
      "\" \"User Commands\"\n"
      ".SH NAME\nfarandole, horovodrun \\- start and inspect distributed training jobs\n"
      ".SH SYNOPSIS\n" +
      bold("farandole") + " \\fICOMMAND\\fR ...\n.br\n" + bold("horovodrun -np") +
      " \\fIN\\fR [\\fIOPTIONS\\fR] \\fICOMMAND\\fR ...\n" + std::string(introduction) + ".SH COMMANDS\n";
  for (const auto& command : commands)
    text += section_of(command);
  return text + environment() + std::string(exit_status) + ".SH NOTES\n" + verbatim(examples);
}

} // namespace farandole
