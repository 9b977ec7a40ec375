// Words of COMMAND INFO and COMMAND DOCS as Redis 7.0.15 answers them (WAITAOF: 7.2).
#include "command/command_docs.h"

#include <algorithm>
#include <iterator>

namespace kvstored::command {
namespace {

// Sorted by name. name, since, group, summary, complexity, key flags, key notes, tips.
constexpr CommandDoc kDocs[] = {
    {"append", "2.0.0", "string", "Append a value to a key",
     "O(1). The amortized time complexity is O(1) assuming the appended value is small and the "
     "already present value is of any size, since the dynamic string library used by Redis will "
     "double the free space available on every reallocation.",
     "RW insert", "", ""},
    {"auth", "1.0.0", "connection", "Authenticate to the server",
     "O(N) where N is the number of passwords defined for the user", "", "", ""},
    {"bgsave", "1.0.0", "server", "Asynchronously save the dataset to disk", "O(1)", "", "", ""},
    {"bitcount", "2.6.0", "bitmap", "Count set bits in a string", "O(N)", "RO access", "", ""},
    {"bitfield", "3.2.0", "bitmap", "Perform arbitrary bitfield integer operations on strings",
     "O(1) for each subcommand specified", "RW access update variable_flags",
     "This command allows both access and modification of the key", ""},
    {"bitfield_ro", "6.0.0", "bitmap",
     "Perform arbitrary bitfield integer operations on strings. Read-only variant of BITFIELD",
     "O(1) for each subcommand specified", "RO access", "", ""},
    {"bitop", "2.6.0", "bitmap", "Perform bitwise operations between strings", "O(N)",
     "OW update|RO access", "", ""},
    {"bitpos", "2.8.7", "bitmap", "Find first bit set or clear in a string", "O(N)", "RO access",
     "", ""},
    {"client", "2.4.0", "connection", "A container for client connection commands",
     "Depends on subcommand.", "", "", ""},
    {"cluster", "3.0.0", "cluster", "A container for cluster commands", "Depends on subcommand.",
     "", "", ""},
    {"command", "2.8.13", "server", "Get array of Redis command details",
     "O(N) where N is the total number of Redis commands", "", "", "nondeterministic_output_order"},
    {"config", "2.0.0", "server", "A container for server configuration commands",
     "Depends on subcommand.", "", "", ""},
    {"copy", "6.2.0", "generic", "Copy a key",
     "O(N) worst case for collections, where N is the number of nested items. O(1) for string "
     "values.",
     "RO access|OW update", "", ""},
    {"dbsize", "1.0.0", "server", "Return the number of keys in the selected database", "O(1)", "",
     "", "request_policy:all_shards response_policy:agg_sum"},
    {"debug", "1.0.0", "server", "A container for debugging commands", "Depends on subcommand.", "",
     "", ""},
    {"decr", "1.0.0", "string", "Decrement the integer value of a key by one", "O(1)",
     "RW access update", "", ""},
    {"decrby", "1.0.0", "string", "Decrement the integer value of a key by the given number",
     "O(1)", "RW access update", "", ""},
    {"del", "1.0.0", "generic", "Delete a key",
     "O(N) where N is the number of keys that will be removed. When a key to remove holds a value "
     "other than a string, the individual complexity for this key is O(M) where M is the number of "
     "elements in the list, set, sorted set or hash. Removing a single key that holds a string "
     "value is O(1).",
     "RM delete", "", "request_policy:multi_shard response_policy:agg_sum"},
    {"discard", "2.0.0", "transactions", "Discard all commands issued after MULTI",
     "O(N), when N is the number of queued commands", "", "", ""},
    {"dump", "2.6.0", "generic",
     "Return a serialized version of the value stored at the specified key.",
     "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of Redis "
     "objects composing the value and M their average size. For small string values the time "
     "complexity is thus O(1)+O(1*M) where M is small, so simply O(1).",
     "RO access", "", "nondeterministic_output"},
    {"echo", "1.0.0", "connection", "Echo the given string", "O(1)", "", "", ""},
    {"exec", "1.2.0", "transactions", "Execute all commands issued after MULTI",
     "Depends on commands in the transaction", "", "", ""},
    {"exists", "1.0.0", "generic", "Determine if a key exists",
     "O(N) where N is the number of keys to check.", "RO", "",
     "request_policy:multi_shard response_policy:agg_sum"},
    {"expire", "1.0.0", "generic", "Set a key's time to live in seconds", "O(1)", "RW update", "",
     ""},
    {"expireat", "1.2.0", "generic", "Set the expiration for a key as a UNIX timestamp", "O(1)",
     "RW update", "", ""},
    {"expiretime", "7.0.0", "generic", "Get the expiration Unix timestamp for a key", "O(1)",
     "RO access", "", ""},
    {"flushall", "1.0.0", "server", "Remove all keys from all databases",
     "O(N) where N is the total number of keys in all databases", "", "",
     "request_policy:all_shards response_policy:all_succeeded"},
    {"flushdb", "1.0.0", "server", "Remove all keys from the current database",
     "O(N) where N is the number of keys in the selected database", "", "",
     "request_policy:all_shards response_policy:all_succeeded"},
    {"get", "1.0.0", "string", "Get the value of a key", "O(1)", "RO access", "", ""},
    {"getbit", "2.2.0", "bitmap",
     "Returns the bit value at offset in the string value stored at key", "O(1)", "RO access", "",
     ""},
    {"getdel", "6.2.0", "string", "Get the value of a key and delete the key", "O(1)",
     "RW access delete", "", ""},
    {"getex", "6.2.0", "string", "Get the value of a key and optionally set its expiration", "O(1)",
     "RW access update", "RW and UPDATE because it changes the TTL", ""},
    {"getrange", "2.4.0", "string", "Get a substring of the string stored at a key",
     "O(N) where N is the length of the returned string. The complexity is ultimately determined "
     "by the returned length, but because creating a substring from an existing string is very "
     "cheap, it can be considered O(1) for small strings.",
     "RO access", "", ""},
    {"getset", "1.0.0", "string", "Set the string value of a key and return its old value", "O(1)",
     "RW access update", "", ""},
    {"hello", "6.0.0", "connection", "Handshake with Redis", "O(1)", "", "", ""},
    {"incr", "1.0.0", "string", "Increment the integer value of a key by one", "O(1)",
     "RW access update", "", ""},
    {"incrby", "1.0.0", "string", "Increment the integer value of a key by the given amount",
     "O(1)", "RW access update", "", ""},
    {"incrbyfloat", "2.6.0", "string", "Increment the float value of a key by the given amount",
     "O(1)", "RW access update", "", ""},
    {"info", "1.0.0", "server", "Get information and statistics about the server", "O(1)", "", "",
     "nondeterministic_output request_policy:all_shards response_policy:special"},
    {"keys", "1.0.0", "generic", "Find all keys matching the given pattern",
     "O(N) with N being the number of keys in the database, under the assumption that the key "
     "names in the database and the given pattern have limited length.",
     "", "", "request_policy:all_shards nondeterministic_output_order"},
    {"kvstored", "0.1.0", "server", "Run an operation of the node, as kvctl does",
     "Depends on the operation", "", "", ""},
    {"lastsave", "1.0.0", "server", "Get the UNIX time stamp of the last successful save to disk",
     "O(1)", "", "", "nondeterministic_output"},
    {"latency", "2.8.13", "server", "A container for latency diagnostics commands",
     "Depends on subcommand.", "", "", ""},
    {"lcs", "7.0.0", "string", "Find longest common substring",
     "O(N*M) where N and M are the lengths of s1 and s2, respectively", "RO access", "", ""},
    {"memory", "4.0.0", "server", "A container for memory diagnostics commands",
     "Depends on subcommand.", "", "", ""},
    {"mget", "1.0.0", "string", "Get the values of all the given keys",
     "O(N) where N is the number of keys to retrieve.", "RO access", "",
     "request_policy:multi_shard"},
    {"monitor", "1.0.0", "server", "Listen for all requests received by the server in real time",
     "", "", "", ""},
    {"mset", "1.0.1", "string", "Set multiple keys to multiple values",
     "O(N) where N is the number of keys to set.", "OW update", "",
     "request_policy:multi_shard response_policy:all_succeeded"},
    {"msetnx", "1.0.1", "string",
     "Set multiple keys to multiple values, only if none of the keys exist",
     "O(N) where N is the number of keys to set.", "OW insert", "",
     "request_policy:multi_shard response_policy:agg_min"},
    {"multi", "1.2.0", "transactions", "Mark the start of a transaction block", "O(1)", "", "", ""},
    {"object", "2.2.3", "generic", "A container for object introspection commands",
     "Depends on subcommand.", "", "", ""},
    {"persist", "2.2.0", "generic", "Remove the expiration from a key", "O(1)", "RW update", "",
     ""},
    {"pexpire", "2.6.0", "generic", "Set a key's time to live in milliseconds", "O(1)", "RW update",
     "", ""},
    {"pexpireat", "2.6.0", "generic",
     "Set the expiration for a key as a UNIX timestamp specified in milliseconds", "O(1)",
     "RW update", "", ""},
    {"pexpiretime", "7.0.0", "generic",
     "Get the expiration Unix timestamp for a key in milliseconds", "O(1)", "RO access", "", ""},
    {"ping", "1.0.0", "connection", "Ping the server", "O(1)", "", "",
     "request_policy:all_shards response_policy:all_succeeded"},
    {"psetex", "2.6.0", "string", "Set the value and expiration in milliseconds of a key", "O(1)",
     "OW update", "", ""},
    {"pttl", "2.6.0", "generic", "Get the time to live for a key in milliseconds", "O(1)",
     "RO access", "", "nondeterministic_output"},
    {"quit", "1.0.0", "connection", "Close the connection", "O(1)", "", "", ""},
    {"randomkey", "1.0.0", "generic", "Return a random key from the keyspace", "O(1)", "", "",
     "request_policy:all_shards nondeterministic_output"},
    {"readonly", "3.0.0", "cluster",
     "Enables read queries for a connection to a cluster replica node", "O(1)", "", "", ""},
    {"readwrite", "3.0.0", "cluster",
     "Disables read queries for a connection to a cluster replica node", "O(1)", "", "", ""},
    {"rename", "1.0.0", "generic", "Rename a key", "O(1)", "RW access delete|OW update", "", ""},
    {"renamenx", "1.0.0", "generic", "Rename a key, only if the new key does not exist", "O(1)",
     "RW access delete|OW insert", "", ""},
    {"replicaof", "5.0.0", "server",
     "Make the server a replica of another instance, or promote it as master.", "O(1)", "", "", ""},
    {"reset", "6.2.0", "connection", "Reset the connection", "O(1)", "", "", ""},
    {"restore", "2.6.0", "generic",
     "Create a key using the provided serialized value, previously obtained using DUMP.",
     "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where "
     "N "
     "is the number of Redis objects composing the value and M their average size. For small "
     "string "
     "values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1). However for "
     "sorted set values the complexity is O(N*M*log(N)) because inserting values into sorted sets "
     "is O(log(N)).",
     "OW update", "", ""},
    {"role", "2.8.12", "server", "Return the role of the instance in the context of replication",
     "O(1)", "", "", ""},
    {"save", "1.0.0", "server", "Synchronously save the dataset to disk",
     "O(N) where N is the total number of keys in all databases", "", "", ""},
    {"scan", "2.8.0", "generic", "Incrementally iterate the keys space",
     "O(1) for every call. O(N) for a complete iteration, including enough command calls for the "
     "cursor to return back to 0. N is the number of elements inside the collection.",
     "", "", "nondeterministic_output request_policy:special"},
    {"select", "1.0.0", "connection", "Change the selected database for the current connection",
     "O(1)", "", "", ""},
    {"set", "1.0.0", "string", "Set the string value of a key", "O(1)",
     "RW access update variable_flags", "RW and ACCESS due to the optional `GET` argument", ""},
    {"setbit", "2.2.0", "bitmap",
     "Sets or clears the bit at offset in the string value stored at key", "O(1)",
     "RW access update", "", ""},
    {"setex", "2.0.0", "string", "Set the value and expiration of a key", "O(1)", "OW update", "",
     ""},
    {"setnx", "1.0.0", "string", "Set the value of a key, only if the key does not exist", "O(1)",
     "OW insert", "", ""},
    {"setrange", "2.2.0", "string",
     "Overwrite part of a string at key starting at the specified offset",
     "O(1), not counting the time taken to copy the new string in place. Usually, this string is "
     "very small so the amortized complexity is O(1). Otherwise, complexity is O(M) with M being "
     "the length of the value argument.",
     "RW update", "", ""},
    {"shutdown", "1.0.0", "server",
     "Synchronously save the dataset to disk and then shut down the server",
     "O(N) when saving, where N is the total number of keys in all databases when saving data, "
     "otherwise O(1)",
     "", "", ""},
    {"slaveof", "1.0.0", "server",
     "Make the server a replica of another instance, or promote it as master.", "O(1)", "", "", ""},
    {"slowlog", "2.2.12", "server", "A container for slow log commands", "Depends on subcommand.",
     "", "", ""},
    {"strlen", "2.2.0", "string", "Get the length of the value stored in a key", "O(1)", "RO", "",
     ""},
    {"substr", "1.0.0", "string", "Get a substring of the string stored at a key",
     "O(N) where N is the length of the returned string. The complexity is ultimately determined "
     "by the returned length, but because creating a substring from an existing string is very "
     "cheap, it can be considered O(1) for small strings.",
     "RO access", "", ""},
    {"time", "2.6.0", "server", "Return the current server time", "O(1)", "", "",
     "nondeterministic_output"},
    {"touch", "3.2.1", "generic",
     "Alters the last access time of a key(s). Returns the number of existing keys specified.",
     "O(N) where N is the number of keys that will be touched.", "RO", "",
     "request_policy:multi_shard response_policy:agg_sum"},
    {"ttl", "1.0.0", "generic", "Get the time to live for a key in seconds", "O(1)", "RO access",
     "", "nondeterministic_output"},
    {"type", "1.0.0", "generic", "Determine the type stored at key", "O(1)", "RO", "", ""},
    {"unlink", "4.0.0", "generic",
     "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non "
     "blocking.",
     "O(1) for each key removed regardless of its size. Then the command does O(N) work in a "
     "different thread in order to reclaim memory, where N is the number of allocations the "
     "deleted objects where composed of.",
     "RM delete", "", "request_policy:multi_shard response_policy:agg_sum"},
    {"unwatch", "2.2.0", "transactions", "Forget about all watched keys", "O(1)", "", "", ""},
    {"wait", "3.0.0", "generic",
     "Wait for the synchronous replication of all the write commands sent in the context of the "
     "current connection",
     "O(1)", "", "", "request_policy:all_shards response_policy:agg_min"},
    {"waitaof", "7.2.0", "generic",
     "Wait for the synchronous persistence of all the write commands sent in the context of the "
     "current connection",
     "O(1)", "", "", "request_policy:all_shards response_policy:agg_min"},
    {"watch", "2.2.0", "transactions",
     "Watch the given keys to determine execution of the MULTI/EXEC block", "O(1) for every key.",
     "RO", "", ""},
};

}  // namespace

const CommandDoc* FindCommandDoc(std::string_view name) {
  const CommandDoc* end = std::end(kDocs);
  const CommandDoc* found = std::lower_bound(
      std::begin(kDocs), end, name,
      [](const CommandDoc& doc, std::string_view wanted) { return doc.name < wanted; });
  return found != end && found->name == name ? found : nullptr;
}

}  // namespace kvstored::command
