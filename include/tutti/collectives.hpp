// The collectives and point-to-point calls. Each blocks and exists with a leading group and without
// (default group); namespace tutti::async has the same calls returning a Work.
//
// Rules that hold for all: ranks are group ranks; every member calls in the same order; tensors of
// any strides are read and written in row-major order, and an output must not overlap itself;
// tensors of zero elements are fine; a failed argument check throws InvalidArgument before anything
// is sent and leaves the group usable; a failure while communicating throws Mismatch, Timeout,
// PeerLost or Aborted and fails the group. Outputs are taken by const reference: a Tensor is a
// handle.
#pragma once

#include <tutti/group.hpp>
#include <tutti/options.hpp>
#include <tutti/tensor.hpp>
#include <tutti/work.hpp>

#include <span>
#include <vector>

#pragma GCC visibility push(default)
namespace tutti {

/// Reduces `tensor` over all ranks; every rank ends with the result, in place.
/// Shape: equal count and dtype on all ranks. avg: float and complex, integers truncate towards
/// zero. Result: bitwise equal on all ranks; the order is fixed by (algorithm, world size). Cost:
/// ring 2(n-1) rounds, 2(n-1)/n of the bytes per rank. Same as: MPI_Allreduce, ncclAllReduce.
void all_reduce(const Group& group, const Tensor& tensor, const ReduceOptions& options = {});

/// Reduces over all ranks into `tensor` of `root`; the other ranks' tensors stay as they are.
/// Cost: tree log2(n) rounds. Same as: MPI_Reduce.
void reduce(const Group& group, const Tensor& tensor, int root, const ReduceOptions& options = {});

/// Copies `tensor` of `root` to every rank. Equal count and dtype on all ranks.
/// Cost: tree log2(n) rounds, the bytes once per rank. Same as: MPI_Bcast.
void broadcast(const Group& group, const Tensor& tensor, int root, const CallOptions& options = {});

/// Rank r's `input` arrives in `outputs[r]` on every rank. Entries may differ in shape: entry r has
/// the count that rank r contributes. Same as: MPI_Allgatherv.
void all_gather(const Group& group, std::span<const Tensor> outputs, const Tensor& input,
                const CallOptions& options = {});
/// As all_gather into one tensor of n times the elements, (n*x1, ...) or (n, x1, ...).
/// `input` may be slot r of `output`. Cost: ring n-1 rounds, (n-1)/n of the output per rank.
void all_gather_into_tensor(const Group& group, const Tensor& output, const Tensor& input,
                            const CallOptions& options = {});

/// `output` = the reduction over all ranks of their `inputs[rank]`. Entries may differ in shape.
void reduce_scatter(const Group& group, const Tensor& output, std::span<const Tensor> inputs,
                    const ReduceOptions& options = {});
/// As reduce_scatter on equal parts of dimension 0 of `input`. Same as: MPI_Reduce_scatter_block.
void reduce_scatter_tensor(const Group& group, const Tensor& output, const Tensor& input,
                           const ReduceOptions& options = {});

/// `inputs[r]` of `root` arrives in `output` of rank r. `inputs` is read on the root only.
void scatter(const Group& group, const Tensor& output, std::span<const Tensor> inputs, int root,
             const CallOptions& options = {});
/// As scatter of equal parts of dimension 0; `input` may be undefined off the root.
void scatter_tensor(const Group& group, const Tensor& output, const Tensor& input, int root,
                    const CallOptions& options = {});

/// `input` of rank r arrives in `outputs[r]` of `root`. `outputs` is used on the root only.
void gather(const Group& group, std::span<const Tensor> outputs, const Tensor& input, int root,
            const CallOptions& options = {});
/// As gather into one tensor; `output` may be undefined off the root.
void gather_into_tensor(const Group& group, const Tensor& output, const Tensor& input, int root,
                        const CallOptions& options = {});

/// `inputs[j]` of rank i arrives in `outputs[i]` of rank j. Any shapes; each pair must agree.
void all_to_all(const Group& group, std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                const CallOptions& options = {});
/// As all_to_all on parts of dimension 0: equal parts, or as the splits say. Ranks either all give
/// splits or none does. Same as: MPI_Alltoallv.
void all_to_all_single(const Group& group, const Tensor& output, const Tensor& input,
                       const SplitOptions& options = {});

/// Returns once every rank has entered; earlier asynchronous work of this group is complete then.
void barrier(const Group& group, const CallOptions& options = {});

/// A barrier that tells who is missing: ends on every rank after one timeout and a second, with
/// Timeout naming the ranks that did not (all of them if wait_all_ranks, else the first).
struct MonitoredBarrierOptions {
  std::optional<std::chrono::milliseconds> timeout{};
  bool wait_all_ranks = false;
};
void monitored_barrier(const Group& group, const MonitoredBarrierOptions& options = {});

/// Sends to `peer`; returns when `tensor` may be reused. Messages of equal (peer, tag) stay in
/// order. Sending to oneself is refused outside batch_isend_irecv.
void send(const Group& group, const Tensor& tensor, int peer, const MessageOptions& options = {});
/// Receives from `peer` (kAnySource: from whoever sends); returns the sender's rank. The message's
/// dtype and count must equal the tensor's, else Mismatch names both and the message is consumed.
int recv(const Group& group, const Tensor& tensor, int peer = kAnySource,
         const MessageOptions& options = {});
Work isend(const Group& group, const Tensor& tensor, int peer, const MessageOptions& options = {});
Work irecv(const Group& group, const Tensor& tensor, int peer = kAnySource,
           const MessageOptions& options = {});

/// One transfer of a batch.
struct P2POp {
  enum class Kind : std::uint8_t { isend, irecv } kind = Kind::isend;
  Tensor tensor{};
  int peer = 0;
  int tag = 0;
};
/// Starts all transfers together, in no order but that of equal (peer, tag); so sends may come
/// first on all ranks. InvalidArgument for an empty batch. One Work per entry.
std::vector<Work> batch_isend_irecv(const Group& group, std::span<const P2POp> batch,
                                    const CallOptions& options = {});

// ---- the same on the default group ----

void all_reduce(const Tensor& tensor, const ReduceOptions& options = {});
void reduce(const Tensor& tensor, int root, const ReduceOptions& options = {});
void broadcast(const Tensor& tensor, int root, const CallOptions& options = {});
void all_gather(std::span<const Tensor> outputs, const Tensor& input,
                const CallOptions& options = {});
void all_gather_into_tensor(const Tensor& output, const Tensor& input,
                            const CallOptions& options = {});
void reduce_scatter(const Tensor& output, std::span<const Tensor> inputs,
                    const ReduceOptions& options = {});
void reduce_scatter_tensor(const Tensor& output, const Tensor& input,
                           const ReduceOptions& options = {});
void scatter(const Tensor& output, std::span<const Tensor> inputs, int root,
             const CallOptions& options = {});
void scatter_tensor(const Tensor& output, const Tensor& input, int root,
                    const CallOptions& options = {});
void gather(std::span<const Tensor> outputs, const Tensor& input, int root,
            const CallOptions& options = {});
void gather_into_tensor(const Tensor& output, const Tensor& input, int root,
                        const CallOptions& options = {});
void all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                const CallOptions& options = {});
void all_to_all_single(const Tensor& output, const Tensor& input, const SplitOptions& options = {});
void barrier(const CallOptions& options = {});
void monitored_barrier(const MonitoredBarrierOptions& options = {});
void send(const Tensor& tensor, int peer, const MessageOptions& options = {});
int recv(const Tensor& tensor, int peer = kAnySource, const MessageOptions& options = {});
Work isend(const Tensor& tensor, int peer, const MessageOptions& options = {});
Work irecv(const Tensor& tensor, int peer = kAnySource, const MessageOptions& options = {});
std::vector<Work> batch_isend_irecv(std::span<const P2POp> batch, const CallOptions& options = {});

/// The same operations without blocking: each returns a Work that holds its tensors. They must stay
/// untouched until the Work is done. Errors found while communicating come from Work::wait.
namespace async {

Work all_reduce(const Group& group, const Tensor& tensor, const ReduceOptions& options = {});
Work reduce(const Group& group, const Tensor& tensor, int root, const ReduceOptions& options = {});
Work broadcast(const Group& group, const Tensor& tensor, int root, const CallOptions& options = {});
Work all_gather(const Group& group, std::span<const Tensor> outputs, const Tensor& input,
                const CallOptions& options = {});
Work all_gather_into_tensor(const Group& group, const Tensor& output, const Tensor& input,
                            const CallOptions& options = {});
Work reduce_scatter(const Group& group, const Tensor& output, std::span<const Tensor> inputs,
                    const ReduceOptions& options = {});
Work reduce_scatter_tensor(const Group& group, const Tensor& output, const Tensor& input,
                           const ReduceOptions& options = {});
Work scatter(const Group& group, const Tensor& output, std::span<const Tensor> inputs, int root,
             const CallOptions& options = {});
Work scatter_tensor(const Group& group, const Tensor& output, const Tensor& input, int root,
                    const CallOptions& options = {});
Work gather(const Group& group, std::span<const Tensor> outputs, const Tensor& input, int root,
            const CallOptions& options = {});
Work gather_into_tensor(const Group& group, const Tensor& output, const Tensor& input, int root,
                        const CallOptions& options = {});
Work all_to_all(const Group& group, std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                const CallOptions& options = {});
Work all_to_all_single(const Group& group, const Tensor& output, const Tensor& input,
                       const SplitOptions& options = {});
Work barrier(const Group& group, const CallOptions& options = {});

Work all_reduce(const Tensor& tensor, const ReduceOptions& options = {});
Work reduce(const Tensor& tensor, int root, const ReduceOptions& options = {});
Work broadcast(const Tensor& tensor, int root, const CallOptions& options = {});
Work all_gather(std::span<const Tensor> outputs, const Tensor& input,
                const CallOptions& options = {});
Work all_gather_into_tensor(const Tensor& output, const Tensor& input,
                            const CallOptions& options = {});
Work reduce_scatter(const Tensor& output, std::span<const Tensor> inputs,
                    const ReduceOptions& options = {});
Work reduce_scatter_tensor(const Tensor& output, const Tensor& input,
                           const ReduceOptions& options = {});
Work scatter(const Tensor& output, std::span<const Tensor> inputs, int root,
             const CallOptions& options = {});
Work scatter_tensor(const Tensor& output, const Tensor& input, int root,
                    const CallOptions& options = {});
Work gather(std::span<const Tensor> outputs, const Tensor& input, int root,
            const CallOptions& options = {});
Work gather_into_tensor(const Tensor& output, const Tensor& input, int root,
                        const CallOptions& options = {});
Work all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                const CallOptions& options = {});
Work all_to_all_single(const Tensor& output, const Tensor& input, const SplitOptions& options = {});
Work barrier(const CallOptions& options = {});

}  // namespace async
}  // namespace tutti
#pragma GCC visibility pop
