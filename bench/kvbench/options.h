// What kvbench was asked to do. Immutable once it is judged.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace kvstored::bench {

enum class Dialect { kResp2, kResp3, kMemcached };

// Which key an operation touches.
enum class KeyChoice { kUniform, kZipfian, kLatest };

// Shares of the operations; they add up to 1.
struct Mix {
  double read = 0;
  double update = 0;
  double insert = 0;
  double read_modify_write = 0;
};

struct ByteRange {
  uint32_t min = 0;
  uint32_t max = 0;
};

struct Options {
  std::string host = "127.0.0.1";
  uint16_t port = 7379;
  Dialect dialect = Dialect::kResp2;
  std::string password;

  bool load = false;     // each key once, instead of a workload
  std::string workload;  // as it was named
  Mix mix;
  KeyChoice key_choice = KeyChoice::kUniform;
  uint64_t key_count = 100'000;
  uint32_t key_bytes = 16;
  ByteRange value_bytes = {.min = 100, .max = 100};
  bool compressible = false;  // values of one byte again and again, not of random letters
  uint64_t seed = 1;

  uint32_t connections = 50;
  uint32_t threads = 1;
  uint32_t depth = 1;
  uint64_t operations = 0;  // 0: until the time is up
  double duration_s = 10;   // without `operations`
  double warm_up_s = 0;
  double rate_per_s = 0;  // 0: closed loop

  uint32_t wait_replicas = 0;  // 0: no WAIT
  uint32_t wait_ms = 10'000;

  bool reconnect = false;
  double timeout_s = 10;
  std::string json_file;  // "-": standard output; empty: none
};

// Sets mix and key choice of one of: a b c d f get set mix. Empty, or what is wrong.
// `reads_percent` counts for mix.
std::string ChooseWorkload(const std::string& name, uint32_t reads_percent, Options* options);

// "100" or "100-2000"; false if it is neither.
bool ParseByteRange(const std::string& text, ByteRange* range);

// What cannot be together, or can never work; empty if nothing.
std::string Judge(const Options& options);

}  // namespace kvstored::bench
