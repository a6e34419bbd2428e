! A running job maps its tasks with libhopbyte: remap.c in Fortran.
!
!   gfortran -o remap remap.f90 $(pkg-config --libs hopbyte)
!   remap FABRIC [ORACLE]
module hopbyte
  use, intrinsic :: iso_c_binding
  implicit none

  integer(c_int), parameter :: hopbyte_hops = 0, hopbyte_sum = 1, hopbyte_request = 0, hopbyte_worst_link = 0

  type, bind(c) :: hopbyte_map_options
    integer(c_int) :: objective = hopbyte_worst_link
    real(c_double) :: seconds = 0.01_c_double
    integer(c_int64_t) :: trials = 0, seed = 1
    integer(c_int) :: threads = 1, keep = 0
  end type

  type, bind(c) :: hopbyte_map_worth
    real(c_double) :: before_seconds, after_seconds, bound_seconds, before_hop_bytes, after_hop_bytes
    integer(c_size_t) :: moved
    integer(c_int64_t) :: version
  end type

  interface
    function hopbyte_error_text() bind(c)
      import c_ptr
      type(c_ptr) :: hopbyte_error_text
    end function
    function hopbyte_machine_open(fabric, routes) bind(c)
      import c_ptr, c_char
      character(kind=c_char), intent(in) :: fabric(*)
      type(c_ptr), value :: routes
      type(c_ptr) :: hopbyte_machine_open
    end function
    subroutine hopbyte_machine_close(machine) bind(c)
      import c_ptr
      type(c_ptr), value :: machine
    end subroutine
    function hopbyte_oracle_connect(machine, address) bind(c)
      import c_ptr
      type(c_ptr), value :: machine, address
      type(c_ptr) :: hopbyte_oracle_connect
    end function
    function hopbyte_oracle_refresh(oracle, version, seconds) bind(c)
      import c_ptr, c_int, c_int64_t
      type(c_ptr), value :: oracle, seconds
      integer(c_int64_t), intent(out) :: version
      integer(c_int) :: hopbyte_oracle_refresh
    end function
    subroutine hopbyte_oracle_close(oracle) bind(c)
      import c_ptr
      type(c_ptr), value :: oracle
    end subroutine
    function hopbyte_oracle_costs(oracle, metric, aggregate, over, count, from, to, costs) bind(c)
      import c_ptr, c_int, c_size_t, c_int32_t, c_float
      type(c_ptr), value :: oracle
      integer(c_int), value :: metric, aggregate, over
      integer(c_size_t), value :: count
      integer(c_int32_t), intent(in) :: from(*), to(*)
      real(c_float), intent(out) :: costs(*)
      integer(c_int) :: hopbyte_oracle_costs
    end function
    function hopbyte_traffic_create(tasks) bind(c)
      import c_ptr, c_size_t
      integer(c_size_t), value :: tasks
      type(c_ptr) :: hopbyte_traffic_create
    end function
    function hopbyte_traffic_add(traffic, count, from, to, bytes) bind(c)
      import c_ptr, c_int, c_size_t, c_int32_t, c_double
      type(c_ptr), value :: traffic
      integer(c_size_t), value :: count
      integer(c_int32_t), intent(in) :: from(*), to(*)
      real(c_double), intent(in) :: bytes(*)
      integer(c_int) :: hopbyte_traffic_add
    end function
    subroutine hopbyte_traffic_free(traffic) bind(c)
      import c_ptr
      type(c_ptr), value :: traffic
    end subroutine
    function hopbyte_mapping_create(machine, oracle, traffic, node_count, nodes, slots, current, options) bind(c)
      import c_ptr, c_size_t, c_int32_t, hopbyte_map_options
      type(c_ptr), value :: machine, oracle, traffic, current
      integer(c_size_t), value :: node_count
      integer(c_int32_t), intent(in) :: nodes(*), slots(*)
      type(hopbyte_map_options), intent(in) :: options
      type(c_ptr) :: hopbyte_mapping_create
    end function
    function hopbyte_mapping_places(mapping, nodes, slots) bind(c)
      import c_ptr, c_int, c_int32_t
      type(c_ptr), value :: mapping, slots
      integer(c_int32_t), intent(out) :: nodes(*)
      integer(c_int) :: hopbyte_mapping_places
    end function
    function hopbyte_mapping_worth(mapping, worth) bind(c)
      import c_ptr, c_int, hopbyte_map_worth
      type(c_ptr), value :: mapping
      type(hopbyte_map_worth), intent(out) :: worth
      integer(c_int) :: hopbyte_mapping_worth
    end function
    subroutine hopbyte_mapping_free(mapping) bind(c)
      import c_ptr
      type(c_ptr), value :: mapping
    end subroutine
    function c_strlen(text) bind(c, name="strlen")
      import c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: c_strlen
    end function
  end interface
end module

program remap
  use hopbyte
  implicit none
  integer, parameter :: side = 4, tasks = side**3, node_count = 16
  integer(c_int32_t) :: nodes(node_count), slots(node_count), places(tasks), task, next
  integer :: i, d, step(3) = [side * side, side, 1]
  integer(c_int64_t) :: version
  real(c_float) :: cost(1)
  type(c_ptr) :: machine, oracle, traffic, mapping
  type(hopbyte_map_options) :: options
  type(hopbyte_map_worth) :: worth
  character(len=:), allocatable, target :: fabric, address

  if (command_argument_count() < 1) error stop "usage: remap FABRIC [ORACLE]"
  fabric = argument(1)
  machine = hopbyte_machine_open(fabric, c_null_ptr)
  if (.not. c_associated(machine)) call failed("machine")
  if (command_argument_count() > 1) then
    address = argument(2)
    oracle = hopbyte_oracle_connect(machine, c_loc(address))
  else
    oracle = hopbyte_oracle_connect(machine, c_null_ptr)
  end if
  if (.not. c_associated(oracle)) call failed("oracle")
  if (hopbyte_oracle_refresh(oracle, version, c_null_ptr) /= 0) call failed("refresh")
  nodes = [(2 * (i - 1), i = 1, node_count)]
  slots = tasks / node_count
  if (hopbyte_oracle_costs(oracle, hopbyte_hops, hopbyte_sum, hopbyte_request, 1_c_size_t, &
      nodes(1:1), nodes(node_count:), cost) /= 0) call failed("cost")
  print "(f0.0, a)", cost(1), " hops"

  traffic = hopbyte_traffic_create(int(tasks, c_size_t))
  if (.not. c_associated(traffic)) call failed("traffic")
  do task = 0, tasks - 1
    do d = 1, 3
      if (mod(task / step(d), side) == side - 1) cycle
      next = task + step(d)
      if (hopbyte_traffic_add(traffic, 2_c_size_t, [task, next], [next, task], &
          [20000.0_c_double, 20000.0_c_double]) /= 0) call failed("messages")
    end do
  end do
  options%trials = 20000
  mapping = hopbyte_mapping_create(machine, oracle, traffic, int(node_count, c_size_t), nodes, slots, &
    c_null_ptr, options)
  if (.not. c_associated(mapping)) call failed("mapping")
  if (hopbyte_mapping_places(mapping, places, c_null_ptr) /= 0) call failed("places")
  if (hopbyte_mapping_worth(mapping, worth) /= 0) call failed("worth")
  print "(a, i0, a, f0.3, a, f0.3, a, i0, a)", "snapshot ", worth%version, ": worst link ", &
    worth%before_seconds * 1d6, " us in order, ", worth%after_seconds * 1d6, " us mapped; ", worth%moved, " tasks move"
  call hopbyte_mapping_free(mapping)
  call hopbyte_traffic_free(traffic)
  call hopbyte_oracle_close(oracle)
  call hopbyte_machine_close(machine)
  if (worth%after_seconds > worth%before_seconds) error stop 1

contains
  function argument(number) result(text)
    integer, intent(in) :: number
    character(len=:), allocatable :: text
    integer :: length
    call get_command_argument(number, length=length)
    allocate (character(len=length) :: text)
    call get_command_argument(number, text)
    text = text // c_null_char
  end function

  subroutine failed(what)
    character(len=*), intent(in) :: what
    character(kind=c_char), pointer :: text(:)
    type(c_ptr) :: said
    said = hopbyte_error_text()
    call c_f_pointer(said, text, [c_strlen(said)])
    print *, what, ": ", text
    error stop 1
  end subroutine
end program
