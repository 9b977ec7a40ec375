// Which figures go to Prometheus. Labels are few and fixed: no key, client or peer port.
#include <algorithm>
#include <string>

#include "server/daemon.h"
#include "server/store_metrics.h"

namespace kvstored::server {

void Daemon::AddMetrics() {
  registry_.Add([this](metrics::Collection* out) { CollectNode(out); });
  registry_.Add([this](metrics::Collection* out) { front_->Collect(out); });
  registry_.Add([this](metrics::Collection* out) { CollectStore(node_->threads(), out); });
  registry_.Add([this](metrics::Collection* out) { CollectStalls(out); });
  registry_.Add([this](metrics::Collection* out) { CollectLog(out); });
  registry_.Add([this](metrics::Collection* out) { CollectReplication(out); });
}

void Daemon::CollectNode(metrics::Collection* out) const {
  const NodeCore* core = node_->core();
  const memory::PoolCounters pool = core->pool.counters();
  out->AddGauge("kvstored_memory_used_bytes", "Memory of the data set and of all buffers.",
                static_cast<double>(core->pool.charged_bytes()));
  out->AddGauge("kvstored_memory_max_bytes", "memory.max_memory.",
                static_cast<double>(core->pool.max_bytes()));
  out->AddGauge("kvstored_pool_mapped_bytes", "Chunks of the region pool.",
                static_cast<double>(pool.mapped_bytes));
  out->AddGauge("kvstored_pool_used_bytes", "Chunks of the region pool in use.",
                static_cast<double>(pool.used_bytes));
  out->AddCounter("kvstored_pool_grow_in_tick_total",
                  "Chunks that a shard had to map itself because none was ready.",
                  static_cast<double>(pool.grow_in_tick_count));
  const shard::NodeGate& gate = core->gate;
  out->AddGauge("kvstored_primary", "1 on a primary whose epoch is open.",
                gate.writable.load(std::memory_order_relaxed) ? 1 : 0);
  out->AddGauge("kvstored_writable",
                "1 while a write would be accepted; refuses_writes of kvctl status says why not.",
                node_->WritesRefused().empty() ? 1 : 0);
  out->AddGauge("kvstored_loading", "1 while loading or in full sync.",
                gate.loading.load(std::memory_order_relaxed) ? 1 : 0);
  out->AddGauge("kvstored_no_replicas",
                "1 while writes are refused because the member set does not acknowledge.",
                gate.no_replicas.load(std::memory_order_relaxed) ? 1 : 0);
  out->AddGauge("kvstored_disk_full",
                "1 while the log cannot grow: writes are refused once what lies ready is used up.",
                gate.disk_full.load(std::memory_order_relaxed) ? 1 : 0);
  out->AddGauge("kvstored_epoch", "Number of the epoch that this primary opened.",
                gate.epoch.load(std::memory_order_relaxed));
}

void Daemon::CollectStalls(metrics::Collection* out) const {
  shard::ThreadSet* threads = node_->threads();
  for (size_t i = 0; i < shard::kTickPhaseCount; ++i) {
    const auto cause = static_cast<shard::TickPhase>(i);
    uint64_t count = 0;
    uint64_t max_us = 0;
    for (uint32_t thread = 0; thread < threads->thread_count(); ++thread) {
      const auto& figures = threads->thread(thread)->phases().figures(cause);
      count += figures.count.value();
      max_us = std::max(max_us, figures.max_us.value());
    }
    const metrics::Labels labels = {{"cause", std::string(shard::NameOf(cause))}};
    out->AddCounter("kvstored_stalls_total",
                    "Rounds of a shard thread that took more than 1 ms, by what took most of it.",
                    static_cast<double>(count), labels);
    out->AddGauge("kvstored_stall_max_seconds", "The longest of them, since the start.",
                  static_cast<double>(max_us) / 1e6, labels);
  }
}

void Daemon::CollectLog(metrics::Collection* out) const {
  const log::Log* log = node_->core()->log();
  if (log == nullptr) {
    return;
  }
  const log::LogCounters& counters = log->counters();
  out->AddCounter("kvstored_log_written_bytes_total", "Bytes written to the log.",
                  static_cast<double>(counters.written_bytes.load()));
  out->AddCounter("kvstored_log_frames_total", "Frames written to the log.",
                  static_cast<double>(counters.frames.load()));
  out->AddCounter("kvstored_log_persists_total", "Rounds that the device confirmed.",
                  static_cast<double>(counters.persists.load()));
  out->AddCounter("kvstored_log_persist_seconds_total", "Time spent waiting for the device.",
                  static_cast<double>(counters.persist_us_total.load()) / 1e6);
  out->AddGauge("kvstored_log_persist_max_seconds",
                "The longest that the device took for a round, since the start.",
                static_cast<double>(counters.persist_us_max.load()) / 1e6);
  out->AddCounter("kvstored_log_segments_made_total",
                  "Segments that were written from nothing, none being free to be used again.",
                  static_cast<double>(counters.segments_created.load()));
  out->AddCounter("kvstored_log_segments_recycled_total", "Segments that were used again.",
                  static_cast<double>(counters.segments_recycled.load()));
  out->AddGauge("kvstored_log_bytes", "Bytes in the log's segments.",
                static_cast<double>(log->segments().TotalBytes()));
  out->AddCounter("kvstored_checkpoints_total", "Checkpoints published.",
                  static_cast<double>(node_->checkpoints().count()));
}

void Daemon::CollectReplication(metrics::Collection* out) const {
  const Node::Report report = node_->report();
  const replication::ReplicationCounters& counters = report.counters;
  out->AddCounter("kvstored_replication_posted_bytes_total", "Bytes pushed to replicas.",
                  static_cast<double>(counters.bytes_posted));
  out->AddCounter("kvstored_replication_received_bytes_total", "Bytes received from the primary.",
                  static_cast<double>(counters.bytes_received));
  out->AddCounter("kvstored_replication_full_syncs_total", "Full syncs begun.",
                  static_cast<double>(counters.full_syncs));
  out->AddCounter("kvstored_replication_credit_stalls_total",
                  "Times that a stream had records but no credit.",
                  static_cast<double>(counters.credit_stalls + counters.ring_stalls));
  out->AddCounter("kvstored_replication_log_reads_total",
                  "Times that records for a replica were no longer in memory.",
                  static_cast<double>(counters.backlog_misses));
  out->AddCounter(
      "kvstored_replication_links_refused_total",
      "Links of peers that were refused: wrong secret, wrong version, another data set.",
      static_cast<double>(counters.links_refused));
  out->AddCounter("kvstored_replication_bad_frames_total",
                  "Frames and messages of peers that made no sense; each ends its link.",
                  static_cast<double>(counters.bad_frames + counters.bad_messages));
  out->AddCounter("qp_retry_count", "Links that had to be made again.",
                  static_cast<double>(counters.reconnects));
  out->AddHistogram("rdma_write_latency", "Push to a replica until its watermark, seconds.",
                    counters.write_us, metrics::kMicrosecondsToSeconds);
  for (const replication::ReplicaStatus& replica : report.replicas) {
    const metrics::Labels labels = {{"replica", replica.address}};
    out->AddGauge("kvstored_replica_lag_records", "Records that the replica has not received.",
                  static_cast<double>(replica.lag_records), labels);
    out->AddGauge("kvstored_replica_lag_seconds", "Since when the replica has been behind.",
                  static_cast<double>(replica.lag_us) / 1e6, labels);
    out->AddGauge(
        "kvstored_replica_streaming", "1 while the replica streams.",
        replica.connected && replica.state == replication::StreamState::kStreaming ? 1 : 0, labels);
  }
}

}  // namespace kvstored::server
