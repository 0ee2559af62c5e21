/* The memory file: creation, take-over, refusal, a full disk; bounds at the edges. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "mem/devmem.h"

#include "tap.h"

#define ID 0xfeedfacecafe0001ull

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
	devmem_close(m, DEVMEM_KEEP_FILE);
	ok(devmem_open(path, ID, 8192, &m, &err) == RC_OK, "an existing file is taken over");
	p = devmem_at(m, devmem_min(m), 8192);
	for (i = 0; i < 8192; i++)
		bad += p[i] != (unsigned char)(i * 7);
	ok(bad == 0 && devmem_used(m, NULL) == 0, "with its contents, and all of it free");
	devmem_close(m, DEVMEM_KEEP_FILE);

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
					    "gpusimM1 and 24 bytes of other things"};
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
	struct {
		char magic[8];
		uint64_t id, nbytes, state;
	} h = {{'g', 'p', 'u', 's', 'i', 'm', 'M', '2'}, ID, 8192, 1};
	struct devmem *m = NULL;
	struct err err = {0};
	FILE *f = fopen(path, "w");

	fwrite(&h, sizeof h, 1, f);
	fclose(f);
	ok(devmem_open(path, ID, 8192, &m, &err) == RC_OK &&
	       file_size() == 8192 + 4096 + (64 << 20),
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
	ok(rmdir(dir) == 0, "no file is left behind");
	return tap_done();
}
