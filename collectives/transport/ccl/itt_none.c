/* libccl.a references the functions of Intel's tracing library (ITT), for which no static archive is available. It
 * calls each function through a pointer that is null if tracing is disabled; here they are always null. */
void* __itt_domain_create_ptr__3_0 = 0;
void* __itt_event_create_ptr__3_0 = 0;
void* __itt_event_end_ptr__3_0 = 0;
void* __itt_event_start_ptr__3_0 = 0;
void* __itt_metadata_add_ptr__3_0 = 0;
void* __itt_string_handle_create_ptr__3_0 = 0;
void* __itt_task_begin_ptr__3_0 = 0;
void* __itt_task_end_ptr__3_0 = 0;
void* __itt_thread_set_name_ptr__3_0 = 0;
