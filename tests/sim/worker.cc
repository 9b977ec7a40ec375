#include "tests/sim/worker.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <type_traits>

namespace kvstored::sim {
namespace {

constexpr char kEnd[] = "end\n";
static_assert(std::is_trivially_copyable_v<RunOptions>, "it goes through a pipe as it is");

// What a child tells its parent, as lines.
std::string Serialize(const RunResult& result) {
  std::string error = result.error;
  for (char& c : error) {
    c = c == '\n' ? ' ' : c;
  }
  std::ostringstream out;
  out << "error " << error << "\ntrace " << result.trace_hash << "\nrequests " << result.requests
      << "\nacknowledged " << result.acknowledged << "\nfaults " << result.faults << "\nsteps "
      << result.steps << "\nsimulated " << result.simulated_us << "\n";
  for (const auto& [name, count] : result.counters) {
    out << "counter " << name << " " << count << "\n";
  }
  out << kEnd;
  return out.str();
}

RunResult Deserialize(const std::string& text) {
  RunResult result;
  std::istringstream in(text);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "error") {
      result.error = line.size() > 6 ? line.substr(6) : "";
    } else if (what == "trace") {
      words >> result.trace_hash;
    } else if (what == "requests") {
      words >> result.requests;
    } else if (what == "acknowledged") {
      words >> result.acknowledged;
    } else if (what == "faults") {
      words >> result.faults;
    } else if (what == "steps") {
      words >> result.steps;
    } else if (what == "simulated") {
      words >> result.simulated_us;
    } else if (what == "counter") {
      std::string name;
      uint64_t count = 0;
      words >> name >> count;
      result.counters[name] = count;
    }
  }
  return result;
}

bool WriteAll(int fd, const void* data, size_t size_bytes) {
  const auto* bytes = static_cast<const char*>(data);
  while (size_bytes != 0) {
    const ssize_t wrote = ::write(fd, bytes, size_bytes);
    if (wrote <= 0) {
      return false;
    }
    bytes += wrote;
    size_bytes -= static_cast<size_t>(wrote);
  }
  return true;
}

[[noreturn]] void RunChild(int from_parent, int to_parent, bool quiet) {
  if (quiet && std::freopen("/dev/null", "w", stderr) == nullptr) {
    std::_Exit(2);
  }
  RunOptions options;
  while (::read(from_parent, &options, sizeof(options)) == sizeof(options)) {
    ::alarm(120);  // a seed that never ends is a failure as well
    const std::string text = Serialize(sim::Run(options));
    if (!WriteAll(to_parent, text.data(), text.size())) {
      std::_Exit(2);
    }
  }
  std::fflush(nullptr);
  std::_Exit(0);
}

}  // namespace

Worker::~Worker() {
  End();
}

void Worker::Start() {
  int down[2];
  int up[2];
  if (::pipe(down) != 0 || ::pipe(up) != 0) {
    std::perror("pipe");
    std::exit(2);
  }
  std::fflush(nullptr);
  child_ = ::fork();
  if (child_ == 0) {
    ::close(down[1]);
    ::close(up[0]);
    RunChild(down[0], up[1], quiet_);
  }
  ::close(down[0]);
  ::close(up[1]);
  to_child_ = down[1];
  from_child_ = up[0];
}

int Worker::End() {
  if (child_ <= 0) {
    return 0;
  }
  ::close(to_child_);
  ::close(from_child_);
  int status = 0;
  ::waitpid(child_, &status, 0);
  child_ = 0;
  return status;
}

RunResult Worker::Run(const RunOptions& options) {
  if (child_ <= 0) {
    Start();
  }
  std::string text;
  bool ended = false;
  if (WriteAll(to_child_, &options, sizeof(options))) {
    char buffer[4096];
    ssize_t got = 0;
    while (!ended && (got = ::read(from_child_, buffer, sizeof(buffer))) > 0) {
      text.append(buffer, static_cast<size_t>(got));
      ended = text.size() >= sizeof(kEnd) && text.ends_with(std::string("\n") + kEnd);
    }
  }
  RunResult result = Deserialize(text);
  if (!ended) {
    const int status = End();
    result.error = WIFSIGNALED(status)
                       ? std::string("ended by signal ") + ::strsignal(WTERMSIG(status))
                       : "ended with status " + std::to_string(WEXITSTATUS(status));
  }
  return result;
}

}  // namespace kvstored::sim
