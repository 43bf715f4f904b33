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
  of(Buffer::in).resize(at(plan_in_blocks(op, seat.rank, root, seat.size)));
  of(Buffer::out).resize(at(plan_out_blocks(op, seat.rank, root, seat.size)));
  of(Buffer::acc).resize(spec(op).reduces ? at(seat.size) : 0);
  of(Buffer::hold).resize(op == Op::broadcast ? 0 : at(seat.size));
  if (op == Op::broadcast) {
    of(Buffer::in).clear();
  }
  const bool given_in_out = op == Op::broadcast && seat.rank == root;
  Cells& given = of(given_in_out ? Buffer::out : Buffer::in);
  for (std::size_t block = 0; block < given.size(); ++block) {
    given[block].value = expressions.input(seat.rank, static_cast<int>(block));
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

std::vector<Machine::Place> Machine::places(Range range) const {
  std::vector<Place> all;
  const int total = blocks(range.buffer);
  for (int i = 0; i < range.count; ++i) {
    all.push_back({range.buffer, (range.first + i) % total});
  }
  return all;
}

std::vector<Machine::Place> Machine::aliases(Place place) const {
  // A set of places per memory block: which block of in, out and acc it is, or -1.
  std::array<int, 3> block{-1, -1, -1};
  const auto own = static_cast<std::size_t>(place.buffer);
  if (place.buffer == Buffer::hold) {
    return {};
  }
  if (spec(op_).cuts) {
    block.fill(place.block);
  } else if (op_ == Op::reduce_scatter) {
    block = {seat_.rank, 0, seat_.rank};
  } else if (op_ == Op::all_gather) {
    block = {0, seat_.rank, -1};
  }
  if (block[own] != place.block || blocks(Buffer::out) == 0) {
    return {};
  }
  std::vector<Place> others;
  for (std::size_t other = 0; other < block.size(); ++other) {
    const auto buffer = static_cast<Buffer>(other);
    if (other != own && block[other] >= 0 && block[other] < blocks(buffer)) {
      others.push_back({buffer, block[other]});
    }
  }
  return others;
}

int Machine::share(Place place) const {
  if (place.buffer == Buffer::hold) {
    return spec(op_).reduces ? seat_.rank : place.block;
  }
  if (op_ == Op::all_to_all) {  // a share per pair of ranks
    return place.buffer == Buffer::in ? seat_.rank * seat_.size + place.block
                                      : place.block * seat_.size + seat_.rank;
  }
  const bool single =
      place.buffer != Buffer::acc && !spec(op_).cuts &&
      (place.buffer == Buffer::in ? spec(op_).in : spec(op_).out).part == Part::block;
  return single ? seat_.rank : place.block;
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
  const std::vector<Place> sources = places(from);
  const std::vector<Place> targets = places(to);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (share(sources[i]) != share(targets[i])) {
      return fmt::format("takes {} block {} to {} block {}, which can have another size",
                         name(from.buffer), sources[i].block, name(to.buffer), targets[i].block);
    }
  }
  return {};
}

std::string Machine::read(Place place, Expressions::Id& value) {
  value = of(place).value;
  return value >= 0 ? "" : "reads " + text(place.buffer, place.block);
}

std::string Machine::write(Place place, Expressions::Id value) {
  if (expressions_.wide(value) != (place.buffer == Buffer::acc)) {
    return fmt::format("puts {} into {}, which has another dtype", expressions_.text(value),
                       name(place.buffer));
  }
  of(place).value = value;
  for (const Place alias : aliases(place)) {
    Cell& other = of(alias);
    if (other.value != kUnwritten && other.value != value) {
      other.value = kOverwritten;
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
  if (share({Buffer::in, step.blocks.first}) != share({Buffer::hold, 0})) {
    return "reduce_held takes a block of in that can have another size than the held ones";
  }
  std::vector<Expressions::Id> sources(at(seat_.size));
  for (int rank = 0; rank < seat_.size && fault.empty(); ++rank) {
    const Place source =
        rank == seat_.rank ? Place{Buffer::in, step.blocks.first} : Place{Buffer::hold, rank};
    fault = read(source, sources[at(rank)]);
  }
  if (!fault.empty()) {
    return fault;
  }
  const Expressions::Id result = expressions_.reduce_once(sources);
  return result < 0 ? expressions_.error() : write({step.to.buffer, step.to.first}, result);
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
  const std::vector<Place> sources = places(step.blocks);
  const std::vector<Place> targets = places(step.to);
  for (std::size_t i = 0; i < sources.size() && fault.empty(); ++i) {
    Expressions::Id value = kUnwritten;
    fault = read(sources[i], value);
    if (fault.empty() && load && std::exchange(of(sources[i]).loaded, true)) {
      fault = fmt::format("loads in block {} a second time", sources[i].block);
    }
    if (!fault.empty()) {
      break;
    }
    value = load ? expressions_.load(value) : finish ? expressions_.finish(value) : value;
    fault = value < 0 ? expressions_.error() : write(targets[i], value);
  }
  return fault;
}

std::string Machine::take_from(const Step& send, Cargo& cargo) {
  std::string fault = check_range(send.blocks);
  if (!fault.empty()) {
    return fault;
  }
  for (const Place place : places(send.blocks)) {
    cargo.values.push_back(kUnwritten);
    cargo.shares.push_back(share(place));
    fault = first_of(fault, read(place, cargo.values.back()));
  }
  return fault;
}

std::string Machine::give_to(const Step& recv, const Cargo& cargo) {
  const bool reduces = recv.kind == Step::Kind::recv_reduce;
  const std::vector<Place> targets = places(recv.blocks);
  if (targets.size() != cargo.values.size()) {
    return fmt::format("receives {} blocks where rank {} sends {}", targets.size(), recv.peer,
                       cargo.values.size());
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (share(targets[i]) != cargo.shares[i]) {
      return fmt::format("receives {} into {} block {}, which can have another size",
                         expressions_.text(cargo.values[i]), name(targets[i].buffer),
                         targets[i].block);
    }
    Expressions::Id value = cargo.values[i];
    if (reduces) {
      Expressions::Id own = kUnwritten;
      if (std::string fault = read(targets[i], own); !fault.empty()) {
        return fault;
      }
      value = recv.peer > seat_.rank ? expressions_.combine(own, value)
                                     : expressions_.combine(value, own);
    }
    std::string fault = value < 0 ? expressions_.error() : write(targets[i], value);
    if (!fault.empty()) {
      return fault;
    }
  }
  return {};
}

std::string Machine::mark_reads(const Step& step, int index) {
  std::string fault = check_range(step.blocks);
  if (!fault.empty()) {
    return fault;
  }
  for (const Place place : places(step.blocks)) {
    of(place).read_by = index;
  }
  return {};
}

std::string Machine::mark_writes(const Round& round, int index) {
  const Step& step = round.steps[at(index)];
  const bool reduces = step.kind == Step::Kind::recv_reduce;
  std::string fault = check_target(step.blocks);
  if (!fault.empty()) {
    return fault;
  }
  if (reduces && step.blocks.buffer != Buffer::acc && step.blocks.count > 0) {
    return fmt::format("recv_reduce into {}; it combines in acc", name(step.blocks.buffer));
  }
  for (const Place place : places(step.blocks)) {
    std::vector<Place> touched = aliases(place);
    touched.push_back(place);
    for (const Place other : touched) {
      const Cell& cell = of(other);
      const bool exchange = reduces && other.buffer == Buffer::acc;
      const int clash = cell.written_by >= 0 ? cell.written_by : exchange ? -1 : cell.read_by;
      if (clash >= 0) {
        return fmt::format("writes {} block {} while step {} of the round is using it",
                           name(place.buffer), place.block, clash);
      }
    }
    of(place).written_by = index;
  }
  return {};
}

std::string Machine::check_flight(const Round& round) {
  for (Cells& cells : cells_) {
    for (Cell& cell : cells) {
      cell.read_by = -1;
      cell.written_by = -1;
    }
  }
  const int steps = static_cast<int>(round.steps.size());
  for (int index = 0; index < steps; ++index) {
    const Step& step = round.steps[at(index)];
    std::string fault = step.kind == Step::Kind::send ? mark_reads(step, index) : std::string{};
    if (!fault.empty()) {
      return fmt::format("step {}: {}", index, fault);
    }
  }
  for (int index = 0; index < steps; ++index) {
    const Step::Kind kind = round.steps[at(index)].kind;
    const bool receives = kind == Step::Kind::recv || kind == Step::Kind::recv_reduce;
    std::string fault = receives ? mark_writes(round, index) : std::string{};
    if (!fault.empty()) {
      return fmt::format("step {}: {}", index, fault);
    }
  }
  return {};
}

}  // namespace tutti
