/*
 * spawn [ROUNDS] - the time of gpuctl processes in a script, compared with /bin/true. Run it under gpuctl
 * run -n 2.
 *
 * The commands take turns, ROUNDS (200) times. A line a command: its name, and the median and the least of
 * its times in microseconds, from the spawn to the end that waitpid reports. Exit status 1: a command
 * failed or printed something wrong.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ROUNDS = 100000, NCOMMANDS = 4 };

extern char **environ;

static const char *const argv_of[NCOMMANDS][6] = {{"/bin/true"},
					    {"gpuctl", "status"},
					    {"gpuctl", "barrier", "-n", "2"},
					    {"gpuctl", "allreduce"}};
static const char *const name_of[NCOMMANDS] = {"true", "status", "barrier", "filter"};
static const char input[] = "1\n2\n", output[] = "3\n"; /* of the filter */

static double
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Run a command with the filter's input, and its output to a file. Returns microseconds; below 0: it
 * failed. */
static double
run(int k, int in, int out)
{
	posix_spawn_file_actions_t files;
	double begin, end;
	int status = -1;
	pid_t pid;

	if (lseek(in, 0, SEEK_SET) != 0 || lseek(out, 0, SEEK_SET) != 0 || ftruncate(out, 0) != 0)
		return -1;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, in, 0);
	posix_spawn_file_actions_adddup2(&files, out, 1);
	begin = now_us();
	if (posix_spawnp(&pid, argv_of[k][0], &files, NULL, (char *const *)argv_of[k], environ) == 0)
		waitpid(pid, &status, 0);
	end = now_us();
	posix_spawn_file_actions_destroy(&files);
	return status == 0 ? end - begin : -1;
}

static int
is_right(int k, int out)
{
	char text[sizeof output] = "";

	return strcmp(name_of[k], "filter") != 0 ||
	       (pread(out, text, sizeof text, 0) == sizeof output - 1 && strcmp(text, output) == 0);
}

int
main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 200;
	int in = memfd_create("in", 0), out = memfd_create("out", 0);
	static double us[NCOMMANDS][MAX_ROUNDS];

	if (rounds < 1 || rounds > MAX_ROUNDS || write(in, input, strlen(input)) != (ssize_t)strlen(input))
		return 2;
	for (int i = 0; i < rounds; i++)
		for (int k = 0; k < NCOMMANDS; k++) {
			us[k][i] = run(k, in, out);
			if (us[k][i] < 0 || !is_right(k, out)) {
				fprintf(stderr, "spawn: %s failed\n", name_of[k]);
				return 1;
			}
		}
	for (int k = 0; k < NCOMMANDS; k++) {
		qsort(us[k], (size_t)rounds, sizeof us[k][0], compare);
		printf("%s %.0f %.0f\n", name_of[k], us[k][rounds / 2], us[k][0]);
	}
	return 0;
}
