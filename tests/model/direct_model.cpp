#include "model/direct_model.hpp"

#include "base/ensure.hpp"
#include "model/explore.hpp"
#include "transport/publish.hpp"

#include <algorithm>

namespace tutti::model {

Program::Program(int ranks, std::vector<ModelCall> list, const Rules& changed)
    : size(ranks), calls(std::move(list)), rules(changed) {
  for (const ModelCall& call : calls) {
    auto& of_ranks = plans.emplace_back();
    for (int k = 0; k < size; ++k) {
      DirectPlan& plan = of_ranks[static_cast<std::size_t>(k)];
      plan = direct_plan(call.op, call.protocol, Seat{k, size}, call.root, call.lookahead);
      rules.change_plan(plan);
    }
    ensure(call.protocol != Protocol::staged ||
               kUnits / call.slot_units >= static_cast<std::uint32_t>(call.lookahead) + 2,
           "the ring holds the segments in flight");
  }
}

DirectModel::DirectModel(const Program& program, std::uint32_t first) : program_(&program) {
  for (int k = 0; k < program.size; ++k) {
    areas_[index(k)].progress = first;
    ranks_[index(k)].base = first;
    for (Use& use : ranks_[index(k)].uses) {
      use.progress = first;
    }
  }
}

bool DirectModel::finished() const {
  return std::all_of(ranks_.begin(), ranks_.begin() + program_->size,
                     [this](const Rank& rank) { return rank.next == program_->calls.size(); });
}

std::string DirectModel::key() const {
  Key key;
  for (int k = 0; k < program_->size; ++k) {
    key.add(areas_[index(k)]);
    key.add(ranks_[index(k)]);
  }
  return key.take();
}

void DirectModel::broken(const std::string& what) {
  if (violation_.empty()) {
    violation_ = "rank " + std::to_string(me_) + ", call " + std::to_string(rank().next) +
                 ", segment " + std::to_string(segment_) + ": " + what;
  }
}

/// On to the next access of shared memory.
bool DirectModel::act(int k) {
  me_ = k;
  segment_ = 0;
  if (rank().next == program_->calls.size()) {
    return false;
  }
  Did did = Did::local;
  while (did == Did::local && rank().next != program_->calls.size()) {
    did = go_on();
  }
  return did != Did::blocked;
}

std::uint32_t DirectModel::iterations() const {
  return staged() ? planned().segments + static_cast<std::uint32_t>(plan().lag) : 1;
}

DirectModel::Did DirectModel::go_on() {
  if (rank().inside == 0) {
    return enter();
  }
  if (rank().iteration == iterations()) {
    return leave();
  }
  const auto& steps = plan().steps;
  if (rank().step == steps.size()) {
    rank().step = 0;
    ++rank().iteration;
    return Did::local;
  }
  const DirectStep& step = steps[rank().step];
  const std::uint32_t before = rank().part;
  const Did did = run_step(step);
  if (did != Did::blocked && rank().part == before) {
    rank().part = 0;
    ++rank().step;
  }
  return did;
}

DirectModel::Did DirectModel::enter() {
  const std::uint32_t next = rank().call + 1;
  const std::uint32_t over = next - program_->rules.calls_apart;
  if (next > program_->rules.calls_apart && !reached(rank().safe, over)) {
    for (int k = 0; k < program_->size; ++k) {
      if (k != me_ && !reached(areas_[index(k)].ack, over)) {
        return Did::blocked;
      }
    }
    rank().safe = over;
  }
  rank().call = next;
  rank().inside = 1;
  rank().iteration = rank().step = rank().part = rank().written = 0;
  if (!staged()) {
    return Did::local;
  }
  if (rank().slot_units != planned().slot_units) {
    rank().slot_units = planned().slot_units;
    if (program_->rules.redivision_frees) {
      rank().uses.fill({.progress = rank().base});
    }
  }
  announce();
  return Did::shared;
}

void DirectModel::announce() {
  Call& call = own().calls[rank().call % kCallSlots];
  call.announced = rank().call;
  post(call.epoch, rank().call);
}

void DirectModel::post(std::uint32_t& epoch, std::uint32_t value) {
  if (!reached(value, epoch + 1)) {
    broken("a post does not grow");
  }
  epoch = value;
}

/// First the end of the last iteration, then that of the call.
DirectModel::Did DirectModel::leave() {
  if (rank().part == 0) {
    check_result();
    rank().part = 1;
    if (staged()) {
      rank().base = end_epoch(plan(), rank().base, iterations());
      rank().cursor = (rank().cursor + planned().segments) % 60;  // 60: of all numbers of slots
      post(own().progress, rank().base);
      return Did::shared;
    }
  }
  if (plan().symmetric) {
    rank().safe = rank().call - 1;
  }
  rank().inside = 0;
  rank().iteration = rank().step = rank().part = rank().written = 0;
  ++rank().next;
  if (rank().call % 2 == 1) {
    post(own().ack, rank().call);
    return Did::shared;
  }
  return Did::local;
}

/// A step has more parts to come as long as it changes `part`.
DirectModel::Did DirectModel::run_step(const DirectStep& step) {
  if (rank().iteration < step.lag || rank().iteration - step.lag >= planned().segments) {
    return Did::local;
  }
  segment_ = rank().iteration - step.lag;
  switch (step.kind) {
    case DirectStep::Kind::copy_in:
      return copy_in(step);
    case DirectStep::Kind::copy_self: {
      const int from = number_of(step.from, me_);
      write_output(number_of(step.to, me_),
                   {.ranks = bit(me_), .number = static_cast<std::uint8_t>(from)});
      return Did::local;
    }
    case DirectStep::Kind::call:
      announce();
      return Did::shared;
    case DirectStep::Kind::reuse:
      return reuse();
    case DirectStep::Kind::publish:
      post(own().progress, post_epoch(plan(), rank().base, rank().iteration, step.post));
      return Did::shared;
    case DirectStep::Kind::wait:
      return wait(step);
    case DirectStep::Kind::reduce:
      return reduce(step);
    case DirectStep::Kind::fetch:
      return fetch(step);
    case DirectStep::Kind::arrive:
      return arrive();
  }
  return Did::local;
}

int DirectModel::number_of(tutti::Piece piece, int seat) const {
  return piece == tutti::Piece::zero ? 0 : piece == tutti::Piece::mine ? me_ : seat;
}

int DirectModel::peer_count(const DirectStep& step) const {
  return step.peers == DirectStep::Peers::others ? program_->size - 1 : 1;
}

int DirectModel::peer_at(const DirectStep& step, int i) const {
  return step.peers == DirectStep::Peers::others ? Seat{me_, program_->size}.at(i + 1)
                                                 : plan().root;
}

bool DirectModel::met(int seat) {
  const Call& theirs = areas_[index(seat)].calls[rank().call % kCallSlots];
  if (!reached(theirs.epoch, rank().call)) {
    return false;
  }
  if (theirs.announced != rank().call) {
    broken("the call of rank " + std::to_string(seat) + " was overwritten");
  }
  return true;
}

bool DirectModel::posted(const DirectStep& step, int seat) {
  return met(seat) &&
         (step.post == 0 ||
          reached(areas_[index(seat)].progress,
                  post_epoch(plan(), rank().base, segment_ + step.posted_lag, step.post)));
}

DirectModel::Did DirectModel::reuse() {
  Use& use = rank().uses[(rank().cursor + rank().iteration) % slots()];
  const int present = plan().readers == DirectStep::Peers::root ? plan().root : -1;
  const int reader = program_->rules.remembers_reader ? use.reader : present;
  for (int k = 0; k < program_->size; ++k) {
    if (k != me_ && (reader < 0 || reader == k) &&
        !reached(areas_[index(k)].progress, use.progress)) {
      return Did::blocked;
    }
  }
  use = {left_epoch(plan(), rank().base, rank().iteration) - program_->rules.left_early, present};
  return Did::local;
}

DirectModel::Did DirectModel::copy_in(const DirectStep& step) {
  const int pieces = plan().cut == Cut::whole ? 1 : program_->size;
  for (int p = 0; p < pieces; ++p) {
    if (pieces == 1 || step.pieces == DirectStep::Pieces::all || p != me_) {
      write_slot(p, {.ranks = bit(me_), .number = static_cast<std::uint8_t>(p)});
    }
  }
  return Did::shared;
}

void DirectModel::write_slot(int number, Piece piece) {
  piece.call = static_cast<std::uint8_t>(rank().next + 1);
  piece.segment = static_cast<std::uint8_t>(segment_);
  const std::size_t place = plan().cut == Cut::whole ? 0 : index(number);
  if (!staged()) {
    own().calls[rank().call % kCallSlots].data[place] = piece;
    return;
  }
  const std::uint32_t begin = (rank().cursor + segment_) % slots() * planned().slot_units;
  for (std::uint32_t i = 0; i < planned().slot_units; ++i) {
    own().ring[begin + i][place] = piece;
  }
}

DirectModel::Piece DirectModel::read_slot(int seat, int number) {
  const std::size_t place = plan().cut == Cut::whole ? 0 : index(number);
  const Area& area = areas_[index(seat)];
  Piece piece = area.calls[rank().call % kCallSlots].data[place];
  if (staged()) {
    const std::uint32_t begin = (rank().cursor + segment_) % slots() * planned().slot_units;
    piece = area.ring[begin][place];
    for (std::uint32_t i = 1; i < planned().slot_units; ++i) {
      if (area.ring[begin + i][place] != piece) {
        broken("a slot of rank " + std::to_string(seat) + " is torn");
      }
    }
  }
  if (piece.call < rank().next + 1 || (piece.call == rank().next + 1 && piece.segment < segment_)) {
    broken("a slot of rank " + std::to_string(seat) + " is read before it was written");
  } else if (piece.call != rank().next + 1 || piece.segment != segment_) {
    broken("a slot of rank " + std::to_string(seat) + " is read after it was reused");
  }
  return piece;
}

DirectModel::Did DirectModel::wait(const DirectStep& step) {
  for (int i = 0; i < peer_count(step); ++i) {
    if (!posted(step, peer_at(step, i))) {
      return Did::blocked;
    }
  }
  return Did::local;
}

void DirectModel::reduce_all(int number) {
  for (int k = 0; k < program_->size; ++k) {
    if (k != me_) {
      const Piece piece = read_slot(k, number);
      if (piece.ranks != bit(k) || piece.number != number) {
        broken("what is reduced is no contribution of rank " + std::to_string(k));
      }
    }
  }
}

/// Reads, then writes.
DirectModel::Did DirectModel::reduce(const DirectStep& step) {
  const int number = number_of(step.from, me_);
  const Piece sum{.ranks = everybody(), .number = static_cast<std::uint8_t>(number)};
  if (rank().part == 0) {
    reduce_all(number);
    if (step.to_output) {
      write_output(number_of(step.to, me_), sum);
    }
    rank().part = step.to_slot ? 1 : 0;
    return Did::shared;
  }
  write_slot(number, sum);
  return Did::shared;
}

DirectModel::Did DirectModel::fetch(const DirectStep& step) {
  const int seat = peer_at(step, static_cast<int>(rank().part));
  if (!posted(step, seat)) {
    return Did::blocked;
  }
  write_output(number_of(step.to, seat), read_slot(seat, number_of(step.from, seat)));
  if (static_cast<int>(rank().part) + 1 != peer_count(step)) {
    ++rank().part;
  }
  return Did::shared;
}

/// Parts: 0 counts in; 1 waits for the result; 2 reduces, 3 writes and 4 posts it.
DirectModel::Did DirectModel::arrive() {
  Call& result = areas_[0].results[rank().call % kCallSlots];
  const Piece sum{.call = static_cast<std::uint8_t>(rank().next + 1), .ranks = everybody()};
  switch (rank().part) {
    case 0:
      rank().arrivals += static_cast<std::uint32_t>(program_->size);
      rank().part = ++areas_[0].arrivals == rank().arrivals ? 2 : 1;
      return Did::shared;
    case 1:
      if (!reached(result.epoch, rank().call)) {
        return Did::blocked;
      }
      if (result.data[0] != sum) {
        broken("a result is read that is not that of this call");
      }
      write_output(0, sum);
      return Did::shared;
    case 2:
      reduce_all(0);
      write_output(0, sum);
      rank().part = 3;
      return Did::shared;
    case 3:
      result.data[0] = sum;
      rank().part = 4;
      return Did::shared;
    default:
      post(result.epoch, rank().call);
      return Did::shared;
  }
}

void DirectModel::write_output(int to, Piece piece) {
  const int root = planned().root;
  Piece right{.number = static_cast<std::uint8_t>(plan().cut == Cut::shares ? to : 0)};
  switch (planned().op) {
    case Op::all_reduce:
    case Op::reduce:
      right.ranks = everybody();
      break;
    case Op::reduce_scatter:
      right.ranks = everybody();
      right.number = static_cast<std::uint8_t>(me_);
      break;
    case Op::broadcast:
      right.ranks = bit(root);
      break;
    case Op::scatter:
      right.ranks = bit(root);
      right.number = static_cast<std::uint8_t>(me_);
      break;
    case Op::all_to_all:
      right.ranks = bit(to);
      right.number = static_cast<std::uint8_t>(me_);
      break;
    default:
      right.ranks = bit(to);
  }
  if (piece.ranks != right.ranks || piece.number != right.number) {
    broken("piece " + std::to_string(to) + " of the output is wrong");
  }
  rank().written |= 1U << (static_cast<std::uint32_t>(to) * 8 + segment_);
}

/// All pieces of all segments must be there; who passes a barrier must have seen all others enter.
void DirectModel::check_result() {
  const int shares = spec(planned().op).out.shares(me_, planned().root, program_->size);
  const int pieces = shares != 0 && plan().cut == Cut::shares ? program_->size : shares;
  for (int p = 0; p < pieces; ++p) {
    for (std::uint32_t segment = 0; segment < planned().segments; ++segment) {
      if ((rank().written >> (index(p) * 8 + segment) & 1U) == 0) {
        broken("piece " + std::to_string(p) + " of the output is missing");
      }
    }
  }
  for (int k = 0; planned().op == Op::barrier && k < program_->size; ++k) {
    if (!reached(ranks_[index(k)].call, rank().call)) {
      broken("the barrier does not hold");
    }
  }
}

}  // namespace tutti::model
