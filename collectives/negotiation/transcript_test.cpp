// Negotiation tests as transcripts: each file in transcripts/ is a script with the exact exchange, readable
// without C++. transcripts/README.md describes its lines.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "collectives/negotiation/negotiation.hpp"
#include "collectives/operation.hpp"

using namespace farandole;

extern const char transcripts_folder[]; // CMake defines it

namespace {

std::chrono::nanoseconds seconds(const std::string& text) {
  return std::chrono::seconds(std::stoll(text));
}

template <std::size_t N, class Value>
Value named(const std::string& text, std::string_view (*name)(Value)) {
  for (std::size_t i = 0; i < N; ++i)
    if (name(static_cast<Value>(i)) == text)
      return static_cast<Value>(i);
  throw std::runtime_error("no such word: " + text);
}

request full_request(std::istringstream& words) {
  request result;
  std::string operation_name, dtype_name, word;
  words >> result.name >> operation_name >> dtype_name;
  result.signature.operation =
      named<operation_count, operation>(operation_name, [](operation id) { return row_of(id).name; });
  result.signature.dtype = named<dtype_count, dtype>(dtype_name, [](dtype id) { return to_string(id); });
  while (words >> word) {
    const auto equals = word.find('=');
    const auto key = word.substr(0, equals);
    const auto value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "op")
      result.signature.reduce_op =
          named<reduce_op_count, reduce_op>(value, [](reduce_op id) { return to_string(id); });
    else if (key == "pre")
      result.signature.prescale = std::stod(value);
    else if (key == "post")
      result.signature.postscale = std::stod(value);
    else if (key == "root")
      result.signature.root = std::stoi(value);
    else if (key == "no-fast-path")
      result.no_fast_path = true;
    else if (key == "absent")
      result.absent = true;
    else if (key == "group") {
      result.group = static_cast<std::uint32_t>(std::stoul(value));
      result.group_size = static_cast<std::uint32_t>(std::stoul(value.substr(value.find('/') + 1)));
    } else { // a shape as 3x4, or "scalar"
      std::istringstream extents(word == "scalar" ? "" : word);
      for (std::string extent; std::getline(extents, extent, 'x');)
        result.signature.shape.push_back(std::stoll(extent));
    }
  }
  return result;
}

void add_part(requests& batch, const std::string& part) {
  std::istringstream words(part);
  std::string verb, word;
  words >> verb;
  if (verb == "full")
    batch.full.push_back(full_request(words));
  else if (verb == "ids")
    while (words >> word)
      batch.ids.push_back(static_cast<std::uint32_t>(std::stoul(word)));
  else if (verb == "left")
    while (words >> word)
      batch.left.push_back(
          {static_cast<std::uint32_t>(std::stoul(word)), std::stoull(word.substr(word.find(':') + 1))});
  else if (verb == "withdraw")
    while (words >> word)
      batch.withdraw.push_back(word);
  else if (verb == "join")
    batch.join = true;
  else if (verb == "shutdown")
    batch.leaves = departure{};
  else
    throw std::runtime_error("no such verb: " + verb);
}

std::string told(const failure& failure) {
  return failure.name + " " + std::string(to_string(failure.reason.kind)) + ": " + failure.reason.text + "\n";
}

std::string told(const negotiation_result& decision) {
  std::ostringstream ostringstream;
  for (const auto& assignment : decision.assignments) {
    ostringstream << "< assign " << assignment.id << " " << assignment.name;
    if (assignment.cell >= 0)
      ostringstream << " cell " << assignment.cell << " for " << assignment.cell_bytes << " bytes";
    ostringstream << "\n";
  }
  for (auto id : decision.forget)
    ostringstream << "< forget " << id << "\n";
  for (const auto& round : decision.retract)
    ostringstream << "< retract " << round.id << ":" << round.round << "\n";
  for (const auto& failure : decision.failures)
    ostringstream << "< fail " << told(failure);
  for (const auto& name : decision.absent)
    ostringstream << "< no result " << name << "\n";
  for (const auto& refusal : decision.refusals)
    ostringstream << "< to " << refusal.rank << ": fail " << told(refusal.failure);
  for (const auto& question : decision.questions)
    ostringstream << "< to " << question.rank << ": ask " << question.id << "\n";
  for (const auto& ready_tensor : decision.ready) {
    ostringstream << "< ready "
                  << (ready_tensor.id ? std::to_string(ready_tensor.id) : std::string(ready_tensor.name()));
    for (std::size_t i = 0; ready_tensor.details && i < ready_tensor.details->first_dims.size(); ++i)
      ostringstream << (i ? "+" : " rows ") << ready_tensor.details->first_dims[i];
    ostringstream << "\n";
  }
  if (decision.joined >= 0)
    ostringstream << "< joined " << decision.joined << "\n";
  if (decision.end)
    ostringstream << "< end by " << (decision.departed ? std::to_string(decision.departed->rank) : "nobody")
                  << "\n";
  if (decision.breach)
    ostringstream << "< breach " << decision.breach.text << "\n";
  return ostringstream.str();
}

std::string told(const std::vector<stalled_tensor>& stalls) {
  std::string text;
  for (const auto& stall : stalls) {
    text += "< stalled " + stall.name + " " +
            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(stall.waited).count()) +
            "s missing";
    for (auto rank : stall.missing)
      text += " " + std::to_string(rank);
    text += "\n";
  }
  return text;
}

negotiation_options options_of(std::istringstream& words) {
  negotiation_options options;
  for (std::string key, value; words >> key >> value;) {
    if (key == "members")
      for (std::int32_t rank = 0; rank < std::stoi(value); ++rank)
        options.members.push_back(rank);
    else if (key == "ranks") {
      std::istringstream ranks(value);
      for (std::string rank; std::getline(ranks, rank, ',');)
        options.members.push_back(std::stoi(rank));
    } else if (key == "cache")
      options.cache_capacity = std::stoul(value);
    else if (key == "fast-path") {
      options.fast_path.on = options.fast_path.one_host = true;
      options.fast_path.limit_bytes = 256;
      options.fast_path.area_bytes = std::stoul(value);
      options.fast_path.footprint = [](std::size_t bytes) { return bytes + 64; };
    } else if (key == "collective")
      options.fast_path.collective_bytes = std::stoul(value);
    else
      throw std::runtime_error("no such option: " + key);
  }
  return options;
}

/// Plays the script and returns it with the actual results in place of its "<" lines.
std::string played(std::istream& script) {
  std::string text, line;
  std::unique_ptr<negotiation> leader;
  std::chrono::nanoseconds current_time{0};
  while (std::getline(script, line)) {
    if (line.starts_with("<"))
      continue;
    text += line + "\n";
    std::istringstream words(line);
    std::string first;
    if (!(words >> first) || first.starts_with("#"))
      continue;
    if (first == "set") {
      leader = std::make_unique<negotiation>(options_of(words));
    } else if (first == "at") {
      words >> first;
      current_time = seconds(first);
    } else if (first == "stalled?") {
      words >> first;
      text += told(leader->stalled(current_time, seconds(first)));
    } else {
      requests batch;
      std::string rest;
      std::getline(words, rest);
      std::istringstream parts(rest);
      for (std::string part; std::getline(parts, part, ';');)
        add_part(batch, part);
      text += told(leader->receive(std::stoi(first), batch, current_time));
    }
  }
  return text;
}

} // namespace

TEST_CASE("negotiation gives the results that the transcripts list") {
  std::size_t scripts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(transcripts_folder)) {
    if (entry.path().extension() != ".txt")
      continue;
    ++scripts;
    INFO(entry.path().filename());
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    const auto wanted = text.str();
    const auto real = played(text);
    if (std::getenv("FARANDOLE_WRITE_TRANSCRIPTS"))
      std::ofstream(entry.path()) << real;
    CHECK(real == wanted);
  }
  CHECK(scripts >= 16);
}
