/* A token goes round the ranks; rank 0 writes which hosts they are on, before MPI_Finalize, into the file that is its argument. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 100
#define NAME 256
#define MOST 64

int main(int argc, char **argv)
{
    int rank, size, token = 0;
    char name[NAME] = "", names[MOST][NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 2 || size < 2 || size > MOST)
        MPI_Abort(MPI_COMM_WORLD, 2);
    gethostname(name, sizeof name - 1);
    for (int i = 0; i < ROUNDS; i++) {
        if (rank == 0) {
            token++;
            MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token++;
            MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
        }
    }
    MPI_Gather(name, NAME, MPI_CHAR, names, NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        FILE *out = fopen(argv[1], "w");
        if (!out)
            MPI_Abort(MPI_COMM_WORLD, 3);
        fprintf(out, "%d\n", token);
        for (int i = 0; i < size; i++)
            fprintf(out, "%s\n", names[i]);
        fclose(out);
    }
    return MPI_Finalize();
}
