/* A folder of checkpoints: written whole, two kept, damaged ones skipped, options compared. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nn/checkpoint.h"
#include "nn/npz.h"
#include "tap.h"

enum { NPARAMS = 3 * 2 + 2, STEPS = 10 };

static char dir[] = "/tmp/t_checkpoint.XXXXXX", folder[64];
static float params[NPARAMS], state[2][NPARAMS];
static uint8_t own[3][5]; /* of three ranks */
static uint64_t shards;	  /* of what is written */
static unsigned damaged;
static char reason[512];

/* A training after some steps; the weights show how many. */
static struct checkpoint
after(uint64_t steps)
{
	struct checkpoint c = {.terms = {.net = "mlp 3-2 cross-entropy",
					 .nvalues = NPARAMS,
					 .sync = 1,
					 .local_steps = 8,
					 .schedule = 2,
					 .optimizer = 1,
					 .batch = 4,
					 .seed = UINT64_MAX,
					 .method = 77,
					 .lr = 0.1,
					 .momentum = 0.9,
					 .weight_decay = 1e-5,
					 .train_items = 80,
					 .test_items = 7,
					 .data_crc = 0xfedcba98},
			       .global_batch = 8,
			       .steps_an_epoch = STEPS,
			       .epoch = steps / STEPS,
			       .step = steps % STEPS,
			       .loss_sum = 1.0 / 3,
			       .nparams = NPARAMS,
			       .optimizer_steps = steps,
			       .nstate = 2,
			       .nshards = shards,
			       .params = params,
			       .state = {state[0], state[1]},
			       .own = {3, 5, own[0]}};

	for (int i = 0; i < NPARAMS; i++) {
		params[i] = (float)steps + (float)i / 8;
		state[0][i] = -params[i];
		state[1][i] = params[i] * 3;
	}
	for (unsigned i = 0; i < sizeof own; i++)
		own[i / 5][i % 5] = (uint8_t)(steps + i);
	return c;
}

static const char *
in_folder(const char *name)
{
	static char path[192];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static bool
is_there(const char *name)
{
	return access(in_folder(name), F_OK) == 0;
}

static int
files(void)
{
	DIR *d = opendir(folder);
	int n = -2; /* . and .. */

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void
empty(void)
{
	DIR *d = opendir(folder);
	struct dirent *e;

	while (d && (e = readdir(d)))
		(void)unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
}

static void
on_damaged(void *arg, const char *text)
{
	(void)arg;
	damaged++;
	snprintf(reason, sizeof reason, "%s", text);
}

/* Is the newest whole checkpoint the one after these steps, with all its data? */
static bool
newest_is(uint64_t steps)
{
	struct checkpoint c = {0}, want = after(steps);
	struct err err = {0};
	bool found = false, same;

	damaged = 0;
	if (checkpoint_newest(folder, on_damaged, NULL, &c, &found, &err) != RC_OK || !found) {
		printf("# %s\n", found ? err.text : "none found");
		return false;
	}
	same = memcmp(&c.terms, &want.terms, sizeof c.terms) == 0 &&
	       c.global_batch == want.global_batch && c.steps_an_epoch == STEPS &&
	       c.epoch == want.epoch && c.step == want.step && c.loss_sum == want.loss_sum &&
	       c.nparams == NPARAMS && c.optimizer_steps == steps && c.nstate == 2 &&
	       memcmp(c.params, params, sizeof params) == 0 &&
	       memcmp(c.state[0], state[0], sizeof params) == 0 &&
	       memcmp(c.state[1], state[1], sizeof params) == 0 && c.own.rows == 3 &&
	       c.own.cols == 5 && memcmp(c.own.bytes, own, sizeof own) == 0;
	checkpoint_fini(&c);
	return same && !c.params;
}

static bool
write_one(struct checkpoint_dir *d, uint64_t steps)
{
	struct checkpoint c = after(steps);
	struct err err = {0};
	enum rc rc = checkpoint_write(d, &c, &err);

	if (rc != RC_OK)
		printf("# %s\n", err.text);
	return rc == RC_OK;
}

static void
test_keep(void)
{
	struct checkpoint_dir *d = NULL, *other = NULL;
	struct checkpoint c = {0};
	struct err err = {0};
	bool found = true, any = true;

	ok(checkpoint_any(folder, &any, &err) == RC_OK && !any &&
	       checkpoint_newest(folder, on_damaged, NULL, &c, &found, &err) == RC_OK && !found,
	   "a folder that is not there has none");
	ok(checkpoint_dir_open(folder, &d, &err) == RC_OK, "it is made %s", err.text);
	ok(checkpoint_dir_open(folder, &other, &err) == RC_BUSY && !other, "nobody else has it: %s",
	   err.text);
	ok(write_one(d, 7) && newest_is(7) && damaged == 0, "one is read as it was written");
	ok(write_one(d, 12) && newest_is(12), "the newer counts");
	ok(write_one(d, 30) && newest_is(30), "an epoch's end");
	ok(files() == 2 && is_there("ckpt-000000000012.npz") && is_there("ckpt-000000000030.npz"),
	   "two are kept");
	ok(write_one(d, 30) && files() == 2, "again over itself");
	ok(checkpoint_any(folder, &any, &err) == RC_OK && any, "there are some");
	checkpoint_dir_close(d);
	ok(checkpoint_dir_open("/dev/null", &d, &err) == RC_FAILED &&
	       checkpoint_dir_open("/no/such/folder", &d, &err) == RC_FAILED,
	   "what cannot be a folder: %s", err.text);
	empty();
}

/* Change a byte of a file, or cut it (byte < 0). */
static void
spoil(const char *name, off_t at, int byte)
{
	int fd = open(in_folder(name), O_RDWR);
	char old = 0;

	if (byte < 0) {
		(void)!ftruncate(fd, at);
	} else {
		(void)!pread(fd, &old, 1, at);
		old = (char)(old ^ byte);
		(void)!pwrite(fd, &old, 1, at);
	}
	close(fd);
}

static void
test_damaged(void)
{
	static const char newest[] = "ckpt-000000000009.npz", before[] = "ckpt-000000000006.npz";
	struct checkpoint_dir *d = NULL;
	struct checkpoint c = {0};
	struct err err = {0};
	struct stat st;
	off_t at = 0, refused = 0;
	bool good, found = true;

	good = checkpoint_dir_open(folder, &d, &err) == RC_OK && write_one(d, 6) &&
	       write_one(d, 9) && stat(in_folder(newest), &st) == 0;
	for (; good && at < st.st_size; at += 5) {
		spoil(newest, at, 0x10);
		good = newest_is(9) || (damaged == 1 && strstr(reason, newest) && newest_is(6));
		refused += damaged;
		spoil(newest, at, 0x10);
	}
	ok(good && newest_is(9),
	   "a changed byte changes no number, or is named, and the one before is used (byte %ld): "
	   "%s",
	   (long)at, reason);
	ok(refused > st.st_size / 10, "most changed bytes are named: %ld", (long)refused);
	for (at = st.st_size - 1; good && at >= 0; at -= 97) {
		spoil(newest, at, -1);
		good = newest_is(6) && damaged == 1 && strstr(reason, newest);
	}
	ok(good, "cut to any length (%ld): %s", (long)at, reason);
	ok(write_one(d, 8) && newest_is(8) && !is_there(newest) && files() == 2,
	   "a damaged one that counts more steps goes with the next that is written");
	spoil(before, 50, 1);
	spoil("ckpt-000000000008.npz", 50, 1);
	damaged = 0;
	ok(checkpoint_newest(folder, on_damaged, NULL, &c, &found, &err) == RC_BADDATA &&
	       damaged == 2 && !found && !c.params,
	   "all damaged: %s", err.text);
	checkpoint_dir_close(d);
	empty();
}

/* Vectors in files of their own: more of them than values, files that are damaged, gone, or another's. */
static void
test_shards(void)
{
	static const char last[] = "ckpt-000000000009.3-of-3.npz",
			  other[] = "ckpt-000000000006.3-of-3.npz";
	struct checkpoint_dir *d = NULL;
	struct err err = {0};
	struct stat st;
	char to[192];
	bool good;
	off_t at;

	shards = NPARAMS + 3;
	ok(checkpoint_dir_open(folder, &d, &err) == RC_OK && write_one(d, 3) && newest_is(3) &&
	       files() == 1 + NPARAMS + 3,
	   "a file for each of more shards than values %s", err.text);
	shards = 3;
	ok(write_one(d, 6) && write_one(d, 9) && newest_is(9) && damaged == 0 && files() == 8,
	   "two are kept, with their shards");
	good = stat(in_folder(last), &st) == 0;
	for (at = 0; good && at < st.st_size; at += 5) {
		spoil(last, at, 0x10);
		good = newest_is(9) || (damaged == 1 && strstr(reason, last) && newest_is(6));
		spoil(last, at, 0x10);
	}
	ok(good && newest_is(9), "a changed byte of a shard (%ld): %s", (long)at, reason);
	snprintf(to, sizeof to, "%s", in_folder(last));
	ok(unlink(to) == 0 && newest_is(6) && damaged == 1, "a shard is gone: %s", reason);
	ok(link(in_folder(other), to) == 0 && newest_is(6) && damaged == 1, "another's shard: %s",
	   reason);
	shards = 0;
	ok(write_one(d, 9) && newest_is(9) && files() == 5, "one file in the place of four");
	checkpoint_dir_close(d);
	unlink(in_folder("ckpt-000000000006.npz"));
	ok(checkpoint_dir_open(folder, &d, &err) == RC_OK && files() == 1,
	   "shards without their checkpoint go");
	checkpoint_dir_close(d);
	empty();
}

/* A file whose name does not match its steps; a model in place of a checkpoint. */
static void
test_foreign(void)
{
	const struct npz_array model = {
	    .name = "params", .type = NPZ_F32, .ndim = 1, .dim = {NPARAMS}, .data = params};
	struct checkpoint_dir *d = NULL;
	struct err err = {0};
	char to[192];

	ok(checkpoint_dir_open(folder, &d, &err) == RC_OK && write_one(d, 5), "a good one");
	snprintf(to, sizeof to, "%s", in_folder("ckpt-000000000099.npz"));
	ok(link(in_folder("ckpt-000000000005.npz"), to) == 0 && newest_is(5) && damaged == 1,
	   "a wrong name: %s", reason);
	unlink(to);
	ok(npz_write(to, &model, 1, &err) == RC_OK && newest_is(5) && damaged == 1,
	   "not a checkpoint: %s", reason);
	unlink(to);
	snprintf(to, sizeof to, "%s", in_folder("ckpt-99.npz"));
	ok(link(in_folder("ckpt-000000000005.npz"), to) == 0 && newest_is(5) && damaged == 0,
	   "other names are nobody's business");
	checkpoint_dir_close(d);
	empty();
}

/* In a separate process, which the kernel kills at the limit-th byte of a file. */
static bool
killed_writing(rlim_t limit)
{
	const struct rlimit most = {limit, limit}, no_core = {0, 0};
	struct checkpoint_dir *d = NULL;
	struct err err = {0};
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGXFSZ, SIG_DFL);
		setrlimit(RLIMIT_CORE, &no_core);
		setrlimit(RLIMIT_FSIZE, &most);
		if (checkpoint_dir_open(folder, &d, &err) == RC_OK)
			(void)write_one(d, 4);
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
}

static void
test_killed(void)
{
	struct checkpoint_dir *d = NULL;
	struct err err = {0};
	struct stat st;
	bool good;
	rlim_t at;

	good = checkpoint_dir_open(folder, &d, &err) == RC_OK && write_one(d, 3) &&
	       stat(in_folder("ckpt-000000000003.npz"), &st) == 0;
	checkpoint_dir_close(d);
	for (at = 0; good && at < (rlim_t)st.st_size; at += 211)
		good = killed_writing(at) && newest_is(3) && damaged == 0;
	ok(good, "killed at any byte: the old one is whole (last tried: %llu) %s",
	   (unsigned long long)at, err.text);
	ok(files() > 1, "half a file is left");
	ok(checkpoint_dir_open(folder, &d, &err) == RC_OK && files() == 1 && write_one(d, 4) &&
	       newest_is(4),
	   "and removed by who comes next");
	checkpoint_dir_close(d);
	empty();
}

static void
test_agree(void)
{
	struct checkpoint c = after(1);
	struct checkpoint_terms same = c.terms, other[15];
	struct err err = {0};
	bool good = true;

	for (int i = 0; i < 15; i++)
		other[i] = same;
	other[0].net[4]++;
	other[1].nvalues++;
	other[2].optimizer = 0;
	other[3].batch++;
	other[4].seed--;
	other[5].lr = 0.2;
	other[6].momentum = 0;
	other[7].weight_decay = 0;
	other[8].train_items++;
	other[9].test_items++;
	other[10].data_crc++;
	other[11].sync = 0;
	other[12].local_steps = 4;
	other[13].schedule = 0;
	other[14].method = 0;
	ok(checkpoint_agree(&c, &same, "DIR", &err) == RC_OK, "the same options %s", err.text);
	for (int i = 0; i < 15 && good; i++) {
		good = checkpoint_agree(&c, &other[i], "DIR", &err) == RC_INVAL &&
		       strncmp(err.text, "DIR: was made with ", 19) == 0;
		printf("# %s\n", err.text);
	}
	ok(good, "every other option is refused");
}

int
main(void)
{
	if (!mkdtemp(dir)) {
		ok(false, "mkdtemp");
		return tap_done();
	}
	snprintf(folder, sizeof folder, "%s/ck", dir);
	test_keep();
	test_damaged();
	test_shards();
	test_foreign();
	test_killed();
	test_agree();
	ok(rmdir(folder) == 0 && rmdir(dir) == 0, "nothing else in the folder");
	return tap_done();
}
