#include "metrics/snapshot.h"

#include "base/check.h"

namespace kvstored::metrics {
namespace {

// [a-zA-Z_][a-zA-Z0-9_]*, as Prometheus wants names of metrics and labels (without the colon, which
// is for recording rules).
bool IsName(const std::string& name) {
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && (i == 0 || c < '0' || c > '9')) {
      return false;
    }
  }
  return !name.empty();
}

}  // namespace

bool Histogram::Merge(const Histogram& other) {
  if (other.first_log2 != first_log2 || other.bucket_count != bucket_count) {
    return false;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    counts[i] += other.counts[i];
  }
  sum += other.sum;
  return true;
}

Sample* Collection::Find(const std::string& name, const std::string& help, FamilyKind kind,
                         double scale, Labels labels) {
  Family* family = nullptr;
  for (Family& known : families_) {
    if (known.name == name) {
      family = &known;
    }
  }
  if (family == nullptr) {
    KVS_CHECK(IsName(name), "metric '%s'", name.c_str());
    families_.push_back(Family{name, help, kind, scale, {}});
    family = &families_.back();
  }
  KVS_CHECK(family->kind == kind, "metric '%s' has two kinds", name.c_str());
  for (Sample& known : family->samples) {
    if (known.labels == labels) {
      return &known;
    }
  }
  for (const auto& [label, value] : labels) {
    KVS_CHECK(IsName(label), "label '%s' of metric '%s'", label.c_str(), name.c_str());
  }
  family->samples.push_back(Sample{std::move(labels), 0, {}});
  return &family->samples.back();
}

void Collection::AddCounter(const std::string& name, const std::string& help, double value,
                            Labels labels) {
  Find(name, help, FamilyKind::kCounter, 1, std::move(labels))->value += value;
}

void Collection::AddGauge(const std::string& name, const std::string& help, double value,
                          Labels labels) {
  Find(name, help, FamilyKind::kGauge, 1, std::move(labels))->value += value;
}

void Collection::AddHistogram(const std::string& name, const std::string& help,
                              const Histogram& histogram, double scale, Labels labels) {
  Sample* sample = Find(name, help, FamilyKind::kHistogram, scale, std::move(labels));
  if (sample->histogram.bucket_count == 0) {
    sample->histogram = histogram;
    return;
  }
  KVS_CHECK(sample->histogram.Merge(histogram), "histogram '%s' has two shapes", name.c_str());
}

}  // namespace kvstored::metrics
