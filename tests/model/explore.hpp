// Exhaustive exploration of a model: depth first over every order in which its actions can happen.
// States that were seen are not entered again, so that the number of orders does not matter, only
// that of states.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tutti::model {

/// Writes a state as bytes; equal states must give equal keys.
class Key {
 public:
  template <typename T>
  void add(T number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  template <typename Range>
  void add_all(const Range& numbers) {
    for (const auto& number : numbers) {
      add(number);
    }
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_{};
};

struct Outcome {
  std::string violation{};  ///< "" if there is none
  std::size_t states = 0;
};

/// A Model is a value with
///   int actions() const              how many actions exist; 0 .. actions() - 1
///   bool act(int)                    does one; false, and unchanged, if it cannot happen now
///   bool finished() const            nothing is left to be done
///   const std::string& violation()   what the last action broke, or ""
///   std::string key() const
/// That nothing can happen though it is not finished is a violation as well.
template <typename Model>
Outcome explore(const Model& start, std::size_t most_states = 2'000'000) {
  std::unordered_set<std::string> seen{start.key()};
  std::vector<Model> open{start};
  while (!open.empty()) {
    const Model state = std::move(open.back());
    open.pop_back();
    bool stuck = true;
    for (int action = 0; action < state.actions(); ++action) {
      Model next = state;
      if (!next.act(action)) {
        continue;
      }
      stuck = false;
      if (!next.violation().empty()) {
        return {next.violation(), seen.size()};
      }
      if (seen.insert(next.key()).second) {
        open.push_back(std::move(next));
      }
    }
    if (stuck && !state.finished()) {
      return {"deadlock", seen.size()};
    }
    if (seen.size() > most_states) {
      throw std::length_error("the model has too many states");
    }
  }
  return {"", seen.size()};
}

}  // namespace tutti::model
