#include "collectives/transport/ucx/ucx_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace farandole {
namespace {

/// Settings that UCX reads only while it is loaded and only from the environment. A value that the user has
/// set takes precedence.
constexpr const char* load_settings[] = {
    "UCX_HANDLE_ERRORS=none",
    "UCX_DEBUG_SIGNO=0",
    "UCX_MEM_EVENTS=n",
    "UCX_MEM_MMAP_HOOK_MODE=none",
    "UCX_MEM_MALLOC_HOOKS=n",
    "UCX_MEM_MALLOC_RELOC=n",
    "UCX_VFS_ENABLE=n",
    "UCX_LOG_LEVEL=fatal", // it reports a dead peer on standard output as well as by the endpoint: once is
                           // enough
    "UCX_WARN_UNUSED_ENV_VARS=n",
};

/// Adds the settings above to the environment during its lifetime. It does not use setenv(), which may move
/// the environment while another thread is in getenv(). Here both arrays stay valid for ever, and if another
/// thread changes its environment meanwhile, that change is kept. For one thread at a time.
class shown_settings {
public:
  shown_settings() : before_(environ) {
    static std::vector<char*> extended;
    for (char** label = before_; label != nullptr && *label != nullptr; ++label)
      extended.push_back(*label);
    for (const char* setting : load_settings) {
      const std::string_view text = setting;
      if (std::getenv(std::string{text.substr(0, text.find('='))}.c_str()) == nullptr)
        extended.push_back(const_cast<char*>(setting)); // no code writes through environ
    }
    extended.push_back(nullptr);
    shown_ = extended.data();
    environ = shown_;
  }
  ~shown_settings() {
    if (environ == shown_)
      environ = before_;
  }
  shown_settings(const shown_settings&) = delete;
  shown_settings& operator=(const shown_settings&) = delete;

private:
  char** before_;
  char** shown_ = nullptr;
};

template <class Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    missing += std::string{missing.empty() ? "" : ", "} + name;
}

error unavailable(const std::string& reason) {
  return {error_kind::unimplemented,
          "the ucx path needs UCX (libucp.so.0, Debian package libucx0): " + reason};
}

expected<ucx_library> load() {
  shown_settings settings;
  void* library = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return unavailable(reason != nullptr ? reason : "it cannot be loaded");
  }
  ucx_library ucx{};
  std::string missing;
  find(library, "ucp_config_read", ucx.config_read, missing);
  find(library, "ucp_config_modify", ucx.config_modify, missing);
  find(library, "ucp_config_release", ucx.config_release, missing);
  find(library, "ucp_init_version", ucx.init_version, missing);
  find(library, "ucp_cleanup", ucx.cleanup, missing);
  find(library, "ucp_worker_create", ucx.worker_create, missing);
  find(library, "ucp_worker_destroy", ucx.worker_destroy, missing);
  find(library, "ucp_worker_get_address", ucx.worker_get_address, missing);
  find(library, "ucp_worker_release_address", ucx.worker_release_address, missing);
  find(library, "ucp_worker_get_efd", ucx.worker_get_efd, missing);
  find(library, "ucp_worker_arm", ucx.worker_arm, missing);
  find(library, "ucp_worker_progress", ucx.worker_progress, missing);
  find(library, "ucp_worker_flush_nbx", ucx.worker_flush_nbx, missing);
  find(library, "ucp_ep_create", ucx.ep_create, missing);
  find(library, "ucp_ep_close_nbx", ucx.ep_close_nbx, missing);
  find(library, "ucp_ep_flush_nbx", ucx.ep_flush_nbx, missing);
  find(library, "ucp_tag_send_nbx", ucx.tag_send_nbx, missing);
  find(library, "ucp_tag_recv_nbx", ucx.tag_recv_nbx, missing);
  find(library, "ucp_request_cancel", ucx.request_cancel, missing);
  find(library, "ucp_request_check_status", ucx.request_check_status, missing);
  find(library, "ucp_request_free", ucx.request_free, missing);
  find(library, "ucs_status_string", ucx.status_string, missing);
  if (!missing.empty())
    return unavailable("it lacks " + missing);
  return ucx;
}

} // namespace

const expected<ucx_library>& load_ucx() {
  static const expected<ucx_library> loaded = load();
  return loaded;
}

} // namespace farandole
