/* transform X Y Z N: N three-dimensional transforms forth and back by FFTW's MPI interface. */
#include <fftw3-mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: transform X Y Z N\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    fftw_mpi_init();
    ptrdiff_t x = atol(argv[1]), y = atol(argv[2]), z = atol(argv[3]), local, start;
    ptrdiff_t size = fftw_mpi_local_size_3d(x, y, z, MPI_COMM_WORLD, &local, &start);
    fftw_complex *data = fftw_alloc_complex((size_t)size);
    fftw_plan forth = fftw_mpi_plan_dft_3d(x, y, z, data, data, MPI_COMM_WORLD, FFTW_FORWARD,
                                           FFTW_ESTIMATE | FFTW_MPI_TRANSPOSED_OUT);
    fftw_plan back = fftw_mpi_plan_dft_3d(x, y, z, data, data, MPI_COMM_WORLD, FFTW_BACKWARD,
                                          FFTW_ESTIMATE | FFTW_MPI_TRANSPOSED_IN);
    double scale = 1.0 / ((double)x * (double)y * (double)z);
    for (ptrdiff_t i = 0; i < size; i++) data[i][0] = data[i][1] = 1.0 / (1.0 + (double)(i + start));
    for (int i = 0; i < atoi(argv[4]); i++) {
        fftw_execute(forth);
        fftw_execute(back);
        for (ptrdiff_t k = 0; k < size; k++) data[k][0] *= scale, data[k][1] *= scale;
    }
    MPI_Finalize();
    return 0;
}
