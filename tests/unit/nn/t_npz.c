/* .npz files: exact bytes, reading back, atomic replacement, and every error. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "nn/npz.h"
#include "nn/zip.h"
#include "tap.h"
#include "zips.h"

static char dir[] = "/tmp/t_npz.XXXXXX", path[64];

static const float weights[6] = {1, -2.5f, 3e-38f, 0, 1e30f, -0.0f};
static const float bias[3] = {0.1f, 0.2f, 0.3f};
static const double rate = 0.1;
static const int64_t epoch = -INT64_C(1234567890123);

static const struct npz_array model[] = {
    {"w0", NPZ_F32, 2, {2, 3}, weights}, {"b0", NPZ_F32, 1, {3}, bias},
    {"epoch", NPZ_I64, 0, {0}, &epoch},	 {"none", NPZ_F32, 2, {0, 5}, NULL},
    {"rate", NPZ_F64, 0, {0}, &rate},
};
enum { NMODEL = sizeof model / sizeof model[0] };

/* The bytes of `path`, malloc'ed. */
static uint8_t *
slurp(size_t *nbytes)
{
	FILE *f = fopen(path, "rb");
	uint8_t *p = malloc(1 << 16);

	*nbytes = f ? fread(p, 1, 1 << 16, f) : 0;
	if (f)
		fclose(f);
	return p;
}

static int
files_in_dir(void)
{
	DIR *d = opendir(dir);
	int n = -2; /* . and .. */

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static bool
is_model(const struct npz *npz)
{
	const struct npz_array *w = npz_find(npz, "w0"), *b = npz_find(npz, "b0"),
			       *e = npz_find(npz, "epoch"), *none = npz_find(npz, "none"),
			       *r = npz_find(npz, "rate");

	return npz->narrays == NMODEL && w && b && e && none && !npz_find(npz, "w") &&
	       w->type == NPZ_F32 && w->ndim == 2 && w->dim[0] == 2 && w->dim[1] == 3 &&
	       memcmp(w->data, weights, sizeof weights) == 0 && b->ndim == 1 && b->dim[0] == 3 &&
	       memcmp(b->data, bias, sizeof bias) == 0 && e->type == NPZ_I64 && e->ndim == 0 &&
	       memcmp(e->data, &epoch, 8) == 0 && none->ndim == 2 && none->dim[0] == 0 &&
	       none->dim[1] == 5 && r && r->type == NPZ_F64 && memcmp(r->data, &rate, 8) == 0;
}

static void
test_bytes(void)
{
	/* The output of python's zipfile and numpy.save for one scalar, by the formats' documents. */
	static const char npy[] =
	    "\x93NUMPY\x01\0\x76\0{'descr': '<i8', 'fortran_order': False, 'shape': (), }";
	static const struct npz_array one = {"epoch", NPZ_I64, 0, {0}, &epoch};
	struct err err = {0};
	uint8_t *b;
	size_t n;

	ok(npz_write(path, &one, 1, &err) == RC_OK, "one scalar is written %s", err.text);
	b = slurp(&n);
	ok(n == 30 + 9 + 128 + 8 + 46 + 9 + 22, "its length: %zu", n);
	ok(memcmp(b, "PK\3\4\x14\0\0\0\0\0\0\0\x21\0", 14) == 0, "a stored zip entry");
	ok(memcmp(b + 30, "epoch.npy", 9) == 0, "its name");
	ok(memcmp(b + 39, npy, sizeof npy - 1) == 0 && b[39 + 127] == '\n' &&
	       strspn((char *)b + 39 + sizeof npy - 1, " ") == 128 - (sizeof npy - 1) - 1,
	   "the npy header, padded to a multiple of 64");
	ok(memcmp(b + 39 + 128, &epoch, 8) == 0, "the number");
	ok(memcmp(b + 175, "PK\1\2", 4) == 0 && memcmp(b + n - 22, "PK\5\6", 4) == 0,
	   "the directory and the end record");
	free(b);
}

static void
test_round(void)
{
	struct npz npz = {0};
	struct err err = {0};
	struct buf packed = {0};
	uint8_t *on_disk;
	size_t nbytes;
	char link[80];

	ok(npz_write(path, model, NMODEL, &err) == RC_OK && npz_read(path, &npz, &err) == RC_OK &&
	       is_model(&npz),
	   "what is written is read %s", err.text);
	npz_fini(&npz);
	ok(npz.array == NULL && npz.narrays == 0, "npz_fini makes it empty");
	on_disk = slurp(&nbytes);
	ok(npz_pack(model, NMODEL, &packed, &err) == RC_OK && packed.len == nbytes &&
	       memcmp(packed.data, on_disk, nbytes) == 0,
	   "the bytes alone are the file's");
	free(on_disk);
	buf_fini(&packed);
	ok(npz_write(path, NULL, 0, &err) == RC_OK && npz_read(path, &npz, &err) == RC_OK &&
	       npz.narrays == 0,
	   "no arrays at all");
	npz_fini(&npz);
	snprintf(link, sizeof link, "%s.link", path);
	ok(symlink(path, link) == 0 && npz_write(link, model, NMODEL, &err) == RC_OK &&
	       npz_read(path, &npz, &err) == RC_OK && is_model(&npz),
	   "a symbolic link is followed %s", err.text);
	npz_fini(&npz);
	unlink(link);
	ok(files_in_dir() == 1, "no other file is left");
}

static void
test_write_refusals(void)
{
	static const struct npz_array bad[] = {
	    {"", NPZ_F32, 1, {3}, bias},
	    {"../b", NPZ_F32, 1, {3}, bias},
	    {"b", NPZ_F32, 5, {1, 1, 1, 1}, bias},
	    {"b", (enum npz_type)4, 1, {3}, bias},
	    {"b", NPZ_F32, 2, {UINT64_C(1) << 62, 8}, bias},
	    {"b", NPZ_F32, 1, {1 << 30}, bias},
	    {"b", NPZ_F32, 1, {3}, NULL},
	};
	struct npz_array twice[2] = {model[1], model[1]};
	struct npz npz = {0};
	struct err err = {0};
	bool good = true;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		if (npz_write(path, &bad[i], 1, &err) != RC_INVAL) {
			printf("# not refused: %zu\n", i);
			good = false;
		}
	ok(good, "arrays that cannot be written");
	ok(npz_write(path, twice, 2, &err) == RC_INVAL && strstr(err.text, "two arrays"),
	   "two of one name");
	ok(npz_write("/dev/null", model, NMODEL, &err) == RC_FAILED &&
	       strstr(err.text, "/dev/null: not a regular file"),
	   "a device is not replaced");
	ok(npz_write(dir, model, NMODEL, &err) == RC_FAILED, "a folder: %s", err.text);
	ok(npz_write("/no/such/model.npz", model, NMODEL, &err) == RC_FAILED &&
	       strstr(err.text, "/no/such/model.npz") && strstr(err.text, "No such file"),
	   "a missing folder: %s", err.text);
	ok(npz_read(path, &npz, &err) == RC_OK && is_model(&npz) && files_in_dir() == 1,
	   "the old file stays, no other is left");
	npz_fini(&npz);
}

/* A full file system, simulated by a limit on the size of files. */
static void
test_full(void)
{
	struct rlimit old, low;
	struct npz npz = {0};
	struct err err = {0};
	bool good = true;
	size_t n;

	free(slurp(&n));
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	low = old;
	for (low.rlim_cur = 0; low.rlim_cur < n; low.rlim_cur++) {
		setrlimit(RLIMIT_FSIZE, &low);
		good = good && npz_write(path, model, NMODEL, &err) == RC_FAILED &&
		       strstr(err.text, strerror(EFBIG)) && files_in_dir() == 1;
	}
	setrlimit(RLIMIT_FSIZE, &old);
	ok(good, "a write that fails after any byte is told, and leaves no file: %s", err.text);
	ok(npz_read(path, &npz, &err) == RC_OK && is_model(&npz), "the old file stays");
	npz_fini(&npz);
}

/* Rejected with RC_BADDATA "m: ...", output untouched. */
static bool
refused(const void *bytes, size_t nbytes)
{
	struct npz npz = {.narrays = 77};
	struct err err = {0};
	enum rc rc = npz_parse(bytes, nbytes, "m", NULL, NULL, &npz, &err);

	if (rc == RC_OK)
		npz_fini(&npz);
	return rc == RC_BADDATA && strncmp(err.text, "m: ", 3) == 0 && npz.narrays == 77;
}

/* The arrays read back equal those written. */
static bool
same(const void *bytes, size_t nbytes)
{
	struct npz npz = {0};
	struct err err = {0};
	bool good =
	    npz_parse(bytes, nbytes, "m", NULL, NULL, &npz, &err) == RC_OK && is_model(&npz);

	npz_fini(&npz);
	return good;
}

static void
test_read_refusals(void)
{
	struct npz npz = {0};
	struct err err = {0};
	uint8_t *b, *cut;
	size_t n, at = 0;
	bool good = true;

	b = slurp(&n);
	for (size_t i = 0; i < n && good; i++) {
		cut = malloc(i + 1);
		memcpy(cut, b, i);
		good = refused(cut, at = i);
		free(cut);
	}
	ok(good, "every truncation (last tried: %zu)", at);
	good = true;
	for (size_t i = 0; i < n && good; i++)
		for (int bit = 0; bit < 8 && good; bit++) {
			b[i] ^= (uint8_t)(1 << bit);
			good = refused(b, n) || same(b, n);
			b[i] ^= (uint8_t)(1 << bit);
			at = i;
		}
	ok(good, "every flipped bit: refused, or it changes no array (last tried: byte %zu of %zu)",
	   at, n);
	b[n] = 0;
	ok(refused(b, n + 1), "a trailing byte");
	ok(npz_parse(b, n, "m", NULL, NULL, &npz, &err) == RC_OK && is_model(&npz),
	   "the same bytes, whole");
	npz_fini(&npz);
	memmove(b + 1, b, n);
	ok(refused(b, n + 1), "a leading byte");
	free(b);
	ok(npz_read("/no/such", &npz, &err) == RC_FAILED && npz_read(dir, &npz, &err) == RC_FAILED,
	   "a missing file, a folder: %s", err.text);
}

/* The model's arrays in an archive as numpy.savez_compressed makes one. */
static void
test_deflated(void)
{
	struct buf packed = {0}, file = {0}, again = {0};
	struct npz npz = {0};
	struct err err = {0};
	struct zip zip = {0};

	zip_begin(&again);
	npz_pack(model, NMODEL, &packed, &err);
	zip_open(packed.data, packed.len, "m", &zip, &err);
	for (size_t i = 0; i < zip.nfiles; i++) {
		file.len = 0;
		zip_take(&zip, &zip.file[i], SIZE_MAX, &file, &err);
		zip_put(&again, zip.file[i].name, file.data, file.len, true);
	}
	zip_end_all(&again, "");
	ok(zip.nfiles == NMODEL &&
	       npz_parse(again.data, again.len, "m", NULL, NULL, &npz, &err) == RC_OK &&
	       is_model(&npz),
	   "arrays that another maker deflated, %s", err.text);
	npz_fini(&npz);
	zip_close(&zip);
	buf_fini(&packed);
	buf_fini(&file);
	buf_fini(&again);
}

/* Files whose checksums are right and whose lengths are not. */
static void
test_forged(void)
{
	static const struct npz_array one = {"epoch", NPZ_I64, 0, {0}, &epoch};
	enum { NPY = 39, CENTRAL = NPY + 128 + 8 };
	struct npz_array two[] = {one, one};
	struct err err = {0};
	uint8_t *b, *shape;
	uint32_t crc;
	size_t n;

	ok(npz_write(path, &one, 1, &err) == RC_OK, "one scalar again %s", err.text);
	b = slurp(&n);
	shape = (uint8_t *)strstr((char *)b + NPY + 10, "(), }  ");
	if (ok(shape != NULL, "the shape is where it should be")) {
		memcpy(shape, "(2,), }", 7);
		crc = (uint32_t)crc32(0, b + NPY, 128 + 8);
		put32(b + 14, crc);
		put32(b + CENTRAL + 16, crc);
		ok(refused(b, n), "a shape that needs more bytes than there are");
	}
	free(b);
	strcpy(two[1].name, "epocH");
	ok(npz_write(path, two, 2, &err) == RC_OK, "two scalars %s", err.text);
	b = slurp(&n);
	for (size_t i = 0; i + 5 <= n; i++)
		if (memcmp(b + i, "epocH", 5) == 0)
			b[i + 4] = 'h';
	ok(refused(b, n), "two arrays of one name");
	free(b);
}

static bool
take_w0(void *arg, const struct npz_array *a)
{
	(void)arg;
	return strcmp(a->name, "w0") == 0 && a->ndim == 2 && a->dim[0] == 2 && a->dim[1] == 3;
}

/* Only requested arrays are unpacked: 64 MiB of zeros with a wrong checksum are ignored. */
static void
test_some(void)
{
	static const char head[] = "\x93NUMPY\x01\0\x76\0{'descr': '|u1', 'fortran_order': "
				   "False, 'shape': (67108864,), }";
	size_t n = 128 + (64u << 20);
	char *zeros = calloc(n, 1);
	struct buf packed = {0}, bomb = {0};
	struct npz npz = {0};
	struct err err = {0};
	struct zip zip = {0};
	struct buf file = {0};

	memset(zeros, ' ', 128);
	memcpy(zeros, head, sizeof head - 1);
	zeros[127] = '\n';
	npz_pack(model, NMODEL, &packed, &err);
	zip_open(packed.data, packed.len, "m", &zip, &err);
	zip_begin(&bomb);
	zip_take(&zip, &zip.file[0], SIZE_MAX, &file, &err);
	zip_put(&bomb, "w0.npy", file.data, file.len, true);
	zip_put(&bomb, "big.npy", zeros, n, true);
	zip_end_all(&bomb, "");
	for (size_t i = bomb.len; i-- > 7;)
		if (memcmp(bomb.data + i - 7, "big.npy", 7) == 0) {
			bomb.data[i - 7 - 46 + 16] ^= 1; /* the directory's checksum */
			break;
		}
	ok(npz_parse(bomb.data, bomb.len, "m", NULL, NULL, &npz, &err) == RC_BADDATA &&
	       strstr(err.text, "big.npy: wrong checksum"),
	   "all of it is refused: %s", err.text);
	ok(npz_parse(bomb.data, bomb.len, "m", take_w0, NULL, &npz, &err) == RC_OK &&
	       npz.narrays == 2 && npz_find(&npz, "w0")->data && !npz_find(&npz, "big")->data &&
	       npz_find(&npz, "big")->dim[0] == 64u << 20 &&
	       memcmp(npz_find(&npz, "w0")->data, weights, sizeof weights) == 0,
	   "what is not wanted has its shape alone");
	npz_fini(&npz);
	zip_close(&zip);
	buf_fini(&packed);
	buf_fini(&bomb);
	buf_fini(&file);
	free(zeros);
}

int
main(void)
{
	if (!mkdtemp(dir)) {
		ok(false, "mkdtemp");
		return tap_done();
	}
	snprintf(path, sizeof path, "%s/model.npz", dir);
	test_bytes();
	test_round();
	test_write_refusals();
	test_full();
	test_read_refusals();
	test_some();
	test_forged();
	test_deflated();
	unlink(path);
	ok(rmdir(dir) == 0, "nothing else in the folder");
	return tap_done();
}
