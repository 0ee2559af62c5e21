/*
 * pipe_sum - read two f32 vectors of the same length from standard input, one after another, and
 * write their sum: what `gpuctl allreduce --raw f32 -n 2` does, without devices.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20)

static char *
read_all(size_t *nbytes)
{
	size_t room = PIECE, n = 0;
	char *v = malloc(room);
	ssize_t got;

	while (v && (got = read(0, v + n, room - n)) > 0) {
		n += (size_t)got;
		if (n == room)
			v = realloc(v, room *= 2);
	}
	*nbytes = n;
	return v;
}

int
main(void)
{
	size_t nbytes, count;
	char *v;
	float *a, *b;
	ssize_t put;

	fcntl(0, F_SETPIPE_SZ, (int)PIECE); /* where input or output is a pipe */
	fcntl(1, F_SETPIPE_SZ, (int)PIECE);
	v = read_all(&nbytes);
	if (!v || nbytes % (2 * sizeof *a)) {
		fprintf(stderr, "pipe_sum: not two vectors of f32, or no memory\n");
		return 2;
	}
	count = nbytes / 2 / sizeof *a;
	a = (float *)(void *)v;
	b = a + count;
	for (size_t i = 0; i < count; i++)
		a[i] += b[i];
	for (size_t done = 0; done < nbytes / 2; done += (size_t)put) {
		put = write(1, v + done, nbytes / 2 - done);
		if (put <= 0) {
			perror("pipe_sum: write");
			return 1;
		}
	}
	free(v);
	return 0;
}
