// The golden cases: inputs and results fixed in tests/data/golden.json, with the same ranks as
// threads. A case of an operation that is not eager C++ is skipped by name, so that nothing is left
// out by accident. Roots and peers in the file are world ranks; tensors are row major.
#include "harness/thread_ranks.hpp"

#include <tutti/tutti.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti {
namespace {

using Json = nlohmann::json;

const Json& golden() {
  static const Json file = Json::parse(std::ifstream(TUTTI_TEST_DATA "/golden.json"));
  return file;
}

// ---- the file's encoding ----

DType dtype_of(const std::string& text) {
  const auto row = std::find_if(kDTypes.begin(), kDTypes.end(),
                                [&](const DTypeInfo& info) { return info.name == text; });
  if (row == kDTypes.end()) {
    throw std::runtime_error("golden.json names dtype " + text);
  }
  return row->dtype;
}

/// Elements that the file leaves out (null) are zero.
Tensor tensor_of(const Json& json) {
  Tensor tensor =
      Tensor::zeros(json.at("shape").get<Shape>(), dtype_of(json.at("dtype").get<std::string>()));
  const Json& data = json.at("data");
  for (std::size_t i = 0; i < data.size(); ++i) {
    const Json& value = data[i];
    tensor.set_element(i, value.is_array()
                              ? std::complex<double>(value[0].get<double>(), value[1].get<double>())
                              : std::complex<double>(value.get<double>()));
  }
  return tensor;
}

std::vector<Tensor> tensors_of(const Json& json) {
  std::vector<Tensor> tensors;
  for (const Json& each : json) {
    tensors.push_back(tensor_of(each));
  }
  return tensors;
}

Tensor zeros_as(const Json& json) {
  return Tensor::zeros(json.at("shape").get<Shape>(),
                       dtype_of(json.at("dtype").get<std::string>()));
}

std::vector<Tensor> zeros_as_list(const Json& json) {
  std::vector<Tensor> tensors;
  for (const Json& each : json) {
    tensors.push_back(zeros_as(each));
  }
  return tensors;
}

ReduceOp reduce_op(const std::string& text) {
  const auto row =
      std::find(kReduceOpNames.begin(), kReduceOpNames.end(), text == "product" ? "prod" : text);
  if (row == kReduceOpNames.end()) {
    throw std::runtime_error("golden.json names reduce op " + text);
  }
  return static_cast<ReduceOp>(row - kReduceOpNames.begin());
}

ReduceOptions reduce_options(const Json& arguments) {
  return {.op = reduce_op(arguments.value("op", std::string("sum")))};
}

std::vector<std::int64_t> splits(const Json& arguments, const char* key) {
  const auto found = arguments.find(key);
  return found == arguments.end() || found->is_null() ? std::vector<std::int64_t>{}
                                                      : found->get<std::vector<std::int64_t>>();
}

// ---- one rank of one case ----

/// What a rank has for a call. `expected` also tells the shapes of outputs; it is null where the
/// call must fail.
struct Turn {
  Group& group;
  const Json& input;
  const Json& arguments;
  const Json& expected;
  std::string id;

  int rank_of(const char* key) const { return group.group_rank(arguments.at(key).get<int>()); }
};

/// The outputs under the names that the file uses.
struct Outcome {
  std::map<std::string, std::vector<Tensor>> tensors{};
  std::map<std::string, int> numbers{};
};

using Run = Outcome (*)(const Turn&);

Outcome run_all_reduce(const Turn& turn) {
  const Tensor tensor = tensor_of(turn.input.at("tensor"));
  all_reduce(turn.group, tensor, reduce_options(turn.arguments));
  return {.tensors = {{"tensor", {tensor}}}};
}

Outcome run_reduce(const Turn& turn) {
  const Tensor tensor = tensor_of(turn.input.at("tensor"));
  reduce(turn.group, tensor, turn.rank_of("dst"), reduce_options(turn.arguments));
  return {.tensors = {{"tensor", {tensor}}}};
}

Outcome run_broadcast(const Turn& turn) {
  const Tensor tensor = tensor_of(turn.input.at("tensor"));
  broadcast(turn.group, tensor, turn.rank_of("src"));
  return {.tensors = {{"tensor", {tensor}}}};
}

Outcome run_all_gather(const Turn& turn) {
  const std::vector<Tensor> outputs = zeros_as_list(turn.expected.at("tensor_list"));
  all_gather(turn.group, outputs, tensor_of(turn.input.at("tensor")));
  return {.tensors = {{"tensor_list", outputs}}};
}

Outcome run_all_gather_into_tensor(const Turn& turn) {
  const Tensor output = zeros_as(turn.expected.at("output_tensor"));
  all_gather_into_tensor(turn.group, output, tensor_of(turn.input.at("input_tensor")));
  return {.tensors = {{"output_tensor", {output}}}};
}

/// Outputs hold ones before: the result must replace them.
Outcome run_reduce_scatter(const Turn& turn) {
  const Tensor output = zeros_as(turn.expected.at("output"));
  output.fill(1.0);
  reduce_scatter(turn.group, output, tensors_of(turn.input.at("input_list")),
                 reduce_options(turn.arguments));
  return {.tensors = {{"output", {output}}}};
}

Outcome run_reduce_scatter_tensor(const Turn& turn) {
  const Tensor output = zeros_as(turn.expected.at("output"));
  output.fill(1.0);
  reduce_scatter_tensor(turn.group, output, tensor_of(turn.input.at("input")),
                        reduce_options(turn.arguments));
  return {.tensors = {{"output", {output}}}};
}

Outcome run_scatter(const Turn& turn) {
  const Tensor output = zeros_as(turn.expected.at("tensor"));
  scatter(turn.group, output, tensors_of(turn.input.at("scatter_list")), turn.rank_of("src"));
  return {.tensors = {{"tensor", {output}}}};
}

Outcome run_scatter_tensor(const Turn& turn) {
  const Tensor output = zeros_as(turn.expected.at("output_tensor"));
  scatter_tensor(turn.group, output, tensor_of(turn.input.at("input_tensor")), turn.rank_of("src"));
  return {.tensors = {{"output_tensor", {output}}}};
}

Outcome run_gather(const Turn& turn) {
  const std::vector<Tensor> outputs = tensors_of(turn.input.at("gather_list"));
  gather(turn.group, outputs, tensor_of(turn.input.at("tensor")), turn.rank_of("dst"));
  return {.tensors = {{"gather_list", outputs}}};
}

Outcome run_gather_into_tensor(const Turn& turn) {
  const Tensor output = tensor_of(turn.input.at("output_tensor"));
  gather_into_tensor(turn.group, output, tensor_of(turn.input.at("input_tensor")),
                     turn.rank_of("dst"));
  return {.tensors = {{"output_tensor", {output}}}};
}

Outcome run_all_to_all(const Turn& turn) {
  const std::vector<Tensor> outputs = zeros_as_list(turn.expected.at("output_tensor_list"));
  all_to_all(turn.group, outputs, tensors_of(turn.input.at("input_tensor_list")));
  return {.tensors = {{"output_tensor_list", outputs}}};
}

Outcome run_all_to_all_single(const Turn& turn) {
  const Json& shaped =
      turn.expected.is_null() ? turn.input.at("input") : turn.expected.at("output");
  const Tensor output = zeros_as(shaped);
  all_to_all_single(turn.group, output, tensor_of(turn.input.at("input")),
                    {.output_splits = splits(turn.arguments, "output_split_sizes"),
                     .input_splits = splits(turn.arguments, "input_split_sizes")});
  return {.tensors = {{"output", {output}}}};
}

/// One scatter per root must move what one all_to_all_single does.
Outcome run_as_scatters(const Turn& turn) {
  const Tensor output = zeros_as(turn.expected.at("output"));
  const Tensor input = tensor_of(turn.input.at("input"));
  const std::int64_t part = output.size(0) / turn.group.size();
  for (int root = 0; root < turn.group.size(); ++root) {
    scatter_tensor(turn.group, output.slice(0, root * part, (root + 1) * part), input, root);
  }
  return {.tensors = {{"output", {output}}}};
}

Outcome run_send_recv(const Turn& turn) {
  const Tensor tensor = tensor_of(turn.input.at("tensor"));
  const int source = turn.rank_of("src");
  const int target = turn.rank_of("dst");
  const bool async = turn.id.find("isend") != std::string::npos;
  Outcome outcome{.tensors = {{"tensor", {tensor}}}};
  if (turn.group.rank() == source && async) {
    isend(turn.group, tensor, target).wait();
  } else if (turn.group.rank() == source) {
    send(turn.group, tensor, target);
  } else if (async) {
    const Work work = irecv(turn.group, tensor, source);
    work.wait();
    outcome.numbers["recv_return"] = work.source_rank();
  } else {
    outcome.numbers["recv_return"] = recv(turn.group, tensor, source);
  }
  return outcome;
}

Outcome run_batch(const Turn& turn) {
  std::vector<P2POp> batch;
  Outcome outcome;
  for (const Json& each : turn.input.at("ops")) {
    P2POp op{.kind = each[0] == "isend" ? P2POp::Kind::isend : P2POp::Kind::irecv,
             .tensor = each[0] == "isend" ? tensor_of(each[1]) : zeros_as(each[1]),
             .peer = turn.group.group_rank(each[2].get<int>())};
    if (op.kind == P2POp::Kind::irecv) {
      outcome.tensors["recv"].push_back(op.tensor);
    }
    batch.push_back(op);
  }
  wait_all(batch_isend_irecv(turn.group, batch));
  return outcome;
}

/// Which reduce operations complex numbers have: those that are not refused.
Outcome run_supports_complex(const Turn& turn) {
  Outcome outcome;
  for (const auto& [text, supported] : turn.arguments.at("table").items()) {
    const Tensor tensor = Tensor::full({1}, 1.0, DType::complex64);
    bool accepted = true;
    try {
      all_reduce(turn.group, tensor, {.op = reduce_op(text)});
    } catch (const InvalidArgument&) {
      accepted = false;
    }
    EXPECT_EQ(accepted, supported.get<bool>()) << text;
  }
  return outcome;
}

const std::map<std::string, Run>& runs() {
  static const std::map<std::string, Run> table{
      {"all_reduce", run_all_reduce},
      {"reduce", run_reduce},
      {"broadcast", run_broadcast},
      {"all_gather", run_all_gather},
      {"all_gather_into_tensor", run_all_gather_into_tensor},
      {"reduce_scatter", run_reduce_scatter},
      {"reduce_scatter_tensor", run_reduce_scatter_tensor},
      {"scatter", run_scatter},
      {"scatter_tensor", run_scatter_tensor},
      {"gather", run_gather},
      {"gather_into_tensor", run_gather_into_tensor},
      {"all_to_all", run_all_to_all},
      {"all_to_all_single", run_all_to_all_single},
      {"all_to_all_as_scatters", run_as_scatters},
      {"send_recv", run_send_recv},
      {"batch_isend_irecv", run_batch},
      {"supports_complex", run_supports_complex},
  };
  return table;
}

/// Why the other cases are not run here.
const std::map<std::string, std::vector<std::string>>& skipped() {
  static const std::map<std::string, std::vector<std::string>> table{
      {"gradients", {"vjp", "vjp_max_ties", "virtual_rule", "mini_step_rule"}},
      {"value-returning forms",
       {"all_reduce_functional", "all_gather_single", "reduce_scatter_single", "permute_tensor",
        "broadcast_functional"}},
      {"operator primitives",
       {"all_gather_op", "reduce_scatter_op", "broadcast_op", "alltoall_op", "alltoallv_op",
        "neighbor_exchange", "neighbor_exchange_v2", "gather_op", "barrier_op", "send_receive_op",
        "batch_isend_irecv_op", "allswap_op", "reduce_op"}},
      {"objects",
       {"all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
        "restricted_loads", "object_padding"}},
      {"several tensors per call", {"all_gather_coalesced", "multigpu_index"}},
      {"names and queries of the Python packages",
       {"const", "group_name_000", "get_rank", "get_world_size", "get_backend_000",
        "get_global_rank", "get_group_rank", "get_process_group_ranks", "group_names", "rank_maps",
        "backend_parse"}},
  };
  return table;
}

// ---- comparison ----

void expect_tensor(const Tensor& actual, const Json& json, const std::string& where) {
  const Tensor expected = tensor_of(json);
  EXPECT_TRUE(actual.identical(expected))
      << where << ": " << actual.to_string() << ", expected " << expected.to_string();
}

void expect_outcome(const Outcome& outcome, const Json& expected, const std::string& where) {
  for (const auto& [key, value] : expected.items()) {
    const std::string place = where + " " + key;
    if (key == "result") {
      continue;  // a table of answers, which the run compared itself
    }
    if (value.is_number()) {
      ASSERT_TRUE(outcome.numbers.contains(key)) << place;
      EXPECT_EQ(outcome.numbers.at(key), value.get<int>()) << place;
      continue;
    }
    ASSERT_TRUE(outcome.tensors.contains(key)) << place;
    const std::vector<Tensor>& tensors = outcome.tensors.at(key);
    const Json list = value.is_array() ? value : Json::array({value});
    ASSERT_EQ(tensors.size(), list.size()) << place;
    for (std::size_t i = 0; i < list.size(); ++i) {
      expect_tensor(tensors[i], list[i], fmt::format("{}[{}]", place, i));
    }
  }
}

/// Runs one rank's turn. The group must still work after a refused call.
void take_turn(const Json& test, Context& context) {
  const auto ranks = test.at("ranks").get<std::vector<int>>();
  Group group = context.new_group(ranks);
  if (!group.is_member()) {
    return;
  }
  const auto place = static_cast<std::size_t>(group.rank());
  const Json& expected = test.at("expected")[place];
  const bool refused = expected.contains("$error");
  const Json none;
  const Json& arguments =
      test.contains("args_per_rank") ? test.at("args_per_rank")[place] : test.at("args");
  const Turn turn{.group = group,
                  .input = test.at("inputs")[place],
                  .arguments = arguments,
                  .expected = refused ? none : expected,
                  .id = test.at("id").get<std::string>()};
  const Run run = runs().at(test.at("op").get<std::string>());
  if (refused) {
    EXPECT_THROW(run(turn), InvalidArgument);
    barrier(group);
    return;
  }
  expect_outcome(run(turn), expected, fmt::format("rank {}", group.rank()));
}

std::vector<Json> cases_run() {
  std::vector<Json> cases;
  for (const Json& test : golden().at("cases")) {
    if (runs().contains(test.at("op").get<std::string>())) {
      cases.push_back(test);
    }
  }
  return cases;
}

class Golden : public ::testing::TestWithParam<Json> {};

TEST_P(Golden, GivesTheValuesOfTheFile) {
  const auto ranks = GetParam().at("ranks").get<std::vector<int>>();
  const int world = *std::max_element(ranks.begin(), ranks.end()) + 1;
  testing::run_thread_ranks(world, [](Context& context) { take_turn(GetParam(), context); });
}

INSTANTIATE_TEST_SUITE_P(File, Golden, ::testing::ValuesIn(cases_run()), [](const auto& test) {
  auto id = test.param.at("id").template get<std::string>();
  std::replace_if(
      id.begin(), id.end(), [](char c) { return c == '.'; }, '_');
  return "case_" + id;
});

TEST(GoldenFile, EveryCaseIsRunOrSkippedForAReason) {
  constexpr std::size_t kCases = 112;
  constexpr std::size_t kRun = 34;
  ASSERT_EQ(golden().at("cases").size(), kCases);
  EXPECT_EQ(cases_run().size(), kRun);
  std::map<std::string, std::string> reasons;
  for (const auto& [reason, operations] : skipped()) {
    for (const std::string& op : operations) {
      EXPECT_FALSE(runs().contains(op)) << op;
      reasons[op] = reason;
    }
  }
  std::map<std::string, std::vector<std::string>> left_out;
  for (const Json& test : golden().at("cases")) {
    const auto op = test.at("op").get<std::string>();
    if (!runs().contains(op)) {
      ASSERT_TRUE(reasons.contains(op)) << op << " is neither run nor skipped";
      left_out[reasons[op]].push_back(test.at("id").get<std::string>());
    }
  }
  std::size_t count = 0;
  for (const auto& [reason, ids] : left_out) {
    fmt::print("skipped, {}: {}\n", reason, fmt::join(ids, ", "));
    count += ids.size();
  }
  EXPECT_EQ(count, kCases - kRun);
}

}  // namespace
}  // namespace tutti
