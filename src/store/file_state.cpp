#include "store/file_state.hpp"

#include "base/ensure.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "net/fork_guard.hpp"
#include "net/secret.hpp"
#include "net/socket.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace tutti {
namespace {

enum class Record : std::uint8_t {
  set = 1,
  erase = 2,
  append = 3,
  push = 4,
  pop = 5,
  join = 6,
  leave = 7,
  arrive = 8,
  withdraw = 9,
};

constexpr Duration kOpenLimit = std::chrono::seconds(30);
constexpr Duration kLeaveLimit = std::chrono::seconds(5);
constexpr Duration kLockPause = std::chrono::microseconds(500);
constexpr std::size_t kTokenBytes = 12;

WireWriter record_of(Record type) { return {0, static_cast<std::uint8_t>(type)}; }

/// The same for all processes of a job, and for all jobs without a secret.
std::uint64_t job_mark() {
  const std::string secret = job_secret();
  if (secret.empty()) {
    return 0;
  }
  static constexpr std::string_view kPurpose = "tutti file store";
  std::array<unsigned char, crypto_generichash_BYTES> hash{};
  ensure(::sodium_init() >= 0, "libsodium cannot start");
  ::crypto_generichash(hash.data(), hash.size(),
                       reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size(),
                       reinterpret_cast<const unsigned char*>(secret.data()),
                       std::min<std::size_t>(secret.size(), crypto_generichash_KEYBYTES_MAX));
  std::uint64_t mark = 0;
  for (std::size_t i = 0; i < sizeof(mark); ++i) {
    mark = mark << 8 | hash[i];
  }
  return mark;
}

}  // namespace

FileState::FileState(const std::string& path, int world_size)
    : log_(path, job_mark(), Deadline::after(kOpenLimit)),
      table_(limits::kMaxStoreBytes),
      token_(random_token(kTokenBytes)),
      world_size_(world_size),
      generation_(fork_generation()) {
  // The log came locked; its descriptor, and with it the lock, goes if something here throws.
  log_.replay_and_mend([this](std::uint8_t type, WireReader& fields) { take(type, fields); });
  refuse_left_over(world_size);
  const ProcessMark mark = mark_of_this_process();
  WireWriter writer = record_of(Record::join);
  writer.text(token_).text(mark.boot).u64(mark.pid).u64(mark.start);
  record(writer);
  log_.unlock();
}

FileState::~FileState() {
  if (fork_generation() != generation_) {
    return;  // the parent is the user
  }
  try {
    leave();
  } catch (const std::exception& error) {
    log_line(fmt::format("cannot leave in order: {}", error.what()));
  }
}

void FileState::leave() {
  const Exclusive exclusive(*this, Deadline::after(kLeaveLimit));
  WireWriter writer = record_of(Record::leave);
  writer.text(token_);
  record(writer);
  // With a known world size the file waits for those who are still to come.
  if (users_.empty() && (world_size_ < 0 || joined_ >= world_size_)) {
    log_.remove();
  }
}

void FileState::refuse_left_over(int world_size) const {
  if (world_size >= 0 && joined_ >= world_size) {
    throw StoreError(fmt::format(
        "store file '{}' has been joined {} times already, world size is {}: it is left over from "
        "another run, or too many processes use it; remove the file or choose another path",
        log_.path(), joined_, world_size));
  }
  const auto dead = std::count_if(users_.begin(), users_.end(),
                                  [](const auto& user) { return is_known_dead(user.second); });
  const bool all_dead = dead > 0 && dead == static_cast<std::ptrdiff_t>(users_.size());
  if (all_dead || (world_size >= 0 && dead > 0)) {
    throw StoreError(fmt::format(
        "store file '{}' is left over from a run that was killed: {} of its {} users ended without "
        "leaving it; remove the file and start again",
        log_.path(), dead, users_.size()));
  }
}

void FileState::check_process() const {
  if (fork_generation() != generation_) {
    throw StoreError(
        fmt::format("store file '{}': this store was opened before fork; open another in the child",
                    log_.path()));
  }
}

FileState::Exclusive::Exclusive(FileState& state, Deadline deadline)
    : state_(state), lock_(state.mutex_, std::defer_lock) {
  while (true) {
    lock_.lock();  // held briefly by everyone: the file's lock is only ever tried
    state_.check_process();
    if (state_.log_.try_lock()) {
      break;
    }
    lock_.unlock();
    if (deadline.passed(std::chrono::steady_clock::now())) {
      throw Timeout(fmt::format("store file '{}': another process holds its lock", state_.path()));
    }
    pause_for(kLockPause, deadline);
  }
  try {
    state_.log_.replay_and_mend(
        [this](std::uint8_t type, WireReader& fields) { state_.take(type, fields); });
  } catch (...) {
    state_.log_.unlock();
    throw;
  }
}

FileState::Exclusive::~Exclusive() { state_.log_.unlock(); }

void FileState::take_in() {
  log_.replay([this](std::uint8_t type, WireReader& fields) { take(type, fields); });
}

/// Appends the record and carries it out by reading it back, as every other process does.
void FileState::record(WireWriter& writer) {
  log_.append(writer);
  take_in();
}

void FileState::wait_for_change(Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (watch_ == nullptr) {
      watch_ = std::make_unique<FileWatch>(log_.path());
    }
  }
  watch_->wait(deadline);
}

void FileState::take(std::uint8_t type, WireReader& fields) {
  const std::string key(fields.text());
  switch (static_cast<Record>(type)) {
    case Record::set:
      table_.set(key, fields.text());
      break;
    case Record::erase:
      table_.erase(key);
      break;
    case Record::append:
      table_.append(key, fields.text());
      break;
    case Record::push:
      table_.push(key, fields.text());
      break;
    case Record::pop:
      (void)table_.pop(key);
      break;
    case Record::join: {
      ProcessMark& mark = users_[key];
      mark.boot = fields.text();
      mark.pid = fields.u64();
      mark.start = fields.u64();
      ++joined_;
      break;
    }
    case Record::leave:
      users_.erase(key);
      break;
    case Record::arrive: {
      Barrier& barrier = barriers_[key];
      barrier.world_size = static_cast<int>(fields.u32());
      barrier.waiting.emplace(fields.text());
      if (static_cast<int>(barrier.waiting.size()) >= barrier.world_size) {
        barriers_.erase(key);  // the round is complete: nobody waits any more
      }
      break;
    }
    case Record::withdraw: {
      const auto found = barriers_.find(key);
      if (found != barriers_.end() && found->second.waiting.erase(std::string(fields.text())) > 0 &&
          found->second.waiting.empty()) {
        barriers_.erase(found);
      }
      break;
    }
  }
}

bool FileState::in_barrier(const std::string& key, const std::string& ticket) const {
  const auto found = barriers_.find(key);
  return found != barriers_.end() && found->second.waiting.contains(ticket);
}

int FileState::barrier_joined(const std::string& key) const {
  const auto found = barriers_.find(key);
  return found == barriers_.end() ? 0 : static_cast<int>(found->second.waiting.size());
}

int FileState::barrier_world_size(const std::string& key) const {
  const auto found = barriers_.find(key);
  return found == barriers_.end() ? 0 : found->second.world_size;
}

void FileState::set(const std::string& key, std::string_view value) {
  WireWriter writer = record_of(Record::set);
  record(writer.text(key).text(value));
}

void FileState::erase(const std::string& key) {
  WireWriter writer = record_of(Record::erase);
  record(writer.text(key));
}

void FileState::append(const std::string& key, std::string_view value) {
  table_.check_append(key, value);
  WireWriter writer = record_of(Record::append);
  record(writer.text(key).text(value));
}

void FileState::push(const std::string& queue, std::string_view value) {
  WireWriter writer = record_of(Record::push);
  record(writer.text(queue).text(value));
}

std::string FileState::pop(const std::string& queue) {
  std::string value = *table_.front(queue);
  WireWriter writer = record_of(Record::pop);
  record(writer.text(queue));
  return value;
}

void FileState::arrive(const std::string& key, int world_size, const std::string& ticket) {
  WireWriter writer = record_of(Record::arrive);
  record(writer.text(key).u32(static_cast<std::uint32_t>(world_size)).text(ticket));
}

void FileState::withdraw(const std::string& key, const std::string& ticket) {
  WireWriter writer = record_of(Record::withdraw);
  record(writer.text(key).text(ticket));
}

std::string FileState::new_ticket() { return fmt::format("{}/{}", token_, next_ticket_++); }

}  // namespace tutti
