/* Tar archives: files in order, headers between them, damage. */
#include "nn/tar.h"

#include <string.h>

#include "tars.h"
#include "tap.h"

/* The contents of the archive, "NAME=LEN:FIRST BYTE;" for each file that is taken; or the error message. */
static const char *
list(const struct buf *b)
{
	static char out[512];
	struct input in = {
	    .name = "t", .fd = -1, .next = (const uint8_t *)b->data, .avail = b->len};
	struct tar tar = {.in = &in};
	struct tar_file f;
	struct err err = {0};
	struct buf file = {0};
	bool more = true;
	size_t n = 0;
	enum rc rc = input_begin(&in, &err);

	out[0] = '\0';
	while (rc == RC_OK && (rc = tar_next(&tar, &f, &more, &err)) == RC_OK && more) {
		file.len = 0;
		if (f.name[0] != '-') /* that one is skipped */
			rc = tar_take(&tar, 4096, &file, &err);
		n += (size_t)snprintf(out + n, sizeof out - n, "%s=%zu:%c;", f.name, file.len,
				      file.len ? file.data[0] : '-');
	}
	if (rc != RC_OK)
		snprintf(out, sizeof out, "%s", err.text);
	input_end(&in);
	buf_fini(&file);
	return out;
}

static void
is(const struct buf *b, const char *want, const char *what)
{
	const char *got = list(b);

	if (!ok(strcmp(got, want) == 0, "%s", what))
		printf("# %s\n", got);
}

int
main(void)
{
	static char bytes[5000];
	struct buf b = {0};
	size_t first;

	memset(bytes, 'x', sizeof bytes);
	tar_add(&b, "d/", '5', "", 0);
	tar_add(&b, "d/a", '0', "hello", 5);
	tar_add(&b, "-skipped", '0', bytes, 1025);
	tar_add(&b, "./PaxHeaders/c", 'x', "20 mtime=1234567.5\n", 20);
	tar_add(&b, "c", '\0', bytes, 512);
	tar_add(&b, "link", '2', "", 0);
	tar_add(&b, "empty", '0', "", 0);
	is(&b, "d/a=5:h;-skipped=0:-;c=512:x;empty=0:-;",
	   "files, and nothing else, to the end of the bytes");
	tar_end(&b);
	is(&b, "d/a=5:h;-skipped=0:-;c=512:x;empty=0:-;", "... and to the end as tar writes it");
	b.len -= 1024;
	tar_add(&b, "large", '0', bytes, 4097);
	is(&b, "t: a file in the archive is larger than the limit", "a file beyond the limit");
	b.len = 0;
	tar_add(&b, "a", '0', bytes, 1000);
	b.len -= 100;
	is(&b, "t: the tar archive is truncated", "padding truncated");
	b.len -= 500;
	is(&b, "t: the tar archive is truncated", "a file truncated");
	b.len = 0;
	tar_add(&b, "-a", '0', bytes, 4000);
	b.len -= 1000;
	is(&b, "t: the tar archive is truncated", "what is skipped truncated");
	b.len = 0;
	tar_add(&b, "a", '0', "hello", 5);
	first = b.len;
	tar_add(&b, "b", '0', "hello", 5);
	b.len = first + 300;
	is(&b, "t: the tar archive is truncated", "a header truncated");
	b.len = first + 1024;
	b.data[first] ^= 1;
	is(&b, "t: the tar archive is damaged", "a name that its sum does not fit");
	b.data[first] ^= 1;
	b.data[first + 258] = 'x';
	is(&b, "t: the tar archive is damaged", "no ustar");
	b.len = 0;
	tar_add(&b, "a", '0', "hello", 5);
	memcpy(b.data + 124, "\x80\0\0\0\0\0\0\0\0\0\0\5", 12);
	tar_sum(b.data);
	is(&b, "t: the tar archive is damaged", "a size that is no octal number");
	memcpy(b.data + 124, "77777777777", 12);
	tar_sum(b.data);
	is(&b, "t: a file in the archive is larger than the limit", "a file of 8 GiB");
	buf_fini(&b);
	return tap_done();
}
