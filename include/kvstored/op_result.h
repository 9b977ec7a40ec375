// Outcomes of the data path. No allocation and no text: the command room turns them into replies.
#pragma once

#include <cstdint>

namespace kvstored {

enum class [[nodiscard]] OpResult : uint8_t{
    kOk = 0,
    kMiss,        // key absent (or logically expired)
    kWait,        // nothing was changed; run again when the shard says so (window, hold, log space)
    kNoReplicas,  // the member set is incomplete or silent: -NOREPLICAS
    kReadOnly,    // this node is a replica: -READONLY
    kLoading,     // recovery or full sync under way: -LOADING
    kOutOfMemory,  // over max_memory and nothing may be evicted: -OOM
    kDiskFull,     // log space cannot be reserved: -MISCONF
    kTooLarge,     // value over kValueBytesMax
    kSteppedDown,  // an I/O error ended the role: -MISCONF, no role until restart
};

}  // namespace kvstored
