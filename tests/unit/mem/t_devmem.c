/* The memory file: creation, take-over, refusal, a full disk; bounds at the edges. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem/devmem.h"
#include "mem/devmem_file.h"

#include "tap.h"

#define ID 0xfeedfacecafe0001ull

/* The device whose file is growing, and what its other threads see meanwhile. */
static struct devmem *grows;
static uint64_t seen;

/* In place of the C library's: whoever asks while blocks are reserved has its answer. */
int
posix_fallocate(int fd, off_t off, off_t len)
{
	if (grows)
		seen = devmem_used(grows, NULL);
	return fallocate(fd, 0, off, len) == 0 ? 0 : errno;
}

static char dir[] = "/tmp/t_devmem.XXXXXX", path[64];

/* Overwrite the file with text; and whether it still is just that. */
static void
put_file(const char *text)
{
	FILE *f = fopen(path, "w");

	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

static bool
file_is(const char *text)
{
	char got[256];
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(got, 1, sizeof got, f) : 0;

	if (f)
		fclose(f);
	return f && n == strlen(text) && memcmp(got, text, n) == 0;
}

static bool
exists(const char *p)
{
	struct stat st;

	return lstat(p, &st) == 0;
}

static off_t
file_size(void)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_size : -1;
}

static void
test_create(void)
{
	struct devmem *m = NULL;
	struct err err = {0};
	struct stat st = {0};
	uint64_t n = 9;

	ok(devmem_open(path, ID, 10000, &m, &err) == RC_OK, "open creates the file");
	if (!m) {
		printf("# %s\n", err.text);
		return;
	}
	stat(path, &st);
	ok((st.st_mode & 07777) == 0600, "mode 0600");
	ok(devmem_max(m) - devmem_min(m) == 12288 && devmem_min(m) > 0 &&
	       devmem_min(m) % DEVMEM_ALIGN == 0,
	   "rounded up to whole pages; 0 is no address");
	ok((uint64_t)st.st_blocks * 512 < 12288, "what nobody has asked for takes no blocks");
	ok(devmem_at(m, devmem_min(m), 12288) && stat(path, &st) == 0 &&
	       (uint64_t)st.st_blocks * 512 >= 12288,
	   "what somebody has asked for has them");
	ok(devmem_file_id(path) == ID && devmem_file_id("/dev/null") == 0 &&
	       devmem_file_id("/nowhere") == 0,
	   "the file tells whose it is");
	ok(strcmp(devmem_path(m), path) == 0 && devmem_used(m, &n) == 0 && n == 0,
	   "it knows its path, and nothing is allocated");
	devmem_close(m, DEVMEM_UNLINK_FILE);
	ok(!exists(path), "close unlinks if asked");
	devmem_close(NULL, DEVMEM_UNLINK_FILE);
	ok(devmem_open(path, ID, 0, &m, &err) == RC_INVAL &&
	       devmem_open(path, ID, UINT64_MAX, &m, &err) == RC_INVAL && !exists(path),
	   "no bytes, or 2^64-1, are refused: %s", err.text);
}

static void
test_default_path(void)
{
	struct devmem *m = NULL;
	struct err err = {0};
	uint64_t id = ID ^ (uint64_t)getpid() << 16;
	char want[80];

	snprintf(want, sizeof want, "/dev/shm/gpusim-%u-%016" PRIx64, (unsigned)geteuid(), id);
	ok(devmem_open(NULL, id, 4096, &m, &err) == RC_OK && strcmp(devmem_path(m), want) == 0 &&
	       exists(want),
	   "without a path: %s", want);
	devmem_close(m, DEVMEM_UNLINK_FILE);
	ok(!exists(want), "and gone after close");
	if (symlink(path, want) == 0) {
		ok(devmem_open(NULL, id, 4096, &m, &err) != RC_OK && !exists(path),
		   "a symbolic link planted there is not followed: %s", err.text);
		unlink(want);
	}
}

static void
test_take_over(void)
{
	struct devmem *m = NULL, *second = NULL;
	struct err err = {0};
	uint64_t addr, i, bad = 0;
	unsigned char *p;

	devmem_open(path, ID, 8192, &m, NULL);
	p = devmem_at(m, devmem_min(m), 8192);
	for (i = 0; i < 8192; i++)
		p[i] = (unsigned char)(i * 7);
	devmem_alloc(m, 5000, &addr, NULL);
	ok(devmem_open(path, ID, 8192, &second, &err) == RC_BUSY && !second &&
	       strstr(err.text, path),
	   "a second open while in use is refused: %s", err.text);
	ok(p[77] == (unsigned char)(77 * 7) && exists(path), "and the first lives on");
	devmem_close(m, DEVMEM_PERSIST_FILE);
	ok(devmem_open(path, ID, 8192, &m, &err) == RC_OK, "an existing file is taken over");
	p = devmem_at(m, devmem_min(m), 8192);
	for (i = 0; i < 8192; i++)
		bad += p[i] != (unsigned char)(i * 7);
	ok(bad == 0 && devmem_used(m, NULL) == 5120 && devmem_is_allocated(m, addr, 5120) &&
	       !devmem_is_allocated(m, addr, 5121),
	   "with its contents and its allocations");
	devmem_close(m, DEVMEM_PERSIST_FILE);

	second = NULL;
	ok(devmem_open(path, ID + 1, 8192, &second, &err) == RC_BADDATA && !second,
	   "another device's file is refused: %s", err.text);
	ok(devmem_open(path, ID, 16384, &second, &err) == RC_BADDATA && !second,
	   "another size is refused: %s", err.text);
	ok(truncate(path, 6000) == 0 && devmem_open(path, ID, 8192, &second, &err) == RC_BADDATA &&
	       file_size() == 6000,
	   "a truncated file is refused: %s", err.text);
	unlink(path);
}

static void
test_foreign(void)
{
	static const char *const texts[] = {"x", "my thesis, the only copy\n",
					    "gpusimM1 and 24 bytes of other things",
					    "gpusimM2, which had no table of allocations"};
	struct devmem *m = NULL;
	struct err err = {0};
	size_t i;

	for (i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		put_file(texts[i]);
		ok(devmem_open(path, ID, 4096, &m, &err) == RC_BADDATA && !m && file_is(texts[i]),
		   "a foreign file is refused untouched: %s", err.text);
	}
	put_file("");
	ok(devmem_open(path, ID, 4096, &m, &err) == RC_OK, "an empty file counts as new");
	devmem_close(m, DEVMEM_UNLINK_FILE);
	m = NULL;
	ok(devmem_open(dir, ID, 4096, &m, &err) != RC_OK && !m, "a directory: %s", err.text);
	ok(devmem_open("/dev/null", ID, 4096, &m, &err) == RC_BADDATA && !m, "a device node: %s",
	   err.text);
	ok(devmem_open("/no/such/dir/mem", ID, 4096, &m, &err) == RC_FAILED && !m,
	   "no directory: %s", err.text);
}

/* A device killed while it was creating the file: the header says so (state 1), blocks are missing.
 */
static void
test_unfinished(void)
{
	struct devmem_header h = {.magic = {'g', 'p', 'u', 's', 'i', 'm', 'M', '3'},
				  .device_id = ID,
				  .nbytes = 8192,
				  .state = DEVMEM_CREATING,
				  .incarnation = 7};
	struct devmem *m = NULL;
	struct err err = {0};
	FILE *f = fopen(path, "w");

	fwrite(&h, sizeof h, 1, f);
	fclose(f);
	ok(devmem_open(path, ID, 8192, &m, &err) == RC_OK &&
	       file_size() == 8192 + 4096 + (64 << 20) + (32 + (64 << 20) / 4096) * 16,
	   "a half-created file is completed");
	devmem_close(m, DEVMEM_UNLINK_FILE);
}

static void
test_full(void)
{
	struct rlimit old, low;
	struct devmem *m = NULL;
	struct err err = {0};
	struct statvfs fs;
	void *p = NULL;
	enum rc rc;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	low = old;
	low.rlim_cur = 100000;
	setrlimit(RLIMIT_FSIZE, &low);
	rc = devmem_open(path, ID, 1 << 20, &m, &err);
	setrlimit(RLIMIT_FSIZE, &old); /* it holds for stdout too */
	ok(rc == RC_NOMEM && !m && !exists(path),
	   "no room for the file: an error, and no file left: %s", err.text);
	put_file("");
	setrlimit(RLIMIT_FSIZE, &low);
	rc = devmem_open(path, ID, 1 << 20, &m, &err);
	setrlimit(RLIMIT_FSIZE, &old);
	ok(rc == RC_NOMEM && file_size() == 0, "an empty file that was there is empty again");
	unlink(path);
	low.rlim_cur = 0;
	setrlimit(RLIMIT_FSIZE, &low);
	rc = devmem_open(path, ID, 4096, &m, &err);
	setrlimit(RLIMIT_FSIZE, &old);
	ok(rc == RC_NOMEM && !m && !exists(path), "no room even for the header: %s", err.text);
	if (statvfs("/dev/shm", &fs) == 0 && fs.f_blocks) {
		uint64_t most = (uint64_t)fs.f_blocks * fs.f_frsize + (1 << 20), addr = 0;

		ok(devmem_open(NULL, ID ^ (uint64_t)getpid(), most, &m, &err) == RC_OK,
		   "more than the file system has can be offered");
		ok(devmem_alloc(m, most, &addr, &err) == RC_NOMEM && addr == 0 &&
		       devmem_used(m, NULL) == 0,
		   "but not allocated: %s", err.text);
		ok(devmem_range(m, "all", devmem_min(m), most, &p, &err) == RC_NOMEM && !p,
		   "nor asked for: %s", err.text);
		devmem_close(m, DEVMEM_UNLINK_FILE);
	}
}

static void
test_bounds(void)
{
	struct devmem *m = NULL;
	uint64_t lo, hi, n, bad = 0;
	unsigned char *p;

	devmem_open(path, ID, 4096, &m, NULL);
	lo = devmem_min(m);
	hi = devmem_max(m);
	p = devmem_at(m, lo, 4096);
	ok(p && devmem_at(m, lo + 4095, 1) == p + 4095 && devmem_at(m, hi, 0) == p + 4096 &&
	       devmem_at(m, lo, 0) == p,
	   "the first byte, the last, and none at either end");
	ok(!devmem_at(m, lo - 1, 1) && !devmem_at(m, lo - 1, 0) && !devmem_at(m, 0, 0) &&
	       !devmem_at(m, 0, 1),
	   "not below");
	ok(!devmem_at(m, hi, 1) && !devmem_at(m, hi + 1, 0) && !devmem_at(m, lo, 4097) &&
	       !devmem_at(m, lo + 1, 4096),
	   "not beyond");
	for (n = 0; n < 64; n++) {
		bad += devmem_at(m, hi - 1, UINT64_MAX - n) != NULL;
		bad += devmem_at(m, UINT64_MAX - n, n + 1) != NULL;
		bad += devmem_at(m, lo, UINT64_MAX - lo - n + 1) != NULL;
		bad += devmem_at(m, lo + 256, UINT64_MAX - n - 200) != NULL;
	}
	ok(bad == 0, "not where addr + nbytes wraps around");
	memset(p, 1, 4096);
	devmem_close(m, DEVMEM_UNLINK_FILE);
}

/* Four threads that allocate, mark, check and free. */
static void *
churn(void *arg)
{
	struct devmem *m = arg;
	uint64_t addr[8], bad = 0, s = (uintptr_t)&addr | 1;
	unsigned char *p;
	int i, j;

	for (i = 0; i < 500; i++) {
		for (j = 0; j < 8; j++) {
			s = s * 6364136223846793005ull + 1;
			if (devmem_alloc(m, 1 + (s >> 54), &addr[j], NULL)) {
				addr[j] = 0;
				continue;
			}
			bad += addr[j] % DEVMEM_ALIGN != 0;
			p = devmem_at(m, addr[j], 1);
			memcpy(p, &s, sizeof s);
			memcpy(p + 8, &s, sizeof s);
		}
		for (j = 0; j < 8; j++) {
			if (!addr[j])
				continue;
			p = devmem_at(m, addr[j], 1);
			bad += memcmp(p, p + 8, 8) != 0;
			bad += devmem_free(m, addr[j], NULL) != RC_OK;
		}
	}
	return (void *)(uintptr_t)bad;
}

static void
test_alloc(void)
{
	struct devmem *m = NULL;
	struct err err = {0};
	uint64_t a = 0, b = 0, n = 0, bad = 0;
	pthread_t threads[4];
	void *r;
	int i;

	devmem_open(path, ID, 65536, &m, NULL);
	ok(devmem_alloc(m, 1, &a, NULL) == RC_OK && a == devmem_min(m) &&
	       devmem_alloc(m, 0, &b, NULL) == RC_OK && b == a + DEVMEM_ALIGN &&
	       devmem_used(m, &n) == 2 * DEVMEM_ALIGN && n == 2,
	   "allocations start at the lowest address, aligned");
	ok(devmem_alloc(m, 65536, &n, &err) == RC_NOMEM, "too much: %s", err.text);
	ok(devmem_free(m, a + 1, &err) == RC_INVAL && devmem_free(m, a, NULL) == RC_OK &&
	       devmem_free(m, a, &err) == RC_INVAL && devmem_free(m, b, NULL) == RC_OK,
	   "freed twice: %s", err.text);
	for (i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, churn, m);
	for (i = 0; i < 4; i++) {
		pthread_join(threads[i], &r);
		bad += (uintptr_t)r;
	}
	ok(bad == 0 && devmem_used(m, &n) == 0 && n == 0, "four threads never share an allocation");
	devmem_close(m, DEVMEM_UNLINK_FILE);
}

/* ---- what a killed device leaves */

#define CRASH_BYTES (1u << 20)
#define CRASH_HELD  64

/* What the child had, as it told before and after each call; the parent's page. */
struct ledger {
	_Atomic uint64_t addr[CRASH_HELD], nbytes[CRASH_HELD]; /* 0: none */
	_Atomic uint64_t doing;				       /* the slot that it is at, + 1 */
	_Atomic uint64_t calls;
};

/* Allocate and free for ever; the parent ends it. */
static void
crash_child(struct ledger *l, unsigned seed)
{
	struct devmem *m = NULL;
	uint64_t s = seed, addr;

	if (devmem_open(path, ID, CRASH_BYTES, &m, NULL) != RC_OK)
		_exit(1);
	for (;; atomic_fetch_add(&l->calls, 1)) {
		unsigned i;

		s = s * 6364136223846793005ull + 1442695040888963407ull;
		i = (unsigned)(s >> 40) % CRASH_HELD;
		atomic_store(&l->doing, i + 1);
		if (l->addr[i]) {
			devmem_free(m, l->addr[i], NULL);
			l->addr[i] = 0;
		} else {
			l->nbytes[i] = 1 + (s >> 50);
			if (devmem_alloc_for(m, l->nbytes[i], s % 3, &addr, NULL) == RC_OK)
				l->addr[i] = addr;
		}
		atomic_store(&l->doing, 0);
	}
}

/* Is the memory as the child told, but for what it was doing? What it does not hold is freed. */
static bool
same_as_ledger(struct devmem *m, struct ledger *l)
{
	uint64_t n, want = 0, doing = l->doing;
	bool good = true;

	for (unsigned i = 0; i < CRASH_HELD; i++) {
		if (i + 1 == doing) {
			if (!l->addr[i] || devmem_is_allocated(m, l->addr[i], l->nbytes[i]))
				continue;
			l->addr[i] = 0;
		}
		if (!l->addr[i])
			continue;
		want++;
		good = good && devmem_is_allocated(m, l->addr[i], l->nbytes[i]);
	}
	devmem_used(m, &n);
	if (!good || n < want || n > want + (doing != 0))
		printf("#   %" PRIu64 " allocations, %" PRIu64 " held, doing %" PRIu64 "\n", n,
		       want, doing);
	return good && n >= want && n <= want + (doing != 0);
}

/* Free all; then nothing may be left but what the child was at. */
static bool
frees_all(struct devmem *m, struct ledger *l)
{
	bool good = true;
	uint64_t n;

	for (unsigned i = 0; i < CRASH_HELD; i++)
		if (l->addr[i] && i + 1 != l->doing)
			good = devmem_free(m, l->addr[i], NULL) == RC_OK && good;
	devmem_used(m, &n);
	return good && n <= (l->doing != 0);
}

/* Killed while it allocates and frees, at whatever instruction. */
static void
test_killed(void)
{
	struct ledger *l =
	    mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned rounds = 40, bad = 0, busy = 0;

	for (unsigned k = 0; k < rounds && !bad; k++) {
		struct devmem *m = NULL;
		struct err err = {0};
		uint64_t spin = k * 7919 % 20000;
		pid_t pid;

		memset(l, 0, sizeof *l);
		fflush(stdout);
		pid = fork();
		if (pid == 0)
			crash_child(l, k + 1);
		while (atomic_load(&l->calls) < 50 + k * 13 && waitpid(pid, NULL, WNOHANG) == 0)
			sched_yield();
		while (spin--)
			atomic_load(&l->calls);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		busy += l->doing != 0;
		if (devmem_open(path, ID, CRASH_BYTES, &m, &err) != RC_OK) {
			printf("#   %s\n", err.text);
			bad++;
			break;
		}
		bad += !same_as_ledger(m, l) || !frees_all(m, l);
		devmem_close(m, DEVMEM_UNLINK_FILE);
	}
	ok(!bad, "killed %u times, %u in the middle of a call: each allocation is there or not",
	   rounds, busy);
	munmap(l, sizeof *l);
}

/* One byte of the table is something else. */
static bool
refuses_byte(off_t at, unsigned char flip)
{
	struct devmem *m = NULL;
	struct err err = {0};
	int fd = open(path, O_RDWR | O_CLOEXEC);
	unsigned char was = 0, is;
	enum rc rc;

	if (fd < 0 || pread(fd, &was, 1, at) < 0)
		return false;
	is = was ^ flip;
	if (pwrite(fd, &is, 1, at) != 1)
		printf("#   cannot write\n");
	rc = devmem_open(path, ID, 65536, &m, &err);
	if (rc == RC_OK)
		devmem_close(m, DEVMEM_PERSIST_FILE);
	if (pwrite(fd, &was, 1, at) != 1)
		printf("#   cannot write\n");
	close(fd);
	if (rc != RC_BADDATA || !strstr(err.text, path) || !strstr(err.text, "damaged"))
		printf("#   byte %lld: %s\n", (long long)at, rc ? err.text : "taken");
	return rc == RC_BADDATA && strstr(err.text, path) && strstr(err.text, "damaged");
}

static void
test_damaged(void)
{
	const off_t table = 4096 + 65536 + (64 << 20);
	struct devmem *m = NULL;
	struct err err = {0};
	uint64_t addr[8], n = 0;
	bool good = true;
	int fd;

	devmem_open(path, ID, 65536, &m, NULL);
	for (unsigned i = 0; i < 8; i++)
		devmem_alloc_for(m, 1000 * i, i, &addr[i], NULL);
	devmem_close(m, DEVMEM_PERSIST_FILE);
	/* The first allocation's place, whole; a place in the middle; one of the device's own. */
	for (unsigned i = 0; i < 16; i++)
		for (unsigned flip = 1; flip < 256; flip <<= 1)
			good = refuses_byte(table + i, (unsigned char)flip) && good;
	good = refuses_byte(table + 16, 1) && refuses_byte(table + 16 * 200 + 8, 0x80) && good;
	good = refuses_byte(table + 65536 / 256 * 16 + 3, 0x40) && good;
	ok(good, "a table of allocations with one bit wrong is refused");
	ok(devmem_open(path, ID, 65536, &m, &err) == RC_OK && (devmem_used(m, &n), n == 8),
	   "and as it was it is taken: %s", err.text);
	devmem_close(m, DEVMEM_PERSIST_FILE);

	/* Two places that are right each, and overlap: the first, of 256 bytes, as one of 1024. */
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		struct devmem_table t = {.path = path, .fd = fd, .nbytes = 65536};
		struct devmem_entry e = {.addr = addr[0], .nbytes = 1024};

		devmem_table_enter(&t, &e, NULL);
		close(fd);
	}
	ok(devmem_open(path, ID, 65536, &m, &err) == RC_BADDATA && strstr(err.text, "overlap"),
	   "allocations that overlap are refused: %s", err.text);
	unlink(path);
}

/* What the device keeps for itself, and whose the allocations are. */
static void
note_owner(void *arg, uint64_t addr, uint64_t nbytes, uint64_t owner)
{
	uint64_t *sum = arg;

	(void)nbytes;
	*sum += owner * (addr >> 8);
}

static void
test_survivors(void)
{
	struct devmem *m = NULL;
	uint64_t a = 0, b = 0, n = 0, owners = 0, first;
	unsigned char *kept = NULL, *other = NULL;
	void *own;

	devmem_open(path, ID, 65536, &m, NULL);
	first = devmem_incarnation(m);
	devmem_alloc_for(m, 700, 11, &a, NULL);
	devmem_alloc(m, 700, &b, NULL);
	devmem_alloc_for(m, 700, 13, &b, NULL);
	devmem_own_alloc(m, 100000, &own, NULL);
	devmem_persist_alloc(m, 5000, (void **)&kept, NULL);
	devmem_persist_alloc(m, 9000, (void **)&other, NULL);
	memset(kept, 0x5a, 5000);
	devmem_persist_free(m, other, NULL);
	devmem_close(m, DEVMEM_PERSIST_FILE);
	devmem_open(path, ID, 65536, &m, NULL);
	kept = devmem_persist_next(m, NULL, &n);
	ok(kept && n == 8192 && kept[0] == 0x5a && kept[4999] == 0x5a &&
	       !devmem_persist_next(m, kept, &n),
	   "kept areas outlive the process, until freed");
	devmem_own_alloc(m, 100, &own, NULL);
	devmem_owners(m, note_owner, &owners, NULL);
	ok(owners == 11 * (a >> 8) + 13 * (b >> 8), "and whose each allocation is");
	ok(devmem_persist_free(m, own, NULL) == RC_INVAL &&
	       devmem_persist_free(m, kept, NULL) == RC_OK && !devmem_persist_next(m, NULL, &n),
	   "what is not kept cannot be freed as such");
	ok(devmem_incarnation(m) && devmem_incarnation(m) != first, "each has its own incarnation");
	devmem_close(m, DEVMEM_UNLINK_FILE);
}

/* Where a reader finds the recorder's area; 0: it says why not. */
static uint64_t
recorder_at(uint64_t *nbytes, enum rc *rc, struct err *err)
{
	int fd = open(path, O_RDONLY);
	uint64_t at = 0;

	*rc = devmem_file_recorder(path, fd, ID, &at, nbytes, err);
	close(fd);
	return at;
}

static struct devmem *
with_recorder(uint64_t nbytes, unsigned char **area)
{
	struct devmem *m = NULL;
	void *p = NULL;

	if (devmem_open(path, ID, 8192, &m, NULL) != RC_OK ||
	    devmem_recorder(m, nbytes, &p, NULL) != RC_OK)
		tap_bail("no memory with a recorder");
	*area = p;
	return m;
}

static void
test_recorder(void)
{
	const uint64_t least = devmem_recorder_offset(8192);
	struct devmem_source from = {.path = path, .device_id = ID};
	struct rlimit old, low;
	atomic_bool stop = false;
	struct err err = {0};
	struct devmem *m = with_recorder(1 << 20, &(unsigned char *){NULL}), *other = NULL;
	unsigned char *area;
	char second[80];
	uint64_t n = 0;
	void *p;
	enum rc rc;

	devmem_close(m, DEVMEM_PERSIST_FILE);
	ok(recorder_at(&n, &rc, &err) == least && n == 1 << 20 && least % 4096 == 0,
	   "a reader finds the recorder's area of an ended device");
	m = with_recorder(1 << 20, &area);
	ok(devmem_recorder_reserve(m, 4096, 4096) && area[4096] == 0, "which begins as zeros");
	area[5000] = 42;
	devmem_close(m, DEVMEM_PERSIST_FILE);
	m = with_recorder(1 << 20, &area);
	ok(area[5000] == 42, "the next device goes on with it");
	devmem_close(m, DEVMEM_PERSIST_FILE);
	m = with_recorder(2 << 20, &area);
	ok(devmem_recorder_reserve(m, 4096, 4096) && area[5000] == 0 &&
	       recorder_at(&n, &rc, &err) && n == 2 << 20,
	   "an area of another size is made anew");
	snprintf(second, sizeof second, "%s/second", dir);
	devmem_inode(m, &from.dev, &from.inode);
	devmem_close(m, DEVMEM_PERSIST_FILE);
	devmem_open(second, ID + 1, 8192, &other, NULL);
	ok(other && devmem_adopt(other, &from, &stop, &err) == RC_OK, "a spare adopts its memory");
	devmem_close(other, DEVMEM_UNLINK_FILE);
	ok(truncate(path, (off_t)(least + 4096)) == 0 && !recorder_at(&n, &rc, &err) &&
	       rc == RC_BADDATA,
	   "a file that is too short for its area: %s", err.text);
	m = with_recorder(0, &area);
	ok(!recorder_at(&n, &rc, &err) && rc == RC_NOTFOUND &&
	       file_size() == (off_t)devmem_file_bytes(8192),
	   "switched off, it has no area: %s", err.text);
	getrlimit(RLIMIT_FSIZE, &old);
	low = old;
	low.rlim_cur = least + 4096;
	setrlimit(RLIMIT_FSIZE, &low);
	rc = devmem_recorder(m, 1 << 20, &p, &err);
	setrlimit(RLIMIT_FSIZE, &old);
	ok(rc == RC_NOMEM && file_size() == (off_t)devmem_file_bytes(8192) &&
	       devmem_alloc(m, 100, &n, NULL) == RC_OK,
	   "no room for it: %s", err.text);
	devmem_close(m, DEVMEM_UNLINK_FILE);
}

/* A heartbeat asks how much is used: a large allocation, which takes a busy machine seconds, does not hold it up. */
static void
test_large(void)
{
	struct devmem *m;
	struct err err = {0};
	uint64_t addr;

	if (devmem_open(path, ID, 64 << 20, &m, &err) != RC_OK) {
		ok(false, "%s", err.text);
		return;
	}
	grows = m;
	alarm(60); /* with the lock held it would wait for itself */
	ok(devmem_alloc(m, 40 << 20, &addr, &err) == RC_OK, "40 MiB");
	alarm(0);
	grows = NULL;
	ok(seen == 40 << 20, "whoever asks while the blocks are reserved has its answer");
	devmem_close(m, DEVMEM_UNLINK_FILE);
}

int
main(void)
{
	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof path, "%s/mem", dir);
	test_create();
	test_default_path();
	test_take_over();
	test_foreign();
	test_unfinished();
	test_full();
	test_bounds();
	test_alloc();
	test_large();
	test_killed();
	test_damaged();
	test_survivors();
	test_recorder();
	ok(rmdir(dir) == 0, "no file is left behind");
	return tap_done();
}
