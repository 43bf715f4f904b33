#include "multi/grid_run.hpp"

#include "multi/grid_data.hpp"

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>
#include <vector>

namespace tutti::grid {
namespace {

constexpr std::chrono::milliseconds kTimeout{60'000};

/// The tensors of a call, and what the outputs must hold afterwards.
struct Tensors {
  std::vector<Buffer> inputs{};
  std::vector<Buffer> outputs{};
  std::vector<Tensor> expected{};  ///< per output; undefined: it must not change
  bool in_place = false;           ///< outputs are inputs too
};

/// One rank's share of making and checking the tensors of a case.
class Rank {
 public:
  Rank(const Case& test, Group& group)
      : test_(test), group_(group), source_(test), rank_(group.rank()), size_(group.size()) {}

  Verdict run();

 private:
  void make();
  void make_gather(bool rooted);
  void make_scatter();
  void make_reduce_scatter();
  void make_all_to_all();
  void make_in_place();
  void make_transfer();
  void call();
  void check();

  bool is_root() const { return rank_ == test_.root(); }
  bool single() const { return test_.form().single; }
  /// Elements of the block that `from` makes for `to`.
  std::size_t elements(int from, int to) const;
  Tensor block(int from, int to) const {
    return source_.block({.rank = from, .block = to}, elements(from, to));
  }
  void add_input(const Tensor& data);
  void add_output(const Tensor& expected, std::size_t elements);
  Buffer buffer(const Tensor& data, std::size_t blocks);
  std::vector<Tensor> views(const std::vector<Buffer>& buffers) const;
  SplitOptions splits() const;

  const Case& test_;
  Group& group_;
  Source source_;
  int rank_;
  int size_;
  std::uint64_t salt_ = 0;
  Tensors tensors_{};
};

std::size_t Rank::elements(int from, int to) const {
  const std::size_t even = test_.block_elements();
  if (even == 0) {
    return 0;
  }
  switch (test_.form().counts) {
    case Counts::even:
      break;
    case Counts::uneven:
      return even + static_cast<std::size_t>((spec(test_.op()).block_per_rank() ? to : from) % 3);
    case Counts::pairwise:
      return (from + 2 * to) % 3 == 1 ? 0 : even + static_cast<std::size_t>((from + to) % 2);
  }
  return even;
}

/// `data` in the case's layout; a tensor of several blocks keeps them apart along dimension 0.
Buffer Rank::buffer(const Tensor& data, std::size_t blocks) {
  Extent extent{.rows = data.elements()};
  const bool splits = single() && test_.form().counts == Counts::pairwise;
  if (!splits) {  // which count rows, so that a row is one element
    extent = extent_of(test_.layout(), data.elements() / blocks);
    extent.rows *= blocks;
  }
  Buffer made(test_.dtype(), extent, test_.layout(), test_.hash() + ++salt_);
  made.fill(data);
  return made;
}

void Rank::add_input(const Tensor& data) {
  const bool world = single() && spec(test_.op()).block_per_rank();
  tensors_.inputs.push_back(buffer(data, world ? static_cast<std::size_t>(size_) : 1));
}

void Rank::add_output(const Tensor& expected, std::size_t count) {
  const bool world = single() && spec(test_.op()).out.part == Part::world;
  // Other data of the same kind, so that bool tensors stay valid.
  const Tensor before = source_.block({.rank = 63, .block = rank_}, count);
  tensors_.outputs.push_back(buffer(before, world ? static_cast<std::size_t>(size_) : 1));
  tensors_.expected.push_back(expected);
}

void Rank::make() {
  switch (test_.op()) {
    case Op::all_reduce:
    case Op::reduce:
    case Op::broadcast:
      return make_in_place();
    case Op::all_gather:
      return make_gather(false);
    case Op::gather:
      return make_gather(true);
    case Op::reduce_scatter:
      return make_reduce_scatter();
    case Op::scatter:
      return make_scatter();
    case Op::all_to_all:
      return make_all_to_all();
    case Op::send:
    case Op::recv:
      return make_transfer();
    case Op::barrier:
      return;
  }
}

void Rank::make_in_place() {
  const std::size_t count = test_.block_elements();
  const Tensor mine = block(rank_, 0);
  tensors_.in_place = true;
  tensors_.outputs.push_back(buffer(mine, 1));
  if (test_.op() == Op::broadcast) {
    tensors_.expected.push_back(block(test_.root(), 0));
  } else if (test_.op() == Op::all_reduce || is_root()) {
    tensors_.expected.push_back(reduced(test_, source_, 0, count));
  } else {
    tensors_.expected.emplace_back();
  }
}

void Rank::make_gather(bool rooted) {
  add_input(block(rank_, 0));
  std::vector<Tensor> all;
  for (int from = 0; from < size_; ++from) {
    all.push_back(block(from, 0));
  }
  const bool receives = !rooted || is_root();
  if (!receives && rank_ % 2 == 1) {
    return;  // off the root the outputs may be left out
  }
  if (single()) {
    all = {joined(test_.dtype(), all)};
  }
  for (const Tensor& part : all) {
    add_output(receives ? part : Tensor{}, part.elements());
  }
}

void Rank::make_scatter() {
  if (is_root()) {
    std::vector<Tensor> all;
    for (int to = 0; to < size_; ++to) {
      all.push_back(block(rank_, to));
    }
    if (single()) {
      all = {joined(test_.dtype(), all)};
    }
    for (const Tensor& part : all) {
      add_input(part);
    }
  }
  const Tensor mine = block(test_.root(), rank_);
  add_output(mine, mine.elements());
}

void Rank::make_reduce_scatter() {
  std::vector<Tensor> all;
  for (int to = 0; to < size_; ++to) {
    all.push_back(block(rank_, to));
  }
  if (single()) {
    all = {joined(test_.dtype(), all)};
  }
  for (const Tensor& part : all) {
    add_input(part);
  }
  const std::size_t count = elements(0, rank_);
  add_output(reduced(test_, source_, rank_, count), count);
}

void Rank::make_all_to_all() {
  std::vector<Tensor> out;
  std::vector<Tensor> in;
  for (int other = 0; other < size_; ++other) {
    out.push_back(block(other, rank_));
    in.push_back(block(rank_, other));
  }
  if (single()) {
    out = {joined(test_.dtype(), out)};
    in = {joined(test_.dtype(), in)};
  }
  for (const Tensor& part : in) {
    add_input(part);
  }
  for (const Tensor& part : out) {
    add_output(part, part.elements());
  }
}

/// Around the ring.
void Rank::make_transfer() {
  add_input(block(rank_, 0));
  const Tensor theirs = block((rank_ + size_ - 1) % size_, 0);
  add_output(theirs, theirs.elements());
}

SplitOptions Rank::splits() const {
  SplitOptions options;
  for (int other = 0; other < size_; ++other) {
    options.output_splits.push_back(static_cast<std::int64_t>(elements(other, rank_)));
    options.input_splits.push_back(static_cast<std::int64_t>(elements(rank_, other)));
  }
  return options;
}

std::vector<Tensor> Rank::views(const std::vector<Buffer>& buffers) const {
  std::vector<Tensor> all;
  for (const Buffer& made : buffers) {
    all.push_back(made.tensor());
  }
  return all;
}

void Rank::call() {
  const std::vector<Tensor> inputs = views(tensors_.inputs);
  const std::vector<Tensor> outputs = views(tensors_.outputs);
  const Form& form = test_.form();
  Arguments with{.group = group_,
                 .inputs = inputs,
                 .outputs = outputs,
                 .input = inputs.empty() ? Tensor{} : inputs[0],
                 .output = outputs.empty() ? Tensor{} : outputs[0],
                 .root = test_.root(),
                 .message = {.tag = static_cast<int>(test_.hash() % 1000)},
                 .any_source = test_.hash() % 2 == 0};
  if (test_.reduces()) {
    with.reduce = {.op = test_.reduce(), .factor = factor_of(test_, rank_)};
  }
  if (form.counts == Counts::pairwise) {
    with.splits = splits();
  }
  (test_.mode() == Mode::blocking ? form.blocking : form.async)(with);
}

void Rank::check() {
  const auto complain = [&](const char* what, std::size_t i, const std::string& text) {
    if (!text.empty()) {
      throw std::runtime_error(fmt::format("rank {}: {} {}: {}", rank_, what, i, text));
    }
  };
  const Compare compare = test_.values() == Values::ordered ? Compare::bits : Compare::values;
  for (std::size_t i = 0; i < tensors_.outputs.size(); ++i) {
    Buffer& out = tensors_.outputs[i];
    if (!tensors_.expected[i].defined()) {
      complain("output that is not this rank's to change", i, out.touched());
      continue;
    }
    complain("output", i, difference(out.tensor(), tensors_.expected[i], compare));
    complain("memory around output", i, out.touched_outside());
  }
  for (std::size_t i = 0; i < tensors_.inputs.size(); ++i) {
    complain("input", i, tensors_.inputs[i].touched());
  }
}

Verdict Rank::run() {
  make();
  call();
  Verdict verdict;
  const bool equal =
      test_.op() == Op::all_reduce || test_.op() == Op::broadcast || test_.op() == Op::all_gather;
  if (equal) {
    verdict.hash = 0xcbf29ce484222325U;
    for (const Buffer& out : tensors_.outputs) {
      const Tensor flat = out.tensor().contiguous();
      for (std::size_t i = 0; i < flat.bytes(); ++i) {
        verdict.hash = (verdict.hash ^ flat.data_as<unsigned char>()[i]) * 0x100000001b3U;
      }
    }
  }
  check();
  return verdict;
}

}  // namespace

std::string Groups::key(const Case& test) {
  const std::string_view algorithm = test.algorithm();
  return fmt::format("{}{}", algorithm.empty() ? "auto" : algorithm,
                     test.values() == Values::ordered ? ".deterministic" : "");
}

Groups::Groups(Context& context, std::span<const Case> cases) {
  for (const Case& test : cases) {
    const std::string name = key(test);
    if (!groups_.contains(name)) {
      groups_[name] = context.new_group({}, {.name = name,
                                             .timeout = kTimeout,
                                             .deterministic = test.values() == Values::ordered,
                                             .complex_product = true,
                                             .algorithm = std::string(test.algorithm())});
    }
  }
}

Group& Groups::of(const Case& test) { return groups_.at(key(test)); }

Verdict run_case(const Case& test, Group& group) { return Rank(test, group).run(); }

}  // namespace tutti::grid
