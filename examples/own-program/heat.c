/* Heat in an insulated plate: an MPI program that cvc does not know, with all that a descriptor needs to find in its output. No heat
 * leaves the plate, so the sum over all cells must stay what it was: that is the verification.
 *
 *     heat CELLS STEPS
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int n = argc > 1 ? atoi(argv[1]) : 0, steps = argc > 2 ? atoi(argv[2]) : 0;
    if (n < ranks || steps < 1) {
        if (rank == 0) fprintf(stderr, "ERROR: heat CELLS STEPS, and at least as many cells as processes\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    /* rows of this rank, with one more on either side for the neighbours */
    int first = (int)((long)n * rank / ranks), rows = (int)((long)n * (rank + 1) / ranks) - first;
    size_t cells = (size_t)(rows + 2) * n;
    double *now = calloc(cells, sizeof *now), *next = calloc(cells, sizeof *next);
    if (!now || !next) MPI_Abort(MPI_COMM_WORLD, 3);
    for (int i = 1; i <= rows; i++)
        for (int j = 0; j < n; j++) now[(size_t)i * n + j] = (first + i - 1 < n / 2 && j < n / 2) ? 100.0 : 1.0;
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    double sum[2] = {0, 0}, all[2], begin = MPI_Wtime();
    for (size_t c = n; c < (size_t)(rows + 1) * n; c++) sum[0] += now[c];
    for (int step = 1; step <= steps; step++) {
        double *top = now, *bottom = now + (size_t)(rows + 1) * n;
        MPI_Sendrecv(now + n, n, MPI_DOUBLE, above, 0, bottom, n, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(bottom - n, n, MPI_DOUBLE, below, 1, top, n, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 1; i <= rows; i++)
            for (int j = 0; j < n; j++) {
                size_t c = (size_t)i * n + j;
                double up = first + i - 1 > 0 ? now[c - n] : now[c], down = first + i < n ? now[c + n] : now[c];
                double left = j > 0 ? now[c - 1] : now[c], right = j < n - 1 ? now[c + 1] : now[c];
                next[c] = now[c] + 0.2 * (up + down + left + right - 4 * now[c]);
            }
        double *old = now;
        now = next;
        next = old;
        if (rank == 0 && step % 20 == 0) {
            printf("Time step %d\n", step);
            fflush(stdout);
        }
    }
    for (size_t c = n; c < (size_t)(rows + 1) * n; c++) sum[1] += now[c];
    MPI_Reduce(sum, all, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    int is_right = fabs(all[1] - all[0]) <= 1e-9 * all[0];
    if (rank == 0) printf("Time in seconds = %.3f\nVerification = %s\n", MPI_Wtime() - begin, is_right ? "SUCCESSFUL" : "FAILED");
    free(now);
    free(next);
    MPI_Finalize();
    return 0;
}
