/* Recordings: what was written is read again; cut, damaged, locked, a full disk. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "chance.h"
#include "folder.h"
#include "tap.h"
#include "tape/folder.h"
#include "tape/tape.h"

static char said[512];

static void
say(const char *line)
{
	snprintf(said, sizeof said, "%s", line);
}

static void
put_op(struct tape *t, uint64_t op)
{
	GpuSim__TapeRecord r = GPU_SIM__TAPE_RECORD__INIT;
	GpuSim__TapeOp m = GPU_SIM__TAPE_OP__INIT;

	m.number = tape_number(t);
	m.op = op;
	m.algo = (char *)"ring";
	r.body_case = GPU_SIM__TAPE_RECORD__BODY_OP;
	r.op = &m;
	tape_put(t, &r);
}

static struct tape *
begin(void)
{
	struct err err;
	struct tape *t = NULL;

	if (tape_open(folder, "device-0", true, say, &t, &err) != RC_OK)
		tap_bail(err.text);
	return t;
}

/* Read all; the number of records, -1: damage. *ops: of operations, *cut: the last is not whole. */
static int
count(const char *path, int *ops, bool *cut, struct err *err)
{
	struct tape_reader *r;
	GpuSim__TapeRecord *m;
	int n = 0;

	*ops = 0;
	if (tape_read_open(path, &r, err) != RC_OK)
		return -1;
	while (tape_read_next(r, &m, NULL, err) == RC_OK && m) {
		n++;
		*ops += m->body_case == GPU_SIM__TAPE_RECORD__BODY_OP;
		tape_record_free(m);
	}
	*cut = tape_read_is_cut(r);
	tape_read_close(r);
	return err->rc == RC_OK ? n : -1;
}

static size_t
slurp(const char *path, unsigned char *to, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, to, size);

	close(fd);
	return n > 0 ? (size_t)n : 0;
}

static void
spill(const char *path, const unsigned char *from, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (write(fd, from, n) != (ssize_t)n)
		tap_bail("write");
	close(fd);
}

/* Every cut of the file is read as far as it is whole; every changed byte is noticed. */
static void
damage(const char *path)
{
	static unsigned char all[1 << 16], bad[1 << 16];
	size_t n = slurp(path, all, sizeof all);
	const char *copy = in_folder("copy");
	int cuts = 0, changes = 0, ops, whole;
	bool cut;
	uint64_t seed = 7;
	struct err err = {0};

	whole = count(path, &ops, &cut, &err);
	for (size_t k = TAPE_HEAD; k < n; k++) {
		int got;

		err = (struct err){0};
		spill(copy, all, k);
		got = count(copy, &ops, &cut, &err);
		cuts += got >= 0 && got < whole;
	}
	ok(cuts == (int)(n - TAPE_HEAD), "%d cuts leave whole records", cuts);
	for (size_t k = TAPE_HEAD; k < n; k++) {
		err = (struct err){0};
		memcpy(bad, all, n);
		bad[k] ^= (unsigned char)(1u << (xorshift_star(&seed) >> 32) % 8);
		spill(copy, bad, n);
		changes += count(copy, &ops, &cut, &err) < 0 && err.rc == RC_BADDATA;
	}
	ok(changes == (int)(n - TAPE_HEAD), "%d changed bytes are noticed", changes);
	spill(copy, all, 10);
	ok(count(copy, &ops, &cut, &err) < 0 && strstr(err.text, "not a recording"),
	   "a file too short: %s", err.text);
}

static void
full_disk(void)
{
	struct rlimit old, low;
	struct err err = {0};
	struct tape *t;
	int ops, records;
	bool cut = false;
	char first[sizeof said];

	unlink(in_folder("device-0.rec"));
	t = begin();
	put_op(t, 0);
	getrlimit(RLIMIT_FSIZE, &old);
	low = (struct rlimit){200, old.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &low);
	for (int i = 1; i < 20; i++)
		put_op(t, (uint64_t)i);
	snprintf(first, sizeof first, "%s", said);
	said[0] = '\0';
	put_op(t, 99);
	tape_close(t);
	setrlimit(RLIMIT_FSIZE, &old); /* before anything is printed: stdout may be a file */
	ok(strstr(first, "recording stops here"), "a full disk is told: %s", first);
	ok(!said[0], "once");
	records = count(in_folder("device-0.rec"), &ops, &cut, &err);
	ok(records == ops && ops > 1 && ops < 19 && cut,
	   "and %d whole operations of a recording that says that it is cut", ops);
}

int
main(void)
{
	unsigned char bytes[3000] = {1, 2, 3};
	struct tape *t, *other;
	struct err err = {0};
	char **list;
	size_t nlist;
	int ops, n;
	bool cut;
	const char *path;

	folder_begin();
	ok(tape_folder_list(folder, &list, &nlist, &err) == RC_FAILED &&
	       strstr(err.text, "not a recording"),
	   "an empty folder: %s", err.text);
	ok(tape_folder_new(folder, &err) == RC_OK, "a folder without a recording is taken");
	path = in_folder("device-0.rec");
	t = begin();
	put_op(t, 5);
	tape_put_data(t, 1, false, bytes, sizeof bytes);
	ok(tape_open(folder, "device-0", true, say, &other, &err) == RC_BUSY, "two writers: %s",
	   err.text);
	tape_close(t);
	err = (struct err){0};
	n = count(path, &ops, &cut, &err);
	ok(n == 3 && ops == 1 && !cut, "an operation, its data and the end are read again");
	t = begin();
	ok(tape_number(t) == 2, "a second process goes on counting");
	put_op(t, 6);
	tape_close(t);
	n = count(path, &ops, &cut, &err);
	ok(n == 5 && ops == 2, "and appends");
	ok(truncate(path, (off_t)(TAPE_HEAD + 40)) == 0, "cut");
	n = count(path, &ops, &cut, &err);
	ok(n == 1 && cut, "a record that is not whole is left out");
	t = begin();
	put_op(t, 7);
	tape_close(t);
	n = count(path, &ops, &cut, &err);
	ok(n == 3 && ops == 2 && !cut, "and removed by the next process");
	err = (struct err){0};
	ok(tape_folder_new(folder, &err) == RC_BUSY, "a folder with a recording is not: %s",
	   err.text);
	damage(path);
	ok(tape_folder_list(folder, &list, &nlist, &err) == RC_OK && nlist == 1 &&
	       strcmp(list[0], path) == 0,
	   "its files are listed");
	tape_folder_free(list, nlist);
	full_disk();
	folder_end();
	return tap_done();
}
