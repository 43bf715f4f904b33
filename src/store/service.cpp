// The requests, one function each. Waiting is in service_wait.cpp.
#include "store/service.hpp"

#include "base/limits.hpp"
#include "store/rules.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti {
namespace {

WireWriter ok_frame(std::uint32_t number) {
  return {number, static_cast<std::uint8_t>(StoreStatus::ok)};
}

std::string key_of(WireReader& args) {
  std::string key(args.text());
  check_store_key(key);
  return key;
}

std::string_view value_of(WireReader& args, const std::string& key) {
  const std::string_view value = args.text();
  check_store_value(key, value);
  return value;
}

std::vector<std::string> keys_of(WireReader& args) {
  std::vector<std::string> keys = args.texts();
  check_store_keys(keys);
  return keys;
}

Duration limit_of(WireReader& args) {
  const std::uint64_t ms = std::min<std::uint64_t>(args.u64(), std::uint64_t{1} << 50);
  return bounded_timeout(Store::Millis(static_cast<Store::Millis::rep>(ms)));
}

std::string too_much_text(std::size_t bytes) {
  return fmt::format("the answer has {} bytes, at most {} fit; ask in parts", bytes,
                     limits::kMaxStoreFrameBytes);
}

void check_reply_bytes(std::size_t bytes) {
  if (bytes > limits::kMaxStoreFrameBytes) {
    throw InvalidArgument(too_much_text(bytes));
  }
}

}  // namespace

StoreService::StoreService(Outbox& outbox) : outbox_(outbox), table_(limits::kMaxStoreBytes) {}

void StoreService::request(ClientId client, std::string_view frame, TimePoint now) {
  WireReader reader(frame);
  const std::uint32_t number = reader.u32();
  const auto op = static_cast<StoreOp>(reader.u8());
  Call call{.client = client, .number = number, .op = op, .now = now, .args = reader};
  try {
    run(call);
  } catch (const Error& error) {
    refuse(call, error.kind(), error.what());
  }
}

void StoreService::run(Call& call) {
  switch (call.op) {
    case StoreOp::join:
      return join(call);
    case StoreOp::wait_workers:
      return wait_workers(call);
    case StoreOp::set:
      return set(call);
    case StoreOp::get:
    case StoreOp::wait:
    case StoreOp::multi_get: {
      const Duration limit = limit_of(call.args);
      return wait_for_keys(call, keys_of(call.args), limit);
    }
    case StoreOp::add:
      return add(call);
    case StoreOp::compare_set:
      return compare_set(call);
    case StoreOp::check:
      return check(call);
    case StoreOp::delete_key:
      return delete_key(call);
    case StoreOp::num_keys: {
      call.args.finish();
      WireWriter frame = ok_frame(call.number);
      return answer(call.client, frame.u64(table_.count()));
    }
    case StoreOp::append:
      return append(call);
    case StoreOp::multi_set:
      return multi_set(call);
    case StoreOp::queue_push:
      return queue_push(call);
    case StoreOp::queue_pop:
      return queue_pop(call);
    case StoreOp::queue_len:
      return queue_len(call);
    case StoreOp::list_keys:
      return list_keys(call);
    case StoreOp::barrier:
      return barrier(call);
  }
  throw MalformedFrame(fmt::format("unknown operation {}", static_cast<int>(call.op)));
}

void StoreService::join(Call& call) {
  const auto kind = static_cast<StoreJoin>(call.args.u8());
  const std::uint32_t world_size = call.args.u32();
  call.args.finish();
  expected_workers_ = std::max(expected_workers_, world_size);
  if (kind == StoreJoin::worker) {
    ++workers_;
  }
  WireWriter frame = ok_frame(call.number);
  answer(call.client, frame.u32(workers_));
  const std::set<Ticket> waiting = for_workers_;
  for (const Ticket ticket : waiting) {
    if (parked_.at(ticket).world_size <= workers_) {
      send_values(unpark(ticket));
    }
  }
}

void StoreService::wait_workers(Call& call) {
  const Duration limit = limit_of(call.args);
  const std::uint32_t wanted = call.args.u32();
  call.args.finish();
  if (workers_ >= wanted) {
    return done(call);
  }
  const Ticket ticket = park({.client = call.client,
                              .number = call.number,
                              .op = call.op,
                              .world_size = wanted,
                              .deadline = call.now + limit,
                              .limit = limit});
  for_workers_.insert(ticket);
}

void StoreService::set(Call& call) {
  const std::string key = key_of(call.args);
  const std::string_view value = value_of(call.args, key);
  call.args.finish();
  table_.set(key, value);
  done(call);
  key_appeared(key);
}

void StoreService::multi_set(Call& call) {
  const std::vector<std::string> keys = keys_of(call.args);
  const std::vector<std::string> values = call.args.texts();
  call.args.finish();
  check_store_pairs(keys, values);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    table_.set(keys[i], values[i]);
  }
  done(call);
  for (const std::string& key : keys) {
    key_appeared(key);
  }
}

void StoreService::add(Call& call) {
  const std::string key = key_of(call.args);
  const auto amount = static_cast<std::int64_t>(call.args.u64());
  call.args.finish();
  const std::int64_t sum = table_.add(key, amount);
  WireWriter frame = ok_frame(call.number);
  answer(call.client, frame.u64(static_cast<std::uint64_t>(sum)));
  key_appeared(key);
}

void StoreService::compare_set(Call& call) {
  const std::string key = key_of(call.args);
  const std::string_view expected = value_of(call.args, key);
  const std::string_view desired = value_of(call.args, key);
  call.args.finish();
  const std::string now_stored = table_.compare_set(key, expected, desired);
  WireWriter frame = ok_frame(call.number);
  answer(call.client, frame.text(now_stored));
  if (table_.has(key)) {
    key_appeared(key);
  }
}

void StoreService::append(Call& call) {
  const std::string key = key_of(call.args);
  const std::string_view value = value_of(call.args, key);
  call.args.finish();
  table_.append(key, value);
  done(call);
  key_appeared(key);
}

void StoreService::wait_for_keys(Call& call, std::vector<std::string> keys, Duration limit) {
  call.args.finish();
  Parked waiting{.client = call.client,
                 .number = call.number,
                 .op = call.op,
                 .keys = std::move(keys),
                 .deadline = call.now + limit,
                 .limit = limit};
  if (call.op == StoreOp::get && waiting.keys.size() != 1) {
    throw MalformedFrame(fmt::format("get with {} keys", waiting.keys.size()));
  }
  const bool all_exist = std::all_of(waiting.keys.begin(), waiting.keys.end(),
                                     [this](const std::string& key) { return table_.has(key); });
  if (all_exist) {
    return send_values(waiting);
  }
  if (limit <= Duration::zero()) {
    return refuse(call, ErrorKind::timeout, timeout_text(waiting));
  }
  advance(park(std::move(waiting)));
}

void StoreService::check(Call& call) {
  const std::vector<std::string> keys = keys_of(call.args);
  call.args.finish();
  WireWriter frame = ok_frame(call.number);
  answer(call.client, frame.u8(table_.missing_of(keys).empty() ? 1 : 0));
}

void StoreService::delete_key(Call& call) {
  const std::string key = key_of(call.args);
  call.args.finish();
  WireWriter frame = ok_frame(call.number);
  answer(call.client, frame.u8(table_.erase(key) ? 1 : 0));
}

void StoreService::list_keys(Call& call) {
  const std::string_view prefix = call.args.text();
  call.args.finish();
  const std::vector<std::string> keys = table_.keys_with(prefix);
  WireWriter frame = ok_frame(call.number);
  frame.texts(keys);
  check_reply_bytes(frame.frame_bytes());
  answer(call.client, frame);
}

void StoreService::queue_push(Call& call) {
  const std::string key = key_of(call.args);
  const std::string_view value = value_of(call.args, key);
  call.args.finish();
  table_.push(key, value);
  done(call);
  const auto waiting = by_queue_.find(key);
  if (waiting != by_queue_.end()) {
    send_values(unpark(*waiting->second.begin()));  // the one that came first
  }
}

void StoreService::queue_pop(Call& call) {
  const Duration limit = limit_of(call.args);
  const std::string key = key_of(call.args);
  call.args.finish();
  Parked waiting{.client = call.client,
                 .number = call.number,
                 .op = call.op,
                 .keys = {key},
                 .deadline = call.now + limit,
                 .limit = limit};
  if (table_.length(key) > 0) {
    return send_values(waiting);
  }
  if (limit <= Duration::zero()) {
    return refuse(call, ErrorKind::timeout, timeout_text(waiting));
  }
  by_queue_[key].insert(park(std::move(waiting)));
}

void StoreService::queue_len(Call& call) {
  const std::string key = key_of(call.args);
  call.args.finish();
  WireWriter frame = ok_frame(call.number);
  answer(call.client, frame.u64(table_.length(key)));
}

void StoreService::barrier(Call& call) {
  const Duration limit = limit_of(call.args);
  const std::string key = key_of(call.args);
  const std::uint32_t world_size = call.args.u32();
  call.args.finish();
  check_barrier_world_size(key, static_cast<int>(std::min<std::uint32_t>(world_size, 1U << 30)));
  const auto found = barriers_.find(key);
  if (found != barriers_.end() && found->second.world_size != world_size) {
    throw Mismatch(barrier_mismatch_text(key, static_cast<int>(found->second.world_size),
                                         static_cast<int>(world_size)));
  }
  const std::size_t joined = found == barriers_.end() ? 0 : found->second.waiting.size();
  if (joined + 1 == world_size) {
    const std::set<Ticket> waiting =
        found == barriers_.end() ? std::set<Ticket>{} : found->second.waiting;
    done(call);
    for (const Ticket ticket : waiting) {
      send_values(unpark(ticket));  // the last one takes the barrier with it
    }
    return;
  }
  const Ticket ticket = park({.client = call.client,
                              .number = call.number,
                              .op = call.op,
                              .keys = {key},
                              .world_size = world_size,
                              .deadline = call.now + limit,
                              .limit = limit});
  Barrier& barrier = barriers_[key];
  barrier.world_size = world_size;
  barrier.waiting.insert(ticket);
}

void StoreService::answer(ClientId client, WireWriter& frame) { outbox_.reply(client, frame); }

void StoreService::done(const Call& call) {
  WireWriter frame = ok_frame(call.number);
  answer(call.client, frame);
}

void StoreService::refuse(const Call& call, ErrorKind kind, std::string_view text) {
  WireWriter frame(call.number, static_cast<std::uint8_t>(status_of(kind)));
  answer(call.client, frame.text(text));
}

void StoreService::send_values(const Parked& call) {
  WireWriter frame = ok_frame(call.number);
  if (call.op == StoreOp::get) {
    frame.value(table_.find(call.keys.front()));
  } else if (call.op == StoreOp::queue_pop) {
    frame.value(table_.pop(call.keys.front()));
  } else if (call.op == StoreOp::multi_get) {
    frame.u32(static_cast<std::uint32_t>(call.keys.size()));
    for (const std::string& key : call.keys) {
      frame.value(table_.find(key));
    }
  }
  if (frame.frame_bytes() > limits::kMaxStoreFrameBytes) {
    WireWriter too_much(call.number, static_cast<std::uint8_t>(StoreStatus::invalid_argument));
    return answer(call.client, too_much.text(too_much_text(frame.frame_bytes())));
  }
  answer(call.client, frame);
}

}  // namespace tutti
