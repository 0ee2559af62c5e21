/* State in a directory: what is committed is there again, whole, whatever happened in between. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "store/store.h"
#include "tap.h"

static char dir[128], journal[160];
static bool sync_fails;

/* In place of libc's. */
int
fdatasync(int fd)
{
	if (!sync_fails)
		return (int)syscall(SYS_fdatasync, fd);
	errno = EIO;
	return -1;
}

/* ---- what is stored, as one text: "key=value key=value " */

static void
show(void *arg, const char *key, const void *value, size_t nbytes)
{
	buf_addf(arg, "%s=%.*s ", key, (int)nbytes, (const char *)value);
}

/* Open; the state in *out, terminated. */
static struct store *
open_at(const char *where, struct buf *out, struct err *err)
{
	struct store *s = NULL;

	*err = (struct err){0};
	out->len = 0;
	if (store_open(where, show, out, &s, err) == RC_OK)
		buf_add(out, "", 1);
	return s;
}

/* What who opens it now finds; NULL: nobody can, and *err says why. Static storage. */
static const char *
state(struct err *err)
{
	static struct buf out;
	struct store *s = open_at(dir, &out, err);

	if (!s)
		return NULL;
	store_close(s, STORE_KEEP, NULL);
	return out.data;
}

static bool
holds(const char *want)
{
	struct err err;
	const char *got = state(&err);

	if (got && strcmp(got, want) == 0)
		return true;
	printf("#   got '%s'\n#   for '%s'\n", got ? got : err.text, want);
	return false;
}

static enum rc
put(struct store *s, const char *key, const char *value, enum store_durability d, struct err *err)
{
	struct store_change c = {key, value, value ? strlen(value) : 0};

	return store_commit(s, &c, 1, d, err);
}

static struct store *
fresh(void)
{
	struct err err;
	struct buf out = {0};
	struct store *s = open_at(dir, &out, &err);

	if (!s)
		printf("# %s\n", err.text);
	buf_fini(&out);
	return s;
}

/* ---- the file */

static size_t
slurp(struct buf *out)
{
	FILE *f = fopen(journal, "re");
	char piece[4096];
	size_t n;

	out->len = 0;
	while (f && (n = fread(piece, 1, sizeof piece, f)) > 0)
		buf_add(out, piece, n);
	if (f)
		fclose(f);
	return out->len;
}

static void
spill(const void *data, size_t nbytes)
{
	FILE *f = fopen(journal, "we");

	if (!f || fwrite(data, 1, nbytes, f) != nbytes || fclose(f) != 0)
		abort();
}

static size_t
size_of(void)
{
	struct stat st;

	return stat(journal, &st) == 0 ? (size_t)st.st_size : 0;
}

/* ---- */

static void
test_life(void)
{
	struct store *s = fresh();
	struct store_change three[] = {{"b", "2", 1}, {"c", "", 0}, {"a", NULL, 0}};
	struct stat st;
	struct err err = {0};

	ok(s && stat(dir, &st) == 0 && (st.st_mode & 0777) == 0700, "a directory of our own");
	ok(put(s, "a", "1", STORE_SYNC, &err) == RC_OK, "a record is put");
	ok(store_commit(s, three, 3, STORE_LAZY, &err) == RC_OK, "three changes at once");
	ok(store_close(s, STORE_KEEP, &err) == RC_OK, "closed");
	ok(holds("b=2 c= "), "it is all there again, in order of keys");
	s = fresh();
	ok(put(s, "b", "22", STORE_LAZY, &err) == RC_OK &&
	       put(s, "c", NULL, STORE_LAZY, &err) == 0 &&
	       put(s, "never", NULL, STORE_LAZY, &err) == RC_OK,
	   "changed, deleted, deleted what never was");
	store_close(s, STORE_KEEP, &err);
	ok(holds("b=22 "), "and that is there again");
	s = fresh();
	ok(store_note(s)[0] == '\0', "nothing had to be given up");
	ok(store_close(s, STORE_REMOVE, &err) == RC_OK && stat(dir, &st) != 0,
	   "removed: nothing is left");
	store_close(NULL, STORE_KEEP, NULL);
}

static bool
is_to_stay(const char *key, const void *value, size_t nbytes)
{
	return key[0] == 's' && nbytes == 1 && *(const char *)value == '1';
}

/* Closed with some records left, more others than one commit drops. */
static void
test_close_but(void)
{
	struct store *s = fresh();
	struct stat st;
	struct err err = {0};
	char key[8];
	bool good = s != NULL;

	for (int i = 0; good && i < 300; i++) {
		snprintf(key, sizeof key, "%c%03d", i % 3 ? 'x' : 's', i);
		good = put(s, key, i == 150 || i == 297 ? "1" : "2", STORE_LAZY, &err) == RC_OK;
	}
	ok(good && store_close_but(s, is_to_stay, &err) == RC_OK && holds("s150=1 s297=1 "),
	   "closed with what stays alone");
	s = fresh();
	ok(put(s, "s150", NULL, STORE_LAZY, &err) == RC_OK &&
	       put(s, "s297", "2", STORE_LAZY, &err) == RC_OK &&
	       store_close_but(s, is_to_stay, &err) == RC_OK && stat(dir, &st) != 0,
	   "where nothing stays, nothing is left");
	ok(store_close_but(NULL, is_to_stay, &err) == RC_OK, "a store that never was");
}

static void
test_limits(void)
{
	struct store *s = fresh();
	char key[STORE_KEY_MAX + 2];
	char *big = calloc(1, STORE_VALUE_MAX + 1);
	struct store_change c = {key, big, STORE_VALUE_MAX};
	struct err err = {0};

	memset(key, 'k', sizeof key);
	key[STORE_KEY_MAX + 1] = '\0';
	ok(store_commit(s, &c, 1, STORE_LAZY, &err) == RC_INVAL, "a key too long: %s", err.text);
	key[STORE_KEY_MAX] = '\0';
	ok(store_commit(s, &c, 1, STORE_LAZY, &err) == RC_OK, "the longest key, the largest value");
	c.nbytes++;
	ok(store_commit(s, &c, 1, STORE_LAZY, &err) == RC_INVAL, "a value too large: %s", err.text);
	c.key = "";
	c.nbytes = 1;
	ok(store_commit(s, &c, 1, STORE_LAZY, &err) == RC_INVAL, "an empty key: %s", err.text);
	ok(store_commit(s, &c, 0, STORE_LAZY, &err) == RC_OK, "no change");
	store_close(s, STORE_REMOVE, NULL);
	free(big);
}

static void
test_two(void)
{
	struct store *s = fresh(), *two;
	struct buf out = {0};
	struct err err;

	two = open_at(dir, &out, &err);
	ok(!two && err.rc == RC_BUSY && strstr(err.text, dir), "a second one is refused: %s",
	   err.text);
	ok(put(s, "a", "1", STORE_SYNC, &err) == RC_OK, "and the first lives on");
	store_close(s, STORE_KEEP, NULL);
	ok(holds("a=1 "), "the next has it");
	buf_fini(&out);
}

/* The last write is cut at every byte. */
static void
test_torn(void)
{
	struct store *s = fresh();
	struct buf whole = {0};
	struct err err;
	size_t before, olds = 0, news = 0, notes = 0, n;
	const char *got;

	put(s, "a", "1", STORE_SYNC, NULL);
	put(s, "b", "2", STORE_LAZY, NULL);
	before = size_of();
	store_commit(s, (struct store_change[]){{"a", NULL, 0}, {"b", "two", 3}, {"c", "3", 1}}, 3,
		     STORE_SYNC, NULL);
	store_close(s, STORE_KEEP, NULL);
	n = slurp(&whole);
	for (size_t cut = before; cut <= n; cut++) {
		struct buf out = {0};

		spill(whole.data, cut);
		s = open_at(dir, &out, &err);
		notes += s && strstr(store_note(s), "were not promised") != NULL;
		store_close(s, STORE_KEEP, NULL);
		buf_fini(&out);
		got = state(&err);
		olds += got && strcmp(got, "a=1 b=2 ") == 0 && size_of() == before;
		news += got && strcmp(got, "b=two c=3 ") == 0;
	}
	ok(news == 1 && olds == n - before,
	   "cut at each of %zu bytes: the state before, or the one after", n - before);
	ok(notes == n - before - 1, "what is dropped is told");
	spill(whole.data, n - 1);
	s = fresh();
	ok(put(s, "d", "4", STORE_SYNC, NULL) == RC_OK, "after the cut it goes on");
	store_close(s, STORE_KEEP, NULL);
	ok(holds("a=1 b=2 d=4 "), "and is read again");
	s = fresh();
	store_close(s, STORE_REMOVE, NULL);
	buf_fini(&whole);
}

/* Every bit of the file is flipped. */
static void
test_flipped(void)
{
	struct store *s = fresh();
	struct buf whole = {0};
	size_t last, n, wrong = 0, refused = 0, dropped = 0, unnamed = 0;

	put(s, "a", "1", STORE_SYNC, NULL);
	store_close(s, STORE_KEEP, NULL);
	s = fresh();
	put(s, "b", "2", STORE_SYNC, NULL);
	put(s, "a", "one", STORE_SYNC, NULL);
	last = size_of();
	put(s, "c", "3", STORE_SYNC, NULL);
	store_close(s, STORE_KEEP, NULL);
	n = slurp(&whole);
	for (size_t i = 0; i < n * 8; i++) {
		struct err err;
		const char *got;

		whole.data[i / 8] ^= (char)(1 << i % 8);
		spill(whole.data, n);
		whole.data[i / 8] ^= (char)(1 << i % 8);
		got = state(&err);
		if (!got) {
			refused++;
			wrong += err.rc != RC_BADDATA || i / 8 >= last;
			unnamed += strstr(err.text, journal) == NULL;
		} else {
			dropped++;
			wrong += strcmp(got, "a=one b=2 ") != 0 || i / 8 < last;
		}
	}
	ok(wrong == 0, "each of %zu bits flipped: never a state that never was", n * 8);
	ok(refused == last * 8 && dropped == (n - last) * 8,
	   "refused before the last commit, dropped in the last");
	ok(unnamed == 0, "the file is named");
	spill(whole.data, n);
	s = fresh();
	store_close(s, STORE_REMOVE, NULL);
	buf_fini(&whole);
}

static bool
refused(enum rc rc, const char *why)
{
	struct err err;
	const char *got = state(&err);

	if (!got && err.rc == rc && strstr(err.text, why) && strstr(err.text, dir))
		return true;
	printf("#   %s\n", got ? got : err.text);
	return false;
}

static void
test_foreign(void)
{
	char other[160];
	struct store *s;
	struct err err;
	struct buf out = {0};

	mkdir(dir, 0700);
	spill("hello\n", 6);
	ok(refused(RC_BADDATA, "not a journal"), "something else is refused");
	ok(slurp(&out) == 6, "and left alone");
	spill("", 0);
	ok(refused(RC_BADDATA, "not a journal"), "also an empty file");
	spill("gpusim-J\7\0\0\0aaaabbbbbbbbcccccccc", 32);
	ok(refused(RC_BADDATA, "version 7"), "and a later version");
	unlink(journal);
	chmod(dir, 0770);
	ok(refused(RC_FAILED, "writable by others"), "and a directory where others may write");
	chmod(dir, 0700);
	snprintf(other, sizeof other, "%s/mine", dir);
	close(open(other, O_CREAT | O_CLOEXEC, 0600));
	s = fresh();
	ok(store_close(s, STORE_REMOVE, &err) == RC_OK && access(other, F_OK) == 0 &&
	       access(journal, F_OK) != 0,
	   "removed: what others put there stays");
	unlink(other);
	rmdir(dir);
	if (symlink("/", dir) != 0)
		abort();
	ok(refused(RC_FAILED, ""), "a symbolic link is not followed");
	unlink(dir);
	close(open(dir, O_CREAT | O_CLOEXEC, 0600));
	ok(refused(RC_FAILED, ""), "nor is a file a directory");
	unlink(dir);
	ok(!open_at("/nowhere/at/all", &out, &err) && err.rc == RC_FAILED, "%s", err.text);
	ok(!open_at("", &out, &err) && err.rc == RC_INVAL, "%s", err.text);
	buf_fini(&out);
}

/* No file may grow beyond so many bytes. */
static void
limit(rlim_t nbytes)
{
	struct rlimit r;

	getrlimit(RLIMIT_FSIZE, &r);
	r.rlim_cur = nbytes;
	setrlimit(RLIMIT_FSIZE, &r);
}

static void
test_full(void)
{
	struct store *s = fresh();
	struct err err = {0};
	size_t before, bad = 0;
	enum rc rc;

	put(s, "a", "1", STORE_SYNC, NULL);
	before = size_of();
	for (size_t room = 0; room < 36; room++) {
		limit(before + room);
		rc = put(s, "b", "two", STORE_LAZY, &err);
		limit(RLIM_INFINITY); /* it holds for stdout too */
		bad += rc != RC_FAILED || size_of() != before;
	}
	ok(bad == 0, "no room, or some bytes of it: refused, and cut off again");
	ok(strstr(err.text, journal) && strstr(err.text, "File too large"), "%s", err.text);
	limit(before);
	rc = store_close(s, STORE_KEEP, &err);
	limit(RLIM_INFINITY);
	ok(rc == RC_OK && holds("a=1 "), "what failed is not there later");
	s = fresh();
	limit(before);
	rc = put(s, "b", "two", STORE_SYNC, &err);
	limit(RLIM_INFINITY);
	ok(rc == RC_FAILED && put(s, "c", "3", STORE_SYNC, &err) == RC_OK,
	   "with room again it works");
	store_close(s, STORE_KEEP, NULL);
	ok(holds("a=1 c=3 "), "and what failed in between is not there");
	s = fresh();
	store_close(s, STORE_REMOVE, NULL);
}

static void
test_sync_fails(void)
{
	struct store *s = fresh();
	struct err err = {0};

	put(s, "a", "1", STORE_SYNC, NULL);
	sync_fails = true;
	ok(put(s, "b", "2", STORE_SYNC, &err) == RC_FAILED, "%s", err.text);
	ok(put(s, "b", "3", STORE_LAZY, &err) == RC_FAILED,
	   "nothing is taken before all is safe again");
	sync_fails = false;
	ok(put(s, "c", "4", STORE_LAZY, &err) == RC_OK, "then it is");
	store_close(s, STORE_KEEP, NULL);
	ok(holds("a=1 c=4 "), "what failed is not there later");
	s = fresh();
	store_close(s, STORE_REMOVE, NULL);
}

/* ---- a long life, compared with a list */

#define KEYS 40

struct model {
	char value[KEYS][400]; /* "": none */
};

static uint32_t
next(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void
add_known(void *arg, const char *key, const void *value, size_t nbytes)
{
	struct model *m = arg;
	unsigned long k = strtoul(key + 1, NULL, 10);

	if (k < KEYS && nbytes < sizeof m->value[k]) {
		memcpy(m->value[k], value, nbytes);
		m->value[k][nbytes] = '\0';
	}
}

/* One commit of some changes, in the store and in the list. */
static enum rc
change_some(struct store *s, struct model *m, uint32_t *seed)
{
	struct store_change c[8];
	char key[8][8];
	size_t n = 1 + next(seed) % 8;

	for (size_t i = 0; i < n; i++) {
		uint32_t k = next(seed) % KEYS, len = next(seed) % 5 ? 1 + next(seed) % 399 : 0;

		snprintf(key[i], sizeof key[i], "k%02u", k);
		memset(m->value[k], 'a' + (int)(next(seed) % 26), len);
		m->value[k][len] = '\0';
		c[i] = (struct store_change){key[i], len ? strdup(m->value[k]) : NULL, len};
	}
	enum rc rc = store_commit(s, c, n, next(seed) % 64 ? STORE_LAZY : STORE_SYNC, NULL);

	for (size_t i = 0; i < n; i++)
		free((char *)c[i].value);
	return rc;
}

static void
test_long(void)
{
	static struct model m, got;
	uint32_t seed = 1;
	size_t largest = 0, bad = 0;
	struct store *s = NULL;

	for (int life = 0; life < 8; life++) {
		memset(&got, 0, sizeof got);
		bad += store_open(dir, add_known, &got, &s, NULL) != RC_OK ||
		       memcmp(&got, &m, sizeof m) != 0;
		for (int i = 0; i < 2000; i++) {
			bad += change_some(s, &m, &seed) != RC_OK;
			largest = size_of() > largest ? size_of() : largest;
		}
		/* What lies behind a value's end in the list is no value. */
		for (int k = 0; k < KEYS; k++)
			memset(m.value[k] + strlen(m.value[k]), 0,
			       sizeof m.value[k] - strlen(m.value[k]));
		store_close(s, STORE_KEEP, NULL);
	}
	ok(bad == 0, "16000 commits in 8 lives: what is read is what was written");
	ok(largest > 4u << 20 && largest < 5u << 20, "the file stays small: %zu bytes at most",
	   largest);
	s = fresh();
	ok(store_close(s, STORE_REMOVE, NULL) == RC_OK && access(dir, F_OK) != 0, "and goes");
}

/* A process commits without syncing, and is killed. */
static void
test_killed(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct store *s = NULL;

		if (store_open(dir, add_known, &(struct model){0}, &s, NULL) == RC_OK &&
		    put(s, "a", "1", STORE_LAZY, NULL) == RC_OK &&
		    put(s, "b", "2", STORE_LAZY, NULL) == RC_OK)
			kill(getpid(), SIGKILL);
		_exit(1);
	}
	ok(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "killed right after a commit");
	ok(holds("a=1 b=2 "), "it is there, and nobody holds the lock");
	store_close(fresh(), STORE_REMOVE, NULL);
}

int
main(void)
{
	char base[] = "/tmp/t_store.XXXXXX";

	signal(SIGXFSZ, SIG_IGN);
	if (!mkdtemp(base))
		return 1;
	snprintf(dir, sizeof dir, "%s/state", base);
	snprintf(journal, sizeof journal, "%s/gpusim.journal", dir);
	test_life();
	test_close_but();
	test_limits();
	test_two();
	test_torn();
	test_flipped();
	test_foreign();
	test_full();
	test_sync_fails();
	test_long();
	test_killed();
	ok(rmdir(base) == 0, "nothing is left");
	return tap_done();
}
