// The whole public surface of operations: each is one request through one door.
#include "group/group_state.hpp"

#include <tutti/collectives.hpp>
#include <tutti/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

namespace tutti {
namespace {

using Tensors = std::span<const Tensor>;

Tensors one(const Tensor& tensor) { return {&tensor, 1}; }

/// A side that a rank may leave out.
Tensors optional(const Tensor& tensor) { return tensor.defined() ? one(tensor) : Tensors{}; }

Request in_place(Op op, const Tensor& tensor, int root, const ReduceOptions& options) {
  return {.op = op,
          .in = one(tensor),
          .out = one(tensor),
          .reduce = options.op,
          .factor = options.factor,
          .root = root,
          .timeout = options.timeout};
}

Request moving(Op op, Tensors out, Tensors in, Form form, int root, const CallOptions& options) {
  return {.op = op, .in = in, .out = out, .form = form, .root = root, .timeout = options.timeout};
}

Request reducing(Op op, Tensors out, Tensors in, Form form, const ReduceOptions& options) {
  return {.op = op,
          .in = in,
          .out = out,
          .form = form,
          .reduce = options.op,
          .factor = options.factor,
          .timeout = options.timeout};
}

/// `even`: place for the rows of a side that is cut evenly, until the request was submitted.
Request splitting(const Tensor& output, const Tensor& input, const SplitOptions& options,
                  std::vector<std::int64_t>& even, int size) {
  using Rows = std::span<const std::int64_t>;
  // One list given: the other side is cut evenly, but as part of the same uneven exchange.
  const auto rows_of = [&](const auto& given, const auto& other, const Tensor& tensor) -> Rows {
    if (!given.empty() || other.empty() || tensor.dim() == 0 || tensor.size(0) % size != 0) {
      return given;
    }
    even.assign(static_cast<std::size_t>(size), tensor.size(0) / size);
    return even;
  };
  return {.op = Op::all_to_all,
          .in = one(input),
          .out = one(output),
          .in_rows = rows_of(options.input_splits, options.output_splits, input),
          .out_rows = rows_of(options.output_splits, options.input_splits, output),
          .timeout = options.timeout};
}

Request message(Op op, const Tensor& tensor, int peer, const MessageOptions& options) {
  Request request{.op = op, .peer = peer, .tag = options.tag, .timeout = options.timeout};
  (op == Op::send ? request.in : request.out) = one(tensor);
  return request;
}

Request barrier_request(const CallOptions& options) {
  return {.op = Op::barrier, .timeout = options.timeout};
}

/// Transfers with oneself must pair up within the batch, or they would wait for ever.
void check_self_transfers(const Group& group, std::span<const P2POp> batch) {
  std::map<int, int> open;
  for (const P2POp& op : batch) {
    if (op.peer == group.rank()) {
      open[op.tag] += op.kind == P2POp::Kind::isend ? 1 : -1;
    }
  }
  for (const auto& [tag, balance] : open) {
    if (balance != 0) {
      throw InvalidArgument(
          fmt::format("batch_isend_irecv on group '{}' (rank {}): {} more {} than {} with tag {} "
                      "for this rank itself; a batch must hold both ends",
                      group.name(), group.rank(), std::abs(balance),
                      balance > 0 ? "sends" : "receives", balance > 0 ? "receives" : "sends", tag));
    }
  }
}

}  // namespace

void all_reduce(const Group& group, const Tensor& tensor, const ReduceOptions& options) {
  group.state().submit(in_place(Op::all_reduce, tensor, 0, options));
}
void reduce(const Group& group, const Tensor& tensor, int root, const ReduceOptions& options) {
  group.state().submit(in_place(Op::reduce, tensor, root, options));
}
void broadcast(const Group& group, const Tensor& tensor, int root, const CallOptions& options) {
  group.state().submit(in_place(Op::broadcast, tensor, root, {.timeout = options.timeout}));
}
void all_gather(const Group& group, Tensors outputs, const Tensor& input,
                const CallOptions& options) {
  group.state().submit(moving(Op::all_gather, outputs, one(input), Form::list, 0, options));
}
void all_gather_into_tensor(const Group& group, const Tensor& output, const Tensor& input,
                            const CallOptions& options) {
  group.state().submit(moving(Op::all_gather, one(output), one(input), Form::single, 0, options));
}
void reduce_scatter(const Group& group, const Tensor& output, Tensors inputs,
                    const ReduceOptions& options) {
  group.state().submit(reducing(Op::reduce_scatter, one(output), inputs, Form::list, options));
}
void reduce_scatter_tensor(const Group& group, const Tensor& output, const Tensor& input,
                           const ReduceOptions& options) {
  group.state().submit(
      reducing(Op::reduce_scatter, one(output), one(input), Form::single, options));
}
void scatter(const Group& group, const Tensor& output, Tensors inputs, int root,
             const CallOptions& options) {
  group.state().submit(moving(Op::scatter, one(output), inputs, Form::list, root, options));
}
void scatter_tensor(const Group& group, const Tensor& output, const Tensor& input, int root,
                    const CallOptions& options) {
  group.state().submit(
      moving(Op::scatter, one(output), optional(input), Form::single, root, options));
}
void gather(const Group& group, Tensors outputs, const Tensor& input, int root,
            const CallOptions& options) {
  group.state().submit(moving(Op::gather, outputs, one(input), Form::list, root, options));
}
void gather_into_tensor(const Group& group, const Tensor& output, const Tensor& input, int root,
                        const CallOptions& options) {
  group.state().submit(
      moving(Op::gather, optional(output), one(input), Form::single, root, options));
}
void all_to_all(const Group& group, Tensors outputs, Tensors inputs, const CallOptions& options) {
  group.state().submit(moving(Op::all_to_all, outputs, inputs, Form::list, 0, options));
}
void all_to_all_single(const Group& group, const Tensor& output, const Tensor& input,
                       const SplitOptions& options) {
  std::vector<std::int64_t> even;
  group.state().submit(splitting(output, input, options, even, group.size()));
}
void barrier(const Group& group, const CallOptions& options) {
  group.state().submit(barrier_request(options));
}

void send(const Group& group, const Tensor& tensor, int peer, const MessageOptions& options) {
  group.state().transfer(message(Op::send, tensor, peer, options));
}
int recv(const Group& group, const Tensor& tensor, int peer, const MessageOptions& options) {
  return group.state().transfer(message(Op::recv, tensor, peer, options));
}
Work isend(const Group& group, const Tensor& tensor, int peer, const MessageOptions& options) {
  return Work(group.state().transfer_async(message(Op::send, tensor, peer, options)));
}
Work irecv(const Group& group, const Tensor& tensor, int peer, const MessageOptions& options) {
  return Work(group.state().transfer_async(message(Op::recv, tensor, peer, options)));
}

std::vector<Work> batch_isend_irecv(const Group& group, std::span<const P2POp> batch,
                                    const CallOptions& options) {
  if (batch.empty()) {
    throw InvalidArgument(
        fmt::format("batch_isend_irecv on group '{}' (rank {}): the batch is empty; pass at "
                    "least one transfer",
                    group.name(), group.rank()));
  }
  std::vector<Message> messages;
  messages.reserve(batch.size());
  for (const P2POp& op : batch) {
    Request request = message(op.kind == P2POp::Kind::isend ? Op::send : Op::recv, op.tensor,
                              op.peer, {.tag = op.tag, .timeout = options.timeout});
    request.allow_self = true;
    messages.push_back(group.state().validated(request));  // all, before any is started
  }
  check_self_transfers(group, batch);
  std::vector<std::shared_ptr<WorkState>> states(messages.size());
  group.state().start_transfers(messages, states);
  std::vector<Work> works;
  works.reserve(states.size());
  for (auto& state : states) {
    works.emplace_back(std::move(state));
  }
  return works;
}

// ---- default group ----

void all_reduce(const Tensor& tensor, const ReduceOptions& options) {
  all_reduce(default_group(), tensor, options);
}
void reduce(const Tensor& tensor, int root, const ReduceOptions& options) {
  reduce(default_group(), tensor, root, options);
}
void broadcast(const Tensor& tensor, int root, const CallOptions& options) {
  broadcast(default_group(), tensor, root, options);
}
void all_gather(Tensors outputs, const Tensor& input, const CallOptions& options) {
  all_gather(default_group(), outputs, input, options);
}
void all_gather_into_tensor(const Tensor& output, const Tensor& input, const CallOptions& options) {
  all_gather_into_tensor(default_group(), output, input, options);
}
void reduce_scatter(const Tensor& output, Tensors inputs, const ReduceOptions& options) {
  reduce_scatter(default_group(), output, inputs, options);
}
void reduce_scatter_tensor(const Tensor& output, const Tensor& input,
                           const ReduceOptions& options) {
  reduce_scatter_tensor(default_group(), output, input, options);
}
void scatter(const Tensor& output, Tensors inputs, int root, const CallOptions& options) {
  scatter(default_group(), output, inputs, root, options);
}
void scatter_tensor(const Tensor& output, const Tensor& input, int root,
                    const CallOptions& options) {
  scatter_tensor(default_group(), output, input, root, options);
}
void gather(Tensors outputs, const Tensor& input, int root, const CallOptions& options) {
  gather(default_group(), outputs, input, root, options);
}
void gather_into_tensor(const Tensor& output, const Tensor& input, int root,
                        const CallOptions& options) {
  gather_into_tensor(default_group(), output, input, root, options);
}
void all_to_all(Tensors outputs, Tensors inputs, const CallOptions& options) {
  all_to_all(default_group(), outputs, inputs, options);
}
void all_to_all_single(const Tensor& output, const Tensor& input, const SplitOptions& options) {
  all_to_all_single(default_group(), output, input, options);
}
void barrier(const CallOptions& options) { barrier(default_group(), options); }
void monitored_barrier(const MonitoredBarrierOptions& options) {
  monitored_barrier(default_group(), options);
}
void send(const Tensor& tensor, int peer, const MessageOptions& options) {
  send(default_group(), tensor, peer, options);
}
int recv(const Tensor& tensor, int peer, const MessageOptions& options) {
  return recv(default_group(), tensor, peer, options);
}
Work isend(const Tensor& tensor, int peer, const MessageOptions& options) {
  return isend(default_group(), tensor, peer, options);
}
Work irecv(const Tensor& tensor, int peer, const MessageOptions& options) {
  return irecv(default_group(), tensor, peer, options);
}
std::vector<Work> batch_isend_irecv(std::span<const P2POp> batch, const CallOptions& options) {
  return batch_isend_irecv(default_group(), batch, options);
}

// ---- without blocking ----

namespace async {

Work all_reduce(const Group& group, const Tensor& tensor, const ReduceOptions& options) {
  return Work(group.state().submit_async(in_place(Op::all_reduce, tensor, 0, options)));
}
Work reduce(const Group& group, const Tensor& tensor, int root, const ReduceOptions& options) {
  return Work(group.state().submit_async(in_place(Op::reduce, tensor, root, options)));
}
Work broadcast(const Group& group, const Tensor& tensor, int root, const CallOptions& options) {
  return Work(group.state().submit_async(
      in_place(Op::broadcast, tensor, root, {.timeout = options.timeout})));
}
Work all_gather(const Group& group, Tensors outputs, const Tensor& input,
                const CallOptions& options) {
  return Work(group.state().submit_async(
      moving(Op::all_gather, outputs, one(input), Form::list, 0, options)));
}
Work all_gather_into_tensor(const Group& group, const Tensor& output, const Tensor& input,
                            const CallOptions& options) {
  return Work(group.state().submit_async(
      moving(Op::all_gather, one(output), one(input), Form::single, 0, options)));
}
Work reduce_scatter(const Group& group, const Tensor& output, Tensors inputs,
                    const ReduceOptions& options) {
  return Work(group.state().submit_async(
      reducing(Op::reduce_scatter, one(output), inputs, Form::list, options)));
}
Work reduce_scatter_tensor(const Group& group, const Tensor& output, const Tensor& input,
                           const ReduceOptions& options) {
  return Work(group.state().submit_async(
      reducing(Op::reduce_scatter, one(output), one(input), Form::single, options)));
}
Work scatter(const Group& group, const Tensor& output, Tensors inputs, int root,
             const CallOptions& options) {
  return Work(group.state().submit_async(
      moving(Op::scatter, one(output), inputs, Form::list, root, options)));
}
Work scatter_tensor(const Group& group, const Tensor& output, const Tensor& input, int root,
                    const CallOptions& options) {
  return Work(group.state().submit_async(
      moving(Op::scatter, one(output), optional(input), Form::single, root, options)));
}
Work gather(const Group& group, Tensors outputs, const Tensor& input, int root,
            const CallOptions& options) {
  return Work(group.state().submit_async(
      moving(Op::gather, outputs, one(input), Form::list, root, options)));
}
Work gather_into_tensor(const Group& group, const Tensor& output, const Tensor& input, int root,
                        const CallOptions& options) {
  return Work(group.state().submit_async(
      moving(Op::gather, optional(output), one(input), Form::single, root, options)));
}
Work all_to_all(const Group& group, Tensors outputs, Tensors inputs, const CallOptions& options) {
  return Work(
      group.state().submit_async(moving(Op::all_to_all, outputs, inputs, Form::list, 0, options)));
}
Work all_to_all_single(const Group& group, const Tensor& output, const Tensor& input,
                       const SplitOptions& options) {
  std::vector<std::int64_t> even;
  return Work(group.state().submit_async(splitting(output, input, options, even, group.size())));
}
Work barrier(const Group& group, const CallOptions& options) {
  return Work(group.state().submit_async(barrier_request(options)));
}

Work all_reduce(const Tensor& tensor, const ReduceOptions& options) {
  return async::all_reduce(default_group(), tensor, options);
}
Work reduce(const Tensor& tensor, int root, const ReduceOptions& options) {
  return async::reduce(default_group(), tensor, root, options);
}
Work broadcast(const Tensor& tensor, int root, const CallOptions& options) {
  return async::broadcast(default_group(), tensor, root, options);
}
Work all_gather(Tensors outputs, const Tensor& input, const CallOptions& options) {
  return async::all_gather(default_group(), outputs, input, options);
}
Work all_gather_into_tensor(const Tensor& output, const Tensor& input, const CallOptions& options) {
  return async::all_gather_into_tensor(default_group(), output, input, options);
}
Work reduce_scatter(const Tensor& output, Tensors inputs, const ReduceOptions& options) {
  return async::reduce_scatter(default_group(), output, inputs, options);
}
Work reduce_scatter_tensor(const Tensor& output, const Tensor& input,
                           const ReduceOptions& options) {
  return async::reduce_scatter_tensor(default_group(), output, input, options);
}
Work scatter(const Tensor& output, Tensors inputs, int root, const CallOptions& options) {
  return async::scatter(default_group(), output, inputs, root, options);
}
Work scatter_tensor(const Tensor& output, const Tensor& input, int root,
                    const CallOptions& options) {
  return async::scatter_tensor(default_group(), output, input, root, options);
}
Work gather(Tensors outputs, const Tensor& input, int root, const CallOptions& options) {
  return async::gather(default_group(), outputs, input, root, options);
}
Work gather_into_tensor(const Tensor& output, const Tensor& input, int root,
                        const CallOptions& options) {
  return async::gather_into_tensor(default_group(), output, input, root, options);
}
Work all_to_all(Tensors outputs, Tensors inputs, const CallOptions& options) {
  return async::all_to_all(default_group(), outputs, inputs, options);
}
Work all_to_all_single(const Tensor& output, const Tensor& input, const SplitOptions& options) {
  return async::all_to_all_single(default_group(), output, input, options);
}
Work barrier(const CallOptions& options) { return async::barrier(default_group(), options); }

}  // namespace async
}  // namespace tutti
