// The one validator: every rule of every operation is a line here, read off the Spec table where it
// can be. Nothing in this file talks to anyone.
#include "plan/request.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace tutti {
namespace {

template <class... Args>
[[noreturn]] void refuse(const OpContext& context, fmt::format_string<Args...> text,
                         Args&&... args) {
  throw InvalidArgument(describe(context) + ": " + fmt::format(text, std::forward<Args>(args)...));
}

std::string shape_text(const Tensor& tensor) {
  return fmt::format("{}[{}]", name(tensor.dtype()), fmt::join(tensor.shape(), ", "));
}

enum class Direction { input, output };

/// The tensors of one side: defined, on a device we have, of one dtype, and writable if output.
void check_tensors(const OpContext& context, std::span<const Tensor> tensors, DType dtype,
                   Direction direction) {
  const char* side = direction == Direction::input ? "input" : "output";
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (!tensor.defined()) {
      refuse(context, "{} tensor {} is undefined; pass a tensor", side, i);
    }
    if (tensor.device().type != DeviceType::cpu) {
      throw Unsupported(
          fmt::format("{}: {} tensor {} is not on the CPU; available backends: tutti (cpu)",
                      describe(context), side, i));
    }
    if (tensor.dtype() != dtype) {
      refuse(context, "{} tensor {} is {}, others are {}; all tensors of a call have one dtype",
             side, i, name(tensor.dtype()), name(dtype));
    }
    if (direction == Direction::output && !tensor.is_contiguous() && tensor.overlaps_itself()) {
      refuse(context,
             "output tensor {} {} overlaps itself (strides [{}]); pass one whose elements have "
             "memory of their own",
             i, shape_text(tensor), fmt::join(tensor.strides(), ", "));
    }
  }
}

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.data() == b.data() && a.shape() == b.shape() && a.strides() == b.strides();
}

/// Input and output may be the same tensor, or a rank's own block may already be in its place.
void check_overlap(const Request& request, const OpContext& context) {
  const auto self = static_cast<std::size_t>(context.seat.rank);
  const Spec& row = spec(request.op);
  for (std::size_t o = 0; o < request.out.size(); ++o) {
    const Tensor& out = request.out[o];
    for (std::size_t other = o + 1; other < request.out.size(); ++other) {
      if (out.shares_memory(request.out[other])) {
        refuse(context, "output tensors {} and {} share memory", o, other);
      }
    }
    for (std::size_t i = 0; i < request.in.size(); ++i) {
      const Tensor& in = request.in[i];
      if (!out.shares_memory(in)) {
        continue;
      }
      bool in_place =
          row.in.part == row.out.part && row.in.part == Part::block && same_memory(in, out);
      if (request.form == Form::list && row.in.part != row.out.part) {
        const std::size_t block = row.out.part == Part::world ? o : i;
        in_place = block == self && same_memory(in, out);
      } else if (row.in.part != row.out.part && in.is_contiguous() && out.is_contiguous()) {
        const Tensor& whole = in.bytes() > out.bytes() ? in : out;
        const Tensor& part = in.bytes() > out.bytes() ? out : in;
        in_place = static_cast<const std::byte*>(part.data()) ==
                   static_cast<const std::byte*>(whole.data()) + self * part.bytes();
      }
      if (!in_place) {
        refuse(context,
               "input and output share memory; only a rank's own block may lie in its place");
      }
    }
  }
}

struct SideOf {
  Direction direction;
  Side side;
  std::span<const Tensor> tensors;
  std::span<const std::int64_t> rows;
};

/// Cuts a tensor along dimension 0 by rows per rank.
void blocks_by_rows(const SideOf& side, const OpContext& context, BlockList& blocks) {
  const Tensor& tensor = side.tensors[0];
  const char* what = side.direction == Direction::input ? "input" : "output";
  const auto size = static_cast<std::size_t>(context.seat.size);
  if (tensor.dim() == 0) {
    refuse(context, "{} is a scalar; a tensor with a dimension to split is needed", what);
  }
  if (side.rows.size() != size) {
    refuse(context, "{}_splits has {} entries, expected one per rank: {}", what, side.rows.size(),
           size);
  }
  for (const std::int64_t count : side.rows) {
    if (count < 0) {
      refuse(context, "{}_splits [{}] holds a negative count", what, fmt::join(side.rows, ", "));
    }
  }
  const std::int64_t total = std::accumulate(side.rows.begin(), side.rows.end(), std::int64_t{0});
  if (total != tensor.size(0)) {
    refuse(context, "{}_splits [{}] sum to {}, dimension 0 of {} is {}", what,
           fmt::join(side.rows, ", "), total, shape_text(tensor), tensor.size(0));
  }
  const std::size_t row =
      tensor.size(0) == 0 ? 0 : tensor.elements() / static_cast<std::size_t>(tensor.size(0));
  std::byte* data = tensor.is_contiguous() ? tensor.data_as<std::byte>() : nullptr;
  std::size_t before = 0;
  for (std::size_t r = 0; r < size; ++r) {
    const std::size_t elements = static_cast<std::size_t>(side.rows[r]) * row;
    blocks.push_back(
        {data == nullptr ? nullptr : data + before * element_bytes(tensor.dtype()), elements});
    before += elements;
  }
}

/// Cuts a tensor into equal parts, one per rank.
void equal_blocks(const SideOf& side, const OpContext& context, bool along_rows,
                  BlockList& blocks) {
  const Tensor& tensor = side.tensors[0];
  const char* what = side.direction == Direction::input ? "input" : "output";
  const auto size = static_cast<std::size_t>(context.seat.size);
  if (along_rows && (tensor.dim() == 0 || tensor.size(0) % context.seat.size != 0)) {
    refuse(context, "dimension 0 of {} {} is not divisible by world size {}; pass counts or pad",
           what, shape_text(tensor), size);
  }
  if (tensor.elements() % size != 0) {
    refuse(context, "{} has {} elements, not divisible by world size {}", what, tensor.elements(),
           size);
  }
  const std::size_t elements = tensor.elements() / size;
  std::byte* data = tensor.is_contiguous() ? tensor.data_as<std::byte>() : nullptr;
  for (std::size_t r = 0; r < size; ++r) {
    blocks.push_back(
        {data == nullptr ? nullptr : data + r * elements * element_bytes(tensor.dtype()),
         elements});
  }
}

void locate(const Request& request, const OpContext& context, const SideOf& side,
            BlockList& blocks) {
  blocks.clear();
  const int shares = side.side.shares(context.seat.rank, request.root, context.seat.size);
  const char* what = side.direction == Direction::input ? "input" : "output";
  if (shares == 0) {
    return;
  }
  const bool list = side.side.part == Part::world && request.form == Form::list;
  const std::size_t expected = list ? static_cast<std::size_t>(context.seat.size) : 1;
  if (!list && side.tensors.empty()) {
    refuse(context, "the {} is missing; this rank must pass a tensor", what);
  }
  if (side.tensors.size() != expected) {
    refuse(context, "{} tensors in the {} list, expected one per rank: {}", side.tensors.size(),
           what, expected);
  }
  if (side.side.part == Part::world && !list) {
    if (!side.rows.empty()) {
      blocks_by_rows(side, context, blocks);
    } else {
      // Inputs are cut along dimension 0; outputs may also be stacked, so only the count matters.
      const bool along_rows = side.direction == Direction::input || request.op == Op::all_to_all;
      equal_blocks(side, context, along_rows, blocks);
    }
    return;
  }
  for (const Tensor& tensor : side.tensors) {
    blocks.push_back(
        {tensor.is_contiguous() ? tensor.data_as<std::byte>() : nullptr, tensor.elements()});
  }
}

/// Whether both sides fit: a rank's own share has one size, wherever it appears.
void match_counts(const Request& request, const OpContext& context, Call& call) {
  const Spec& row = spec(request.op);
  const auto self = static_cast<std::size_t>(context.seat.rank);
  const auto own = [&](const BlockList& blocks, Part part) {
    return part == Part::world ? blocks[self].elements : blocks[0].elements;
  };
  if (!call.in.empty() && !call.out.empty()) {
    const std::size_t in = own(call.in, row.in.part);
    const std::size_t out = own(call.out, row.out.part);
    if (in != out) {
      refuse(context, "input holds {} elements for this rank, output {}; they must be equal", in,
             out);
    }
  }
  const BlockList& all = call.in.size() > call.out.size() ? call.in : call.out;
  call.uneven = std::any_of(all.begin(), all.end(), [&](const BlockView& block) {
    return block.elements != all[0].elements;
  });
  if (call.uneven && row.rooted()) {
    refuse(context, "the {} tensors differ in size; {} wants one size for all ranks",
           call.in.size() > call.out.size() ? "input" : "output", row.name);
  }
}

std::uint64_t fingerprint_of(const Call& call, bool explicit_counts) {
  // Both ends of a message stamp it alike.
  const Op op = call.op == Op::recv ? Op::send : call.op;
  CallRecord record{.op = op, .dtype = call.dtype, .root = call.root};
  if (spec(call.op).reduces) {
    record.reduce = call.reduce;
  }
  const BlockList& all = call.in.size() > call.out.size() ? call.in : call.out;
  if (explicit_counts) {
    record.hashed = true;  // each pair compares its own count
  } else if (call.uneven) {
    std::vector<std::uint64_t> counts;
    for (const BlockView& block : all) {
      counts.push_back(block.elements);
    }
    record.count = hash_counts(counts);
    record.hashed = true;
  } else if (!all.empty()) {
    record.count = all[0].elements;
  }
  return pack_fingerprint(record);
}

void check_peer(const Request& request, const OpContext& context) {
  const bool any = request.op == Op::recv && request.peer == kAnySource;
  if (!any && !context.seat.has(request.peer)) {
    refuse(context, "peer {} is not a rank of the group, which has ranks 0 to {}", request.peer,
           context.seat.size - 1);
  }
  if (request.peer == context.seat.rank && !request.allow_self) {
    refuse(context, "peer {} is this rank; only batch_isend_irecv may send to itself",
           request.peer);
  }
  if (request.tag < 0) {
    refuse(context, "tag {} is negative; tags go from 0 to 2147483647", request.tag);
  }
}

void check_reduce_op(const Request& request, const OpContext& context, DType dtype,
                     const GroupRules& rules) {
  if (static_cast<std::size_t>(request.reduce) >= kReduceOpCount) {
    refuse(context, "reduce operation {} is unknown; there are {}",
           static_cast<unsigned>(request.reduce), kReduceOpCount);
  }
  if (!allows(request.reduce, dtype, rules)) {
    refuse(context, "{} is not defined for {}; see docs/algorithms.md for what is",
           name(request.reduce), name(dtype));
  }
  if (request.reduce == ReduceOp::premul_sum && info(dtype).kind != DTypeClass::complex &&
      request.factor.imag() != 0) {
    refuse(context, "the factor {}{:+}i is complex, the tensors are {}; pass a real factor",
           request.factor.real(), request.factor.imag(), name(dtype));
  }
}

/// One tensor for the blocks of all ranks is their concatenation along dimension 0, or their stack.
bool holds_all(const Tensor& whole, const Tensor& block, int ranks) {
  const Shape& all = whole.shape();
  const Shape& one = block.shape();
  const bool stacked = all.size() == one.size() + 1 && all[0] == ranks &&
                       std::equal(one.begin(), one.end(), all.begin() + 1);
  const bool joined = !one.empty() && all.size() == one.size() && all[0] == ranks * one[0] &&
                      std::equal(one.begin() + 1, one.end(), all.begin() + 1);
  return stacked || joined;
}

void check_whole_shape(const Request& request, const OpContext& context, const Tensor& in,
                       const Tensor& out) {
  const bool gathers = spec(request.op).out.part == Part::world;
  const Tensor& whole = gathers ? out : in;
  const Tensor& block = gathers ? in : out;
  if (!holds_all(whole, block, context.seat.size)) {
    refuse(context,
           "{} {} does not hold {} of {} {}: it must be those of all ranks one behind the other "
           "along dimension 0, or along a new one in front",
           gathers ? "output" : "input", shape_text(whole), context.seat.size,
           gathers ? "input" : "output", shape_text(block));
  }
}

}  // namespace

bool allows(ReduceOp op, DType dtype, const GroupRules& rules) {
  switch (info(dtype).kind) {
    case DTypeClass::boolean:
      return op != ReduceOp::avg && op != ReduceOp::premul_sum;
    case DTypeClass::integer:
      return op != ReduceOp::premul_sum;
    case DTypeClass::floating:
      return op != ReduceOp::band && op != ReduceOp::bor && op != ReduceOp::bxor;
    case DTypeClass::complex:
      return op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::premul_sum ||
             (op == ReduceOp::prod && rules.complex_product);
  }
  return false;
}

void validate(const Request& request, const OpContext& context, const GroupRules& rules,
              Call& call) {
  const Spec& row = spec(request.op);
  call.op = request.op;
  call.reduce = request.reduce;
  call.factor = request.factor;
  call.divisor = request.reduce == ReduceOp::avg ? context.seat.size : 1;
  call.root = row.rooted() ? request.root : -1;
  call.uneven = false;
  call.in.clear();
  call.out.clear();
  if (row.rooted() && !context.seat.has(request.root)) {
    refuse(context, "root {} is not a rank of the group, which has ranks 0 to {}", request.root,
           context.seat.size - 1);
  }
  if (request.timeout && request.timeout->count() <= 0) {
    refuse(context, "timeout is {} ms; it must be positive", request.timeout->count());
  }
  if (spec(request.op).point_to_point()) {
    check_peer(request, context);
  }
  const SideOf in{
      Direction::input, row.in,
      row.in.on_rank(context.seat.rank, request.root) ? request.in : std::span<const Tensor>{},
      request.in_rows};
  const SideOf out{
      Direction::output, row.out,
      row.out.on_rank(context.seat.rank, request.root) ? request.out : std::span<const Tensor>{},
      request.out_rows};
  call.dtype = !in.tensors.empty()    ? in.tensors[0].dtype()
               : !out.tensors.empty() ? out.tensors[0].dtype()
                                      : DType::boolean;
  check_tensors(context, in.tensors, call.dtype, Direction::input);
  check_tensors(context, out.tensors, call.dtype, Direction::output);
  locate(request, context, in, call.in);
  locate(request, context, out, call.out);
  if (row.reduces) {
    check_reduce_op(request, context, call.dtype, rules);
  }
  const bool one_in_place = in.tensors.size() == 1 && in.tensors.data() == out.tensors.data() &&
                            row.in.part == Part::block && row.out.part == Part::block;
  if (!one_in_place && !in.tensors.empty() && !out.tensors.empty()) {
    Request present = request;
    present.in = in.tensors;
    present.out = out.tensors;
    check_overlap(present, context);
  }
  call.pairwise_counts =
      request.op == Op::all_to_all &&
      (request.form == Form::list || !request.in_rows.empty() || !request.out_rows.empty());
  match_counts(request, context, call);
  if (request.form == Form::single && row.in.part != row.out.part && !in.tensors.empty() &&
      !out.tensors.empty()) {
    check_whole_shape(request, context, in.tensors[0], out.tensors[0]);
  }
  call.fingerprint = fingerprint_of(call, call.pairwise_counts);
}

}  // namespace tutti
