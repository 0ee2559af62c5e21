/* Zip archives of other makers: stored, deflated, with extra data between; damage. */
#include "nn/zip.h"

#include <string.h>

#include "tap.h"
#include "zips.h"

static struct buf archive;

/* "NAME=CONTENT;" of each file; or the error message. */
static const char *
list(void)
{
	static char out[600];
	struct buf text = {0};
	struct zip z = {0};
	struct err err = {0};
	size_t n = 0;
	enum rc rc = zip_open(archive.data, archive.len, "z", &z, &err);

	out[0] = '\0';
	for (size_t i = 0; rc == RC_OK && i < z.nfiles; i++) {
		text.len = 0;
		rc = zip_take(&z, &z.file[i], SIZE_MAX, &text, &err);
		n += (size_t)snprintf(out + n, sizeof out - n, "%s=%.*s;", z.file[i].name,
				      (int)(text.len < 20 ? text.len : 20),
				      text.len ? text.data : "");
	}
	if (rc != RC_OK)
		snprintf(out, sizeof out, "%s", err.text);
	zip_close(&z);
	buf_fini(&text);
	return out;
}

static void
is(const char *want, const char *what)
{
	const char *got = list();

	if (!ok(strcmp(got, want) == 0, "%s", what))
		printf("# %s\n", got);
}

static void
make(void)
{
	static char zeros[100000];

	zip_begin(&archive);
	zip_put(&archive, "a.npy", "hello", 5, false);
	zip_put(&archive, "b", "world", 5, true);
	zip_put(&archive, "c", zeros, sizeof zeros, true);
	zip_put(&archive, "empty", "", 0, false);
	zip_end_all(&archive, "");
}

/* Change each byte: the archive is rejected, or its contents are the same. */
static void
test_damage(void)
{
	unsigned changed = 0;

	make();
	for (size_t i = 0; i < archive.len; i++) {
		const char *got;

		archive.data[i] ^= 0x11;
		got = list();
		changed += strncmp(got, "z: ", 3) != 0 &&
			   (!strstr(got, "=hello;") || !strstr(got, "=world;"));
		archive.data[i] ^= 0x11;
	}
	ok(changed == 0, "damage is told, or is of names and dates");
	for (size_t n = archive.len; n-- > 0;) {
		archive.len = n;
		if (strcmp(list(), "z: not a zip archive, or truncated") != 0) {
			ok(false, "%zu bytes: %s", n, list());
			break;
		}
	}
	ok(true, "truncated it is rejected");
}

static void
test_refusals(void)
{
	char name[200];
	char *central;

	make();
	central = memmem(archive.data, archive.len, "PK\1\2", 4);
	central[8] = 1;
	is("z: a.npy: encrypted", "an encrypted file");
	central[8] = 0;
	central[10] = 12;
	is("z: a.npy: compressed by method 12; supported are deflate and none", "another method");
	central[10] = 0;
	memset(central + 20, 0xff, 4);
	is("z: a.npy: more than 4 GiB", "zip64");
	make();
	central = memmem(archive.data, archive.len, "PK\1\2", 4);
	memset(central + 24, 0x11, 4);
	is("z: a.npy: damaged", "a size that is not there");
	zip_begin(&archive);
	zip_put(&archive, "a", "1", 1, false);
	zip_put(&archive, "a", "2", 1, false);
	zip_end_all(&archive, "");
	is("z: two files have the name a", "a name twice");
	memset(name, 'n', sizeof name);
	name[sizeof name - 1] = '\0';
	zip_begin(&archive);
	zip_put(&archive, name, "1", 1, false);
	zip_end_all(&archive, "");
	is("z: entry 0 of the zip directory is bad", "a name that is too long");
	zip_begin(&archive);
	zip_put(&archive, "\x1b[2J", "1", 1, false);
	zip_end_all(&archive, "");
	is("z: name 0 in the archive is not text", "a name that is not text");
}

int
main(void)
{
	make();
	ok(zip_is(archive.data, archive.len) && !zip_is("PK", 2), "how it begins");
	is("a.npy=hello;b=world;c=;empty=;", "stored, deflated, empty");
	zip_begin(&archive);
	zip_put(&archive, "a", "hello", 5, true);
	zip_end_all(&archive, "a comment with PK\5\6 in it, and more than 22 bytes");
	is("a=hello;", "a comment behind it");
	test_damage();
	test_refusals();
	buf_fini(&archive);
	return tap_done();
}
