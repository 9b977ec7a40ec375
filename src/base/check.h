// Checks that stay on in release builds: a broken invariant ends the process with its values.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace kvstored::base {

[[noreturn]] void CheckFailed(const char* file, int line, const char* expression,
                              const char* values);

}  // namespace kvstored::base

// KVS_CHECK(a <= b, "a=%llu b=%llu", a, b): message is a printf format with its arguments.
#define KVS_CHECK(condition, ...)                                                    \
  do {                                                                               \
    if (__builtin_expect(!(condition), 0)) {                                         \
      char kvs_check_text[256];                                                      \
      std::snprintf(kvs_check_text, sizeof(kvs_check_text), __VA_ARGS__);            \
      ::kvstored::base::CheckFailed(__FILE__, __LINE__, #condition, kvs_check_text); \
    }                                                                                \
  } while (false)

#ifdef KVS_DEBUG_CHECKS
#define KVS_DCHECK(condition, ...) KVS_CHECK(condition, __VA_ARGS__)
#else
#define KVS_DCHECK(condition, ...) \
  do {                             \
  } while (false)
#endif

// For absl::Status expressions.
#define KVS_RETURN_IF_ERROR(expression)                             \
  do {                                                              \
    if (absl::Status kvs_status = (expression); !kvs_status.ok()) { \
      return kvs_status;                                            \
    }                                                               \
  } while (false)

#define KVS_CONCAT_INNER(a, b) a##b
#define KVS_CONCAT(a, b) KVS_CONCAT_INNER(a, b)
#define KVS_ASSIGN_OR_RETURN(target, expression) \
  KVS_ASSIGN_OR_RETURN_IMPL(KVS_CONCAT(kvs_or_, __LINE__), target, expression)
#define KVS_ASSIGN_OR_RETURN_IMPL(result, target, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) {                                         \
    return result.status();                                   \
  }                                                           \
  target = *std::move(result)
