// Claims: a process takes its rank in the store before it talks to anybody, so that a second
// process with the same rank, another world size or a left-over job is refused with an error that
// says so. Only compare_set on keys that belong to the claim: those already in are not disturbed.
#pragma once

#include <tutti/store.hpp>

#include <memory>
#include <string>

namespace tutti {

struct ClaimRequest {
  int rank = -1;
  int world_size = -1;
  std::string job_id{};  ///< empty: unknown, then not compared; see job_id_of
};

/// A rank held in a store. Given up by release() or the destructor, so that a later process, or
/// this one again, may take it.
class RankClaim {
 public:
  RankClaim() = default;
  RankClaim(RankClaim&& other) noexcept;
  RankClaim& operator=(RankClaim&& other) noexcept;
  RankClaim(const RankClaim&) = delete;
  RankClaim& operator=(const RankClaim&) = delete;
  ~RankClaim() { release(); }

  /// How often this rank was claimed in this store, from 1 on. Ranks that leave and join together
  /// count alike: prefix keys with it, so that those of the last time are not seen again.
  int incarnation() const { return incarnation_; }
  /// Marks the rank as left. Never throws and takes at most two seconds: the store may have gone.
  void release() noexcept;

 private:
  friend RankClaim claim_rank(std::shared_ptr<Store> store, const ClaimRequest& request);
  std::shared_ptr<Store> store_{};
  std::string key_{};
  std::string held_{};  // the record as it stands in the store
  std::string left_{};  // the record to leave behind
  int incarnation_ = 0;
};

/// Takes `request.rank` in `store`, which all ranks of the job share without a prefix of their own.
/// A rank whose process left, or has died on this host, is taken over. InvalidArgument if a living
/// process (or one on another host) holds the rank, or the job in this store has another world size
/// or job id; the text names holder and both values.
RankClaim claim_rank(std::shared_ptr<Store> store, const ClaimRequest& request);

}  // namespace tutti
