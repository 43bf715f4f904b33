// The rules of the four buffers. A cell is one block; cells that may share memory (plan.hpp says
// which) are separate here, but writing one makes the others unreadable unless the value is equal.
#include "plan/machine.hpp"

#include <fmt/format.h>

#include <utility>

namespace tutti {

namespace {

constexpr std::array kBufferNames{"in", "out", "acc", "hold"};

const char* name(Buffer buffer) { return kBufferNames[static_cast<std::size_t>(buffer)]; }

std::string first_of(std::string a, std::string b) { return a.empty() ? b : a; }

}  // namespace

Machine::Machine(Op op, Seat seat, int root, Expressions& expressions)
    : op_(op), seat_(seat), root_(root), expressions_(expressions) {
  const bool broadcast = op == Op::broadcast;  // works on out alone
  add_cells(Buffer::in, broadcast ? 0 : plan_in_blocks(op, seat.rank, root, seat.size));
  add_cells(Buffer::out, plan_out_blocks(op, seat.rank, root, seat.size));
  add_cells(Buffer::acc, spec(op).reduces ? seat.size : 0);
  add_cells(Buffer::hold, broadcast ? 0 : seat.size);
  find_aliases();
  const Buffer given = broadcast && seat.rank == root ? Buffer::out : Buffer::in;
  for (int block = 0; block < blocks(given); ++block) {
    cells_[at(index(given, block))].value = expressions.input(seat.rank, block);
  }
}

void Machine::add_cells(Buffer buffer, int count) {
  counts_[static_cast<std::size_t>(buffer)] = count;
  starts_[static_cast<std::size_t>(buffer)] = static_cast<int>(cells_.size());
  for (int block = 0; block < count; ++block) {
    cells_.push_back({.buffer = buffer, .block = block, .share = share(buffer, block)});
  }
}

int Machine::share(Buffer buffer, int block) const {
  if (buffer == Buffer::hold) {
    return spec(op_).reduces ? seat_.rank : block;
  }
  if (op_ == Op::all_to_all) {  // a share per pair of ranks
    return buffer == Buffer::in ? seat_.rank * seat_.size + block : block * seat_.size + seat_.rank;
  }
  const Side side = buffer == Buffer::in ? spec(op_).in : spec(op_).out;
  const bool single = buffer != Buffer::acc && !spec(op_).cuts && side.part == Part::block;
  return single ? seat_.rank : block;
}

void Machine::find_aliases() {
  if (blocks(Buffer::out) == 0) {
    return;
  }
  const auto join = [&](Buffer a, int block_a, Buffer b, int block_b) {
    if (block_a >= blocks(a) || block_b >= blocks(b)) {
      return;
    }
    for (const auto& [from, to] : {std::pair{index(a, block_a), index(b, block_b)},
                                   std::pair{index(b, block_b), index(a, block_a)}}) {
      std::array<int, 2>& known = cells_[at(from)].aliases;
      known[known[0] < 0 ? 0 : 1] = to;
    }
  };
  for (int block = 0; spec(op_).cuts && block < seat_.size; ++block) {
    join(Buffer::in, block, Buffer::out, block);
    join(Buffer::in, block, Buffer::acc, block);
    join(Buffer::out, block, Buffer::acc, block);
  }
  if (op_ == Op::reduce_scatter) {
    join(Buffer::in, seat_.rank, Buffer::out, 0);
    join(Buffer::in, seat_.rank, Buffer::acc, seat_.rank);
    join(Buffer::out, 0, Buffer::acc, seat_.rank);
  }
  if (op_ == Op::all_gather) {
    join(Buffer::in, 0, Buffer::out, seat_.rank);
  }
}

std::string Machine::text(Buffer buffer, int block) const {
  const Expressions::Id held = value(buffer, block);
  const std::string what = fmt::format("{} block {}", name(buffer), block);
  if (held == kUnwritten) {
    return what + ", which was never written";
  }
  if (held == kOverwritten) {
    return what + ", which may share the memory of a block written since";
  }
  return fmt::format("{} = {}", what, expressions_.text(held));
}

Machine::Cell& Machine::marked(int index) {
  Cell& cell = cells_[at(index)];
  if (cell.flight != flight_) {
    cell.flight = flight_;
    cell.read_by = -1;
    cell.written_by = -1;
  }
  return cell;
}

std::string Machine::check_range(Range range) const {
  const int total = blocks(range.buffer);
  if (range.count == 0 && op_ == Op::barrier) {
    return {};
  }
  if (range.count < 1 || range.count > total || range.first < 0 || range.first >= total) {
    return fmt::format("names blocks {} .. {} of {}, which has {} blocks here", range.first,
                       range.first + range.count - 1, name(range.buffer), total);
  }
  return {};
}

std::string Machine::check_target(Range range) const {
  if (range.count == 0) {
    return check_range(range);
  }
  if (range.buffer == Buffer::in) {
    return "writes the input";
  }
  if (op_ == Op::broadcast && seat_.rank == root_ && range.buffer == Buffer::out) {
    return "writes the root's data";
  }
  return check_range(range);
}

std::string Machine::check_pair(Range from, Range to) const {
  std::string fault = first_of(check_range(from), check_target(to));
  if (!fault.empty()) {
    return fault;
  }
  if (from.count != to.count) {
    return fmt::format("takes {} blocks to {}", from.count, to.count);
  }
  for (int i = 0; i < from.count; ++i) {
    const Cell& source = cells_[at(cell_of(from, i))];
    const Cell& target = cells_[at(cell_of(to, i))];
    if (source.share != target.share) {
      return fmt::format("takes {} block {} to {} block {}, which can have another size",
                         name(from.buffer), source.block, name(to.buffer), target.block);
    }
  }
  return {};
}

std::string Machine::read(int source, Expressions::Id& value) const {
  const Cell& cell = cells_[at(source)];
  value = cell.value;
  return value >= 0 ? "" : "reads " + text(cell.buffer, cell.block);
}

std::string Machine::write(int target, Expressions::Id value) {
  Cell& cell = cells_[at(target)];
  if (expressions_.wide(value) != (cell.buffer == Buffer::acc)) {
    return fmt::format("puts {} into {}, which has another dtype", expressions_.text(value),
                       name(cell.buffer));
  }
  cell.value = value;
  for (const int alias : cell.aliases) {
    if (alias >= 0 && cells_[at(alias)].value != kUnwritten && cells_[at(alias)].value != value) {
      cells_[at(alias)].value = kOverwritten;
    }
  }
  return {};
}

std::string Machine::reduce_held(const Step& step) {
  std::string fault = check_pair(step.blocks, step.to);
  if (!fault.empty()) {
    return fault;
  }
  const bool own_hold = step.to.buffer == Buffer::hold && step.to.first == seat_.rank;
  if (step.blocks.buffer != Buffer::in || step.blocks.count != 1 ||
      (step.to.buffer != Buffer::out && !own_hold)) {
    return "reduce_held goes from one block of in to one of out, or to this rank's own of hold";
  }
  if (cell(Buffer::in, step.blocks.first).share != seat_.rank) {
    return "reduce_held takes a block of in that can have another size than the held ones";
  }
  std::vector<Expressions::Id> sources(at(seat_.size));
  for (int rank = 0; rank < seat_.size && fault.empty(); ++rank) {
    const int source =
        rank == seat_.rank ? index(Buffer::in, step.blocks.first) : index(Buffer::hold, rank);
    fault = read(source, sources[at(rank)]);
  }
  if (!fault.empty()) {
    return fault;
  }
  const Expressions::Id result = expressions_.reduce_once(sources);
  return result < 0 ? expressions_.error() : write(index(step.to.buffer, step.to.first), result);
}

std::string Machine::run_local(const Step& step) {
  if (step.kind == Step::Kind::reduce_held) {
    return reduce_held(step);
  }
  std::string fault = check_pair(step.blocks, step.to);
  const bool load = step.kind == Step::Kind::load;
  const bool finish = step.kind == Step::Kind::finish;
  if (fault.empty() && load &&
      (step.blocks.buffer != Buffer::in || step.to.buffer != Buffer::acc)) {
    fault = "load goes from in to acc";
  }
  if (fault.empty() && finish &&
      (step.blocks.buffer != Buffer::acc || step.to.buffer != Buffer::out)) {
    fault = "finish goes from acc to out";
  }
  if (!fault.empty()) {
    return fault;
  }
  for (int i = 0; i < step.blocks.count; ++i) {
    Cell& source = cells_[at(cell_of(step.blocks, i))];
    Expressions::Id value = kUnwritten;
    fault = read(cell_of(step.blocks, i), value);
    if (fault.empty() && load && std::exchange(source.loaded, true)) {
      fault = fmt::format("loads in block {} a second time", source.block);
    }
    if (fault.empty()) {
      value = load ? expressions_.load(value) : finish ? expressions_.finish(value) : value;
      fault = value < 0 ? expressions_.error() : write(cell_of(step.to, i), value);
    }
    if (!fault.empty()) {
      return fault;
    }
  }
  return {};
}

std::string Machine::take_from(const Step& send, Cargo& cargo) {
  std::string fault = check_range(send.blocks);
  if (!fault.empty()) {
    return fault;
  }
  cargo.resize(at(send.blocks.count));
  for (int i = 0; i < send.blocks.count && fault.empty(); ++i) {
    const int source = cell_of(send.blocks, i);
    cargo[at(i)].share = cells_[at(source)].share;
    fault = read(source, cargo[at(i)].value);
  }
  return fault;
}

std::string Machine::give_to(const Step& recv, const Cargo& cargo) {
  if (at(recv.blocks.count) != cargo.size()) {
    return fmt::format("receives {} blocks where rank {} sends {}", recv.blocks.count, recv.peer,
                       cargo.size());
  }
  for (int i = 0; i < recv.blocks.count; ++i) {
    std::string fault = take_in(recv, cell_of(recv.blocks, i), cargo[at(i)]);
    if (!fault.empty()) {
      return fault;
    }
  }
  return {};
}

std::string Machine::take_in(const Step& recv, int target, const Carried& carried) {
  const Cell& cell = cells_[at(target)];
  if (cell.share != carried.share) {
    return fmt::format("receives {} into {} block {}, which can have another size",
                       expressions_.text(carried.value), name(cell.buffer), cell.block);
  }
  if (recv.kind == Step::Kind::recv) {
    return write(target, carried.value);
  }
  Expressions::Id own = kUnwritten;
  if (std::string fault = read(target, own); !fault.empty()) {
    return fault;
  }
  const Expressions::Id both = recv.peer > seat_.rank ? expressions_.combine(own, carried.value)
                                                      : expressions_.combine(carried.value, own);
  return both < 0 ? expressions_.error() : write(target, both);
}

std::string Machine::mark_reads(const Step& step, int step_index) {
  std::string fault = check_range(step.blocks);
  if (!fault.empty()) {
    return fault;
  }
  for (int i = 0; i < step.blocks.count; ++i) {
    marked(cell_of(step.blocks, i)).read_by = step_index;
  }
  return {};
}

std::string Machine::mark_writes(const Step& step, int step_index) {
  const bool reduces = step.kind == Step::Kind::recv_reduce;
  std::string fault = check_target(step.blocks);
  if (!fault.empty()) {
    return fault;
  }
  if (reduces && step.blocks.buffer != Buffer::acc) {
    return fmt::format("recv_reduce into {}; it combines in acc", name(step.blocks.buffer));
  }
  for (int i = 0; i < step.blocks.count; ++i) {
    const int target = cell_of(step.blocks, i);
    fault = check_unused(target, reduces);
    for (const int alias : cells_[at(target)].aliases) {
      fault = fault.empty() && alias >= 0 ? check_unused(alias, false) : fault;
    }
    if (!fault.empty()) {
      return fault;
    }
    marked(target).written_by = step_index;
  }
  return {};
}

std::string Machine::check_unused(int target, bool reduces) {
  const Cell& cell = marked(target);
  const int reader = reduces ? -1 : cell.read_by;  // a recv_reduce waits for the sends
  const int clash = cell.written_by >= 0 ? cell.written_by : reader;
  return clash < 0 ? ""
                   : fmt::format(
                         "writes {} block {}, or memory it may share, while step {} of the "
                         "round is using it",
                         name(cell.buffer), cell.block, clash);
}

std::string Machine::check_flight(const Round& round) {
  ++flight_;
  const int steps = static_cast<int>(round.steps.size());
  for (int index = 0; index < 2 * steps; ++index) {  // all sends, then all receives
    const Step& step = round.steps[at(index % steps)];
    const bool receives = step.kind == Step::Kind::recv || step.kind == Step::Kind::recv_reduce;
    std::string fault;
    if (index < steps && step.kind == Step::Kind::send) {
      fault = mark_reads(step, index);
    } else if (index >= steps && receives) {
      fault = mark_writes(step, index - steps);
    }
    if (!fault.empty()) {
      return fmt::format("step {}: {}", index % steps, fault);
    }
  }
  return {};
}

}  // namespace tutti
