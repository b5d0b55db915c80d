// Loads UCX when a job first needs it, not when the process starts. Jobs that do not use it pay nothing for
// it, a machine without it can run all other paths, and its symbols stay out of the global scope of the
// process. By default UCX would also handle SIGSEGV, SIGHUP and other signals and patch munmap() in a process
// that belongs to the user. Only environment variables can disable this, so UCX is loaded under an
// environment of its own.
#pragma once

#include <ucp/api/ucp.h>

#include "messages/values/error.hpp"

namespace farandole {

/// The functions of libucp and libucs that are used here.
struct ucx_library {
  decltype(&::ucp_config_read) config_read;
  decltype(&::ucp_config_modify) config_modify;
  decltype(&::ucp_config_release) config_release;
  decltype(&::ucp_init_version) init_version;
  decltype(&::ucp_cleanup) cleanup;
  decltype(&::ucp_worker_create) worker_create;
  decltype(&::ucp_worker_destroy) worker_destroy;
  decltype(&::ucp_worker_get_address) worker_get_address;
  decltype(&::ucp_worker_release_address) worker_release_address;
  decltype(&::ucp_worker_get_efd) worker_get_efd;
  decltype(&::ucp_worker_arm) worker_arm;
  decltype(&::ucp_worker_progress) worker_progress;
  decltype(&::ucp_worker_flush_nbx) worker_flush_nbx;
  decltype(&::ucp_ep_create) ep_create;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx;
  decltype(&::ucp_ep_flush_nbx) ep_flush_nbx;
  decltype(&::ucp_tag_send_nbx) tag_send_nbx;
  decltype(&::ucp_tag_recv_nbx) tag_recv_nbx;
  decltype(&::ucp_request_cancel) request_cancel;
  decltype(&::ucp_request_check_status) request_check_status;
  decltype(&::ucp_request_free) request_free;
  decltype(&::ucs_status_string) status_string;
};

/// Loads UCX once. It stays loaded until the process ends, because UCX keeps state that outlives every
/// worker. The error says what could not be found. Thread-safe.
const expected<ucx_library>& load_ucx();

} // namespace farandole
