/* A tool that counts ranges, in the place of a profiler. NVTX loads it into the process because NVTX_INJECTION64_PATH names
 * it, and tests read its counts through nvtx_tool_report(). */
#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { most_domains = 8, most_rows = 128, most_name_bytes = 64 };

struct domain {
  char name[most_name_bytes];
};

struct row {
  const struct domain* domain;
  char name[most_name_bytes];
  unsigned long long begun, ended, bytes;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct domain domains[most_domains];
static struct row rows[most_rows];
static int domain_count, row_count;

/* A wrong call ends the process, and with it the test. */
static void require(int condition, const char* text) {
  if (condition)
    return;
  fprintf(stderr, "the tool for NVTX: %s\n", text);
  abort();
}

static nvtxDomainHandle_t create_domain(const char* name) {
  int index = 0;
  pthread_mutex_lock(&mutex);
  while (index < domain_count && strcmp(domains[index].name, name) != 0)
    ++index;
  require(index < most_domains && strlen(name) < most_name_bytes,
          "too many domains, or a name that is too long");
  if (index == domain_count)
    strcpy(domains[domain_count++].name, name);
  pthread_mutex_unlock(&mutex);
  return (nvtxDomainHandle_t)&domains[index];
}

/* The id of a range is 1 more than the index of its row. */
static nvtxRangeId_t begin_range(nvtxDomainHandle_t handle, const nvtxEventAttributes_t* attributes) {
  const struct domain* domain = (const struct domain*)handle;
  const char* name = attributes->message.ascii;
  int index = 0;
  require(domain != NULL && attributes->messageType == NVTX_MESSAGE_TYPE_ASCII &&
              attributes->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
          "a range without domain, name or payload");
  pthread_mutex_lock(&mutex);
  while (index < row_count && (rows[index].domain != domain || strcmp(rows[index].name, name) != 0))
    ++index;
  require(index < most_rows && strlen(name) < most_name_bytes, "too many names, or one that is too long");
  if (index == row_count) {
    rows[row_count].domain = domain;
    strcpy(rows[row_count++].name, name);
  }
  ++rows[index].begun;
  rows[index].bytes += attributes->payload.ullValue;
  pthread_mutex_unlock(&mutex);
  return (nvtxRangeId_t)index + 1;
}

static void end_range(nvtxDomainHandle_t handle, nvtxRangeId_t range) {
  pthread_mutex_lock(&mutex);
  require(range >= 1 && range <= (nvtxRangeId_t)row_count, "the end of a range that has not begun");
  struct row* row = &rows[range - 1];
  require(row->domain == (const struct domain*)handle && row->ended < row->begun,
          "a range ended twice, or in another domain");
  ++row->ended;
  pthread_mutex_unlock(&mutex);
}

/* Writes a line "DOMAIN NAME BEGUN ENDED BYTES" for each name, with a zero byte at the end. Returns the number of bytes. */
__attribute__((visibility("default"))) size_t nvtx_tool_report(char* text, size_t size) {
  size_t length = 0;
  pthread_mutex_lock(&mutex);
  for (int index = 0; index < row_count; ++index) {
    const struct row* row = &rows[index];
    length += (size_t)snprintf(text + length, size - length, "%s %s %llu %llu %llu\n", row->domain->name,
                               row->name, row->begun, row->ended, row->bytes);
    require(length < size, "the report does not fit");
  }
  pthread_mutex_unlock(&mutex);
  text[length] = 0;
  return length;
}

/* NVTX calls this once for each library of the process that uses it. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks* callbacks = (const NvtxExportTableCallbacks*)get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable functions = NULL;
  unsigned int count = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count) ||
      count <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
  *functions[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)begin_range;
  *functions[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)end_range;
  return 1;
}
