// The implementation of the module: thin wrappers around MPI, called by one thread at a time.
#include "collectives/transport/mpi/mpi_module.hpp"

#include <mpi.h>

#include <bit>
#include <climits>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace farandole {
namespace {

/// The tag that all members must pass to MPI_Comm_create_group; not used for anything else.
constexpr int forming_tag = 17;

// Open MPI's handles are pointers, MPICH's are numbers.
template <class Handle>
mpi_handle number_of(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return std::bit_cast<std::uintptr_t>(handle);
  else
    return static_cast<mpi_handle>(handle);
}

template <class Handle>
Handle handle_of(mpi_handle number) {
  if constexpr (std::is_pointer_v<Handle>)
    return std::bit_cast<Handle>(static_cast<std::uintptr_t>(number));
  else
    return static_cast<Handle>(number);
}

mpi_level level_of(int provided) {
  return provided == MPI_THREAD_MULTIPLE     ? mpi_level::multiple
         : provided == MPI_THREAD_SERIALIZED ? mpi_level::serialized
         : provided == MPI_THREAD_FUNNELED   ? mpi_level::funneled
                                             : mpi_level::single;
}

int tag_limit() {
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found);
  return found ? *static_cast<int*>(value) : 32767;
}

int look(mpi_state* state) {
  *state = {};
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  state->initialized = initialized != 0;
  state->finalized = finalized != 0;
  if (!initialized || finalized)
    return MPI_SUCCESS;
  int provided = MPI_THREAD_SINGLE;
  int main_thread = 0;
  MPI_Query_thread(&provided);
  MPI_Is_thread_main(&main_thread);
  state->level = level_of(provided);
  state->main_thread = main_thread != 0;
  state->tag_limit = tag_limit();
  MPI_Comm_rank(MPI_COMM_WORLD, &state->rank);
  return MPI_Comm_size(MPI_COMM_WORLD, &state->size);
}

int initialize(mpi_level wanted) {
  int provided = MPI_THREAD_SINGLE;
  return MPI_Init_thread(nullptr, nullptr,
                         wanted == mpi_level::multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
}

int finalize() {
  return MPI_Finalize();
}

int form(const std::int32_t* ranks, std::int32_t count, mpi_handle* group) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  if (int code = MPI_Comm_group(MPI_COMM_WORLD, &world))
    return code;
  int code = MPI_Group_incl(world, count, ranks, &members);
  MPI_Group_free(&world);
  if (code)
    return code;
  MPI_Comm formed = MPI_COMM_NULL;
  code = MPI_Comm_create_group(MPI_COMM_WORLD, members, forming_tag, &formed);
  MPI_Group_free(&members);
  if (code)
    return code;
  MPI_Comm_set_errhandler(formed, MPI_ERRORS_RETURN);
  *group = number_of(formed);
  return 0;
}

int send(mpi_handle group, std::int32_t peer, std::int32_t tag, const void* data, std::size_t bytes,
         mpi_handle* request) {
  if (bytes > INT_MAX)
    return MPI_ERR_COUNT;
  MPI_Request started = MPI_REQUEST_NULL;
  const int code =
      MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, handle_of<MPI_Comm>(group), &started);
  *request = number_of(started);
  return code;
}

int receive(mpi_handle group, std::int32_t peer, std::int32_t tag, void* data, std::size_t bytes,
            mpi_handle* request) {
  if (bytes > INT_MAX)
    return MPI_ERR_COUNT;
  MPI_Request started = MPI_REQUEST_NULL;
  const int code =
      MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, handle_of<MPI_Comm>(group), &started);
  *request = number_of(started);
  return code;
}

int test(mpi_handle* requests, std::int32_t count, std::int32_t* done, std::int32_t* places,
         std::int32_t* codes, std::uint64_t* received) {
  static thread_local std::vector<MPI_Request> open;
  static thread_local std::vector<MPI_Status> statuses;
  open.resize(static_cast<std::size_t>(count));
  statuses.resize(open.size());
  for (std::size_t at = 0; at < open.size(); ++at)
    open[at] = handle_of<MPI_Request>(requests[at]);
  int ended = 0;
  const int code = MPI_Testsome(count, open.data(), &ended, places, statuses.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
    return code;
  *done = ended == MPI_UNDEFINED ? 0 : ended;
  for (std::int32_t at = 0; at < *done; ++at) {
    const auto& status = statuses[static_cast<std::size_t>(at)];
    codes[at] = code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : MPI_SUCCESS;
    int came = MPI_UNDEFINED;
    const bool present = MPI_Get_count(&status, MPI_BYTE, &came) == MPI_SUCCESS && came != MPI_UNDEFINED;
    received[at] = present ? static_cast<std::uint64_t>(came) : UINT64_MAX;
  }
  return MPI_SUCCESS;
}

int cancel(mpi_handle request) {
  auto open = handle_of<MPI_Request>(request);
  return MPI_Cancel(&open);
}

void describe(int code, char* text, std::size_t bytes) {
  char words[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  if (MPI_Error_string(code, words, &length) != MPI_SUCCESS)
    std::strcpy(words, "an error that MPI does not name");
  std::strncpy(text, words, bytes - 1);
  text[bytes - 1] = 0;
}

constexpr mpi_module module{
    mpi_module_version, look, initialize, finalize, form, send, receive, test, cancel, describe};

} // namespace
} // namespace farandole

extern "C" __attribute__((visibility("default"))) const farandole::mpi_module* farandole_mpi_module() {
  return &farandole::module;
}
