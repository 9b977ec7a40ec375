// Runs independent pieces of control work on a few threads: recovery, verification.
#pragma once

#include <cstddef>
#include <functional>

namespace kvstored::base {

// Calls body(0) .. body(count - 1), each once, on at most `thread_count` threads, the caller's
// among them, and returns when all have ended; their effects are visible then. One thread: in
// order, on the caller's thread.
void ParallelFor(size_t count, size_t thread_count, const std::function<void(size_t)>& body);

}  // namespace kvstored::base
