// The reduce operations, tensors over memory of your own, and what an error looks like. Start it
// with
//
//     tutti run -n 4 ./02_all_reduce
#include <tutti/tutti.hpp>

#include <array>
#include <iostream>

int main() {
  tutti::init_process_group();
  const int rank = tutti::get_rank();
  const bool speaker = rank == 0;

  // A Tensor is a handle: from_blob makes one for memory that stays yours. Rank r holds {r, 10}.
  std::array<float, 2> values{};
  const auto tensor = tutti::Tensor::from_blob(values.data(), {2}, tutti::DType::f32);
  using tutti::ReduceOp;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::prod}) {
    values = {static_cast<float>(rank), 10};
    tutti::all_reduce(tensor, {.op = op});
    if (speaker) {
      std::cout << tutti::name(op) << ": " << values[0] << ", " << values[1] << std::endl;
    }
  }

  // Any strides will do: this reduces the second column of a matrix and leaves the first alone.
  const auto matrix = tutti::Tensor::full({2, 2}, rank, tutti::DType::f64);
  tutti::all_reduce(matrix.slice(1, 1, 2));
  if (speaker) {
    std::cout << "column: " << matrix.to_string() << std::endl;
  }

  // A wrong call throws before anything is sent, and the group stays usable. The text says what was
  // found and what was expected.
  try {
    tutti::all_reduce(tensor, {.op = ReduceOp::bxor});
  } catch (const tutti::InvalidArgument& error) {
    if (speaker) {
      std::cout << "refused: " << error.what() << std::endl;
    }
  }
  tutti::destroy_process_group();
}
