// The front port's figures for Prometheus, since the start (CONFIG RESETSTAT does not touch them).
#include <utility>

#include "command/front_thread.h"
#include "metrics/snapshot.h"

namespace kvstored::command {

void FrontSet::Collect(metrics::Collection* out) const {
  const auto gauge = [out](const char* name, const char* help, uint64_t value) {
    out->AddGauge(name, help, static_cast<double>(value));
  };
  const auto counter = [out](const char* name, const char* help, uint64_t value) {
    out->AddCounter(name, help, static_cast<double>(value));
  };
  for (const auto& front : threads_) {  // equal names are added up
    const FrontFigures& figures = front->figures();
    const net::SocketThread& sockets = std::as_const(*front).sockets();
    gauge("kvstored_clients", "Connections of clients.", figures.connections.value());
    gauge("kvstored_clients_blocked", "Of them, those whose commands wait for something.",
          figures.blocked.value());
    gauge("kvstored_client_buffer_bytes", "Memory of clients' buffers.",
          figures.client_bytes.value());
    counter("kvstored_clients_accepted_total", "Connections accepted.",
            figures.connections_accepted.value());
    counter("kvstored_clients_refused_total", "Connections refused: server.maxclients.",
            figures.connections_refused.value());
    counter("kvstored_clients_dropped_total",
            "Connections closed by the server: limits, time-outs, protocol errors, CLIENT KILL.",
            figures.connections_dropped.value());
    counter("kvstored_clients_evicted_total", "Of them, for their memory (server.client_memory).",
            figures.clients_evicted.value());
    counter("kvstored_client_received_bytes_total", "Bytes received from clients.",
            sockets.counters().received_bytes.value());
    counter("kvstored_client_sent_bytes_total", "Bytes sent to clients.",
            sockets.counters().sent_bytes.value());
    counter("kvstored_error_replies_total", "Replies that were errors.",
            figures.error_replies.value());
    for (size_t i = 0; i < figures.commands.size(); ++i) {
      const CommandFigures& command = figures.commands[i];
      if (command.calls.value() == 0) {
        continue;
      }
      const metrics::Labels labels = {{"command", CommandTable()[i].name}};
      out->AddCounter("kvstored_commands_total", "Commands run.",
                      static_cast<double>(command.calls.value()), labels);
      out->AddCounter("kvstored_command_seconds_total", "Time that they took.",
                      static_cast<double>(command.nanoseconds.value()) / 1e9, labels);
    }
  }
}

}  // namespace kvstored::command
