// LD_PRELOAD library that ends a process with SIGKILL at the n-th call that makes something
// durable: rename, fdatasync. So a test meets each state that a crash can leave, not those that a
// timer happens to hit.
//   KVS_KILL_ARMED  file; calls count from the moment at which it exists
//   KVS_KILL_AT     1: before the first of those calls has an effect, 2: before the second, ...
// When the process dies, the file is made longer by one byte, so that the test knows who killed it.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>

namespace {

std::atomic<long> calls{0};

void Count() {
  const char* const armed = std::getenv("KVS_KILL_ARMED");
  const char* const at = std::getenv("KVS_KILL_AT");
  if (armed == nullptr || at == nullptr || ::access(armed, F_OK) != 0 ||
      calls.fetch_add(1) + 1 != std::strtol(at, nullptr, 10)) {
    return;
  }
  const int fd = ::open(armed, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd >= 0) {
    (void)!::write(fd, "x", 1);
  }
  ::kill(::getpid(), SIGKILL);
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" int rename(const char* from, const char* to) noexcept {
  static auto* const next = Next<int(const char*, const char*)>("rename");
  Count();
  return next(from, to);
}

extern "C" int fdatasync(int fd) {
  static auto* const next = Next<int(int)>("fdatasync");
  Count();
  return next(fd);
}
