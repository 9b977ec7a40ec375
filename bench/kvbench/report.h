// What a run has measured, for a person and for a program.
#pragma once

#include <string>

#include "kvbench/options.h"
#include "kvbench/run.h"

namespace kvstored::bench {

// Several lines.
std::string TextReport(const Options& options, const Outcome& outcome);
// One JSON document and a line end; docs/performance.md names its fields.
std::string JsonReport(const Options& options, const Outcome& outcome);

// Empty if every operation ended well; otherwise why the figures are not of what was asked for.
std::string Complaint(const Outcome& outcome);

}  // namespace kvstored::bench
