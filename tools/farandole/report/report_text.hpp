// A report in words and tables for a terminal, and as JSON for programs.
#pragma once

#include <string>

#include "tools/farandole/report/job_report.hpp"

namespace farandole {

/// `report`: has steps.
std::string text_of(const job_report& report);
std::string json_of(const job_report& report);

/// Why the report has no steps, and the remedy.
std::string refusal_of(const job_report& report);

} // namespace farandole
