// The waiting half of StoreService: parking calls, waking those whose key appeared, time-outs.
#include "base/limits.hpp"
#include "store/rules.hpp"
#include "store/service.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

namespace tutti {
namespace {

std::size_t bytes_of(std::span<const std::string> keys) {
  std::size_t bytes = 0;
  for (const std::string& key : keys) {
    bytes += key.size() + sizeof(std::string);
  }
  return bytes;
}

}  // namespace

StoreService::Ticket StoreService::park(Parked call) {
  std::set<Ticket>& own = by_client_[call.client];
  call.bytes = bytes_of(call.keys);
  if (own.size() >= limits::kMaxStoreWaitsPerClient ||
      call.bytes > limits::kMaxStoreWaitBytes - parked_bytes_) {
    throw StoreError(fmt::format(
        "too many calls wait: {} of this client (at most {}), {} bytes of keys (at most {})",
        own.size(), limits::kMaxStoreWaitsPerClient, parked_bytes_, limits::kMaxStoreWaitBytes));
  }
  const Ticket ticket = next_ticket_++;
  own.insert(ticket);
  parked_bytes_ += call.bytes;
  deadlines_.emplace(call.deadline, ticket);
  parked_.emplace(ticket, std::move(call));
  return ticket;
}

StoreService::Parked StoreService::unpark(Ticket ticket) {
  auto node = parked_.extract(ticket);
  Parked& call = node.mapped();
  const auto own = by_client_.find(call.client);
  own->second.erase(ticket);
  if (own->second.empty()) {
    by_client_.erase(own);
  }
  parked_bytes_ -= call.bytes;
  deadlines_.erase({call.deadline, ticket});
  unindex(ticket, call);
  return std::move(call);
}

void StoreService::unindex(Ticket ticket, const Parked& call) {
  const auto drop = [ticket](auto& index, const std::string& key) {
    const auto found = index.find(key);
    if (found != index.end() && found->second.erase(ticket) > 0 && found->second.empty()) {
      index.erase(found);
    }
  };
  switch (call.op) {
    case StoreOp::wait_workers:
      for_workers_.erase(ticket);
      return;
    case StoreOp::queue_pop:
      return drop(by_queue_, call.keys.front());
    case StoreOp::barrier: {
      const auto found = barriers_.find(call.keys.front());
      if (found != barriers_.end() && found->second.waiting.erase(ticket) > 0 &&
          found->second.waiting.empty()) {
        barriers_.erase(found);
      }
      return;
    }
    default:
      if (call.cursor < call.keys.size()) {
        drop(by_key_, call.keys[call.cursor]);
      }
  }
}

void StoreService::key_appeared(const std::string& key) {
  const auto waiting = by_key_.extract(key);
  if (waiting.empty()) {
    return;
  }
  for (const Ticket ticket : waiting.mapped()) {
    advance(ticket);
  }
}

void StoreService::advance(Ticket ticket) {
  Parked& call = parked_.at(ticket);
  const auto missing_from = [this, &call](std::size_t start) {
    while (start < call.keys.size() && table_.has(call.keys[start])) {
      ++start;
    }
    return start;
  };
  call.cursor = missing_from(call.cursor);
  if (call.cursor == call.keys.size()) {
    call.cursor = missing_from(0);  // a key may have been deleted since it was seen
  }
  if (call.cursor == call.keys.size()) {
    send_values(unpark(ticket));
  } else {
    by_key_[call.keys[call.cursor]].insert(ticket);
  }
}

void StoreService::leave(ClientId client) {
  const auto own = by_client_.find(client);
  if (own == by_client_.end()) {
    return;
  }
  const std::set<Ticket> tickets = own->second;
  for (const Ticket ticket : tickets) {
    (void)unpark(ticket);
  }
  by_client_.erase(client);
}

std::optional<TimePoint> StoreService::next_deadline() const {
  if (deadlines_.empty()) {
    return std::nullopt;
  }
  return deadlines_.begin()->first;
}

void StoreService::expire(TimePoint now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Ticket ticket = deadlines_.begin()->second;
    const Parked& call = parked_.at(ticket);
    WireWriter frame(call.number, static_cast<std::uint8_t>(StoreStatus::timeout));
    frame.text(timeout_text(call));
    const ClientId client = call.client;
    (void)unpark(ticket);
    answer(client, frame);
  }
}

std::string StoreService::timeout_text(const Parked& call) const {
  switch (call.op) {
    case StoreOp::wait_workers:
      return fmt::format("{} of {} workers joined within {}", workers_, call.world_size,
                         seconds_text(call.limit));
    case StoreOp::queue_pop:
      return fmt::format("queue '{}' still empty after {}; {}", call.keys.front(),
                         seconds_text(call.limit), workers_text());
    case StoreOp::barrier: {
      const auto found = barriers_.find(call.keys.front());
      const std::size_t joined = found == barriers_.end() ? 0 : found->second.waiting.size();
      return barrier_text(call.keys.front(), static_cast<int>(joined),
                          static_cast<int>(call.world_size), call.limit);
    }
    default:
      return fmt::format("{}; {}", missing_text(table_.missing_of(call.keys), call.limit),
                         workers_text());
  }
}

std::string StoreService::workers_text() const {
  return expected_workers_ == 0
             ? fmt::format("{} workers joined", workers_)
             : fmt::format("{} of {} workers joined", workers_, expected_workers_);
}

}  // namespace tutti
