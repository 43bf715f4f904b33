#include "engine/staging.hpp"

#include "kernels/reduce.hpp"
#include "tensor/pack.hpp"

namespace tutti {
namespace {

bool needs_staging(const BlockList& blocks) {
  for (const BlockView& block : blocks) {
    if (block.data == nullptr && block.elements != 0) {
      return true;
    }
  }
  return false;
}

std::size_t staged_bytes(std::span<const Tensor> tensors) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    bytes += tensor.is_contiguous() ? 0 : (tensor.bytes() + 63) / 64 * 64;
  }
  return bytes;
}

/// Points the blocks of one side at `memory`; returns where it ended.
template <class Visit>
std::byte* place(std::span<const Tensor> tensors, BlockList& blocks, std::byte* memory,
                 Visit visit) {
  const std::size_t per_tensor = tensors.empty() ? 0 : blocks.size() / tensors.size();
  std::size_t b = 0;
  for (const Tensor& tensor : tensors) {
    const bool staged = !tensor.is_contiguous();
    std::byte* data = memory;
    for (std::size_t i = 0; i < per_tensor; ++i, ++b) {
      if (staged) {
        blocks[b].data = data;
        data += blocks[b].elements * element_bytes(tensor.dtype());
      }
    }
    if (staged) {
      visit(tensor, memory);
      memory += (tensor.bytes() + 63) / 64 * 64;
    }
  }
  return memory;
}

}  // namespace

void Staging::prepare(const Request& request, Seat seat, Call& call) {
  back_.clear();
  narrowings_.clear();
  packed_ = false;
  if (!needs_staging(call.in) && !needs_staging(call.out)) {
    return;
  }
  const bool has_in = spec(call.op).in.on_rank(seat.rank, request.root);
  const bool has_out = spec(call.op).out.on_rank(seat.rank, request.root);
  const std::span<const Tensor> in = has_in ? request.in : std::span<const Tensor>{};
  const std::span<const Tensor> out = has_out ? request.out : std::span<const Tensor>{};
  const bool in_place = !in.empty() && !out.empty() && in.data() == out.data();
  std::byte* memory = memory_.take(staged_bytes(in) + staged_bytes(out));
  packed_ = true;
  memory =
      place(in, call.in, memory, [](const Tensor& tensor, std::byte* to) { pack(tensor, to); });
  if (in_place) {
    for (std::size_t i = 0; i < call.out.size(); ++i) {
      call.out[i].data = call.in[i].data;
      if (!out[i].is_contiguous()) {
        back_.push_back({call.out[i].data, out[i]});
      }
    }
    return;
  }
  place(out, call.out, memory, [this](const Tensor& tensor, std::byte* from) {
    back_.push_back({from, tensor});
  });
}

void Staging::scale(Call& call) {
  const DType wide = accumulator(call.dtype);
  const bool widens = wide != call.dtype;
  const std::size_t bytes = element_bytes(wide);
  std::size_t elements = 0;
  for (const auto* side : {&call.in, &call.out}) {
    for (const BlockView& block : *side) {
      elements += side == &call.in || widens ? block.elements : 0;
    }
  }
  std::byte* target = scaled_.take(elements * bytes);
  for (BlockView& block : call.in) {
    load_accumulator(call.dtype, block.data, target, block.elements, &call.factor);
    block.data = target;
    target += block.elements * bytes;
  }
  for (BlockView& block : call.out) {
    if (widens) {
      narrowings_.push_back({target, block, call.dtype});
      block.data = target;
      target += block.elements * bytes;
    }
  }
  call.dtype = wide;
  call.reduce = ReduceOp::sum;
}

void Staging::finish() {
  for (const Narrowing& narrowing : narrowings_) {
    finish_accumulator(narrowing.dtype, narrowing.wide, narrowing.narrow.data,
                       narrowing.narrow.elements, 1);
  }
  narrowings_.clear();
  for (const Copy& copy : back_) {
    unpack(copy.staged, copy.tensor);
  }
  back_.clear();
}

}  // namespace tutti
