/* `horovodrun` is `farandole` under another name: this program replaces itself by the `farandole` beside it,
   which looks at the name by which it was called. A symbolic link would do the same, but a wheel cannot hold
   one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int count, char** words) {
  static const char name[] = "farandole";
  char path[4096 + sizeof name];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof name);
  char* last_slash = NULL;
  (void)count;
  if (length > 0) {
    path[length] = '\0';
    last_slash = strrchr(path, '/');
  }
  if (last_slash == NULL) {
    fprintf(stderr, "horovodrun: the folder of this program cannot be found: %s\n", strerror(errno));
    return 127;
  }
  strcpy(last_slash + 1, name);
  execv(path, words);
  fprintf(stderr, "horovodrun: %s cannot be run: %s; install Farandole again\n", path, strerror(errno));
  return errno == ENOENT ? 127 : 126;
}
