/* Moves bytes in ways whose places and numbers are known, alone and with a child. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
  char bytes[100] = {1};
  FILE *stream = fopen("stream", "w+");
  fwrite(bytes, 10, 3, stream);
  fseek(stream, 5, SEEK_SET);
  fread(bytes, 2, 4, stream);
  fclose(stream);

  int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
  write(file, bytes, 100);
  pwrite(file, bytes, 50, 1000);
  lseek(file, -10, SEEK_END);
  read(file, bytes, 20);
  pread(file, bytes, 7, 3);
  fsync(file);
  ftruncate(file, 5);
  if (fork() == 0) {
    write(file, bytes, 3);
    int log = open("log", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    write(log, bytes, 8);
    write(log, bytes, 9);
    close(log);
    exit(0);
  }
  wait(NULL);
  close(file);
  rename("log", "old");
  unlink("old");
  return 0;
}
