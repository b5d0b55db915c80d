// Finds and reads the files of other profilers: *.json and *.json.gz of torch.profiler, *.xplane.pb of the profiler of
// TensorFlow and JAX. A file is read twice: for its facts, and for its events when they have a place.
#pragma once

#include <string>
#include <vector>

#include "tools/farandole/trace/profiler_event.hpp"

namespace farandole {

struct profiler_file {
  std::string path;
  std::string profiler; ///< its name
  profiler_facts facts;
};

struct profiler_files {
  std::vector<profiler_file> files;
  std::vector<std::string> problems; ///< each with the file's path, for the user
};

/// Each path is a file, or a folder in which, and in whose folders, files of these names are read. Files that farandole
/// trace merge has written are left out, among them `output`. A file that cannot be used is a problem, and the others are
/// read.
profiler_files find_profiler_files(const std::vector<std::string>& paths, const std::string& output);

/// Reads a file again.
profiler_facts read_profiler_file(const std::string& path, const profiler_visitor& visit);

} // namespace farandole
