// What LATENCY DOCTOR and LATENCY GRAPH answer, in the words and lines of Redis 7.0.15. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "command/latency_log.h"

namespace kvstored::command {

std::string LatencyGraph(std::string_view name, const LatencyLog::Event& event, int64_t unix_s);

struct DoctorFacts {
  std::map<std::string, LatencyLog::Event> events;
  int64_t unix_s = 0;
  int64_t threshold_ms = 0;  // latency-monitor-threshold; 0: nothing is watched
  int64_t slowlog_us = 0;    // slowlog-log-slower-than; -1: nothing is logged
};
std::string LatencyDoctor(const DoctorFacts& facts);

}  // namespace kvstored::command
