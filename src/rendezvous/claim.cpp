#include "rendezvous/claim.hpp"

#include "base/limits.hpp"
#include "net/secret.hpp"
#include "rendezvous/process_identity.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

namespace tutti {
namespace {

constexpr std::string_view kJobKey = "tutti/job";
constexpr std::chrono::seconds kReleaseLimit{2};

// What the store holds for a rank: words with a space between them.
struct Record {
  int incarnation = 1;
  std::string state = "in";  // or "left"
  ProcessIdentity process{};
  std::string token{};  // tells apart two contexts of one process

  std::string text() const {
    return fmt::format("{} {} {} {} {} {} {}", incarnation, state, process.host, process.scope,
                       process.pid, process.start_time, token);
  }
};

std::optional<Record> parse_record(const std::string& text) {
  Record record;
  std::istringstream words(text);
  ProcessIdentity& process = record.process;
  words >> record.incarnation >> record.state >> process.host >> process.scope >> process.pid >>
      process.start_time >> record.token;
  const bool sound = !words.fail() && process.pid > 0 && record.incarnation >= 1 &&
                     record.incarnation < std::numeric_limits<int>::max() &&
                     (record.state == "in" || record.state == "left");
  return sound ? std::optional(record) : std::nullopt;
}

std::string describe(const ProcessIdentity& process) {
  return fmt::format("process {} on host {}", process.pid, process.host);
}

// The first rank to come says what the job is; all others must agree.
struct Job {
  int world_size = 0;
  std::string founder{};  // "rank 0 (process 4711 on host a)"
  std::string id{};       // last, as it may hold anything

  std::string text() const { return fmt::format("{}\n{}\n{}", world_size, founder, id); }
};

std::optional<Job> parse_job(const std::string& text) {
  const auto first = text.find('\n');
  const auto second = first == std::string::npos ? first : text.find('\n', first + 1);
  if (second == std::string::npos) {
    return std::nullopt;
  }
  Job job{.founder = text.substr(first + 1, second - first - 1), .id = text.substr(second + 1)};
  const auto [end, code] = std::from_chars(text.data(), text.data() + first, job.world_size);
  return code == std::errc{} && end == text.data() + first ? std::optional(job) : std::nullopt;
}

[[noreturn]] void throw_foreign_key(const Store& store, std::string_view key) {
  throw InvalidArgument(
      fmt::format("key '{}' of the store at {} does not hold what tutti writes there; another "
                  "program uses the same store, give one of them a store of its own",
                  key, store.describe()));
}

void agree_on_job(Store& store, const ClaimRequest& request, const ProcessIdentity& me) {
  const Job mine{.world_size = request.world_size,
                 .founder = fmt::format("rank {} ({})", request.rank, describe(me)),
                 .id = request.job_id};
  const std::string key(kJobKey);
  const std::string stored = store.compare_set(key, "", mine.text());
  const auto job = parse_job(stored);
  if (!job) {
    throw_foreign_key(store, key);
  }
  if (job->world_size != mine.world_size) {
    throw InvalidArgument(fmt::format(
        "rank {} ({}) comes with world size {}, but the job in the store at {} has world size {}, "
        "as {} said; start all ranks with one world size, or give this job a store of its own",
        request.rank, describe(me), mine.world_size, store.describe(), job->world_size,
        job->founder));
  }
  if (!job->id.empty() && !mine.id.empty() && job->id != mine.id) {
    throw InvalidArgument(fmt::format(
        "rank {} ({}) belongs to job '{}', but the store at {} belongs to job '{}', which {} "
        "began: another job or a stale one; give each job a store (host, port or file) of its own",
        request.rank, describe(me), mine.id, store.describe(), job->id, job->founder));
  }
}

[[noreturn]] void throw_taken(const Store& store, const ClaimRequest& request, const Record& holder,
                              const ProcessIdentity& me) {
  throw InvalidArgument(fmt::format(
      "rank {} of {} is taken: {} holds it in the store at {} and has not left, so that {} cannot "
      "have it; give every process a rank of its own, or end the stale job",
      request.rank, request.world_size, describe(holder.process), store.describe(), describe(me)));
}

}  // namespace

RankClaim claim_rank(std::shared_ptr<Store> store, const ClaimRequest& request) {
  Record mine{.process = this_process(), .token = random_token(8)};
  agree_on_job(*store, request, mine.process);

  const std::string key = fmt::format("tutti/rank/{}", request.rank);
  std::string expected;
  constexpr int kMaxAttempts = 8;  // each lost to somebody else who took the rank meanwhile
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const std::string text = mine.text();
    const std::string stored = store->compare_set(key, expected, text);
    if (stored == text) {
      RankClaim claim;
      claim.store_ = std::move(store);
      claim.key_ = key;
      claim.held_ = text;
      mine.state = "left";
      claim.left_ = mine.text();
      claim.incarnation_ = mine.incarnation;
      return claim;
    }
    const auto holder = parse_record(stored);
    if (!holder) {
      throw_foreign_key(*store, key);
    }
    if (holder->state == "in" && !is_known_dead(holder->process)) {
      throw_taken(*store, request, *holder, mine.process);
    }
    expected = stored;
    mine.incarnation = holder->incarnation + 1;
  }
  throw InvalidArgument(fmt::format(
      "rank {} of {} could not be claimed in the store at {}: {} other processes took it while "
      "this one ({}) tried; give every process a rank of its own",
      request.rank, request.world_size, store->describe(), kMaxAttempts, describe(mine.process)));
}

RankClaim::RankClaim(RankClaim&& other) noexcept { *this = std::move(other); }

RankClaim& RankClaim::operator=(RankClaim&& other) noexcept {
  if (this != &other) {
    release();
    store_ = std::exchange(other.store_, nullptr);
    key_ = std::move(other.key_);
    held_ = std::move(other.held_);
    left_ = std::move(other.left_);
    incarnation_ = other.incarnation_;
  }
  return *this;
}

void RankClaim::release() noexcept {
  const std::shared_ptr<Store> store = std::exchange(store_, nullptr);
  if (store == nullptr) {
    return;
  }
  try {
    const Store::Millis timeout = store->timeout();
    store->set_timeout(std::min(timeout, Store::Millis(kReleaseLimit)));
    store->compare_set(key_, held_, left_);
    store->set_timeout(timeout);
  } catch (const std::exception&) {
    // The server has gone, and with it the claim.
  }
}

}  // namespace tutti
