/* Makes one call to the operating system fail, or kills the process before or after it.

   Loaded before the C library (LD_PRELOAD). Nothing happens until `fault_arm` names a folder: then the calls about files
   below it are counted, and the chosen one is disturbed. `faults.py` says which calls and why. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum mode { COUNT, FAIL_ONCE, FAIL_FROM, KILL_BEFORE, KILL_AFTER };

static char root[PATH_MAX];
static atomic_long counted, chosen;
static atomic_int mode, number;
static char names[1 << 16][12]; /* of the counted calls */

void fault_arm(const char *folder, long at, int how, int error) {
  atomic_store(&counted, 0);
  atomic_store(&chosen, at);
  atomic_store(&mode, how);
  atomic_store(&number, error);
  strncpy(root, folder, sizeof root - 1);
}
void fault_disarm(void) { root[0] = 0; }
long fault_counted(void) { return counted; }
const char *fault_name(long at) { return at < 1 << 16 ? names[at] : ""; }

static int below(const char *path) { return root[0] && path && strncmp(path, root, strlen(root)) == 0; }

static int path_of(int descriptor, char *path) {
  char link[64];
  int saved = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t size = readlink(link, path, PATH_MAX - 1);
  errno = saved;
  path[size > 0 ? size : 0] = 0;
  return size > 0;
}

static int concerns_at(int folder, const char *path) {
  char base[PATH_MAX], full[2 * PATH_MAX];
  if (!root[0] || !path) return 0;
  if (path[0] == '/') return below(path);
  if (folder == AT_FDCWD) return 0;
  if (!path_of(folder, base)) return 0;
  snprintf(full, sizeof full, "%s/%s", base, path);
  return below(full);
}
static int concerns(int descriptor) {
  char path[PATH_MAX];
  return root[0] && path_of(descriptor, path) && below(path);
}

/* Whether this call has to fail; sets errno. `last` is set when the process is to be killed after it. */
static int disturbed(const char *name, int *last) {
  long at = atomic_fetch_add(&counted, 1);
  if (at < 1 << 16) strncpy(names[at], name, sizeof names[at] - 1);
  if (mode == KILL_BEFORE && at == chosen) kill(getpid(), SIGKILL);
  *last = mode == KILL_AFTER && at == chosen;
  if ((mode == FAIL_ONCE && at == chosen) || (mode == FAIL_FROM && at >= chosen)) {
    errno = number;
    return 1;
  }
  return 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define DISTURB(label, applies, call)                                                                                    \
  int last = 0;                                                                                                          \
  if ((applies) && disturbed(label, &last)) return -1;                                                                   \
  __auto_type result = call;                                                                                             \
  if (last) kill(getpid(), SIGKILL);                                                                                     \
  return result;

#define MODE_OF(flags)                                                                                                   \
  mode_t bits = 0;                                                                                                       \
  if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                                 \
    va_list arguments;                                                                                                   \
    va_start(arguments, flags);                                                                                          \
    bits = va_arg(arguments, mode_t);                                                                                    \
    va_end(arguments);                                                                                                   \
  }

int open(const char *path, int flags, ...) { MODE_OF(flags) DISTURB("open", below(path), REAL(open)(path, flags, bits)) }
int open64(const char *path, int flags, ...) { MODE_OF(flags) DISTURB("open", below(path), REAL(open64)(path, flags, bits)) }
int openat(int folder, const char *path, int flags, ...) {
  MODE_OF(flags) DISTURB("open", concerns_at(folder, path), REAL(openat)(folder, path, flags, bits))
}
int openat64(int folder, const char *path, int flags, ...) {
  MODE_OF(flags) DISTURB("open", concerns_at(folder, path), REAL(openat64)(folder, path, flags, bits))
}
ssize_t read(int fd, void *data, size_t size) { DISTURB("read", concerns(fd), REAL(read)(fd, data, size)) }
ssize_t pread(int fd, void *data, size_t size, off_t at) { DISTURB("read", concerns(fd), REAL(pread)(fd, data, size, at)) }
ssize_t pread64(int fd, void *data, size_t size, off64_t at) { DISTURB("read", concerns(fd), REAL(pread64)(fd, data, size, at)) }
ssize_t preadv(int fd, const struct iovec *parts, int count, off_t at) { DISTURB("read", concerns(fd), REAL(preadv)(fd, parts, count, at)) }
ssize_t preadv64(int fd, const struct iovec *parts, int count, off64_t at) { DISTURB("read", concerns(fd), REAL(preadv64)(fd, parts, count, at)) }
ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t at, int flags) { DISTURB("read", concerns(fd), REAL(preadv2)(fd, parts, count, at, flags)) }
ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) { DISTURB("read", concerns(fd), REAL(preadv64v2)(fd, parts, count, at, flags)) }
ssize_t write(int fd, const void *data, size_t size) { DISTURB("write", concerns(fd), REAL(write)(fd, data, size)) }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { DISTURB("write", concerns(fd), REAL(pwrite)(fd, data, size, at)) }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { DISTURB("write", concerns(fd), REAL(pwrite64)(fd, data, size, at)) }
int fsync(int fd) { DISTURB("fsync", concerns(fd), REAL(fsync)(fd)) }
int fdatasync(int fd) { DISTURB("fsync", concerns(fd), REAL(fdatasync)(fd)) }
int ftruncate(int fd, off_t size) { DISTURB("ftruncate", concerns(fd), REAL(ftruncate)(fd, size)) }
int ftruncate64(int fd, off64_t size) { DISTURB("ftruncate", concerns(fd), REAL(ftruncate64)(fd, size)) }
int flock(int fd, int operation) { DISTURB("flock", concerns(fd), REAL(flock)(fd, operation)) }
int mkdir(const char *path, mode_t bits) { DISTURB("mkdir", below(path), REAL(mkdir)(path, bits)) }
int mkdirat(int folder, const char *path, mode_t bits) { DISTURB("mkdir", concerns_at(folder, path), REAL(mkdirat)(folder, path, bits)) }
int unlink(const char *path) { DISTURB("unlink", below(path), REAL(unlink)(path)) }
int unlinkat(int folder, const char *path, int flags) { DISTURB("unlink", concerns_at(folder, path), REAL(unlinkat)(folder, path, flags)) }
int rmdir(const char *path) { DISTURB("rmdir", below(path), REAL(rmdir)(path)) }
int link(const char *from, const char *to) { DISTURB("link", below(to), REAL(link)(from, to)) }
int linkat(int a, const char *from, int b, const char *to, int flags) { DISTURB("link", concerns_at(b, to), REAL(linkat)(a, from, b, to, flags)) }
int rename(const char *from, const char *to) { DISTURB("rename", below(to), REAL(rename)(from, to)) }
int renameat(int a, const char *from, int b, const char *to) { DISTURB("rename", concerns_at(b, to), REAL(renameat)(a, from, b, to)) }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
  DISTURB("rename", concerns_at(b, to), REAL(renameat2)(a, from, b, to, flags))
}
