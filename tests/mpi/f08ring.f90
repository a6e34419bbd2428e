! The same through `use mpi_f08`.
program f08ring
  use mpi_f08
  implicit none
  integer :: ierr, rank, size, right, left
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  double precision :: x(100), y(100), total(100)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  x = rank
  call MPI_Sendrecv(x, 10 + rank, MPI_DOUBLE_PRECISION, right, 0, y, 100, MPI_DOUBLE_PRECISION, left, 0, &
                    MPI_COMM_WORLD, status, ierr)
  call MPI_Irecv(y, 7, MPI_INTEGER, right, 1, MPI_COMM_WORLD, request, ierr)
  call MPI_Send(x, 7, MPI_INTEGER, left, 1, MPI_COMM_WORLD, ierr)
  call MPI_Wait(request, status, ierr)
  total = x
  call MPI_Allreduce(MPI_IN_PLACE, total, 100, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (abs(total(1) - size * (size - 1) / 2d0) > 1d-9) call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  call MPI_Finalize(ierr)
end program f08ring
