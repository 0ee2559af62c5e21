/* A world: put together from answers and recorders, looked up, packed into a report and read again. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/host.h"
#include "flight/write.h"
#include "tap.h"
#include "view/world.h"
#include "world_test.h"

static void
put_op(struct flight_writer *w, uint64_t seq)
{
	uint64_t now = ticks_now();

	flight_next(w)->op = (struct flight_op){
	    .kind = FLIGHT_OP, .begin = now, .end = now + 10, .comm = 1, .seq = seq, .nranks = 2};
	flight_put(w);
}

/* The recorder of device 1 with 40 operations. */
static void
fill(struct area *a)
{
	struct flight_writer w;

	area_open(a, 1);
	flight_take(a->flight, FLIGHT_STREAM, 5, 5, 0, "stream 5", &w);
	for (uint64_t i = 1; i <= 40; i++)
		put_op(&w, i);
}

static void
test_read(struct world *w, struct area *a)
{
	const struct world_device *d = world_device(w, 1);
	struct err err = {0};

	ok(d && d->meta->ordinal == 0 && !d->recorder && !world_device(w, 9), "devices by id");
	ok(world_comm(w, 7) && world_comm(w, 7)->epoch == 3 && !world_comm(w, 8),
	   "communicators by id");
	ok(world_read(w, 0, &a->source, SIZE_MAX, &err) == RC_OK && d->recorder &&
	       d->recorder->nrings == 1 && d->recorder->ring[0].nrecords == 40 &&
	       d->recorder->ring[0].ring.id == 5 && d->recorder->ring[0].next == 40 &&
	       d->recorder->ring[0].lost == 0,
	   "all records of a recorder are read");
	ok(world_read(w, 0, &a->source, 36, &err) == RC_OK && d->recorder->ring[0].nrecords == 36 &&
	       d->recorder->ring[0].record[0].op.seq == 5,
	   "the last 36 of them");
	ok(world_read(w, 0, &a->source, 0, &err) == RC_OK && d->recorder->ring[0].nrecords == 0 &&
	       d->recorder->ring[0].next == 40,
	   "or none");
	a->bytes.nbytes = 100;
	ok(world_read(w, 0, &a->source, 0, &err) == RC_OK && !d->recorder &&
	       strstr(d->why_not, "ends at byte"),
	   "one that cannot be read has its reason");
	a->bytes.nbytes = sizeof a->at;
	ok(world_read(w, WORLD_COORDINATOR, &a->source, SIZE_MAX, &err) == RC_OK &&
	       w->coordinator && w->coordinator->nrings == 1,
	   "the coordinator's is read alike");
}

static void
test_clocks(struct world *w)
{
	struct flight_header *h[2];
	struct area *a[2] = {area_new(), area_new()};
	struct err err;

	for (int i = 0; i < 2; i++) {
		area_open(a[i], (uint64_t)i + 1);
		h[i] = (struct flight_header *)(void *)a[i]->at;
		h[i]->hz = 1000000000;
		h[i]->first = h[i]->last = (struct flight_moment){1000, 1000, 5000};
	}
	h[0]->error_ns = 50;
	h[1]->error_ns = 10;
	h[0]->last = (struct flight_moment){10000001000, 10050001000, 10050005000};
	for (size_t i = 0; i < 2; i++)
		world_read(w, i, &a[i]->source, 0, &err);
	world_clocks(w);
	ok(memcmp(&w->device[0].recorder->clock, &w->device[1].recorder->clock,
		  sizeof(struct flight_clock)) == 0,
	   "recorders of one host have one clock");
	ok(w->device[0].recorder->clock.error_ns == 10 &&
	       w->device[0].recorder->clock.ns_per_tick > 1.004,
	   "of the longest baseline and the smallest error");
	for (int i = 0; i < 2; i++) {
		area_close(a[i]);
		free(a[i]);
	}
}

static void
test_processes(struct world *w)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		for (;;)
			pause();
	ok(world_process((uint32_t)getpid(), NULL) == 'R', "a process runs");
	kill(pid, SIGSTOP);
	waitpid(pid, &status, WUNTRACED);
	host_id(w->status->devices[0]->host = calloc(1, HOST_ID_MAX));
	w->status->devices[0]->pid = (uint32_t)pid;
	world_processes(w);
	ok(w->device[0].process == 'T' && w->device[1].process == 0,
	   "a stopped process of this host is reported; one of another host is not");
	kill(pid, SIGKILL);
	waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT);
	ok(world_process((uint32_t)pid, NULL) == 'Z', "a dead one is a zombie");
	waitpid(pid, &status, 0);
	ok(world_process((uint32_t)pid, NULL) == 'X' && world_process(0, NULL) == 0,
	   "one that does not exist");
}

/* The report in b is rejected with this message. */
static bool
refused(const struct buf *b, const char *why)
{
	struct world *w = NULL;
	struct err err = {0};
	enum rc rc = world_unpack(b->data, b->len, &w, &err);

	if (rc == RC_BADDATA && strstr(err.text, why))
		return true;
	printf("# %s: '%s'\n", rc_name(rc), err.text);
	world_free(w);
	return false;
}

static void
test_report(struct world *w, struct area *a)
{
	struct buf areas[3] = {{0}}, b = {0};
	struct world *back = NULL;
	struct err err = {0};

	world_read(w, 0, &a->source, 10, &err);
	w->device[0].process = 'T';
	snprintf(w->device[1].why_not, sizeof w->device[1].why_not, "its file\nis gone");
	flight_copy(&a->source, &areas[0], &err);
	flight_copy(&a->source, &areas[2], &err);
	ok(world_pack(w, 3, 7, "rank 1 was\tlost", areas, &b, &err) == RC_OK, "a report is made");
	ok(world_unpack(b.data, b.len, &back, &err) == RC_OK, "and read: %s", err.text);
	if (!back)
		return;
	ok(back->report == 3 && back->failed_comm == 7 &&
	       strcmp(back->failed, "rank 1 was?lost") == 0 && back->now_ns == w->now_ns,
	   "its number, communicator, time and reason");
	ok(back->ndevices == 2 && back->device[0].process == 'T' && back->device[0].recorder &&
	       back->device[0].recorder->ring[0].nrecords == 40,
	   "a device's process and all of its records");
	ok(!back->device[1].recorder && strcmp(back->device[1].why_not, "its file?is gone") == 0,
	   "why another's is missing");
	ok(back->coordinator && !back->events && world_comm(back, 7), "the rest");
	world_free(back);
	b.data[b.len / 2] ^= 4;
	ok(refused(&b, "checksum"), "a flipped bit is found");
	b.len--;
	ok(refused(&b, "damaged: it has"), "so is a cut");
	b.len = 24;
	ok(refused(&b, "damaged: it has"), "up to its head");
	b.len = 23;
	ok(refused(&b, "not a report"), "and in it");
	for (int i = 0; i < 3; i++)
		buf_fini(&areas[i]);
	buf_fini(&b);
}

/* Another process writes the report after this one began to wait for it. */
static void
test_file(struct world *w)
{
	static const struct buf none[3];
	char path[] = "/tmp/t_world.XXXXXX";
	struct world *back = NULL;
	struct buf b = {0};
	struct err err = {0};
	int fd = mkstemp(path);
	pid_t pid;

	world_pack(w, 1, 7, "why", none, &b, &err);
	close(fd);
	pid = fork();
	if (pid == 0) {
		struct timespec t = {.tv_nsec = 20000000};

		nanosleep(&t, NULL);
		_exit(file_replace(path, b.data, b.len, NULL) == RC_OK ? 0 : 1);
	}
	ok(world_of_report(path, &back, &err) == RC_OK && back->report == 1,
	   "a report that is being written is waited for");
	waitpid(pid, NULL, 0);
	world_free(back);
	unlink(path);
	ok(world_of_report(path, &back, &err) == RC_NOTFOUND && strstr(err.text, path), "none: %s",
	   err.text);
	ok(mkfifo(path, 0600) == 0 && world_of_report(path, &back, &err) == RC_FAILED &&
	       strstr(err.text, "not a regular file"),
	   "a pipe is none: %s", err.text);
	unlink(path);
	ok(world_of_report("/", &back, &err) == RC_FAILED, "nor a folder: %s", err.text);
	buf_fini(&b);
}

int
main(void)
{
	struct area *a = area_new();
	struct world *w = world_of_two();

	fill(a);
	test_read(w, a);
	test_clocks(w);
	test_report(w, a);
	test_file(w);
	test_processes(w);
	world_free(w);
	area_close(a);
	free(a);
	return tap_done();
}
