// Groups of some of the ranks. The four ranks form a grid of two rows and two columns, as programs
// do that split both the batch (rows) and the model (columns). Start it with
//
//     tutti run -n 4 ./05_subgroups
//
//     row 0:  rank 0  rank 1
//     row 1:  rank 2  rank 3
#include <tutti/tutti.hpp>

#include <iostream>

int main() {
  tutti::init_process_group();
  tutti::Group& world = tutti::default_group();
  const int rank = world.rank();
  constexpr int kColumns = 2;

  // Ranks of equal color become a group; the key orders them. Every rank of `world` calls it.
  tutti::Group row = world.split(rank / kColumns, rank);
  tutti::Group column = world.split(rank % kColumns, rank);

  const auto in_row = tutti::Tensor::full({1}, rank);
  tutti::all_reduce(row, in_row);
  // Ranks are numbered anew in each group: root 1 of the column is world rank 2 or 3.
  const auto in_column = tutti::Tensor::full({1}, rank);
  tutti::broadcast(column, in_column, 1);
  std::cout << "rank " << rank << ": row sum " << in_row.item() << ", column value "
            << in_column.item() << " from rank " << column.global_rank(1) << std::endl;

  // A list of ranks does it as well. All ranks call new_group; those that are not in the list get
  // a handle that is good for nothing but asking.
  tutti::Group corners = tutti::new_group({{0, 3}}, {.name = "corners"});
  if (corners.is_member()) {
    const auto sum = tutti::Tensor::full({1}, rank);
    tutti::all_reduce(corners, sum);
    std::cout << "group " << corners.name() << ", rank " << corners.rank() << ": " << sum.item()
              << std::endl;
  }
  tutti::destroy_process_group();
}
