// A rank for tests: joins as the environment says, claims its rank, adds rank + 1 to a sum over the
// store of the job, and prints the sum when all have added. Given a path it first writes a line
// there, once it is in.
#include "rendezvous/claim.hpp"
#include "rendezvous/rendezvous.hpp"

#include <tutti/rendezvous.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>

namespace {

void join_and_sum(const char* notice_path) {
  const tutti::RendezvousResult job =
      tutti::RendezvousRegistry().join({.timeout = std::chrono::seconds(30)});
  const tutti::RankClaim claim =
      tutti::claim_rank(job.store, {.rank = job.rank,
                                    .world_size = job.world_size,
                                    .job_id = tutti::job_id_of(tutti::process_environment)});
  if (notice_path != nullptr) {
    std::ofstream(notice_path) << "in\n";
  }
  job.store->add("sum", job.rank + 1);
  job.store->barrier("all-added", job.world_size, job.store->timeout());
  std::printf("sum=%ld\n", static_cast<long>(job.store->add("sum", 0)));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    join_and_sum(argc > 1 ? argv[1] : nullptr);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
