// Joins the ranks of a job to a group and adds up one number. Start it with
//
//     tutti run -n 4 ./01_hello_group
//
// Every rank runs this same program; only what get_rank() returns differs.
#include <tutti/tutti.hpp>

#include <iostream>

int main() {
  // Rank, world size and the address to meet at come from the launcher's environment. Returns once
  // every rank has come.
  tutti::init_process_group();
  const int rank = tutti::get_rank();

  // Each rank brings a tensor; after all_reduce every rank holds the sum of all of them.
  const auto tensor = tutti::Tensor::full({3}, rank + 1, tutti::DType::i32);
  tutti::all_reduce(tensor);

  std::cout << "rank " << rank << " of " << tutti::get_world_size() << ": " << tensor.to_string()
            << std::endl;
  tutti::destroy_process_group();
}
