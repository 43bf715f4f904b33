#include "multi/grid_forms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

namespace tutti::grid {
namespace {

using With = const Arguments&;

int next_rank(With with) { return (with.group.rank() + 1) % with.group.size(); }
int previous_rank(With with) {
  return (with.group.rank() + with.group.size() - 1) % with.group.size();
}

void pass_to_itself(With with) {
  const int tag = with.message.tag;
  const std::vector<P2POp> both{
      {.kind = P2POp::Kind::isend, .tensor = with.input, .peer = 0, .tag = tag},
      {.kind = P2POp::Kind::irecv, .tensor = with.output, .peer = 0, .tag = tag}};
  wait_all(batch_isend_irecv(with.group, both));
}

/// Each rank sends to the next one. Rank 0 starts the chain, so that nobody waits for ever.
void pass_on(With with) {
  if (with.group.size() == 1) {
    return pass_to_itself(with);
  }
  const bool first = with.group.rank() == 0;
  const int previous = previous_rank(with);
  if (first) {
    send(with.group, with.input, next_rank(with), with.message);
  }
  const int source =
      recv(with.group, with.output, with.any_source ? kAnySource : previous, with.message);
  if (source != previous) {
    throw std::runtime_error(fmt::format("recv returned rank {}, expected {}", source, previous));
  }
  if (!first) {
    send(with.group, with.input, next_rank(with), with.message);
  }
}

void pass_on_async(With with) {
  if (with.group.size() == 1) {
    return pass_to_itself(with);
  }
  const Work sent = isend(with.group, with.input, next_rank(with), with.message);
  const Work received = irecv(with.group, with.output, previous_rank(with), with.message);
  wait_all({received, sent});
}

constexpr std::array kRows{
    Form{.name = "all_reduce",
         .op = Op::all_reduce,
         .blocking = [](With a) { tutti::all_reduce(a.group, a.output, a.reduce); },
         .async = [](With a) { async::all_reduce(a.group, a.output, a.reduce).wait(); }},
    Form{.name = "reduce",
         .op = Op::reduce,
         .blocking = [](With a) { tutti::reduce(a.group, a.output, a.root, a.reduce); },
         .async = [](With a) { async::reduce(a.group, a.output, a.root, a.reduce).wait(); }},
    Form{.name = "broadcast",
         .op = Op::broadcast,
         .blocking = [](With a) { tutti::broadcast(a.group, a.output, a.root); },
         .async = [](With a) { async::broadcast(a.group, a.output, a.root).wait(); }},
    Form{.name = "all_gather",
         .op = Op::all_gather,
         .blocking = [](With a) { tutti::all_gather(a.group, a.outputs, a.input); },
         .async = [](With a) { async::all_gather(a.group, a.outputs, a.input).wait(); }},
    Form{.name = "all_gather_uneven",
         .op = Op::all_gather,
         .counts = Counts::uneven,
         .blocking = [](With a) { tutti::all_gather(a.group, a.outputs, a.input); },
         .async = [](With a) { async::all_gather(a.group, a.outputs, a.input).wait(); }},
    Form{.name = "all_gather_into_tensor",
         .op = Op::all_gather,
         .single = true,
         .blocking = [](With a) { tutti::all_gather_into_tensor(a.group, a.output, a.input); },
         .async = [](With a) { async::all_gather_into_tensor(a.group, a.output, a.input).wait(); }},
    Form{.name = "reduce_scatter",
         .op = Op::reduce_scatter,
         .blocking = [](With a) { tutti::reduce_scatter(a.group, a.output, a.inputs, a.reduce); },
         .async =
             [](With a) { async::reduce_scatter(a.group, a.output, a.inputs, a.reduce).wait(); }},
    Form{.name = "reduce_scatter_uneven",
         .op = Op::reduce_scatter,
         .counts = Counts::uneven,
         .blocking = [](With a) { tutti::reduce_scatter(a.group, a.output, a.inputs, a.reduce); },
         .async =
             [](With a) { async::reduce_scatter(a.group, a.output, a.inputs, a.reduce).wait(); }},
    Form{.name = "reduce_scatter_tensor",
         .op = Op::reduce_scatter,
         .single = true,
         .blocking =
             [](With a) { tutti::reduce_scatter_tensor(a.group, a.output, a.input, a.reduce); },
         .async =
             [](With a) {
               async::reduce_scatter_tensor(a.group, a.output, a.input, a.reduce).wait();
             }},
    Form{.name = "scatter",
         .op = Op::scatter,
         .blocking = [](With a) { tutti::scatter(a.group, a.output, a.inputs, a.root); },
         .async = [](With a) { async::scatter(a.group, a.output, a.inputs, a.root).wait(); }},
    Form{.name = "scatter_tensor",
         .op = Op::scatter,
         .single = true,
         .blocking = [](With a) { tutti::scatter_tensor(a.group, a.output, a.input, a.root); },
         .async = [](With a) { async::scatter_tensor(a.group, a.output, a.input, a.root).wait(); }},
    Form{.name = "gather",
         .op = Op::gather,
         .blocking = [](With a) { tutti::gather(a.group, a.outputs, a.input, a.root); },
         .async = [](With a) { async::gather(a.group, a.outputs, a.input, a.root).wait(); }},
    Form{.name = "gather_into_tensor",
         .op = Op::gather,
         .single = true,
         .blocking = [](With a) { tutti::gather_into_tensor(a.group, a.output, a.input, a.root); },
         .async =
             [](With a) { async::gather_into_tensor(a.group, a.output, a.input, a.root).wait(); }},
    Form{.name = "all_to_all",
         .op = Op::all_to_all,
         .counts = Counts::pairwise,
         .blocking = [](With a) { tutti::all_to_all(a.group, a.outputs, a.inputs); },
         .async = [](With a) { async::all_to_all(a.group, a.outputs, a.inputs).wait(); }},
    Form{.name = "all_to_all_single",
         .op = Op::all_to_all,
         .single = true,
         .blocking = [](With a) { tutti::all_to_all_single(a.group, a.output, a.input); },
         .async = [](With a) { async::all_to_all_single(a.group, a.output, a.input).wait(); }},
    Form{.name = "all_to_all_splits",
         .op = Op::all_to_all,
         .single = true,
         .counts = Counts::pairwise,
         .blocking = [](With a) { tutti::all_to_all_single(a.group, a.output, a.input, a.splits); },
         .async =
             [](With a) { async::all_to_all_single(a.group, a.output, a.input, a.splits).wait(); }},
    Form{.name = "barrier",
         .op = Op::barrier,
         .blocking = [](With a) { tutti::barrier(a.group); },
         .async = [](With a) { async::barrier(a.group).wait(); }},
    Form{.name = "send_recv", .op = Op::send, .blocking = pass_on, .async = pass_on_async},
};
static_assert(std::all_of(kSpecs.begin(), kSpecs.end(),
                          [](const Spec& row) {
                            const Op op = row.op == Op::recv ? Op::send : row.op;  // one form
                            return std::any_of(kRows.begin(), kRows.end(),
                                               [&](const Form& form) { return form.op == op; });
                          }),
              "every operation has a form");

}  // namespace

constinit const std::span<const Form> kForms{kRows};

}  // namespace tutti::grid
