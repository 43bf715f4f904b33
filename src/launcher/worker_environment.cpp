#include "launcher/worker_environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <string_view>

namespace tutti::launcher {

std::vector<std::string> inherited_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    variables.emplace_back(*entry);
  }
  return variables;
}

std::vector<std::string> worker_environment(std::span<const std::string> inherited,
                                            const JobFacts& job, int rank) {
  std::map<std::string, std::string, std::less<>> variables;
  for (const std::string& entry : inherited) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos && equals > 0) {
      variables[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  // Of a launch around this one: its secret would win over ours, its store is not ours.
  variables.erase("TUTTI_SECRET");
  std::erase_if(variables,
                [](const auto& item) { return item.first.starts_with("TORCHELASTIC_"); });

  const std::string number = std::to_string(rank);
  const std::string count = std::to_string(job.ranks);
  variables["RANK"] = number;
  variables["WORLD_SIZE"] = count;
  variables["LOCAL_RANK"] = number;
  variables["LOCAL_WORLD_SIZE"] = count;
  variables["GROUP_RANK"] = "0";
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(job.port);
  variables["RANK_ID"] = number;
  variables["RANK_SIZE"] = count;
  variables["TUTTI_AGENT_STORE"] = "1";
  variables["TUTTI_JOB_ID"] = job.job_id;
  variables["TUTTI_SECRET_FILE"] = job.secret_file;
  if (job.ranks > 1) {
    variables.try_emplace("OMP_NUM_THREADS", "1");
  }
  variables.try_emplace("PYTHONUNBUFFERED", "1");

  std::vector<std::string> result;
  result.reserve(variables.size());
  for (const auto& [name, value] : variables) {
    result.push_back(name + "=" + value);
  }
  return result;
}

}  // namespace tutti::launcher
