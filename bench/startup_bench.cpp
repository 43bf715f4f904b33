// Start-up, memory and the store: how long ranks take from process start until they have joined,
// what an idle rank keeps in memory, what new_group costs, how fast the TCP store answers. Prints
// CSV: what,count,value,unit,target; value is the median of the repetitions.
//
// startup_bench [start] [new_group] [store] [crowd] [wait]; none means all. Every rank and client
// is a process of its own, started from this same program, and links the library as users do.
#include <tutti/tutti.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Facts = std::map<std::string, double>;  // what a process reports, by name

constexpr int kReportFd = 3;
constexpr const char* kHost = "127.0.0.1";
constexpr const char* kRoleVariable = "TUTTI_STARTUP_BENCH_ROLE";
constexpr double kNoTarget = 0;

double now_us() {
  return std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count();
}

double cpu_us(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  const auto us = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

void report(const std::string& name, double value) {
  const std::string line = fmt::format("{} {}\n", name, value);
  if (::write(kReportFd, line.data(), line.size()) < 0) {
    throw std::runtime_error("startup_bench: the parent has gone");
  }
}

void print(std::string_view what, int count, double value, std::string_view unit, double target) {
  const std::string goal = target > kNoTarget ? fmt::format("{:g}", target) : "";
  fmt::print("{},{},{:.2f},{},{}\n", what, count, value, unit, goal);
  std::fflush(stdout);
}

// ---- what the children do ----

/// Kilobytes of the lines of /proc/self/status that tell of resident memory.
void report_memory() {
  std::ifstream status("/proc/self/status");
  std::string name;
  for (std::string line; std::getline(status, line);) {
    for (const char* wanted : {"VmRSS:", "RssAnon:", "RssFile:", "RssShmem:", "VmHWM:"}) {
      if (line.starts_with(wanted)) {
        report(std::string(wanted, std::string_view(wanted).size() - 1),
               std::strtod(line.c_str() + std::string_view(wanted).size(), nullptr));
      }
    }
  }
}

int be_rank(double entered) {
  report("main", entered);
  tutti::init_process_group();
  report("joined", now_us());
  tutti::barrier();  // nobody starts measuring while others still join
  report_memory();
  tutti::destroy_process_group();
  return 0;
}

int be_group_maker() {
  tutti::init_process_group();
  std::vector<double> made;
  constexpr int kGroups = 15;
  for (int i = 0; i < kGroups; ++i) {
    tutti::barrier();
    const double begin = now_us();
    tutti::Group group = tutti::new_group();
    made.push_back(now_us() - begin);
    tutti::destroy_process_group(group);
  }
  report("new_group", median(made));
  tutti::destroy_process_group();
  return 0;
}

std::shared_ptr<tutti::TCPStore> connect_store() {
  const char* port = std::getenv("MASTER_PORT");
  return tutti::TCPStore::open(
      {.host = kHost,
       .port = static_cast<std::uint16_t>(std::strtoul(port == nullptr ? "0" : port, nullptr, 10)),
       .wait_for_workers = false});
}

/// Says that it is there, and waits for the word to go.
void meet(tutti::Store& store) {
  store.add("ready", 1);
  (void)store.get("go");
}

int be_client(std::string_view work) {
  const auto store = connect_store();
  const std::string key = fmt::format("key{}", ::getpid());
  const std::string value(64, 'x');
  store->set(key, value);
  meet(*store);
  constexpr double kRun_us = 300'000;
  std::vector<double> calls;
  const double begin = now_us();
  double end = begin;
  while (end - begin < kRun_us) {
    if (work == "get" || calls.size() % 3 == 0) {
      (void)store->get(key);
    } else if (calls.size() % 3 == 1) {
      store->set(key, value);
    } else {
      store->add(key + "n", 1);
    }
    const double last = std::exchange(end, now_us());
    calls.push_back(end - last);
  }
  report("begin", begin);
  report("end", end);
  report("calls", static_cast<double>(calls.size()));
  report("median", median(calls));
  return 0;
}

/// Many clients in one process, each a thread: connects, shows the secret, sets its key and waits
/// until the last one has come.
int be_crowd(int clients) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const double begin = now_us();
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([i, clients, &failed] {
      try {
        const auto store = connect_store();
        store->set(fmt::format("crowd/{}", i), "here");
        if (store->add("crowd", 1) == clients) {
          store->set("all", "here");
        }
        store->wait(std::vector<std::string>{"all"});
        (void)store->get(fmt::format("crowd/{}", clients - 1 - i));
      } catch (const tutti::Error& error) {
        fmt::print(stderr, "client {}: {}\n", i, error.what());
        ++failed;  // relaxed would do: the join below orders it
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  report("crowd", now_us() - begin);
  return failed.load() == 0 ? 0 : 1;
}

int be_waiter() {
  const auto store = connect_store();
  meet(*store);
  const double begin = cpu_us(RUSAGE_SELF);
  (void)store->get("enough");
  report("cpu", cpu_us(RUSAGE_SELF) - begin);
  return 0;
}

// ---- the parent ----

struct Child {
  pid_t pid = -1;
  int pipe = -1;
};

Child spawn(const std::string& role, int rank, int ranks, int port) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("startup_bench: no pipe");
  }
  std::vector<std::string> own = {fmt::format("{}={}", kRoleVariable, role),
                                  fmt::format("RANK={}", rank),
                                  fmt::format("WORLD_SIZE={}", ranks),
                                  fmt::format("LOCAL_RANK={}", rank),
                                  fmt::format("LOCAL_WORLD_SIZE={}", ranks),
                                  fmt::format("MASTER_ADDR={}", kHost),
                                  fmt::format("MASTER_PORT={}", port),
                                  "TUTTI_AGENT_STORE=1",
                                  "TUTTI_SECRET=startup"};
  std::vector<char*> environment;
  for (std::string& variable : own) {
    environment.push_back(variable.data());
  }
  for (char** inherited = environ; *inherited != nullptr; ++inherited) {
    environment.push_back(*inherited);
  }
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], kReportFd);
  std::string program = "/proc/self/exe";
  const std::array<char*, 2> arguments{program.data(), nullptr};
  Child child{.pipe = ends[0]};
  const int code = ::posix_spawn(&child.pid, program.c_str(), &actions, nullptr, arguments.data(),
                                 environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (code != 0) {
    throw std::runtime_error(fmt::format("startup_bench: cannot start a process, errno {}", code));
  }
  return child;
}

/// Everything the child reports until it ends.
Facts collect(const Child& child) {
  std::string text;
  std::array<char, 4096> chunk{};
  for (ssize_t got = 1; got > 0;) {
    got = ::read(child.pipe, chunk.data(), chunk.size());
    text.append(chunk.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  ::close(child.pipe);
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  if (status != 0) {
    throw std::runtime_error(fmt::format("startup_bench: a process failed, status {}", status));
  }
  Facts facts;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    const std::size_t space = text.find(' ', at);
    facts[text.substr(at, space - at)] = std::strtod(text.c_str() + space, nullptr);
  }
  return facts;
}

std::shared_ptr<tutti::TCPStore> serve() {
  return tutti::TCPStore::open({.host = kHost, .port = 0, .is_server = true, .secret = "startup"});
}

std::vector<Child> spawn_all(const std::string& role, int count, const tutti::TCPStore& store) {
  std::vector<Child> children;
  for (int i = 0; i < count; ++i) {
    children.push_back(spawn(role, i, count, store.port()));
  }
  return children;
}

std::vector<Facts> collect_all(const std::vector<Child>& children) {
  std::vector<Facts> facts;
  for (const Child& child : children) {
    facts.push_back(collect(child));
  }
  return facts;
}

double largest(const std::vector<Facts>& facts, const std::string& name) {
  double value = 0;
  for (const Facts& fact : facts) {
    value = std::max(value, fact.at(name));
  }
  return value;
}

void measure_start(int ranks, double target_ms) {
  constexpr int kRepetitions = 7;
  std::map<std::string, std::vector<double>> seen;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const auto store = serve();
    double begin = now_us();
    // What the system takes to start as many programs that do nothing but load the library.
    seen["idle"].push_back(
        (largest(collect_all(spawn_all("idle", ranks, *store)), "main") - begin) / 1e3);
    begin = now_us();
    const std::vector<Facts> facts = collect_all(spawn_all("rank", ranks, *store));
    const double joined = largest(facts, "joined");
    seen["start"].push_back((joined - begin) / 1e3);
    seen["init"].push_back((joined - largest(facts, "main")) / 1e3);
    for (const char* name : {"VmRSS", "RssAnon", "RssFile", "RssShmem", "VmHWM"}) {
      seen[name].push_back(largest(facts, name) / 1024);
    }
  }
  print("start: first process to last rank joined", ranks, median(seen["start"]), "ms", target_ms);
  print("start: programs that only load the library", ranks, median(seen["idle"]), "ms", kNoTarget);
  print("start: last main to last rank joined", ranks, median(seen["init"]), "ms", kNoTarget);
  print("memory: resident per rank", ranks, median(seen["VmRSS"]), "MiB", 8);
  print("memory: of it private", ranks, median(seen["RssAnon"]), "MiB", kNoTarget);
  print("memory: of it programs and libraries", ranks, median(seen["RssFile"]), "MiB", kNoTarget);
  print("memory: of it shared", ranks, median(seen["RssShmem"]), "MiB", kNoTarget);
}

void measure_new_group(int ranks, double target_ms) {
  std::vector<double> made;
  for (int repetition = 0; repetition < 3; ++repetition) {
    const auto store = serve();
    made.push_back(largest(collect_all(spawn_all("groups", ranks, *store)), "new_group") / 1e3);
  }
  print("new_group", ranks, median(made), "ms", target_ms);
}

/// Starts the clients, lets them go together, and returns what they report.
std::vector<Facts> run_clients(const std::string& role, int count) {
  const auto store = serve();
  const std::vector<Child> children = spawn_all(role, count, *store);
  while (store->add("ready", 0) < count) {
    std::this_thread::yield();
  }
  store->set("go", "");
  return collect_all(children);
}

void measure_store() {
  for (const int clients : {1, 2, 4, 8, 16}) {
    for (const char* work : {"get", "mixed"}) {
      std::vector<double> rates;
      std::vector<double> medians;
      for (int repetition = 0; repetition < 3; ++repetition) {
        double calls = 0;
        double begin = 1e300;
        const std::vector<Facts> facts = run_clients(work, clients);
        for (const Facts& fact : facts) {
          calls += fact.at("calls");
          begin = std::min(begin, fact.at("begin"));
        }
        rates.push_back(calls / (largest(facts, "end") - begin) * 1e6);
        medians.push_back(largest(facts, "median"));
      }
      print(fmt::format("store {}: median", work), clients, median(medians), "us",
            clients == 1 ? 30 : kNoTarget);
      print(fmt::format("store {}: rate", work), clients, median(rates), "1/s",
            clients > 1 ? 100'000 : kNoTarget);
    }
  }
}

void measure_crowd() {
  constexpr int kClients = 1000;
  std::vector<double> seconds;
  for (int repetition = 0; repetition < 3; ++repetition) {
    const auto store = serve();
    seconds.push_back(collect(spawn("crowd", kClients, kClients, store->port())).at("crowd") / 1e6);
  }
  print("store: clients join", kClients, median(seconds), "s", 2);
}

/// CPU time of the server and of its clients while all clients wait.
void measure_wait() {
  constexpr int kClients = 8;
  constexpr std::chrono::seconds kLong{2};
  const auto store = serve();
  const std::vector<Child> children = spawn_all("wait", kClients, *store);
  while (store->add("ready", 0) < kClients) {
    std::this_thread::yield();
  }
  store->set("go", "");
  const double begin = cpu_us(RUSAGE_SELF);
  try {
    (void)store->clone()->wait(std::vector<std::string>{"never"}, kLong);
  } catch (const tutti::Timeout&) {
  }
  const double server = cpu_us(RUSAGE_SELF) - begin;
  store->set("enough", "");
  const double client = largest(collect_all(children), "cpu");
  const double percent = 100 / std::chrono::duration<double, std::micro>(kLong).count();
  print("store wait: CPU of the server", kClients, server * percent, "%", kNoTarget);
  print("store wait: CPU of a client", kClients, client * percent, "%", kNoTarget);
}

int be_parent(std::vector<std::string> parts) {
  ::setenv("TUTTI_SECRET", "startup", 1);
  if (parts.empty()) {
    parts = {"start", "new_group", "store", "crowd", "wait"};
  }
  fmt::print("what,count,value,unit,target\n");
  for (const std::string& part : parts) {
    if (part == "start") {
      measure_start(2, kNoTarget);
      measure_start(8, 40);
      measure_start(32, 150);
    } else if (part == "new_group") {
      measure_new_group(2, kNoTarget);
      measure_new_group(4, 1);
    } else if (part == "store") {
      measure_store();
    } else if (part == "crowd") {
      measure_crowd();
    } else if (part == "wait") {
      measure_wait();
    } else {
      fmt::print(stderr,
                 "startup_bench: unknown part '{}'; parts are start, new_group, store, "
                 "crowd and wait\n",
                 part);
      return 2;
    }
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const double entered = now_us();
  try {
    const char* role = std::getenv(kRoleVariable);
    const std::string_view what = role == nullptr ? "" : role;
    if (what == "rank") {
      return be_rank(entered);
    }
    if (what == "idle") {
      report("main", entered);
      return 0;
    }
    if (what == "groups") {
      return be_group_maker();
    }
    if (what == "get" || what == "mixed") {
      return be_client(what);
    }
    if (what == "crowd") {
      return be_crowd(std::atoi(std::getenv("WORLD_SIZE")));
    }
    if (what == "wait") {
      return be_waiter();
    }
    return be_parent({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "startup_bench: {}\n", error.what());
    return 1;
  }
}
