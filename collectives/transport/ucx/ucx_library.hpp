// UCX is loaded when a job first spans hosts, not when the process starts: a job on one host pays nothing for
// it, a machine without it can run everything else, and its symbols stay out of the process' global scope.
// Left to itself it would also handle SIGSEGV, SIGHUP and others and rewrite munmap() in a process that
// belongs to somebody else, and only its environment can tell it not to; so it is loaded under an environment
// of its own.
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

/// Loads it once; it stays until the process ends, for UCX keeps state of its own that outlives every worker.
/// The error says what could not be found. Thread-safe.
const expected<ucx_library>& load_ucx();

} // namespace farandole
