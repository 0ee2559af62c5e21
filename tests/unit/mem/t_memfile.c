/* A device's memory file as others see it: whom it trusts, when its device ends, a full disk. */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem/devmem.h"
#include "mem/memfile.h"

#include "tap.h"

#define ID     0xfeedfacecafe0002ull
#define NBYTES (UINT64_C(3) << 20)

static char dir[] = "/tmp/t_memfile.XXXXXX", path[64], other[64];

static struct devmem *
device(const char *at, uint64_t id)
{
	struct devmem *m = NULL;
	struct err err = {0};

	if (devmem_open(at, id, NBYTES, &m, &err) != RC_OK)
		tap_bail(err.text);
	return m;
}

/* What opening comes to; nothing stays open. */
static enum rc
try(const char *at, uint64_t id, uint64_t nbytes)
{
	struct memfile *f = NULL;
	struct err err = {0};
	enum rc rc = memfile_open(at, id, nbytes, &f, &err);

	memfile_close(f);
	return rc;
}

static void
put_file(const char *at, const char *text)
{
	FILE *f = fopen(at, "w");

	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

static void
test_trust(void)
{
	struct devmem *m = device(path, ID);

	ok(try(path, ID, NBYTES) == RC_OK, "the device's own file is opened");
	ok(try(path, ID + 1, NBYTES) == RC_BADDATA, "not as that of another device");
	ok(try(path, ID, NBYTES + 4096) == RC_BADDATA, "nor in another size");
	ok(try(other, ID, NBYTES) == RC_NOTFOUND, "a file that is not there");
	ok(try(dir, ID, NBYTES) != RC_OK, "a directory");
	put_file(other, "something else entirely, longer than any header that there could be");
	ok(try(other, ID, NBYTES) == RC_BADDATA, "a foreign file");
	unlink(other);
	ok(mkfifo(other, 0600) == 0 && try(other, ID, NBYTES) == RC_BADDATA, "a fifo");
	unlink(other);
	if (geteuid() == 0)
		ok(chown(path, 1, (gid_t)-1) == 0 && try(path, ID, NBYTES) == RC_BADDATA &&
		       chown(path, 0, (gid_t)-1) == 0,
		   "somebody else's file");
	else
		ok(1, "somebody else's file # SKIP only root can give a file away");
	devmem_close(m, DEVMEM_PERSIST_FILE);
	ok(try(path, ID, NBYTES) == RC_FAILED, "a file whose device has ended");
	unlink(path);
}

static bool
same(const unsigned char *a, const unsigned char *b, size_t n)
{
	return memcmp(a, b, n) == 0;
}

/* Each way into the file in turn: fresh, copied again, mapped; across granules, to the last byte.
 */
static void
test_copies(void)
{
	static unsigned char in[NBYTES], out[NBYTES];
	struct devmem *m = device(path, ID), *n = device(other, ID + 1);
	unsigned char *host = devmem_at(m, devmem_min(m), NBYTES);
	struct memfile *f = NULL, *g = NULL;
	struct err err = {0};
	bool good = true;

	ok(memfile_open(path, ID, NBYTES, &f, &err) == RC_OK &&
	       memfile_open(other, ID + 1, NBYTES, &g, &err) == RC_OK,
	   "two devices' memory");
	ok(memfile_nbytes(f) == NBYTES, "its size");
	for (unsigned round = 0; round < 3; round++) {
		const size_t at = 5000 + round, len = NBYTES - at;

		for (size_t i = 0; i < NBYTES; i++)
			in[i] = (unsigned char)(i * 7 + i / 4096 + round);
		good = good && memfile_write(f, at, in, len, &err) == RC_OK &&
		       same(host + at, in, len) && memfile_read(f, out, at, len, &err) == RC_OK &&
		       same(out, in, len) && memfile_copy(g, 3, f, at, len - 3, &err) == RC_OK &&
		       same(devmem_at(n, devmem_min(n) + 3, len - 3), in, len - 3) &&
		       memfile_write(f, NBYTES, in, 0, &err) == RC_OK;
	}
	ok(good, "written, read, copied across: what the devices see");
	host[77] = 0x5a;
	ok(memfile_read(f, out, 77, 1, &err) == RC_OK && out[0] == 0x5a,
	   "what a device writes is read");
	memfile_close(f);
	memfile_close(g);
	devmem_close(m, DEVMEM_UNLINK_FILE);
	devmem_close(n, DEVMEM_UNLINK_FILE);
}

/* A device may end with or without its file, and another may begin at its path. */
static void
test_life(void)
{
	struct devmem *m = device(path, ID);
	struct memfile *f = NULL;
	struct err err = {0};

	ok(memfile_open(path, ID, NBYTES, &f, &err) == RC_OK && memfile_lives(f), "it lives");
	devmem_close(m, DEVMEM_PERSIST_FILE);
	ok(!memfile_lives(f), "its device has ended, the file is there");
	m = device(path, ID);
	ok(!memfile_lives(f),
	   "a device of the same id that has taken the file over is another one");
	memfile_close(f);
	ok(memfile_open(path, ID, NBYTES, &f, &err) == RC_OK && memfile_lives(f),
	   "whose file can be opened");
	devmem_close(m, DEVMEM_UNLINK_FILE);
	ok(!memfile_lives(f), "the file is gone with it");
	m = device(path, ID);
	ok(!memfile_lives(f), "a device with a new file at the path is another one");
	memfile_close(f);
	devmem_close(m, DEVMEM_UNLINK_FILE);
}

/* Asking must not look like taking: a device can begin at any moment. */
static void
test_asking(void)
{
	struct devmem *m = device(path, ID), *again = NULL;
	struct memfile *f = NULL;
	struct err err = {0};

	memfile_open(path, ID, NBYTES, &f, &err);
	devmem_close(m, DEVMEM_PERSIST_FILE);
	ok(!memfile_lives(f) && devmem_open(path, ID, NBYTES, &again, &err) == RC_OK,
	   "who has asked holds nothing");
	ok(devmem_open(path, ID, NBYTES, &m, &err) == RC_BUSY, "the device does");
	memfile_close(f);
	devmem_close(again, DEVMEM_UNLINK_FILE);
}

/* RLIMIT_FSIZE is a signal for who writes: such a process does not. */
static void
test_limit(void)
{
	struct devmem *m = device(path, ID);
	struct rlimit was, less;

	getrlimit(RLIMIT_FSIZE, &was);
	less = was;
	less.rlim_cur = NBYTES / 2;
	setrlimit(RLIMIT_FSIZE, &less);
	ok(try(path, ID, NBYTES) == RC_FAILED, "a limit below the file's size");
	setrlimit(RLIMIT_FSIZE, &was);
	devmem_close(m, DEVMEM_UNLINK_FILE);
}

/* The limit lowered behind its back stands for a disk that fills up: each way in must say so. */
static void
test_full(void)
{
	struct devmem *m = device(path, ID);
	struct memfile *f = NULL;
	struct err err = {0};
	struct rlimit was, less;
	char bytes[8192] = "x";

	memfile_open(path, ID, NBYTES, &f, &err);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	less = was;
	less.rlim_cur = NBYTES / 2;
	setrlimit(RLIMIT_FSIZE, &less);
	ok(memfile_write(f, NBYTES - sizeof bytes, bytes, sizeof bytes, &err) != RC_OK &&
	       strstr(err.text, "cannot write"),
	   "a write for which there is no room is an error");
	ok(memfile_read(f, bytes, NBYTES - sizeof bytes, sizeof bytes, &err) == RC_OK &&
	       bytes[0] == 0,
	   "reading needs none");
	setrlimit(RLIMIT_FSIZE, &was);
	memfile_close(f);
	devmem_close(m, DEVMEM_UNLINK_FILE);
}

/* In a tmpfs that is smaller than the device: copied once, copied again, mapped, nothing but
 * RC_NOMEM. */
static bool
full_disk(void)
{
	static char bytes[NBYTES];
	struct devmem *m = device(path, ID);
	struct devmem *n = device(other, ID + 1);
	struct memfile *f = NULL, *g = NULL;
	struct err err = {0};
	bool good = memfile_open(path, ID, NBYTES, &f, &err) == RC_OK &&
		    memfile_open(other, ID + 1, NBYTES, &g, &err) == RC_OK &&
		    memfile_write(g, 0, bytes, 1 << 18, &err) == RC_OK;

	for (int i = 0; i < 3; i++)
		good = good && memfile_write(f, 0, bytes, NBYTES, &err) == RC_NOMEM &&
		       memfile_read(f, bytes, 0, NBYTES, &err) == RC_OK &&
		       memfile_copy(g, NBYTES / 2, f, 0, NBYTES / 2, &err) == RC_NOMEM &&
		       memfile_write(f, 0, bytes, 1 << 16, &err) == RC_OK;
	memfile_close(f);
	memfile_close(g);
	devmem_close(m, DEVMEM_UNLINK_FILE);
	devmem_close(n, DEVMEM_UNLINK_FILE);
	return good;
}

static void
test_full_disk(void)
{
	enum { NO_MOUNT = 77 };
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if ((unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
		    mount("none", dir, "tmpfs", 0, "size=1m,mode=0700") != 0)
			_exit(NO_MOUNT);
		_exit(full_disk() ? 0 : 1);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		continue;
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_MOUNT)
		ok(1, "a full disk # SKIP nothing can be mounted here");
	else
		ok(pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0,
		   "a full disk is an error, each time and by each way (status %d)", status);
}

int
main(void)
{
	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof path, "%s/a", dir);
	snprintf(other, sizeof other, "%s/b", dir);
	test_trust();
	test_copies();
	test_life();
	test_asking();
	test_limit();
	test_full();
	test_full_disk();
	ok(rmdir(dir) == 0, "no file is left");
	return tap_done();
}
