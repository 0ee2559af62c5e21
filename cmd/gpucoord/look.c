#include "shell_impl.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

#define FRESH_NS (10 * NS_PER_SEC) /* an older look is not used for comparison */
#define SHARE	 5 /* a starved process has waited for more than 1/SHARE of the time, */
#define HUNGER	 8 /* and HUNGER times as long as it ran: it could not send its heartbeats */

struct look {
	uint64_t device_id, at_ns, waited_ns, ran_ns;
	uint32_t pid;
};

/* The sums over all threads of a process. */
struct threads {
	uint64_t waited_ns; /* waited for a processor */
	uint64_t ran_ns;    /* ran on one */
	bool runnable; /* the first thread, which sends the heartbeats; streams may always be */
	bool stopped;
};

/* Read a file's first bytes as a string; false: it cannot be read. */
static bool
read_file(const char *path, char *out, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, out, room - 1) : -1;

	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static void
add_thread(struct threads *t, uint32_t pid, const char *tid)
{
	char path[64], text[512];
	const char *name_end;
	uint64_t ran, waited;

	snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%.20s/stat", pid, tid);
	name_end = read_file(path, text, sizeof text) ? strrchr(text, ')') : NULL;
	if (name_end && name_end[1] == ' ') {
		t->runnable |= name_end[2] == 'R' && strtoul(tid, NULL, 10) == pid;
		t->stopped |= name_end[2] == 'T' || name_end[2] == 't';
	}
	snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%.20s/schedstat", pid, tid);
	if (read_file(path, text, sizeof text) &&
	    sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2) {
		t->waited_ns += waited;
		t->ran_ns += ran;
	}
}

static struct threads
look_now(uint32_t pid)
{
	struct threads t = {0};
	const struct dirent *e;
	char path[64];
	DIR *d;

	snprintf(path, sizeof path, "/proc/%" PRIu32 "/task", pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]))
			add_thread(&t, pid, e->d_name);
	if (d)
		closedir(d);
	return t;
}

/* Find the device's entry, or make one; NULL: out of memory. */
static struct look *
place(struct looks *l, uint64_t device_id)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].device_id == device_id)
			return &l->v[i];
	if (!alloc_room(&l->v, l->n, &l->cap, sizeof *l->v))
		return NULL;
	l->v[l->n] = (struct look){.device_id = device_id};
	return &l->v[l->n++];
}

/* A process that always computes on a busy machine waits as well, but it gets its share. */
static bool
is_starved(const struct threads *t, const struct look *before, uint64_t now_ns)
{
	uint64_t waited = t->waited_ns - before->waited_ns;
	uint64_t ran = t->ran_ns > before->ran_ns ? t->ran_ns - before->ran_ns : 0;

	return waited > (now_ns - before->at_ns) / SHARE && waited > HUNGER * ran;
}

enum coord_look
look_at(struct looks *l, uint64_t device_id, uint32_t pid, uint64_t now_ns)
{
	struct threads t = look_now(pid);
	struct look *before, now = {device_id, now_ns, t.waited_ns, t.ran_ns, pid};
	bool starved = false;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		if (now_ns - l->v[i].at_ns < FRESH_NS)
			l->v[n++] = l->v[i];
	l->n = n;
	before = place(l, device_id);
	if (before && before->pid == pid && t.waited_ns > before->waited_ns)
		starved = is_starved(&t, before, now_ns);
	if (before)
		*before = now;
	if (t.stopped)
		return COORD_LOOK_IDLE;
	return starved ? COORD_LOOK_STARVED : t.runnable ? COORD_LOOK_RUNNABLE : COORD_LOOK_IDLE;
}

void
looks_fini(struct looks *l)
{
	free(l->v);
	*l = (struct looks){0};
}
